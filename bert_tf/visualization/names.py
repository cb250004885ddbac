"""What to call models and runs that are shown together."""

import os


def short_names(paths):
    """The shortest ends of paths that tell them apart.

    `runs/a/model` and `runs/b/model` are `a/model` and `b/model`.

    Args:
        paths: list of str.

    Returns: list of str, all different: what is there again has ` (2)` behind it.
    """
    parts = [os.path.abspath(path).split(os.sep) for path in paths]
    names = []
    for part in parts:
        size = next(size for size in range(1, len(part) + 1)
                    if all(other == part or other[-size:] != part[-size:] for other in parts))
        names.append(os.sep.join(part[-size:]))
    counts = [names[:place].count(name) for place, name in enumerate(names, 1)]
    return [name if count == 1 else f"{name} ({count})"
            for name, count in zip(names, counts, strict=True)]
