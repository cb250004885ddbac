"""Vocabularies in Hugging Face's `tokenizer.json`, which newer folders hold in place of others."""

import json

from bert_tf.errors import UsageError, explain
from bert_tf.storage import files

NAME = "tokenizer.json"


def vocabulary_files(path):
    """The files that say the same: `{name: text}`.

    WordPiece gives `vocab.txt`, byte-level BPE `vocab.json` and `merges.txt`; any other model
    (Unigram needs its `spiece.model`) gives none.

    Raises:
        BertTfError: the file is damaged.
        UsageError: its ids are not 0, 1, 2, …, or a merge is not of two pieces.
    """
    values = files.read_json_object(path)
    model = values.get("model")
    kind = model.get("type") if isinstance(model, dict) else None
    if kind == "WordPiece":
        return {"vocab.txt": "".join(f"{token}\n" for token in _tokens(model, path))}
    if kind == "BPE" and isinstance(model.get("merges"), list):
        ids = {token: index for index, token in enumerate(_tokens(model, path))}
        pairs = [_written(pair, path) for pair in model["merges"]]
        return {"vocab.json": json.dumps(ids, ensure_ascii=False),
                "merges.txt": "#version: 0.2\n" + "".join(f"{pair}\n" for pair in pairs)}
    return {}


def casing(path):
    """Casing of a WordPiece tokenizer, `{"lower_case": …, "strip_accents": …}`; None if unsaid."""
    normalizer = files.read_json_object(path).get("normalizer")
    if not isinstance(normalizer, dict) or normalizer.get("type") != "BertNormalizer":
        return None
    lower_case, accents = bool(normalizer.get("lowercase")), normalizer.get("strip_accents")
    return {"lower_case": lower_case,
            "strip_accents": lower_case if accents is None else bool(accents)}


def _written(pair, path):
    """A merge as `merges.txt` has it: two pieces with a blank between."""
    pair = pair.split(" ") if isinstance(pair, str) else pair
    if not isinstance(pair, list) or len(pair) != 2 or not all(
            isinstance(piece, str) for piece in pair):
        raise UsageError(explain(f"{path}: the merge {pair!r}", "two pieces"))
    return " ".join(pair)


def _tokens(model, path):
    """Pieces in the order of their ids."""
    ids = model.get("vocab")
    right = isinstance(ids, dict) and sorted(
        index for index in ids.values() if isinstance(index, int)) == list(range(len(ids)))
    if not right:
        raise UsageError(explain(f"{path}: the ids of its vocabulary have gaps", "0, 1, 2, …"))
    return sorted(ids, key=ids.get)
