"""Learn a WordPiece vocabulary from text.

    python -m bert_tf.learn_vocab --input 'texts/*.txt' --output vocab.txt --vocab_size 32000

Input is UTF-8, plain text or .jsonl (field "text"), also .gz; - is standard input. Beside the
vocabulary, tokenizer_config.json says how text is to be lower-cased, stripped of accents and cut
into morphemes.
"""

import contextlib
import os
import shutil
import sys
import tempfile

from bert_tf import cli
from bert_tf.errors import UsageError, explain
from bert_tf.storage import checksums, files, locks, manifest


def main(argv=None):
    """Run the command line; see the module's docstring."""
    parser = cli.Parser("learn_vocab", __doc__)
    add = parser.add_argument
    add("--input", nargs="+", required=True, metavar="GLOB", help="text files; - is standard input")
    add("--output", required=True, metavar="FILE", help="vocabulary, one token a line")
    add("--vocab_size", type=cli.positive, default=30522, help="entries wanted")
    cli.add_casing_flags(parser)
    cli.add_pretokenize_flag(parser)
    add("--min_frequency", type=cli.positive, default=2,
        help="how often a character or piece must occur to become an entry")
    cli.add_input_flags(parser)
    arguments = parser.parse_args(argv)

    from bert_tf.data.documents import expand_inputs
    from bert_tf.tokenization.vocabulary import MANIFEST

    output = arguments.output
    if files.is_folder(output) or not os.path.basename(output):
        raise UsageError(explain(f"--output {output} is a folder",
                                 attempt=f"--output {os.path.join(output, 'vocab.txt')}"))
    options = {"vocab_size": arguments.vocab_size, "lower_case": bool(arguments.lower_case),
               "strip_accents": bool(arguments.strip_accents),
               "min_frequency": arguments.min_frequency}
    if arguments.pretokenize:
        options["pretokenize"] = arguments.pretokenize
    record = output + MANIFEST
    folder = os.path.dirname(output) or "."
    with contextlib.ExitStack() as stack:
        spool = stack.enter_context(_temporary_folder()) if "-" in arguments.input else ""
        paths = expand_inputs(arguments.input, spool)
        stack.enter_context(locks.held(folder))
        files.clean_temporary(folder)
        if files.exists(output):
            if not files.exists(record) and not arguments.overwrite:
                raise UsageError(explain(f"{output} exists, from elsewhere",
                                         attempt="another --output, or --overwrite"))
            if manifest.finished(record, options, paths, arguments.overwrite,
                                 arguments.verify_inputs):
                print(f"{output} is there already, from the same text and options")
                return
        _learn(paths, output, record, options, arguments.overwrite)


def _learn(paths, output, record, options, overwrite):
    from bert_tf.tokenization.learn_wordpiece import learn_wordpiece
    from bert_tf.tokenization.tokenizer import CONFIG_NAME, Tokenizer

    folder = os.path.dirname(output)
    casing = {key: options[key] for key in ("lower_case", "strip_accents", "pretokenize")
              if key in options}
    if not overwrite and Tokenizer.casing(folder, **casing) != casing:
        raise UsageError(explain(f"another vocabulary in {folder or '.'} is of morphemes",
                                 attempt="another --output, or --pretokenize morphemes"))
    vocabulary = learn_wordpiece(paths, **options)
    # Where a vocabulary is, what it was made of and its casing are too.
    files.remove(output)
    Tokenizer.save_casing(folder, **casing)
    with files.atomic_path(output) as temporary:
        vocabulary.save(temporary)
        (facts,) = checksums.facts("", (temporary,)).values()
        manifest.write(record, options, paths, files={
            os.path.basename(output): facts, **checksums.facts(folder, (CONFIG_NAME,))})
    print(f"{len(vocabulary):,} entries in {output}")
    if len(vocabulary) < options["vocab_size"]:
        print(f"The text has no more pieces that occur {options['min_frequency']} times; "
              "more text or a smaller --min_frequency gives more.")


@contextlib.contextmanager
def _temporary_folder():
    folder = tempfile.mkdtemp(prefix="bert_tf-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(cli.run(main))
