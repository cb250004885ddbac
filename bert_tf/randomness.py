"""Random bits as a function of seed, purpose, step and global example index.

Philox is a counter-based generator: block `c` of the stream of key `k` is a pure function of
`(k, c)` (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3"). Each example owns a run
of blocks, so that the bits of an example are the same in whatever batch, replica or process it is
drawn, and a restarted run repeats them.
"""

import contextlib
import math
import threading
import zlib

import tensorflow as tf

_PHILOX = 1
_local = threading.local()


def stream_key(seed, purpose, step=0):
    """Key of a random stream: uint64 `[1]`.

    Args:
        seed: integer below 2**31, a Python value or a scalar tensor.
        purpose: a name, so that two uses of one seed are independent.
        step: integer, a Python value or a scalar tensor.
    """
    number = zlib.crc32(purpose.encode())
    if isinstance(seed, int):
        seed_key = tf.constant([(seed << 32 ^ number) % 2**64], tf.uint64)
    else:
        high = tf.bitwise.left_shift(tf.cast(seed, tf.uint64), tf.constant(32, tf.uint64))
        seed_key = tf.reshape(tf.bitwise.bitwise_xor(high, tf.cast(number, tf.uint64)), [1])
    # One draw mixes the step in: keys of neighbouring steps share no pattern.
    counter = tf.stack([tf.cast(step, tf.uint64), tf.constant(0, tf.uint64)])
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[1], key=seed_key, counter=counter, alg=_PHILOX, dtype=tf.uint64)


def example_bits(key, first_example, shape, dtype=tf.uint32):
    """Uniform random bits `shape`, whose first axis is the examples.

    Args:
        key: uint64 `[1]` from `stream_key`.
        first_example: global index of the first example, scalar integer; the others follow it.
        shape: `[batch, …]`, a tensor or a list of integers and scalar tensors. An example's
            bits depend on the shape after the batch, on the key and on its index only.
        dtype: `tf.uint32`, or `tf.uint16` for half the work.
    """
    per_block = 16 // dtype.size  # a Philox block is 128 bits
    rows, *axes = shape if isinstance(shape, (list, tuple)) else tf.unstack(shape)
    values = [tf.get_static_value(axis) for axis in axes]
    # As far as it is known in Python: each dropout draws, and its operations cost time.
    known = math.prod(int(value) for value in values if value is not None)
    others = [axis for axis, value in zip(axes, values, strict=True) if value is None]
    whole_blocks = known % per_block == 0
    blocks = math.prod(others, start=known // per_block) if whole_blocks else (
        math.prod(others, start=known) + per_block - 1) // per_block
    start = tf.cast(first_example, tf.uint64) * tf.cast(blocks, tf.uint64)
    bits = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=tf.stack([rows, blocks * 4]), key=key,
        counter=tf.stack([start, tf.constant(0, tf.uint64)]), alg=_PHILOX, dtype=tf.uint32)
    if dtype == tf.uint16:
        bits = tf.bitcast(bits, tf.uint16)
    if not whole_blocks:  # cutting off the rest of the last block costs a copy
        bits = tf.reshape(bits, [rows, blocks * per_block])[:, :math.prod(others, start=known)]
    return tf.reshape(bits, shape)


def uniform(bits):
    """Convert uint32 bits to float32 in [0, 1), of which it holds 24 exactly."""
    bits = tf.bitwise.right_shift(bits, tf.constant(8, tf.uint32))
    return tf.cast(bits, tf.float32) * 2.0**-24


class DrawPosition:
    """Where random draws of the current replica stand: `seed`, `step` and `first_example`."""

    def __init__(self, seed, step, first_example):
        self.seed = seed
        self.step = step
        self.first_example = first_example


@contextlib.contextmanager
def draw_at(seed, step, first_example):
    """Layers called in this block (on this thread) draw at the given position.

    Args:
        seed: integer or scalar tensor.
        step: integer or scalar tensor.
        first_example: global index of the first example this replica sees at this step.
    """
    before = current_position()
    _local.position = DrawPosition(seed, step, first_example)
    try:
        yield
    finally:
        _local.position = before


@contextlib.contextmanager
def several_rows(count):
    """Layers called in this block have `count` rows, one after the other, of each example."""
    position = current_position()
    if position is None:
        yield
        return
    first = tf.cast(position.first_example, tf.int64) * tf.cast(count, tf.int64)
    with draw_at(position.seed, position.step, first):
        yield


@contextlib.contextmanager
def draw_scope(name):
    """Layers called in this block draw differently from other calls of the same layer.

    Args:
        name: what tells this call from others; "" changes nothing.
    """
    before = current_scope()
    _local.scope = f"{before}/{name}" if name else before
    try:
        yield
    finally:
        _local.scope = before


def current_scope():
    """Names of the `draw_scope` blocks around, joined; "" outside of any."""
    return getattr(_local, "scope", "")


def current_position():
    """The `DrawPosition` of the innermost `draw_at` block on this thread, or None."""
    return getattr(_local, "position", None)


def repeated_draws(seed_generator):
    """Return a function that gives contexts, in each of which layers draw the same.

    Args:
        seed_generator: as of `current_stream`, moved on once in plain mode; None where no layer
            draws.
    """
    scope, position = current_scope(), current_position()
    if position is None and seed_generator is not None:
        seed, step = _plain_place(seed_generator)
        position = DrawPosition(seed, step, 0)

    @contextlib.contextmanager
    def again():
        before = current_scope(), current_position()
        _local.scope, _local.position = scope, position
        try:
            yield
        finally:
            _local.scope, _local.position = before

    return again


def _plain_place(seed_generator):
    """Seed and step, uint64, of draws outside of `draw_at`: other ones on every replica."""
    context = tf.distribute.get_replica_context()
    replica = context.replica_id_in_sync_group if context else 0
    seed, calls = tf.unstack(tf.cast(seed_generator.next(), tf.uint64))
    # Replicas take neighbouring steps of one stream: at most 2**20 of them.
    step = tf.bitwise.left_shift(calls, tf.constant(20, tf.uint64))
    return seed, step + tf.cast(replica, tf.uint64)


def current_stream(purpose, seed_generator):
    """Where to draw for the examples of the current call: `(key, first_example)`.

    Inside `draw_at` the key depends on its seed and step, on the purpose and on the `draw_scope`s
    only. Elsewhere (plain `model.fit`) it comes from the seed generator, with the replica's number
    mixed in, so that replicas differ.

    Args:
        purpose: a name, as of `stream_key`.
        seed_generator: a `keras.random.SeedGenerator`, which only plain mode moves on.
    """
    purpose += current_scope()
    position = current_position()
    if position is not None:
        return stream_key(position.seed, purpose, position.step), position.first_example
    seed, step = _plain_place(seed_generator)
    return stream_key(seed, purpose, step), 0
