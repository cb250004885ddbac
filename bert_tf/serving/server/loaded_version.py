"""One version of a SavedModel in memory."""

import gc
import importlib.util
import os
import threading

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import ops

from bert_tf.saved_model.constant_kernels import with_constant_kernels
from bert_tf.saved_model.function_bodies import body_of
from bert_tf.saved_model.graph_options import how_often
from bert_tf.saved_model.ops import OVERFLOWS, overflows_here
from bert_tf.serving.server import memory
from bert_tf.serving.server.signature import JointSignature, Signature, serving_error
from bert_tf.serving.server.tf1_saved_model import Tf1SavedModel
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError
from bert_tf.storage import checksums, files

_LOADING = threading.Lock()
# The ops of tensorflow-text alone: what its module imports besides takes longer than all of them.
tf.load_library(os.path.join(
    importlib.util.find_spec("tensorflow_text").submodule_search_locations[0], "python", "ops"))


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
        ServingError: it cannot be loaded, or this processor would compute it wrongly.
    """

    def __init__(self, path, tags=("serve",), constant_kernels=True):
        self.path = path
        try:
            checksums.check(path)  # as it was written, if we wrote it
            meta_graph = _read_meta_graph(path, tags)
            if overflows_here(meta_graph):
                raise error("overflows", problem=OVERFLOWS)
            self.definitions = dict(meta_graph.signature_def)
            if meta_graph.HasField("object_graph_def"):
                self._loaded = _load(path, tags)
                functions = _functions(self._loaded.signatures, constant_kernels)
            else:
                self._loaded = Tf1SavedModel(path, tags)
                functions = self._loaded.signatures
        except ServingError:
            raise
        except tf.errors.OpError as problem:
            raise serving_error(problem) from problem
        except Exception as problem:
            # What a damaged file does to the loader, too.
            raise error("not_loaded") from problem
        settings = how_often(meta_graph.graph_def.library.function)
        self.signatures = {name: Signature(name, self.definitions[name], function, settings)
                           for name, function in functions.items() if name in self.definitions}
        self._joint = {}
        self.input_types = {
            name: {alias: info.dtype for alias, info in signature.definition.inputs.items()}
            for name, signature in self.signatures.items()}

    def signature(self, name, *also):
        """The `Signature` of a name, with others of the same inputs a `JointSignature`.

        Raises:
            ServingError: one of them is not there.
        """
        names = (name, *also)
        for each in names:
            if each not in self.signatures:
                raise error("no_signature", signature=each)
        if not also:
            return self.signatures[name]
        if names not in self._joint:  # one object, by which requests are merged
            self._joint[names] = JointSignature([self.signatures[each] for each in names])
        return self._joint[names]

    def close(self):
        """Give the memory back; cycles between functions and graphs hold it otherwise."""
        self.signatures, self._joint = {}, {}
        if isinstance(self._loaded, Tf1SavedModel):
            self._loaded.close()
        self._loaded = None
        gc.collect()
        memory.give_back()


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


def _read_meta_graph(path, tags):
    file = os.path.join(path, "saved_model.pb")
    if not files.exists(file) and os.access(path, os.X_OK):  # else it says who may not read it
        raise error("no_saved_model")
    with files.open_binary(file) as stream:
        data = stream.read()
    saved_model = saved_model_pb2.SavedModel()
    try:
        saved_model.ParseFromString(data)
    except Exception as problem:  # DecodeError is private to the implementation in use
        raise error("saved_model") from problem
    for meta_graph in saved_model.meta_graphs:
        if set(meta_graph.meta_info_def.tags) == set(tags):
            return meta_graph
    raise error("tags", tags=" ".join(tags))
