"""Checks of a signature's inputs, made before anything else reads them.

Neither TF Serving nor TensorFlow compares what a request holds with the shapes that a signature
states, and kernels of tensorflow-text end the process where a text is no vector. So every signature
is built by `guarded`, and `unguarded` finds in a written graph where that is not so.
"""

import tensorflow as tf

from bert_tf.errors import BertTfError, explain
from bert_tf.saved_model.ops import read_saved_model


def guarded(served, signature):
    """Return the function of a `Signature` after its guards, to be traced with `signature.inputs`.

    What a client gets for other inputs is INVALID_ARGUMENT, and nothing has been computed: all
    inputs have the ranks that the signature states and as many rows, token ids, mask and segment
    ids as many columns, too; ids lie within the model's tables and a mask holds 0 and 1.
    """
    limits = _limits(served.model.config)

    def function(**inputs):
        inputs = {name: tf.raw_ops.EnsureShape(
            input=value, shape=value.shape, name=f"{name}_must_have_shape_{_written(value.shape)}")
            for name, value in inputs.items()}
        checks = [*_same_shapes(inputs), *(_within(name, inputs[name], limits[name])
                                           for name in inputs if name in limits)]
        with tf.control_dependencies(checks):
            # All wait for all: a kernel is not to see the texts while their number is compared.
            return signature.function(
                served, **{name: tf.identity(value) for name, value in inputs.items()})

    return function


def unguarded(saved_model):
    """Return which inputs of the signatures of a SavedModel are read without a check of their rank.

    The graph is read, not run: from the input on, through calls of functions, `EnsureShape` has to
    come first.

    Args:
        saved_model: the folder of any SavedModel.

    Returns: `{signature: [input, …]}`, those without a guard; empty where all have one.
    """
    meta_graph = read_saved_model(saved_model).meta_graphs[0]
    functions = {function.signature.name: function
                 for function in meta_graph.graph_def.library.function}
    found = {}
    for name, signature in meta_graph.signature_def.items():
        open_ = [key for key, info in signature.inputs.items()
                 if not _is_guarded(info.name, meta_graph.graph_def.node, (), functions)]
        if open_ and not name.startswith("__"):  # as the initialisation's are called
            found[name] = sorted(open_)
    return dict(sorted(found.items()))


def check_guards(saved_model):
    """Raise BertTfError if any input of a SavedModel is `unguarded`."""
    found = unguarded(saved_model)
    if found:
        raise BertTfError(explain(
            f"{saved_model} has inputs of any shape, of which some end the process of "
            "tensorflow_model_server: " + "; ".join(
                f"{name}: {', '.join(inputs)}" for name, inputs in found.items()),
            "a graph that checks the shape of every input", "exporting the model again"))


def _limits(config):
    """Return `{input: (its largest value, what that is)}`; the least is 0."""
    return {"input_word_ids": (config.vocab_size - 1, "the vocabulary of the model"),
            "input_type_ids": (max(1, config.type_vocab_size) - 1, "the segments of the model"),
            "input_mask": (1, "1 for a token and 0 for padding")}


def _written(shape):
    """Return `batch` or `batch_length`, as names of nodes may be written."""
    return "_".join(("batch", "length")[:shape.rank])


def _same_shapes(inputs):
    """Check that each input has the rows, and where it has columns those, of the first one."""
    (first, value), *others = inputs.items()
    for name, other in others:
        axes = min(value.shape.rank, other.shape.rank)
        shapes = tf.shape(value), tf.shape(other)
        yield tf.debugging.Assert(
            tf.reduce_all(shapes[0][:axes] == shapes[1][:axes]),
            [f"{first} and {name} must have the same {('rows', 'shape')[axes - 1]}, not", *shapes])


def _within(name, ids, limit):
    most, what = limit
    least, largest = tf.reduce_min(ids), tf.reduce_max(ids)  # of none, the type's limits
    return tf.debugging.Assert((least >= 0) & (largest <= most),
                               [f"{name} must be 0 to {most}, {what}, not", least, largest])


def _is_guarded(tensor, nodes, returned, functions):
    """Return whether a tensor of a graph goes into `EnsureShape` alone, or into nothing.

    Args:
        tensor: its name there.
        nodes: of the graph.
        returned: names of what a function returns, which whoever calls it may read.
        functions: `{name: FunctionDef}`.
    """
    own = tensor.split(":")[0]
    if any(name.split(":")[0] == own for name in returned):
        return False
    return all(_reads_guarded(node, place, nodes, returned, functions)
               for node in nodes for place, name in enumerate(node.input)
               if name.split(":")[0] == own)


def _reads_guarded(node, place, nodes, returned, functions):
    """Return whether what a node does with its input number `place` is a guard, or leads to
    guards."""
    if node.op == "EnsureShape":
        return True
    if node.op == "Identity":
        return _is_guarded(node.name, nodes, returned, functions)
    called = functions.get(node.attr["f"].func.name if "f" in node.attr else node.op)
    return called is not None and _is_guarded(
        called.signature.input_arg[place].name, called.node_def, called.ret.values(), functions)
