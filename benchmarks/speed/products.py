"""The ceiling: TensorFlow's matrix products of an encoder's layers and nothing else.

As a side it stands beside the encoders: a pass runs the products of all layers for as many tokens
as the batch has, each on what the one before gave.
"""

import tensorflow as tf
from speed.arithmetic import layer_products

PACKAGES = ("tensorflow",)


def encoder(config, dtype):
    """`prepare` and `run`, see `speed/worker.py`."""
    shapes = layer_products(config)
    draw = tf.random.Generator.from_seed(1)
    # Of this spread the numbers stay of one size.
    kernels = [tf.cast(draw.normal(shape, stddev=shape[0] ** -0.5), dtype) for shape in shapes]

    @tf.function
    def products(tokens, kernels):
        for _ in range(config["num_hidden_layers"]):
            for kernel in kernels:
                tokens = tf.matmul(tokens, kernel)
        return tokens

    def prepare(batch, fixed):
        shape = batch["input_mask"].shape
        return shape, tf.cast(draw.normal([shape[0] * shape[1], config["hidden_size"]]), dtype)

    def run(inputs):
        shape, tokens = inputs
        return tf.reshape(products(tokens, kernels), [*shape, -1]).numpy()

    return prepare, run


def train_step(config, dtype, batches):
    """A forward pass of one batch; its loss is 0."""
    prepare, run = encoder(config, dtype)
    inputs = prepare(batches[0], fixed=True)

    def step():
        run(inputs)
        return 0.0

    return step
