"""One version of a SavedModel in memory: its signatures, checking inputs, running."""

import contextlib
import ctypes
import functools
import gc
import importlib.util
import logging
import os
import re
import threading

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import ops

from bert_tf.errors import BertTfError
from bert_tf.saved_model.constant_kernels import with_constant_kernels
from bert_tf.saved_model.flat_graph import body_of
from bert_tf.serving.server.tf1_saved_model import Tf1SavedModel
from bert_tf.serving.wire import tensor_proto
from bert_tf.serving.wire.messages import error, quoted
from bert_tf.serving.wire.request import HTTP_STATUS, ServingError
from bert_tf.storage import checksums, files

DEFAULT_SIGNATURE = "serving_default"
_CODES = {getattr(tf.errors, name): name for name in HTTP_STATUS}
_TOLD = {"INVALID_ARGUMENT", "OUT_OF_RANGE", "FAILED_PRECONDITION", "UNIMPLEMENTED",
         "RESOURCE_EXHAUSTED", "CANCELLED", "DEADLINE_EXCEEDED"}
# What eager execution says around an error, and what of the server is in it.
_STACK = re.compile(r"^Graph execution error:\s.*?(?:<stack traces unavailable>|\nNode: [^\n]*)\n",
                    re.DOTALL)
_UNTOLD = tuple((re.compile(pattern), instead) for pattern, instead in (
    (r"\s*\[Op:[^\]]*\]( name: [^\n]*)?$", ""), (r"\s*\[\[[^\]]*\]\]", ""),
    (r"\{\{(?:function_)?node [^}]*\}\}\s*", ""), (r"(?<![\w/.])(?:/[\w.+~-]+){2,}", "<path>")))
_MOST_TOLD = 2048  # characters that are looked at: a text of the request may be among them
_LOADING = threading.Lock()
_log = logging.getLogger(__name__)
# The ops of tensorflow-text alone: what its module imports besides takes longer than all of them.
tf.load_library(os.path.join(
    importlib.util.find_spec("tensorflow_text").submodule_search_locations[0], "python", "ops"))


class Signature:
    """A function of a SavedModel, with what its inputs must be.

    Args:
        name: of the signature.
        definition: its `SignatureDef`.
        function: takes tensors by name, gives a dict of tensors.

    Attributes:
        inputs: `{name: (NumPy dtype, shape or None)}` in the order of names; a text is `object`,
            an unknown size None.
        outputs: names, sorted.
    """

    def __init__(self, name, definition, function):
        self.name = name
        self.definition = definition
        self.function = function
        self.inputs = {alias: _tensor_spec(info)
                       for alias, info in sorted(definition.inputs.items())}
        self.outputs = sorted(definition.outputs)

    @functools.cached_property
    def _defaults(self):
        """`{name: np.ndarray}` for inputs that a request may leave out."""
        return tensor_proto.read_all({alias: proto for alias, proto
                                      in self.definition.defaults.items() if alias in self.inputs})

    def checked(self, inputs, outputs=()):
        """All inputs of the signature: those given and, of the rest, the signature's defaults.

        What it cannot take is refused (`PreProcessPrediction`, `GetInputValues`). Shapes are left
        to the graph, as in TensorFlow Serving, but those of texts: operations of tensorflow-text
        end the process on shapes they do not expect.

        Args:
            inputs: `{name: np.ndarray}`, texts as object arrays of bytes.
            outputs: names asked for.

        Returns: `{name: np.ndarray}`.

        Raises:
            ServingError: names, types or shapes are wrong.
        """
        given, inputs = inputs, {**self._defaults, **inputs}
        if inputs.keys() != self.inputs.keys():
            wanted = {f"{alias} (optional)" if alias in self._defaults else alias
                      for alias in self.inputs}
            raise error("inputs", given=_names(given), wanted=_names(wanted))
        for alias, (dtype, shape) in self.inputs.items():
            value = inputs[alias]
            if value.dtype != dtype:
                raise error("dtype", alias=alias, wanted=_type_name(dtype),
                            given=_type_name(value.dtype))
            if dtype.kind == "O" and shape is not None and (len(shape) != value.ndim or any(
                    size not in (None, given)
                    for size, given in zip(shape, value.shape, strict=True))):
                raise error("shape", alias=alias, given=list(value.shape),
                            wanted=str([-1 if size is None else size for size in shape]))
        if outputs:
            for position, alias in enumerate(outputs):
                if alias not in self.definition.outputs:
                    raise error("unknown_output", alias=alias, outputs=_names(self.outputs))
                if alias in outputs[:position]:
                    raise error("output_twice", alias=alias)
        return inputs

    def run(self, inputs, outputs=(), cancellation=None):
        """`{name: np.ndarray}` of all outputs or of those named, for inputs that were checked.

        Args:
            inputs: as `checked` gives them.
            outputs: as of `checked`.
            cancellation: a `Cancellation` by which another thread may end it.

        Raises:
            ServingError: the graph refuses the values.
        """
        try:
            tensors = {name: tf.constant(value) for name, value in inputs.items()}
            with cancellation.around() if cancellation else contextlib.nullcontext():
                given = self.function(**tensors)
            return {name: _array(given[name]) for name in outputs or self.outputs}
        except tf.errors.OpError as problem:
            raise _serving_error(problem) from problem
        except UnicodeDecodeError as problem:  # what the graph says repeats bytes of an input
            said = problem.object.decode("utf-8", "replace")
            raise quoted("INVALID_ARGUMENT", _told(said)) from problem
        except (TypeError, ValueError) as problem:  # a function of fixed shapes
            raise error("shapes") from problem


class LoadedVersion:
    """A SavedModel that was loaded; nothing of it is kept once it is dropped.

    Args:
        path: of the version's folder.
        tags: of the graph in it.
        constant_kernels: whether signatures get `with_constant_kernels`.

    Attributes:
        definitions: `{name: SignatureDef}`, as its metadata are.
        signatures: `{name: Signature}`, those that can be called.
        input_types: `{name: {input: number of its DataType}}` of these.

    Raises:
        ServingError: it cannot be loaded.
    """

    def __init__(self, path, tags=("serve",), constant_kernels=True):
        self.path = path
        _check(path)
        meta_graph = _read_meta_graph(path, tags)
        self.definitions = dict(meta_graph.signature_def)
        try:
            if meta_graph.HasField("object_graph_def"):
                self._loaded = _load(path, tags)
                functions = _functions(self._loaded.signatures, constant_kernels)
            else:
                self._loaded = Tf1SavedModel(path, tags)
                functions = self._loaded.signatures
        except ServingError:
            raise
        except tf.errors.OpError as problem:
            raise _serving_error(problem) from problem
        except Exception as problem:
            # What a damaged file does to the loader.
            raise error("not_loaded") from problem
        self.signatures = {name: Signature(name, self.definitions[name], function)
                           for name, function in functions.items() if name in self.definitions}
        self.input_types = {
            name: {alias: info.dtype for alias, info in signature.definition.inputs.items()}
            for name, signature in self.signatures.items()}

    def close(self):
        """Give the memory back; cycles between functions and graphs hold it otherwise."""
        self.signatures = {}
        if isinstance(self._loaded, Tf1SavedModel):
            self._loaded.close()
        self._loaded = None
        gc.collect()
        _trim_heap()


def _trim_heap():
    """Have glibc return free memory, which it keeps in pieces: versions come and go for weeks."""
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _load(path, tags):
    """`tf.saved_model.load` that leaves nothing behind in TensorFlow's gradient registry.

    Loading registers a gradient for each function, which holds on to the version's graphs for as
    long as the process lives. What is served needs none.
    """
    registry = ops.gradient_registry._registry
    with _LOADING:
        before = set(registry)
        try:
            return tf.saved_model.load(path, tags=list(tags))
        finally:
            for name in set(registry) - before:
                del registry[name]


def _functions(signatures, constant_kernels):
    """`{name: ConcreteFunction}`; names of one graph, such as the default's, share it."""
    if not constant_kernels:
        return dict(signatures)
    bodies = {name: body_of(function).signature.name for name, function in signatures.items()}
    made = {body: with_constant_kernels(signatures[name]) for name, body in bodies.items()}
    return {name: made[body] for name, body in bodies.items()}


def _check(path):
    """Refuse a version of ours that is not as it was written."""
    try:
        checksums.check(path)
    except BertTfError as problem:
        raise error("not_loaded") from problem


def _read_meta_graph(path, tags):
    file = os.path.join(path, "saved_model.pb")
    if not files.exists(file):
        raise error("no_saved_model")
    saved_model = saved_model_pb2.SavedModel()
    try:
        with files.open_binary(file) as stream:
            saved_model.ParseFromString(stream.read())
    except BertTfError as problem:
        raise error("not_loaded") from problem
    except Exception as problem:  # DecodeError is private to the implementation in use
        raise error("saved_model") from problem
    for meta_graph in saved_model.meta_graphs:
        if set(meta_graph.meta_info_def.tags) == set(tags):
            return meta_graph
    raise error("tags", tags=" ".join(tags))


def _array(tensor):
    value = tensor.numpy()
    # A text of rank 0 comes as plain bytes.
    return np.array(value, object) if isinstance(value, bytes) else value


def _tensor_spec(info):
    shape = None
    if not info.tensor_shape.unknown_rank:
        shape = [None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim]
    return np.dtype(tf.as_dtype(info.dtype).as_numpy_dtype), shape


def _type_name(dtype):
    return "string" if dtype.kind == "O" else dtype.name


def _names(names):
    return ", ".join(sorted(names)) or "none"


def _serving_error(problem):
    """TensorFlow's error as a client may see it.

    What is no fault of the request is not told at all.
    """
    code = _CODES.get(problem.error_code, "UNKNOWN")
    if code not in _TOLD:
        _log.error("a model failed", exc_info=problem)
        return ServingError(code, error("failed").message)
    return quoted(code, _told(str(problem.message)))


def _told(text):
    """What TensorFlow says without stacks, names of nodes and paths."""
    text = _STACK.sub("", text)[:_MOST_TOLD]
    for pattern, instead in _UNTOLD:
        text = pattern.sub(instead, text)
    return text.strip()
