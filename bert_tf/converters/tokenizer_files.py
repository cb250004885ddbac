"""The tokenizer's files that travel with a checkpoint, and the casing they imply."""

import os
import tempfile

from bert_tf.converters import tokenizer_json
from bert_tf.errors import BertTfError, NoTextError, UsageError, explain
from bert_tf.storage import checksums, files

VOCABULARY = "vocab.txt"
CASING = "tokenizer_config.json"
SENTENCE_PIECE = "spiece.model"
_FILES = (VOCABULARY, CASING, SENTENCE_PIECE, "vocab.json", "merges.txt")


def tokenizer_folder(folder):
    """`folder` if it holds a vocabulary, else None.

    Raises:
        BertTfError: a file is a link that leads out of the folder.
        UsageError: more than one SentencePiece model is there.
    """
    found = _sources(folder).keys() - {CASING} or _in_json(folder)
    return folder if found else None


def copy_tokenizer(source, target):
    """Copy the tokenizer's files from folder to folder.

    A SentencePiece model `*.model` is named `spiece.model`. Where there is a `tokenizer.json`
    alone, the files that it stands for are written. Casing that no file states is written as
    `judge_casing` has it.

    Args:
        source: a folder, or None, which copies nothing.
        target: a folder that exists.
    """
    if source is None:
        return
    sources = _sources(source)
    for name, path in sources.items():
        files.copy(path, os.path.join(target, name))
    if not sources.keys() - {CASING}:
        for name, text in _in_json(source).items():
            files.write_text(os.path.join(target, name), text)
    if files.exists(os.path.join(target, VOCABULARY)) and not _states_casing(source):
        files.write_json(os.path.join(target, CASING), _json_casing(source) or judge_casing(target))


def load_copied(source):
    """The tokenizer that `copy_tokenizer` makes of the files in the folder `source`.

    Raises: as `bert_tf.tokenization.load.load_tokenizer`.
    """
    from bert_tf.tokenization.load import load_tokenizer

    checksums.check(source, (*_FILES, tokenizer_json.NAME))
    with tempfile.TemporaryDirectory(prefix="bert_tf-") as copy:
        copy_tokenizer(source, copy)
        try:
            return load_tokenizer(copy)
        except BertTfError as error:
            raise type(error)(str(error).replace(copy, source)) from None


def vocabulary_notes(folder, vocab_size):
    """What to tell the user about a vocabulary beside a model: a tuple of at most one line.

    Raises:
        BertTfError: a file is damaged or contradicts itself.
        UsageError: it has more pieces than the `vocab_size` rows of the model's table.
    """
    if folder is None:
        return ()
    try:
        pieces = len(load_copied(folder).vocabulary)
    except NoTextError as error:  # of rules that we do not run, such as GPT's
        return (str(error),)
    if pieces > vocab_size:
        raise UsageError(explain(f"the vocabulary in {folder} has {pieces} pieces",
                                 f"at most vocab_size={vocab_size}"))
    if pieces < vocab_size:
        return (f"the vocabulary in {folder} has {pieces} pieces, vocab_size={vocab_size}: the "
                "model's further rows are never used",)
    return ()


def judge_casing(folder):
    """Casing of a `vocab.txt` that comes without flags, as the original releases do.

    Pieces without any capital letter can only have come from text in lower case; the original
    code then strips accents too.

    Returns: dict of `lower_case` and `strip_accents`.
    """
    tokens = files.read_lines(os.path.join(folder, VOCABULARY))
    uncased = all(token == token.lower() for token in tokens
                  if not (token.startswith("[") and token.endswith("]")))
    return {"lower_case": uncased, "strip_accents": uncased}


def casing_notes(folder):
    """What to tell the user about casing that was judged: a tuple of at most one line."""
    if (folder is None or _states_casing(folder) or _json_casing(folder)
            or VOCABULARY not in _sources(folder)):
        return ()
    if judge_casing(folder)["lower_case"]:
        return (f"{folder}/{VOCABULARY} has no capital letters: taken for lower case without "
                f"accents (a {CASING} beside it would say)",)
    return (f"{folder}/{VOCABULARY} has capital letters: case and accents are kept "
            f"(a {CASING} beside it would say)",)


def _sources(folder):
    """`{name in a model folder: path}` of the tokenizer's files there."""
    names = files.list_folder(folder)
    sources = {name: files.inside(folder, name) for name in _FILES if name in names}
    models = [name for name in names if name.endswith(".model")]
    if len(models) > 1 and SENTENCE_PIECE not in models:
        raise UsageError(explain(f"{folder} holds {', '.join(models)}",
                                 "one SentencePiece model"))
    if models:
        name = SENTENCE_PIECE if SENTENCE_PIECE in models else models[0]
        sources[SENTENCE_PIECE] = files.inside(folder, name)
    return sources


def _states_casing(folder):
    path = os.path.join(folder, CASING)
    return files.exists(path) and bool(
        {"lower_case", "do_lower_case"} & files.read_json_object(path).keys())


def _json_casing(folder):
    path = os.path.join(folder, tokenizer_json.NAME)
    return tokenizer_json.casing(path) if files.exists(path) else None


def _in_json(folder):
    """`{name: text}` of the files that a `tokenizer.json` in `folder` stands for."""
    path = os.path.join(folder, tokenizer_json.NAME)
    return tokenizer_json.vocabulary_files(path) if files.exists(path) else {}
