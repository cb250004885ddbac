"""The encoder of a library of Keras as a side of the benchmarks of speed, see `speed/worker.py`."""

import tensorflow as tf


def encoder_of(model, names):
    """Return `(prepare, run)`: a graph of its own for each shape that comes again, one for all the
    others.

    Args:
        model: gives `sequence_output`, its weights of the type that is computed in.
        names: `{the model's name of an input: ours}`.
    """
    def forward(inputs):
        return model(inputs, training=False)["sequence_output"]

    of_shape = tf.function(forward)
    of_any = tf.function(forward, input_signature=[
        {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}])

    def prepare(batch, fixed):
        return (of_shape if fixed else of_any,
                {name: tf.constant(batch[ours]) for name, ours in names.items()})

    def run(inputs):
        function, arrays = inputs
        return function(arrays).numpy()

    return prepare, run
