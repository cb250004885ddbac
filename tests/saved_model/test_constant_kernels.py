"""Kernels that stay: the same answers from a graph whose products are told so."""

import gc
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tiny_model import TEXTS

from bert_tf.saved_model import constant_kernels, graph_options
from bert_tf.saved_model.constant_kernels import with_constant_kernels
from bert_tf.serving.server.loaded_version import LoadedVersion

pytestmark = pytest.mark.graphs_improved


def is_multiplied():
    """Return whether oneDNN has products in bfloat16 on this processor."""
    return "avx512f" in pathlib.Path("/proc/cpuinfo").read_text().split()


def check_told(function):
    """Products know their kernels, where there are such products."""
    assert function.is_made
    if is_multiplied():
        nodes = function.made.graph.as_graph_def().node
        assert sum(node.op == "_MklNativeFusedMatMul" and node.attr["is_filter_const"].b
                   for node in nodes) >= 6
    else:
        assert function.made is None


def test_signatures_answer_the_same(exported):
    version = exported("cased", "bfloat16").version
    loaded = tf.saved_model.load(version)
    for name in ("encode", "fill_mask"):
        function = loaded.signatures[name]
        constant = with_constant_kernels(function)
        for texts in (TEXTS, TEXTS[:1], 3 * TEXTS):  # the first call is the function's own
            expected, found = (each(text=tf.constant(texts)) for each in (function, constant))
            assert expected.keys() == found.keys()
            for output, values in expected.items():
                if values.dtype == tf.float32:
                    np.testing.assert_allclose(found[output], values, atol=0.05)
                elif name != "fill_mask":  # which chooses among near ties
                    np.testing.assert_array_equal(found[output], values)
        check_told(constant)


def check_fused(nodes):
    """Gelu's tanh form is part of the product before it, where oneDNN has such products."""
    if is_multiplied():
        assert any(b"GeluApproximate" in node.attr["fused_ops"].list.s for node in nodes)
        assert not any(node.op == "Tanh" and "gelu" in node.name for node in nodes)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_tanh_form_of_gelu_is_part_of_a_product(exported, dtype):
    version = LoadedVersion(exported("cased", dtype).version, constant_kernels=False)
    eager = context.context()
    eager.enable_graph_collection()
    try:
        version.signatures["encode"].run({"text": np.array([b"A text."], object)})
    finally:
        graphs = eager.export_run_metadata().function_graphs
        eager.disable_graph_collection()
    check_fused([node for graph in graphs for part in graph.partition_graphs
                 for node in part.node])


def test_so_it_is_where_kernels_stay(exported):
    loaded = tf.saved_model.load(exported("cased", "bfloat16").version)
    constant = with_constant_kernels(loaded.signatures["encode"])
    constant(text=tf.constant(TEXTS))
    if is_multiplied():
        check_fused(constant.made.graph.as_graph_def().node)


def test_a_first_call_that_fails_is_no_loss():
    kernel, bias = (tf.Variable(tf.ones(shape, tf.bfloat16)) for shape in ([2, 3], [3]))

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.bfloat16, "x")])
    def compute(x):
        with tf.control_dependencies([tf.debugging.assert_positive(tf.cast(x, tf.float32))]):
            return tf.nn.bias_add(tf.matmul(x, kernel), bias)

    constant = with_constant_kernels(compute.get_concrete_function())
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError):
            constant(-tf.ones([1, 2], tf.bfloat16))
    for _ in range(2):
        assert (constant(tf.ones([1, 2], tf.bfloat16)).numpy() == 3).all()
    assert (constant.made is not None) == is_multiplied()
    with pytest.raises(tf.errors.InvalidArgumentError):
        constant(-tf.ones([1, 2], tf.bfloat16))
    assert (constant(np.ones([1, 2])).numpy() == 3).all()
    for wrong in ({"y": tf.ones([1, 2], tf.bfloat16)}, {"x": tf.ones([1, 3], tf.bfloat16)}):
        with pytest.raises((TypeError, tf.errors.InvalidArgumentError)):  # the function's own
            constant(**wrong)


def test_what_counts_counts_once():
    kernel, bias = (tf.Variable(tf.ones(shape, tf.bfloat16)) for shape in ([2, 3], [3]))
    calls = tf.Variable(0)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.bfloat16, "x")])
    def compute(x):
        calls.assign_add(1)
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)

    constant = with_constant_kernels(compute.get_concrete_function())
    for number in range(1, 4):
        constant(tf.ones([1, 2], tf.bfloat16))
        assert calls == number
    assert constant.made is None


def test_an_input_that_nothing_is_made_of_is_no_hindrance():
    kernel, bias = (tf.Variable(tf.ones(shape, tf.bfloat16)) for shape in ([2, 3], [3]))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "unused"),
                                  tf.TensorSpec([None, 2], tf.bfloat16, "x")])
    def compute(unused, x):
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)

    constant = with_constant_kernels(compute.get_concrete_function())
    for rows in (1, 2):
        found = constant(tf.constant([7]), rows * tf.ones([rows, 2], tf.bfloat16))
        assert (found.numpy() == 2 * rows + 1).all() and found.shape == (rows, 3)
    assert (constant.made is not None) == is_multiplied()


def test_the_graph_of_another_thread_is_not_taken(monkeypatch):
    kernel, bias = (tf.Variable(tf.ones(shape, tf.bfloat16)) for shape in ([2, 3], [3]))

    def compute(scale):
        spec = tf.TensorSpec([None, 2], tf.bfloat16, "x")
        return tf.function(lambda x: tf.nn.bias_add(tf.matmul(x, kernel), bias) * scale,
                           input_signature=[spec]).get_concrete_function()

    other, function = compute(1), compute(1.0625)  # of the same types and nearly the same results
    graphs, x = [], tf.ones([1, 2], tf.bfloat16)
    monkeypatch.setattr(constant_kernels, "_only_reads", lambda graph: graphs.append(graph) or True)
    assert with_constant_kernels(other)(x).numpy().tolist() == [[3, 3, 3]]
    told = constant_kernels._told(other, graphs.pop())

    class WhileOther:
        """Another thread calls what it told for the first time."""

        def __getattr__(self, name):
            return getattr(function, name)

        def __call__(self, *args, **kwargs):
            results = function(*args, **kwargs)
            if told:
                with constant_kernels.as_they_are():
                    told(x)
            return results

    constant = constant_kernels.ConstantKernels(WhileOther(), graph_options.ONCE)
    first, second = constant(x).numpy(), constant(x).numpy()
    assert (told is not None) == (constant.made is not None) == is_multiplied()
    np.testing.assert_array_equal(first, second)


def test_a_call_within_a_function(exported):
    loaded = tf.saved_model.load(exported("cased", "bfloat16").version)
    constant = with_constant_kernels(loaded.signatures["encode"])
    traced = tf.function(lambda text: constant(text=text)["pooled_output"])
    text = tf.constant(TEXTS)
    found = traced(text)
    np.testing.assert_allclose(found, constant(text=text)["pooled_output"], atol=0.05)
    check_told(constant)


def test_other_answers_are_not_taken(exported, monkeypatch):
    """Such as those of a TensorFlow whose operations mean something else."""
    loaded = tf.saved_model.load(exported("cased", "bfloat16").version)
    constant = with_constant_kernels(loaded.signatures["encode"])
    monkeypatch.setattr(constant_kernels, "_told", lambda function, graph: lambda text: [
        -value if value.dtype.is_floating else value
        for value in tf.nest.flatten(function(text=text))])
    text = tf.constant(TEXTS)
    first, second = (constant(text=text)["sequence_output"] for _ in range(2))
    assert constant.made is None
    np.testing.assert_array_equal(first, second)


def test_what_has_no_such_kernel_stays(exported):
    function = tf.saved_model.load(exported("bert").version).signatures["encode"]
    assert with_constant_kernels(function) is function


def test_a_function_of_ones_own():
    """Other inputs, outputs and variables; a kernel that is read in a loop stays a variable."""
    kernels = [tf.Variable(tf.cast(tf.reshape(tf.range(6.0), [2, 3]), tf.bfloat16))
               for _ in range(2)]
    scale, bias = tf.Variable(2.0), tf.Variable(tf.ones([3], tf.bfloat16))

    @tf.function(input_signature=[{"b": tf.TensorSpec([None, 2], tf.bfloat16),
                                   "a": tf.TensorSpec([], tf.float32)}])
    def compute(inputs):
        product = tf.cast(tf.nn.bias_add(tf.matmul(inputs["b"], kernels[0]), bias), tf.float32)
        _, other = tf.while_loop(
            lambda turn, _: turn < 1, lambda turn, _: (
                turn + 1, tf.nn.bias_add(tf.matmul(inputs["b"], kernels[1]), bias)),
            (0, tf.zeros([tf.shape(inputs["b"])[0], 3], tf.bfloat16)))
        return [product * scale + inputs["a"], {"other": other}]

    constant = with_constant_kernels(compute.get_concrete_function())
    inputs = {"a": tf.constant(1.0), "b": tf.constant([[1.0, 10.0]], tf.bfloat16)}
    for factor in (1, 2):  # of the second call's scale and of the kernel in the loop
        product, other = constant(inputs)
        # [0 1 2] + 10 · [3 4 5] and the bias.
        kernel = factor if constant.made is None else 1
        np.testing.assert_array_equal(product, [[2 * factor * (kernel * of + 1) + 1
                                                 for of in (30, 41, 52)]])
        np.testing.assert_array_equal(tf.cast(other["other"], tf.float32),
                                      [[factor * of + 1 for of in (30, 41, 52)]])
        for variable in (*kernels, scale):
            variable.assign(2 * variable)
    assert (constant.made is not None) == is_multiplied()


@pytest.mark.parametrize("is_constant", [
    True, pytest.param(False, marks=pytest.mark.long)])
def test_the_server_has_them_and_lets_go_of_them(exported, is_constant):
    version = exported("cased", "bfloat16").version

    def load_and_drop():
        loaded = LoadedVersion(version, constant_kernels=is_constant)
        signatures = loaded.signatures
        for _ in range(2):
            answer = signatures["encode"].run({"text": np.array(TEXTS, object)})
        if is_constant:
            check_told(signatures["encode"].function)
        else:
            assert not hasattr(signatures["encode"].function, "made")
        loaded.close()
        del signatures
        gc.collect()
        return answer["pooled_output"], len(context.context().list_function_names())

    before, functions = load_and_drop()
    after, functions_after = load_and_drop()
    np.testing.assert_allclose(before, after, atol=0.05)
    assert functions_after == functions
