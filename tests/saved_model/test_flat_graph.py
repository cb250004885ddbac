"""Graphs without calls, against the function that calls."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.saved_model.flat_graph import body_of, flat_graph, library_of

pytestmark = pytest.mark.graphs_improved

CALLS = {"PartitionedCall", "StatefulPartitionedCall"}


def flat_call(function):
    """A function that does what `function` does, from its flat graph."""
    body = body_of(function)
    definition, outputs = flat_graph(body, library_of(function))
    assert not {node.op for node in definition.node} & CALLS
    arguments = [f"{argument.name}:0" for argument in body.signature.input_arg]
    captured = function.captured_inputs

    @tf.function(autograph=False)
    def call(*tensors):
        held = [tf.compat.v1.get_default_graph().capture(each) for each in captured]
        return tf.graph_util.import_graph_def(
            definition, dict(zip(arguments, [*tensors, *held], strict=True)), outputs, name="")

    return call


def test_calls_within_calls():
    """Several results, an argument that is a result, a call of a result, branches, a variable."""
    scale = tf.Variable(3.0)

    @tf.function
    def inner(x, y):
        return x, tf.split(x * scale - y, 2), tf.cond(y > 0, lambda: twice(x), lambda: x)

    @tf.function
    def twice(x):
        return 2 * x

    @tf.function
    def middle(x):
        same, (first, second), either = inner(x, tf.reduce_sum(x))
        return inner(first, tf.constant(1.0))[1], twice(second), same, either

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def outer(x):
        return tf.nest.flatten((middle(x), middle(-x)))

    function = outer.get_concrete_function()
    flat = flat_call(function)
    for x in (tf.range(4.0), tf.range(-8.0, 0)):
        for expected, found in zip(function(x), flat(x), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_what_has_effects_keeps_its_order():
    """A call that adds, before one that doubles, before a reading; a check that fails."""
    total = tf.Variable(0.0)

    @tf.function
    def add(x):
        tf.debugging.assert_positive(x)
        total.assign_add(x)

    @tf.function
    def double():
        total.assign(2 * total)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def run(x):
        add(x)
        double()
        add(x)
        return [total.read_value()]

    flat = flat_call(run.get_concrete_function())
    assert float(flat(tf.constant(1.0))[0]) == 3
    assert float(flat(tf.constant(2.0))[0]) == 12
    with pytest.raises(tf.errors.InvalidArgumentError):
        flat(tf.constant(-1.0))


def test_a_loaded_signature_is_its_body(tmp_path):
    module = tf.Module()
    module.weight = tf.Variable([[1.0, 2.0]])
    module.product = tf.function(lambda x: tf.matmul(x, module.weight, name="product"))

    @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32, "x")])
    def serve(x):
        return {"y": module.product(x) + module.product(2 * x)}

    tf.saved_model.save(module, str(tmp_path), signatures=serve)
    function = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    found, = flat_call(function)(tf.constant([[1.0], [2.0]]))
    np.testing.assert_array_equal(found, [[3, 6], [6, 12]])
