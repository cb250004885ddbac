"""Values of a row as JSON, whatever they are."""

import base64
import json
import math

import numpy as np


def as_json(value):
    """Return a value as JSON, bytes: other bytes as base64, numbers that are not finite as null,
    what JSON has no type for as the string of it."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain).encode()
    except UnicodeEncodeError:  # half a character in a column that is carried along
        return json.dumps(value, default=_plain).encode()
    except ValueError:  # of numbers JSON has only finite ones
        return as_json(_finite(value))


def _finite(value):
    """Return a value with None in place of numbers that are not finite."""
    if isinstance(value, dict):
        return {_finite(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _finite(value.tolist())
    if isinstance(value, list | tuple):
        return list(map(_finite, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value):
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
