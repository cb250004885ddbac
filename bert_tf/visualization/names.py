"""Names of models and runs that are shown together."""

import os

from bert_tf.storage import files, hub

# Names that every model or run has: it goes by its folder's.
_USUAL = ("model", "metrics.jsonl", "vocab.txt")


def short_names(paths):
    """Return the shortest ends of paths that distinguish them.

    `old/bert` and `new/bert/model` are `old/bert` and `new/bert`.

    Args:
        paths: list of str.

    Returns: list of str, all different: what is there again has ` (2)` after it.
    """
    parts = [_parts(path) for path in paths]
    parts = [part[:-1] if part[-1] in _USUAL and len(part) > 2 else part for part in parts]
    names = []
    for part in parts:
        size = next(size for size in range(1, len(part) + 1)
                    if all(other == part or other[-size:] != part[-size:] for other in parts))
        names.append(os.sep.join(part[-size:]) or os.sep)
    counts = [names[:place].count(name) for place, name in enumerate(names, 1)]
    return [name if count == 1 else f"{name} ({count})"
            for name, count in zip(names, counts, strict=True)]


def _parts(path):
    if not hub.repository(path):
        return files.absolute(path).split(os.sep)
    # A revision, which may have slashes, belongs to the name.
    name, at, revision = os.fspath(path).removeprefix(hub.SCHEME).partition("@")
    *folders, last = files.absolute(name).split(os.sep)
    return [*folders, last + at + revision]
