"""LayerNorm in exported graphs: one kernel of a CPU, plain steps where there is another device."""

import numpy as np
import pytest
import tensorflow as tf
from processor_marks import needs_onednn
from tensorflow.python.eager import context

from bert_tf.layers.inference import for_inference
from bert_tf.layers.layer_norm import LayerNorm, normalized
from bert_tf.saved_model.ops import used_ops
from bert_tf.saved_model.served_layer_norm import served_layer_norm

pytestmark = pytest.mark.graphs_improved

RANDOM = np.random.default_rng(0)


def served(jit_compile=False):
    norm = LayerNorm()
    norm.build((None, 768))
    norm.gamma.assign(RANDOM.normal(size=768))
    norm.beta.assign(RANDOM.normal(size=768))
    function = tf.function(lambda x: norm(x) + 0.0, autograph=False, jit_compile=jit_compile,
                           input_signature=[tf.TensorSpec([None, 768])])
    with for_inference(served_layer_norm):
        function.get_concrete_function()
    return norm, function


def kernels_of(function, x):
    """The result, and the ops that were run."""
    context.context().enable_run_metadata()
    try:
        result = function(x)
        graphs = context.context().export_run_metadata().partition_graphs
    finally:
        context.context().disable_run_metadata()
    return result, {node.op for graph in graphs for node in graph.node}


@needs_onednn
def test_one_kernel_on_a_cpu():
    norm, function = served()
    many, few = (tf.constant(RANDOM.normal(size=(rows, 768)) + 3, tf.float32) for rows in (300, 3))
    result, ops = kernels_of(function, many)
    assert "FusedBatchNormV3" not in ops and "_MklLayerNorm" in ops
    np.testing.assert_allclose(result, norm(many), atol=1e-5)
    np.testing.assert_allclose(function(few), norm(few), atol=1e-5)


def test_plain_steps_under_xla():
    """Where a mean far from zero would be lost in batch normalization."""
    x = (RANDOM.normal(size=(300, 768)) + 100).astype("float32")
    norm, function = served(jit_compile=True)
    centred = x - x.mean(-1, keepdims=True, dtype="float64")
    want = centred / np.sqrt((centred ** 2).mean(-1, keepdims=True)) * norm.gamma + norm.beta
    # What float32 has of a mean of 100, times gamma.
    bound = 5e-5 * np.maximum(1, np.abs(norm.gamma.numpy()))
    assert (np.abs(function(x).numpy() - np.array(want)) <= bound).all()


@pytest.mark.parametrize("dtype", [
    "float32", pytest.param("bfloat16", marks=pytest.mark.long)])
def test_only_exports_ask_for_their_device(exported, dtype):
    ops = used_ops(exported("bert", dtype).version)
    assert {"DeviceIndex", "FusedBatchNormV3"} <= ops
    x, one = tf.zeros([300, 768]), tf.ones([768])
    plain = tf.function(normalized, autograph=False).get_concrete_function(x, one, one, 1e-12)
    ops = {op.type for op in plain.graph.get_operations()}
    assert not {"DeviceIndex", "FusedBatchNormV3"} & ops
