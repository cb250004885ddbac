"""Draw what a model, its tokenizer or its training does.

    python -m bert_tf.visualize positions --model runs/bert_tiny --output positions.png

`python -m bert_tf.visualize VIEW --help` tells more about a view.
"""

import contextlib
import importlib
import sys

from bert_tf import cli
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.storage import files

# What one sees, by the name of the view and of its module.
VIEWS = {
    "attention": "a page: which tokens those of a sentence or a pair attend to, in every head",
    "tokens": "how a text is tokenized: pieces, ids, offsets; two tokenizers compared",
    "masking": "one pre-training example: tokens, masks of tokens and of words, labels, the pair",
    "sharing": "how far each layer moves what it reads, of one or several models",
    "training": "losses, metrics and rates of one or several runs, restarts marked",
    "layers": "sentences as points for every layer and pooling, and which separates labels best",
    "similarity": "cosines of a word's vectors in several sentences, of sums and weighted sums",
    "ranking": "sentences ranked against a query under every pooling, and which pooling is best",
    "positions": "position embeddings: sinusoidal ones, or how similar a model's are",
}
_READ = ("vocab", "compare", "run", "input", "pairs", "corpus")  # flags of files


def _parser(view):
    module = importlib.import_module(f"bert_tf.visualization.{view}")
    parser = cli.Parser(f"visualize {view}", module.__doc__)
    parser.add_argument("--output", required=True, metavar="FILE",
                        help=f"what is written: {' or '.join(module.OUTPUTS)}")
    module.add_flags(parser)
    return parser, module


def _files_read(arguments):
    """The files that a view is told to read."""
    for flag in _READ:
        given = getattr(arguments, flag, None) or []
        for pattern in [given] if isinstance(given, str) else given:
            with contextlib.suppress(UsageError):  # no such file: the view refuses it
                yield from files.expand([pattern])


@cli.nothing_kept()
def main(argv=None):
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] in ("-h", "--help"):
        width = max(map(len, VIEWS))
        table = "".join(f"  {name:{width}}  {seen}\n" for name, seen in VIEWS.items())
        print(f"usage: python -m bert_tf.visualize VIEW --output FILE …\n\n{__doc__}\nviews:\n"
              f"{table}", end="")
        return 0 if words else 2
    if words == ["--version"]:
        cli.Parser("visualize", __doc__).parse_args(words)
    parser, module = _parser(check_choice("VIEW", words[0], VIEWS))
    arguments = parser.parse_args(words[1:])
    if not arguments.output.endswith(module.OUTPUTS):
        raise UsageError(f"--output {arguments.output}: this view writes "
                         f"{' or '.join(module.OUTPUTS)}")
    if files.resolved(arguments.output) in map(files.resolved, _files_read(arguments)):
        raise UsageError(explain(f"--output {arguments.output} is one of the files that are read",
                                 attempt="another --output"))
    for line in module.show(arguments):
        print(line)
    print(f"wrote {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(cli.run(main))
