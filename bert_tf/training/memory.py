"""Memory of the devices: what to say where there is too little, and giving it back."""

import contextlib

import tensorflow as tf

from bert_tf.errors import BertTfError, explain

# What does not fit, and what to try then.
MODEL = "the model with the optimizer's state", "a smaller model or a device with more memory"
STEP = "a step", ("dtype=bfloat16, a smaller batch_size or, where the command has them, a larger "
                  "accumulate_steps or gradient_checkpointing")


@contextlib.contextmanager
def explained_want_of_memory(of):
    """Turn TensorFlow's error into one line with what to try.

    Args:
        of: `MODEL`, `STEP` or another pair of str: what does not fit, and what to try.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        what, attempt = of
        raise BertTfError(explain(f"out of memory: {what} does not fit on the device",
                                  attempt=attempt)) from error


def let_go(strategy, variables):
    """Free the memory of Keras variables that are not used any more.

    TensorFlow keeps what a graph has captured until the process ends, so that each training in it
    would cost a model and its moments.
    """
    for variable in variables:
        for part in strategy.experimental_local_results(variable.value):
            tf.raw_ops.AssignVariableOp(resource=part.handle, value=tf.zeros([], part.dtype))
