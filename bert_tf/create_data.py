"""Make pre-training examples from text.

    python -m bert_tf.create_data --input 'texts/*.txt.gz' --vocab vocab.txt --output_dir data

The folder gets shards (TFRecord), an index beside each, and manifest.json. The same command again
reuses what is finished and continues what was stopped.

With --runner beam Apache Beam does the work, and what follows `--` are Beam's own flags; without
any, --num_processes processes of this machine do it. Others name the engine, for example

    python -m bert_tf.create_data --runner beam … -- --runner=FlinkRunner --flink_master=host:8081
"""

import os
import sys

from bert_tf import cli
from bert_tf.storage import locks


def _parser():
    parser = cli.Parser("create_data", __doc__)
    add = parser.add_argument
    add("--input", nargs="+", required=True, metavar="GLOB",
        help="text files (.txt, .jsonl, either also .gz) or - for standard input")
    add("--vocab", required=True, metavar="FILE",
        help="WordPiece vocabulary; a tokenizer_config.json beside it states the casing and "
             "--pretokenize")
    add("--output_dir", required=True, metavar="DIR", help="folder for the examples")
    cli.add_casing_flags(parser)
    cli.add_pretokenize_flag(parser)
    cli.add_example_flags(parser)
    cli.add_pairs_flag(parser)
    add("--holdout", type=cli.share, default=0.0,
        help="share of documents that become the split eval")
    add("--runner", choices=("local", "beam"), default="local",
        help="local: processes of this machine; beam: Apache Beam (extra: beam), whose own flags "
             "follow after --; the examples are the same")
    cli.add_seed_flag(parser)
    cli.add_input_flags(parser)
    return parser


def main(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    own = argv.index("--") if "--" in argv else len(argv)
    arguments = vars(_parser().parse_args(argv[:own]))
    arguments["beam_options"] = argv[own + 1:]

    from bert_tf.data.create import create_examples
    from bert_tf.data.documents import expand_inputs
    from bert_tf.tokenization.tokenizer import Tokenizer

    patterns, vocab = arguments.pop("input"), arguments.pop("vocab")
    casing = {name: arguments.pop(name) for name in ("lower_case", "strip_accents", "pretokenize")}
    casing = Tokenizer.casing(os.path.dirname(vocab), **casing)
    with locks.held(arguments["output_dir"]):
        made = create_examples(expand_inputs(patterns, arguments["output_dir"]), vocab,
                               **{name: value or False for name, value in casing.items()},
                               **arguments)
    for split, facts in made["splits"].items():
        if facts["num_examples"]:
            print(f"{split}: {facts['num_examples']:,} examples from {facts['num_documents']:,} "
                  f"documents, {facts['mean_tokens']:.1f} tokens each")


if __name__ == "__main__":
    sys.exit(cli.run(main))
