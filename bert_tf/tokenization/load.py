"""The tokenizer of a folder, whichever kind its files are."""

import os

from bert_tf.errors import NoTextError, explain
from bert_tf.storage import checksums, files
from bert_tf.tokenization import (
    byte_pair,
    classic_models,
    library,
    sentence_piece,
    tokenizer,
    tokenizer_config,
    tokenizer_json,
)

# The files that a kind needs, beside which tokenizer_config.json may stand -> the kind.
TOKENIZERS = {
    (tokenizer.VOCABULARY_NAME,): tokenizer.Tokenizer,
    (sentence_piece.MODEL_NAME,): sentence_piece.SentencePieceTokenizer,
    (byte_pair.VOCABULARY_NAME, byte_pair.MERGES_NAME): byte_pair.BytePairTokenizer,
    (tokenizer_json.NAME,): library.LibraryTokenizer,
}
_NAMES = {*(name for names in TOKENIZERS for name in names), *classic_models.MODEL_NAMES}
# Keys of a `tokenizer_config.json` that only ours have.
_OURS = {"lower_case", "normalization", "normalize_nfc", "python_only", "special_tokens"}


def tokenizer_files(folder):
    """Names of the files of the tokenizer in a model folder of ours; `()` where there is none."""
    return next((names for names in TOKENIZERS
                 if all(files.exists(os.path.join(folder, name)) for name in names)), ())


def holds_tokenizer(folder):
    """Whether `load_tokenizer` finds files in a folder.

    Raises:
        BertTfError: one is a link that leads out of the folder.
        UsageError: more than one SentencePiece model is there.
    """
    names = tokenizer_files(folder)
    for name in names:
        files.inside(folder, name)
    return bool(names or classic_models.model_path(folder))


def load_tokenizer(path):
    """Read the tokenizer of a folder: ours, or one as published checkpoints have it.

    A `tokenizer.json` decides where there is one, unless the folder is ours.

    Args:
        path: folder with `tokenizer.json`; or `vocab.txt` (WordPiece); or `spiece.model`,
            `sentencepiece.bpe.model` or `spm.model` (SentencePiece); or `vocab.json` and
            `merges.txt` (byte-level BPE). Or such a file itself.

    Returns:
        Tokenizer, SentencePieceTokenizer, BytePairTokenizer, or a LibraryTokenizer, which no graph
        can hold.

    Raises:
        BertTfError: a file is damaged.
        NoTextError: none of these files is there, or they are of rules that we do not run.
        UsageError: they contradict themselves.
    """
    path = os.fspath(path)
    if files.is_file(path):
        if os.path.basename(path) not in _NAMES:
            return tokenizer.Tokenizer.of_vocabulary(path)
        path = os.path.dirname(path)
    names = tokenizer_files(path)
    for name in names:
        files.inside(path, name)
    model = classic_models.model_path(path)
    if not names and not model:
        raise NoTextError(explain(f"{path} has no tokenizer",
                                  "; or ".join(" and ".join(names) for names in TOKENIZERS)))
    checksums.check(path, (*names, tokenizer_config.NAME, tokenizer_json.NAME))
    config = tokenizer_config.read_config(os.path.join(path, tokenizer_config.NAME))
    json_path = os.path.join(path, tokenizer_json.NAME)
    if "python_only" in config:
        return library.LibraryTokenizer.load(path)
    if not _is_ours(config) and tokenizer_json.is_tokenizer_json(json_path):
        try:
            return tokenizer_json.read_tokenizer(json_path, config)
        except tokenizer_json.UnknownRules as error:
            return library.LibraryTokenizer.of_json(json_path, config, str(error))
    if model and (not names or TOKENIZERS[names] is sentence_piece.SentencePieceTokenizer) and (
            not _is_ours(config)):
        return classic_models.load_model(model, config)
    return TOKENIZERS[names].load(path)


def _is_ours(config):
    return bool(_OURS & config.keys()) and "tokenizer_class" not in config
