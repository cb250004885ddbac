"""Rotary positions in a `config.json`: `rope_parameters` of today, `rope_theta` of older files."""

from bert_tf.errors import UsageError, explain

KINDS = ("full_attention", "sliding_attention")  # of layers; the first sees everything


def read_rope(stated, source, kinds):
    """Return `rope_theta` and what else `rope_parameters` say of a model with one kind of layers.

    Args:
        stated: all keys of a file, with a `rope_theta`.
        source: the file's name, for messages.
        kinds: values of `rope_type` that we compute.

    Raises:
        UsageError: `rope_parameters` are of another type, or of several kinds of layers.
    """
    rope = stated.get("rope_parameters") or {}
    if rope_type(rope) not in kinds or any(isinstance(value, dict) for value in rope.values()):
        raise UsageError(explain(f"{source}: rope_parameters={rope!r}", "rope_type " + " or ".join(
            map(repr, kinds)) + " and a rope_theta"))
    factor = {"rope_factor": rope["factor"]} if rope_type(rope) == "linear" and (
        "factor" in rope) else {}
    return {"rope_theta": rope.get("rope_theta", stated["rope_theta"]), **factor}


def read_both(stated, source, keys):
    """Return what `rope_parameters` say of layers that see everything and of those with a window.

    Args:
        stated: all keys of a file.
        source: its name, for messages.
        keys: the older keys of the two.

    Returns: a dict of `keys`.

    Raises:
        UsageError: `rope_parameters` are of another type, or not of each kind of layers.
    """
    rope = stated.get("rope_parameters") or {}
    found = {}
    for kind, key in zip(KINDS, keys, strict=True):
        of_kind = (rope.get(kind) or {}) if isinstance(rope, dict) else None
        if rope_type(of_kind) != "default" or set(rope) - set(KINDS):
            raise UsageError(explain(f"{source}: rope_parameters={rope!r}",
                                     "rope_type 'default' and a rope_theta for each of "
                                     + " and ".join(KINDS)))
        found[key] = of_kind.get("rope_theta", stated[key])
    return found


def write_both(values, keys):
    """Return the `rope_parameters` that `read_both` reads."""
    return {kind: {"rope_type": "default", "rope_theta": values[key]}
            for kind, key in zip(KINDS, keys, strict=True)}


def rope_type(rope):
    """Return the type that an object of `rope_parameters` names; None of what is no object."""
    return rope.get("rope_type", rope.get("type", "default")) if isinstance(rope, dict) else None
