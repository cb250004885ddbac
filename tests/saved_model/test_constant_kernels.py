"""Kernels as constants: the same answers from a graph in which every product has one."""

import gc

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tiny_model import TEXTS

from bert_tf.saved_model.constant_kernels import with_constant_kernels
from bert_tf.saved_model.flat_graph import body_of, flat_graph, library_of
from bert_tf.serving.server.loaded_version import LoadedVersion

pytestmark = pytest.mark.graphs_improved


def kernels_of(function):
    """Operations that give the right sides of bfloat16 products."""
    nodes = flat_graph(body_of(function), library_of(function))[0].node
    made = {node.name: node.op for node in nodes}
    return [made[node.input[1].partition(":")[0]] for node in nodes
            if node.op == "MatMul" and node.attr["T"].type == tf.bfloat16.as_datatype_enum]


def test_signatures_answer_the_same(exported):
    version = exported("cased", "bfloat16").version
    loaded = tf.saved_model.load(version)
    for name in ("encode", "fill_mask"):
        function = loaded.signatures[name]
        constant = with_constant_kernels(function)
        assert set(kernels_of(function)) <= {"ReadVariableOp", "Cast"}
        assert set(kernels_of(constant)) == {"Const"} and len(kernels_of(constant)) >= 6
        expected, found = (each(text=tf.constant(TEXTS)) for each in (function, constant))
        assert expected.keys() == found.keys()
        for output, values in expected.items():
            if values.dtype == tf.float32:
                np.testing.assert_allclose(found[output], values, atol=0.05)
            elif name != "fill_mask":  # which chooses among near ties
                np.testing.assert_array_equal(found[output], values)


def test_what_has_no_such_kernel_stays(exported):
    function = tf.saved_model.load(exported("bert").version).signatures["encode"]
    assert with_constant_kernels(function) is function


def test_a_function_of_ones_own():
    """Other inputs, outputs and variables; a kernel that is read in a branch stays a variable."""
    kernels = [tf.Variable(tf.cast(tf.reshape(tf.range(6.0), [2, 3]), tf.bfloat16))
               for _ in range(2)]
    scale = tf.Variable(2.0)

    @tf.function(input_signature=[{"b": tf.TensorSpec([None, 2], tf.bfloat16),
                                   "a": tf.TensorSpec([], tf.float32)}])
    def compute(inputs):
        product = tf.cast(tf.matmul(inputs["b"], kernels[0]), tf.float32)
        other = tf.cond(inputs["a"] > 0, lambda: tf.matmul(inputs["b"], kernels[1]),
                        lambda: tf.zeros([1, 3], tf.bfloat16))
        return [product * scale + inputs["a"], {"other": other}]

    constant = with_constant_kernels(compute.get_concrete_function())
    inputs = {"a": tf.constant(1.0), "b": tf.constant([[1.0, 10.0]], tf.bfloat16)}
    for variable in (*kernels, scale):
        variable.assign(2 * variable)
    product, other = constant(inputs)
    # [0 1 2] + 10 · [3 4 5] as before, times the doubled scale.
    np.testing.assert_array_equal(product, [[4 * 30 + 1, 4 * 41 + 1, 4 * 52 + 1]])
    np.testing.assert_array_equal(tf.cast(other["other"], tf.float32), [[60, 82, 104]])


@pytest.mark.parametrize("constant_kernels", [
    True, pytest.param(False, marks=pytest.mark.long)])
def test_the_server_has_them_and_lets_go_of_them(exported, constant_kernels):
    version = exported("cased", "bfloat16").version

    def load_and_drop():
        loaded = LoadedVersion(version, constant_kernels=constant_kernels)
        signatures = loaded.signatures
        assert set(kernels_of(signatures["encode"].function)) == {
            "Const" if constant_kernels else "ReadVariableOp"}
        answer = signatures["encode"].run({"text": np.array(TEXTS, object)})
        loaded.close()
        del signatures
        gc.collect()
        return answer["pooled_output"], len(context.context().list_function_names())

    before, functions = load_and_drop()
    after, functions_after = load_and_drop()
    np.testing.assert_allclose(before, after, atol=0.05)
    assert functions_after == functions
