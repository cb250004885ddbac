"""Kernels that do not change: what a function that only computes may know of its weights.

Before each product oneDNN brings the kernel into the order that the processor's matrix unit takes.
Where it is told that the kernel stays as it is (`is_filter_const`), it keeps the result. TensorFlow
tells it so of constants alone: a variable, which might change, it brings into order at every call.
In bfloat16 that takes a third of the time of a large batch and half of that of one sentence; in
float32 nothing is gained. As constants, kernels would be in each of a dozen copies of the graph: of
BERT-Base 1.7 GB and ten seconds for a function. So they stay variables, and the products of the
graph that TensorFlow made for the first call are told.
"""

import logging
import threading

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import op_def_registry

from bert_tf.saved_model.function_bodies import body_of, library_of
from bert_tf.saved_model.graph_options import as_they_are, called_with, how_often, own_options

_PRODUCT = "_MklNativeFusedMatMul"  # oneDNN's, with a bias and what else comes after it
# Operations that have a state, and leave it as it is.
_READING = {"_Arg", "_Retval", "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "Assert",
            "DeviceIndex", "LookupTableFindV2", "LookupTableSizeV2", "If", "While",
            "StatefulPartitionedCall"}
_BETWEEN_DEVICES = ("_Send", "_Recv", "_HostSend", "_HostRecv")
_COLLECTING = threading.Lock()  # graphs, of the whole process
_MOST_OFF = 0.1  # of the largest number: another way to round, no other kernel
_log = logging.getLogger(__name__)


def with_constant_kernels(function):
    """Return the same function, whose kernels in bfloat16 are as they are at its first call.

    They are in memory once more then, as oneDNN orders them. Those that are read in a loop or a
    branch may change. Where TensorFlow leaves products to other libraries, and where operations
    change something (a variable, a queue, what is printed), the function stays as it is.

    Args:
        function: a `ConcreteFunction`, such as a signature of a loaded SavedModel. What owns its
            variables, there the loaded model, must be kept as for the function itself.

    Returns: a callable with the same arguments and results; `function` itself where it has no
        such kernels.
    """
    bodies = (body_of(function), *library_of(function).values())
    return ConstantKernels(function, how_often(bodies)) if any(
        node.op == "MatMul" and node.attr["T"].type == tf.bfloat16.as_datatype_enum
        for body in bodies for node in body.node_def) else function


class ConstantKernels:
    """What `with_constant_kernels` returns.

    The first call is one of the function itself, for whose inputs TensorFlow makes the graph.

    Args:
        function: see there.
        settings: how often its graph is improved, see `how_often`.

    Attributes:
        is_made: whether it was found out what later calls run.
        made: that, a function from flat inputs to flat outputs; or None where the function itself
            has to do.
    """

    def __init__(self, function, settings):
        self._function, self._graph, self._lock = function, None, threading.Lock()
        self._options = own_options(settings)
        self._specs = tf.nest.flatten(function.structured_input_signature)
        self.is_made, self.made = False, None

    def __call__(self, *args, **kwargs):
        if not tf.executing_eagerly():
            return self._function(*args, **kwargs)
        if not self.is_made:
            with self._lock:
                if not self.is_made:
                    return self._first_call(args, kwargs)
        given = self._fitting(args, kwargs) if self.made else None
        if given is None:  # the function itself has to do, or says what is wrong with them
            with called_with(self._options):
                return self._function(*args, **kwargs)
        return self._later_call(self.made, given)

    def _fitting(self, args, kwargs):
        """Return the inputs as flat tensors, or None if they are none of the function's."""
        try:
            tf.nest.assert_same_structure((args, kwargs),
                                          self._function.structured_input_signature)
            given = [tf.convert_to_tensor(value, spec.dtype) for value, spec in zip(
                tf.nest.flatten((args, kwargs)), self._specs, strict=True)]
        except (TypeError, ValueError):
            return None
        fit = all(spec.shape.is_compatible_with(value.shape)
                  for value, spec in zip(given, self._specs, strict=True))
        return given if fit else None

    def _later_call(self, made, given):
        with as_they_are():  # it was improved before
            results = made(*given)
        return tf.nest.pack_sequence_as(self._function.structured_outputs, results)

    def _first_call(self, args, kwargs):
        eager = context.context()
        eager.ensure_initialized()
        with _COLLECTING:
            eager.enable_graph_collection()
            try:
                with called_with(self._options):  # by others it may have been made before
                    results = self._function(*args, **kwargs)
            finally:
                graphs = eager.export_run_metadata().function_graphs
                eager.disable_graph_collection()
                # It is made for a call that fails, too, and for the next one no more.
                self._graph = self._own(graphs) or self._graph
        try:
            graph = self._graph
            made = graph and _only_reads(graph) and _told(self._function, graph)
            if made and _are_near(self._later_call(made, self._fitting(args, kwargs)), results):
                self.made = made
        except tf.errors.CancelledError:
            return results  # which the next call may not be
        except Exception:  # whatever another build of TensorFlow has against it
            _log.debug("kernels stay variables", exc_info=True)
        self.is_made, self._graph = True, None
        return results

    def _own(self, graphs):
        """Return the graph of the function among those that were made meanwhile; None if it is
        on several devices.

        Others may be of functions of the same types that were told in another thread.
        """
        function = self._function
        inputs, outputs = (dict(enumerate(each.dtype.as_datatype_enum for each in tensors))
                           for tensors in (function.inputs, function.outputs))
        parts = [part for graph in graphs for part in graph.partition_graphs]
        # Of the inputs those may lack that nothing is made of.
        return next((part for part in reversed(parts) if _types(part, "_Retval") == outputs
                     and _types(part, "_Arg").items() <= inputs.items() and not any(
                         node.op in _BETWEEN_DEVICES for node in part.node)
                     and not _is_told(part)), None)


def _types(graph, op):
    """Return the types of its arguments or results by their numbers."""
    return {node.attr["index"].i: node.attr["T"].type for node in graph.node if node.op == op}


def _is_told(graph):
    """Return whether a product knows that its kernel stays, which is no constant."""
    constants = {node.name for node in graph.node if node.op == "Const"}
    return any(node.op == _PRODUCT and node.attr["is_filter_const"].b
               and node.input[1].partition(":")[0] not in constants for node in graph.node)


def _only_reads(graph):
    """Return whether it may be run twice: the first time to see that it gives the same."""
    bodies = (graph.node, *(function.node_def for function in graph.library.function))
    operations = {node.op for body in bodies for node in body} - _READING
    return not any(op_def_registry.get(each) is None or op_def_registry.get(each).is_stateful
                   for each in operations)


def _told(function, graph):
    """Return a function from flat inputs to flat outputs by a graph of `function` whose products
    are told that their kernels stay; None where it has no such product."""
    nodes = {node.name: node for node in graph.node}
    inputs = [*[None] * (len(function.inputs) - len(function.captured_inputs)),
              *function.captured_inputs]
    casts, names, results, told = {}, {}, {}, False
    kept = tf.compat.v1.GraphDef(versions=graph.versions, library=graph.library)
    for node in graph.node:
        if node.op == "_Arg":
            names[f"{node.name}:0"] = node.attr["index"].i
        elif node.op == "_Retval":
            results[node.attr["index"].i] = _tensor(node.input[0])
        else:
            kept.node.append(node)
    for node in kept.node:
        if node.op == _PRODUCT and node.attr["T"].type == tf.bfloat16.as_datatype_enum:
            told |= _tell(node, nodes, names, inputs, casts)
        node.device = ""
        node.input[:] = [each for each in node.input if f"{each.removeprefix('^')}:0" not in names
                         or not each.startswith("^")]
    if not told:
        return None
    read = {_tensor(each) for node in kept.node for each in node.input}

    def call(*given):
        capture = tf.compat.v1.get_default_graph().capture
        given = [*given, *map(capture, function.captured_inputs)]
        tensors = {name: given[index] for name, index in names.items() if name in read}
        tensors |= {name: capture(cast) for name, cast in casts.items()}
        return tf.graph_util.import_graph_def(
            kept, tensors, [results[index] for index in sorted(results)], name="")

    # Unlike `tf.function` this lets nothing wait for what may be in a branch that is not taken.
    return tf.compat.v1.wrap_function(call, tf.nest.flatten(function.structured_input_signature))


def _tell(product, nodes, names, inputs, casts):
    """Tell a product that its kernel stays, if that is a variable; return whether it is."""
    right = read = nodes[product.input[1].partition(":")[0]]
    if right.op == "Cast":  # such as of the table of tokens, where it is a kernel too
        read = nodes[right.input[0].partition(":")[0]]
    variable = names.get(_tensor(read.input[0])) if read.op == "ReadVariableOp" else None
    if variable is None or inputs[variable] is None:
        return False
    if right is not read:
        casts[f"{right.name}:0"] = tf.cast(tf.raw_ops.ReadVariableOp(
            resource=inputs[variable], dtype=read.attr["dtype"].type), tf.bfloat16)
    product.attr["is_filter_const"].b = True
    return True


def _tensor(name):
    return name if ":" in name or name.startswith("^") else f"{name}:0"


def _are_near(found, expected):
    """Return whether two results have the same shapes and floats that are nearly the same; without
    floats, whether they are the same."""
    pairs = list(zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True))
    if any(one.shape != other.shape for one, other in pairs):
        return False
    floats = [(tf.cast(one, tf.float32).numpy(), tf.cast(other, tf.float32).numpy())
              for one, other in pairs if one.dtype.is_floating]
    if not floats:
        return all(np.array_equal(one.numpy(), other.numpy()) for one, other in pairs)
    return all(np.allclose(one, other, rtol=0, equal_nan=True, atol=_MOST_OFF * np.abs(
        other[np.isfinite(other)]).max(initial=0)) for one, other in floats)
