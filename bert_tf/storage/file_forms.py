"""The form of a file as its name says it, in letters of either size."""

import os
import unicodedata

from bert_tf.errors import UsageError, explain

_SAME = {".ndjson": ".jsonl"}
# Archives, and files compressed in a way that is not undone as they are read.
_PACKED = (".tar", ".tgz", ".zip", ".7z", ".rar", ".bz2", ".xz", ".zst")


def is_compressed(path):
    """Return whether a file is a `.gz`."""
    return os.fspath(path).lower().endswith(".gz")


def suffix(path):
    """Return the end of a name: small letters, without `.gz`; of JSON lines always `.jsonl`."""
    end = os.path.splitext(os.fspath(path).lower().removesuffix(".gz"))[1]
    return _SAME.get(end, end)


def refuse_packed(path):
    """Raise UsageError of an archive, or of what is compressed otherwise than as a `.gz`."""
    if suffix(path) in _PACKED:
        raise UsageError(explain(f"{path} is an archive or compressed, by its name",
                                 "a file as it is, or one alone as .gz", "unpacking it first"))


def spellings(name):
    """Return a name as it is, composed (NFC) and in jamo (NFD), as macOS has it; each once."""
    return list(dict.fromkeys([name, *(
        unicodedata.normalize(form, name) for form in ("NFC", "NFD"))]))
