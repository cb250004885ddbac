"""Masks: their share, what they depend on, and replicas that differ."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import mirrored

from bert_tf import randomness
from bert_tf.errors import UsageError
from bert_tf.layers.dropout import Dropout


def _built(rate=0.25, name="dropout", **options):
    layer = Dropout(rate, name=name, **options)
    layer.build((None, None))
    return layer


def test_share_and_scale():
    x = tf.ones((4, 100_000))
    for rate in (0.1, 0.5):
        y = _built(rate, seed=1)(x, training=True).numpy()
        assert abs((y == 0).mean() - rate) < 0.005
        np.testing.assert_allclose(y[y != 0], 1 / (1 - rate), rtol=1e-4)
    np.testing.assert_array_equal(_built()(x), x)
    np.testing.assert_array_equal(_built(0.0)(x, training=True), x)


def test_gradient_is_the_mask():
    x = tf.Variable(tf.ones((2, 64)))
    with tf.GradientTape() as tape:
        y = _built(seed=1)(x, training=True)
    np.testing.assert_array_equal(tape.gradient(y, x), y)


@pytest.mark.parametrize("jit", [None, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_product_is_that_of_what_is_left(dtype, jit):
    layer = _built(dtype=dtype)
    draws = np.random.default_rng(1)
    x, values, upstream = (tf.constant(draws.normal(size=shape), dtype)
                           for shape in ([2, 3, 5, 8], [2, 3, 8, 4], [2, 3, 5, 4]))

    def gradients(product):
        with tf.GradientTape() as tape, randomness.draw_at(1, 2, 3):
            tape.watch([x, values])
            result = product()
        return [result, *tape.gradient(result, [x, values], output_gradients=upstream)]

    def dropped():
        return layer(x, training=True) @ values

    @tf.function(jit_compile=jit, autograph=False)
    def mine():
        return gradients(lambda: layer.product(x, values, training=True))

    tolerance = 2e-2 if dtype == "bfloat16" else 1e-5
    for one, other, undropped in zip(mine(), gradients(dropped),
                                     gradients(lambda: x @ values), strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(tf.cast(one, "float32"), tf.cast(other, "float32"),
                                   rtol=tolerance, atol=tolerance)
        assert np.abs(tf.cast(one - undropped, "float32")).max() > 0.1


@pytest.mark.parametrize("width", [7, 8])
def test_mask_of_an_example_depends_on_position_only(width):
    layer = _built()

    def masks(step, first, count, seed=5):
        with randomness.draw_at(seed, step, first):
            return layer(tf.ones((count, 11, width)), training=True).numpy()

    whole = masks(3, 10, 6)
    halves = np.concatenate([masks(3, 10, 3), masks(3, 13, 3)])
    np.testing.assert_array_equal(whole, halves)
    np.testing.assert_array_equal(whole, masks(3, 10, 6))
    different = [masks(4, 10, 6), masks(3, 11, 6), masks(3, 10, 6, seed=6)]
    with randomness.draw_at(5, 3, 10):
        different.append(_built(name="other")(tf.ones((6, 11, width)), training=True).numpy())
    assert all((whole != other).mean() > 0.2 for other in different)


def test_free_shapes_draw_what_fixed_ones_draw():
    layer, x = _built(), tf.ones((3, 5, 6))
    free = tf.function(lambda x: layer(x, training=True),
                       input_signature=[tf.TensorSpec((None, None, None))])
    with randomness.draw_at(1, 2, 3):
        np.testing.assert_array_equal(free(x), layer(x, training=True))


def _fitted_masks(dropout):
    """What two replicas multiply ones by, from inside `model.fit`."""
    class Record(keras.Model):
        def __init__(self):
            super().__init__()
            self.dropout = dropout
            self.scale = self.add_weight(shape=(), initializer="ones")
            self.built = True

        def call(self, x, training=False):
            return self.dropout(x * self.scale, training=training)

        def train_step(self, data):
            y = self(data, training=True)
            context = tf.distribute.get_replica_context()
            replica = tf.one_hot(context.replica_id_in_sync_group, 2)[:, None, None]
            both = context.all_reduce("sum", replica * y[None])
            tf.numpy_function(lambda value: masks.append(value), [both], [])
            return {"loss": tf.reduce_mean(y)}

    masks = []
    with mirrored(2).scope():
        dropout = dropout()
        model = Record()
        model.compile()
    model.fit(tf.data.Dataset.from_tensors(tf.ones((8, 50))).repeat(2), verbose=0)
    return masks


def test_replicas_of_fit_differ_unlike_with_keras():
    for first, second in _fitted_masks(lambda: keras.layers.Dropout(0.5, seed=1)):
        np.testing.assert_array_equal(first, second)
    ours = _fitted_masks(lambda: Dropout(0.5, seed=1))
    assert all((first != second).mean() > 0.3 for first, second in ours)
    assert (ours[0] != ours[-1]).mean() > 0.3  # and so do steps


def test_layers_of_one_seed_differ():
    x = tf.ones((4, 1000))
    a, b = (_built(0.5, name, seed=1)(x, training=True) for name in ("a", "b"))
    assert np.mean(a != b) > 0.3


def test_bad_rate():
    with pytest.raises(UsageError, match="rate=1.5"):
        Dropout(1.5)
