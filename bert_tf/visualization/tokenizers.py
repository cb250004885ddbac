"""The tokenizer of a model without the model."""

from bert_tf import cli
from bert_tf.errors import NoTextError, UsageError, explain
from bert_tf.storage import files, hub
from bert_tf.tokenization.options import TextOptions


def add_tokenizer_flags(parser, model):
    """Add `--model`, of which `model` describes what it may be, or `--vocab` and how it is
    meant."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", metavar="PATH", help=f"{model}; its weights stay unread")
    source.add_argument("--vocab", metavar="PATH",
                        help="WordPiece vocabulary, beside which a tokenizer_config.json states "
                             "the casing and --pretokenize; or folder with a tokenizer of any kind")
    cli.add_options(parser, TextOptions)


def open_tokenizer(path, **casing):
    """Open the tokenizer at `path`.

    Args:
        path: a WordPiece vocabulary (a file), a model or run folder, a folder with a tokenizer's
            files, or a checkpoint of any format that convert reads.
        casing: of a vocabulary: `lower_case`, `strip_accents`, `pretokenize`, as of
            `Tokenizer.casing`; what is not given is False.

    Returns: as `load_tokenizer`.

    Raises:
        BertTfError: a file is missing or damaged.
        NoTextError: a model without a tokenizer that reads text.
        UsageError: casing of what is no vocabulary file, or against what is stated beside it.
    """
    from bert_tf.converters.formats import read_model
    from bert_tf.converters.tokenizer_files import tokenizer_folder
    from bert_tf.models.find import model_folder
    from bert_tf.tokenization.load import load_tokenizer
    from bert_tf.tokenization.tokenizer import Tokenizer

    here = hub.local(path, weights=False)
    if files.is_file(here):
        return Tokenizer.of_vocabulary(here, **casing)
    given = [f"--{name}" for name, value in casing.items() if value is not None]
    if given:
        raise UsageError(explain(f"{' '.join(given)} with {path}, which is no vocabulary file",
                                 attempt="omitting it: a model's tokenizer states it"))
    folder = tokenizer_folder(model_folder(here) or here)
    if folder is None:
        folder = read_model(path).tokenizer
    if folder is None:
        raise NoTextError(explain(f"{path} has no tokenizer", "a model with one"))
    return load_tokenizer(folder)


def describe(tokenizer):
    """Describe a tokenizer in a few words."""
    kind = type(tokenizer).__name__
    if kind == "BytePairTokenizer":
        return "byte-level BPE"
    if kind == "CharacterPairTokenizer":
        return "BPE of characters"
    if tokenizer.python_only:
        return f"of the package tokenizers: {tokenizer.python_only}"
    parts = ["SentencePiece" if kind == "SentencePieceTokenizer" else "WordPiece",
             "lower case" if tokenizer.lower_case else "case kept",
             "no accents" if tokenizer.strip_accents else "accents kept", tokenizer.pretokenize]
    return ", ".join(filter(None, parts))
