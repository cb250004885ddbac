"""The files of tokenizers that join pairs of pieces: `vocab.json`, `merges.txt`, `merges.json`."""

from bert_tf.errors import UsageError, explain
from bert_tf.storage import files

VOCABULARY_NAME = "vocab.json"
MERGES_NAME = "merges.txt"
JSON_MERGES_NAME = "merges.json"  # of pieces that may have line breaks in them
VERSION = "#version"  # begins the first line of a merges.txt


def read_tokens(path):
    """The pieces of a `vocab.json` in the order of their ids."""
    ids = files.read_json(path)
    if not isinstance(ids, dict) or sorted(
            value if type(value) is int else -1 for value in ids.values()) != list(
            range(len(ids))):
        raise UsageError(explain(f"{path} gives no piece for some ids",
                                 "an object of pieces and the ids 0, 1, 2, …, each once"))
    return sorted(ids, key=ids.get)


def read_merges(path):
    """The pairs in a `merges.txt`, a pair a line."""
    merges = []
    for number, line in enumerate(files.read_lines(path), 1):
        if not line or (number == 1 and line.startswith(VERSION)):
            continue
        pair = line.split(" ")
        if len(pair) != 2:
            raise UsageError(explain(f"{path} line {number}: {line!r}",
                                     "two pieces with a blank between"))
        merges.append(tuple(pair))
    return merges


def read_pairs(merges, path):
    """The merges, list of pairs of str, in either form that a JSON file has them in.

    Raises:
        UsageError: one is no pair, or they are no list; `path` is named.
    """
    if not isinstance(merges, list):
        raise UsageError(explain(f"{path}: the merges {str(merges)[:40]}", "a list of pairs"))
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in merges]
    for merge, pair in zip(merges, pairs, strict=True):
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
                and isinstance(pair[1], str)):
            raise UsageError(explain(f"{path}: the merge {merge!r}", "two pieces"))
    return pairs
