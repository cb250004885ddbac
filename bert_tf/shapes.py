"""The letters that shapes are written in, and checks of shapes and numbers that name what is wrong.

B batch   F, T from and to positions   S sequence   N heads   H head size   D hidden
I intermediate   V vocabulary   P predictions a sequence   K real tokens in a batch
"""

from bert_tf.errors import BertTfError, explain


def sizes_of(tensor):
    """The sizes of a tensor's axes, integers where they are known, else scalar int32 tensors."""
    import tensorflow as tf

    sizes = tf.shape(tensor)
    return [sizes[axis] if known is None else known for axis, known in enumerate(tensor.shape)]


def check_rank(name, tensor, rank):
    """Raise ValueError unless `tensor` has `rank` axes (google-research/bert `assert_rank`)."""
    actual = len(tensor.shape)
    if actual != rank:
        raise ValueError(
            f"{name} has rank {actual}, shape {tuple(tensor.shape)}; expected rank {rank}"
        )
    return tensor


def check_shape(name, tensor, other, like):
    """Raise ValueError unless `tensor` may be of the same shape as `like`, which is called `other`.
    """
    if not tensor.shape.is_compatible_with(like.shape):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {tuple(like.shape)}, "
                         f"that of {other}")


def check_finite(numbers, what):
    """Raise BertTfError where one of an array's numbers is NaN or infinite.

    Args:
        numbers: NumPy array of any shape.
        what: begins the message, such as `the model gives vectors`.
    """
    import numpy as np

    if not np.isfinite(numbers).all():
        raise BertTfError(explain(f"{what} that are not finite",
                                  "a model that was trained without overflow"))


def check_weights(model, path):
    """Raise BertTfError where a weight of a Keras model is NaN or infinite.

    Of such a model what is predicted need not show it: the largest of NaN is the first label. What
    reads a model to predict, to measure, to draw or to export asks here; `from_pretrained` alone
    does not, so that such a model can be looked at.

    Args:
        model: a Keras model, such as was read from `path`.
        path: begins the message.
    """
    for weight in model.weights:
        check_finite(weight.numpy(), f"{path}: {weight.path} holds numbers")
