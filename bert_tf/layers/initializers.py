"""Initial weights as a function of a seed and of the variable's path."""

import contextlib
import contextvars
import zlib

import keras

_assigned = contextvars.ContextVar("assigned", default=frozenset())


def truncated_normal(stddev, seed, path):
    """Truncated normal (cut at two standard deviations) for the variable at `path`.

    Args:
        stddev: standard deviation before cutting (`initializer_range`).
        seed: integer; the same seed and path give the same values whatever else is built
            before. None draws from Keras' own random state.
        path: path of the variable, from the outermost layer on.

    Returns: a Keras initializer; within `assigned_later` of this path that of zeros.
    """
    if path in _assigned.get():
        return keras.initializers.Zeros()
    return keras.initializers.TruncatedNormal(stddev=stddev, seed=path_seed(seed, path))


@contextlib.contextmanager
def assigned_later(paths):
    """Within, variables at `paths`, which the caller is going to assign, are 0 and not drawn.

    Drawing takes longer than reading the weights from a file.
    """
    token = _assigned.set(frozenset(paths))
    try:
        yield
    finally:
        _assigned.reset(token)


def path_seed(seed, path):
    """The seed of the variable at `path`, of the model's `seed`; None of None."""
    return None if seed is None else zlib.crc32(f"{seed}/{path}".encode())
