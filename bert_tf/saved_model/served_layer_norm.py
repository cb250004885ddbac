"""LayerNorm as one kernel of a CPU, in graphs that are exported.

On a CPU TensorFlow (grappler's remapper) replaces LayerNorm by a kernel of oneDNN where it is
written as batch normalization: each token a channel of an image of height D, which training mode
brings to mean 0 and variance 1. A GPU would compute just that, a channel a token, and XLA cancels
where the mean is large beside the deviation. So the graph asks where it runs.
"""

import functools

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from bert_tf.layers.layer_norm import normalized

# Numbers from which on one kernel, which is prepared at every call, beats ten small ones.
_LARGE = 1 << 16


def served_layer_norm(tokens, gamma, beta, epsilon):
    """Return a kernel for `inference.for_inference`: the one that suits the device and so many
    numbers."""
    # 0 on a CPU; XLA, whatever the device, has the length of the list.
    device = tf.raw_ops.DeviceIndex(device_names=["CPU", "GPU"])
    in_one = tf.logical_and(device == 0, tf.size(tokens) >= _LARGE)
    # `tf.cond` would trace both ways anew at every place, half of what a whole layer takes.
    ways = [_traced(way, tokens.dtype, tokens.shape[1], epsilon) for way in (_in_one, normalized)]
    output, = tf.raw_ops.StatelessIf(
        cond=in_one, input=[tokens, gamma, beta], Tout=[tokens.dtype], then_branch=ways[0],
        else_branch=ways[1], output_shapes=[tokens.shape])
    # As `tf.cond` has it: the branches become part of the graph when it is run.
    output.op._set_attr("_lower_using_switch_merge", attr_value_pb2.AttrValue(b=True))
    return output


@functools.cache
def _traced(way, dtype, width, epsilon):
    """Trace `way` for any number of tokens."""
    with tf.init_scope():
        return tf.function(functools.partial(way, epsilon=epsilon), autograph=False
                           ).get_concrete_function(tf.TensorSpec([None, width], dtype),
                                                   *[tf.TensorSpec([width])] * 2)


def _in_one(tokens, gamma, beta, epsilon):
    """Compute it in the form that TensorFlow's remapper looks for.

    It wants scale and offset as `Fill`, which a known number of tokens would turn into constants:
    so it is hidden.
    """
    count = tf.raw_ops.PlaceholderWithDefault(input=tf.shape(tokens)[:1], shape=[1])
    images = tf.reshape(tokens, tf.concat([[1], count, [tokens.shape[1], 1]], 0))
    empty = tf.constant([], tf.float32)
    normal = tf.raw_ops.FusedBatchNormV3(
        x=images, scale=tf.fill(count, 1.0), offset=tf.fill(count, 0.0), mean=empty,
        variance=empty, epsilon=epsilon, data_format="NCHW", is_training=True).y
    normal = tf.reshape(normal, tf.shape(tokens))
    return normal * tf.cast(gamma, tokens.dtype) + tf.cast(beta, tokens.dtype)
