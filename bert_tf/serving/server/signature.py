"""A function of a SavedModel as requests call it: checking inputs, running, what goes wrong."""

import contextlib
import functools
import logging
import re
import threading

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import cancellation

from bert_tf.saved_model.graph_options import ONCE, improved
from bert_tf.serving.wire import tensor_proto
from bert_tf.serving.wire.messages import error, quoted
from bert_tf.serving.wire.request import HTTP_STATUS, ServingError

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
_log = logging.getLogger(__name__)
# TensorFlow keeps what may cancel the call under way in one variable of the process
# (`tensorflow/python/eager/cancellation.py`): of no use where several threads call. Here every
# thread has its own.
_OF_THREAD = threading.local()
cancellation.context = lambda: getattr(_OF_THREAD, "manager", None)


class Cancellation:
    """Ends what is called within `around()`, in whichever thread that is."""

    def __init__(self):
        self._manager = cancellation.CancellationManager()

    def cancel(self):
        """Let calls fail with `tf.errors.CancelledError`: between two operations of the graph."""
        self._manager.start_cancel()

    @contextlib.contextmanager
    def around(self):
        _OF_THREAD.manager = self._manager
        try:
            yield
        finally:
            _OF_THREAD.manager = None


class Signature:
    """A function of a SavedModel, with what its inputs must be.

    Args:
        name: of the signature.
        definition: its `SignatureDef`.
        function: takes tensors by name, gives a dict of tensors.
        settings: how often its graph is improved, see `how_often`.

    Attributes:
        inputs: `{name: (NumPy dtype, shape or None)}` in the order of names; a text is `object`,
            an unknown size None.
        outputs: names, sorted.
    """

    def __init__(self, name, definition, function, settings=ONCE):
        self.name = name
        self.definition = definition
        self.function = function
        self._settings = settings
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
                raise error("dtype", alias=alias, wanted=type_name(dtype),
                            given=type_name(value.dtype))
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
            with improved(self._settings), (
                    cancellation.around() if cancellation else contextlib.nullcontext()):
                given = self.function(**tensors)
            return {name: _array(given[name]) for name in outputs or self.outputs}
        except tf.errors.OpError as problem:
            raise serving_error(problem) from problem
        except UnicodeDecodeError as problem:  # what the graph says repeats bytes of an input
            said = problem.object.decode("utf-8", "replace")
            raise quoted("INVALID_ARGUMENT", _told(said)) from problem
        except (TypeError, ValueError) as problem:  # a function of fixed shapes
            raise error("shapes") from problem


class JointSignature:
    """Signatures with the same inputs as one, for a request that needs the outputs of all.

    Args:
        signatures: list of `Signature`; what an error says is the first one's.
    """

    def __init__(self, signatures):
        self._signatures = signatures
        self.name, self.definition = signatures[0].name, signatures[0].definition

    def checked(self, inputs, outputs=()):
        """As of `Signature`."""
        return [each.checked(inputs, outputs) for each in self._signatures][0]

    def run(self, inputs, outputs=(), cancellation=None):
        """As of `Signature`."""
        return {name: value for each in self._signatures
                for name, value in each.run(inputs, outputs, cancellation).items()}


def _array(tensor):
    value = tensor.numpy()
    # A text of rank 0 comes as plain bytes.
    return np.array(value, object) if isinstance(value, bytes) else value


def _tensor_spec(info):
    shape = None
    if not info.tensor_shape.unknown_rank:
        shape = [None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim]
    return np.dtype(tf.as_dtype(info.dtype).as_numpy_dtype), shape


def type_name(dtype):
    """Return what TensorFlow calls the values of a NumPy type."""
    return "string" if dtype.kind == "O" else dtype.name


def _names(names):
    return ", ".join(sorted(names)) or "none"


def serving_error(problem):
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
