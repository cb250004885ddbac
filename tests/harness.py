"""What every layer must be able to do, checked on tiny widths, and replicas to do it on."""

import contextlib
import os
import pathlib
import re

import keras
import numpy as np
import tensorflow as tf

from bert_tf.storage import checksums


def check_layer(make, inputs, folder, tolerance=0.05):
    """Run the common checks on one layer.

    Config round trip, the same numbers in `tf.function` and after saving and loading inside a
    functional model, free batch and length, compute types, one fit.

    Args:
        make: `make(dtype)` gives a new layer with fixed seeds.
        inputs: list of arrays, positional arguments of the call, batch first.
        folder: a temporary folder.
        tolerance: largest difference that half precision may make.
    """
    layer = make("float32")
    expected = layer(*inputs)
    weights = layer.get_weights()
    assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()
    np.testing.assert_allclose(tf.function(layer)(*inputs), expected, atol=1e-5)

    specs = [keras.Input((None,) * (value.ndim - 1) if value.ndim < 3
                         else (*[None] * (value.ndim - 2), value.shape[-1]),
                         dtype=str(value.dtype)) for value in inputs]
    model = keras.Model(specs, layer(*specs))
    assert model.output_shape[-1] == expected.shape[-1]
    shorter = model([value[:1] for value in inputs])
    np.testing.assert_allclose(shorter, expected[:1], atol=1e-5)
    path = str(folder / "layer.keras")
    # XLA, as `fit` compiles a graph by default, takes long: tests/models let it, of whole models.
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(inputs, np.zeros(expected.shape, "float32"), verbose=0)
    model.save(path)
    loaded = keras.saving.load_model(path)
    np.testing.assert_array_equal(loaded(inputs), model(inputs))

    for policy in ("mixed_bfloat16", "mixed_float16"):
        half = make(policy)
        half(*inputs)
        half.set_weights(weights)
        outputs = half(*inputs)
        assert outputs.dtype in (policy.removeprefix("mixed_"), "float32")
        assert all(variable.dtype == "float32" for variable in half.trainable_variables)
        np.testing.assert_allclose(tf.cast(outputs, tf.float32), expected, atol=tolerance)


def mirrored(replicas):
    """A MirroredStrategy over the first virtual CPU devices.

    Not with the default collectives: these number themselves from the same start in every
    strategy of a process, so that those of two tests meet.
    """
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"][:replicas],
                                          tf.distribute.ReductionToOneDevice())


def unsealed(folder):
    """The path `folder`, whose checksums are taken away, for changes that are meant."""
    os.remove(os.path.join(folder, checksums.NAME))
    return folder


@contextlib.contextmanager
def takes_at_most(kibibytes):
    """The memory of this process grows by at most so much in the block, even for a moment."""
    def peak():
        status = pathlib.Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1])

    # The peak begins anew with what is held now: what earlier tests held hides nothing.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    yield
    grown = peak() - before
    assert grown <= kibibytes, grown
