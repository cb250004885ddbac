"""The texts that a view is given."""

from bert_tf.storage import files


def add_text_flags(parser):
    """Add `--text` and `--input`, one of which is needed."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--text", nargs="+", metavar="TEXT", help="one or more texts")
    group.add_argument("--input", nargs="+", metavar="GLOB",
                       help="files with a text a line, or .jsonl (field text), either also .gz")


def read_given_texts(arguments):
    """Read the texts of `--text` or of the files of `--input`: list of str, none blank.

    Raises:
        BertTfError: a text is blank or is not Unicode; a file cannot be read or has no text.
        UsageError: a pattern matches no file.
    """
    from bert_tf.data.term_weights import read_texts
    from bert_tf.tasks.base.text_files import check_text

    if arguments.text is None:
        return list(read_texts(files.expand(arguments.input)))
    return [check_text(f"--text {number}", text)
            for number, text in enumerate(arguments.text, 1)]
