"""Weights as constants of a graph: what a function that only computes may know about them.

Before each product oneDNN brings the kernel into the order that the processor's matrix unit takes.
Of a constant TensorFlow keeps the result (`is_filter_const` of its fused products), of a variable,
which might change, it does so again at every call. In bfloat16 that takes a third of the time of a
large batch and half of that of one sentence; in float32 nothing is gained.
"""

import tensorflow as tf

from bert_tf.saved_model.flat_graph import body_of, flat_graph, library_of


def with_constant_kernels(function):
    """Return the same function with the kernels of its products, as they are now, as constants.

    They are in memory once more then, and again as oneDNN orders them. Kernels that are read in a
    loop or a branch stay variables, and so do those that are not bfloat16.

    Args:
        function: a `ConcreteFunction`, such as a signature of a loaded SavedModel. What owns its
            variables, there the loaded model, must be kept as for the function itself.

    Returns: a `ConcreteFunction` with the same inputs and outputs; `function` itself where it has
        no such kernels.
    """
    body, library = body_of(function), library_of(function)
    if not any(_is_product(node) for each in (body, *library.values()) for node in each.node_def):
        return function  # before the work of making one graph
    definition, outputs = flat_graph(body, library)
    arguments = [f"{argument.name}:0" for argument in body.signature.input_arg]
    captured = dict(zip(arguments[-len(function.captured_inputs):], function.captured_inputs,
                        strict=True)) if function.captured_inputs else {}
    kernels = _kernels(definition, captured)
    if not kernels:
        return function
    args, kwargs = function.structured_input_signature

    def rebuilt(*args, **kwargs):
        capture = tf.compat.v1.get_default_graph().capture
        tensors = dict(zip(arguments, tf.nest.flatten((args, kwargs)), strict=False))
        tensors |= {name: capture(tensor) for name, tensor in captured.items()}
        tensors |= {name: tf.constant(kernel) for name, kernel in kernels.items()}
        found = tf.graph_util.import_graph_def(definition, tensors, outputs, name="")
        return tf.nest.pack_sequence_as(function.structured_outputs, found)

    return tf.function(rebuilt, autograph=False).get_concrete_function(*args, **kwargs)


def _is_product(node):
    return node.op == "MatMul" and node.attr["T"].type == tf.bfloat16.as_datatype_enum


def _kernels(definition, captured):
    """Return `{name of the reading node: EagerTensor}` of the right sides of products."""
    nodes = {node.name: node for node in definition.node}
    found = {}
    for node in definition.node:
        if not _is_product(node):
            continue
        right = read = nodes[node.input[1].partition(":")[0]]
        if right.op == "Cast":  # such as of the table of tokens, where it is a kernel too
            read = nodes[right.input[0].partition(":")[0]]
        if read.op == "ReadVariableOp" and read.input[0] in captured:
            value = tf.raw_ops.ReadVariableOp(resource=captured[read.input[0]],
                                              dtype=read.attr["dtype"].type)
            found[f"{right.name}:0"] = tf.cast(value, tf.bfloat16)
    return found
