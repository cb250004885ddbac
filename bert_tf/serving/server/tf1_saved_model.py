"""SavedModels of TensorFlow 1: a graph in a session, not functions.

Variables may be references, tables and assets are initialised by what the graph says (`main_op`,
`legacy_init_op`): `tf.saved_model.load` takes only some of them, a session all, as TensorFlow
Serving runs them.
"""

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2


class Tf1SavedModel:
    """A graph and its session.

    Args:
        path: of the version's folder.
        tags: of the graph in it.

    Attributes:
        signatures: `{name: function}`, each from tensors by name to a dict of tensors. Shapes are
            not compared with the signature's: what does not fit fails in the graph.
    """

    def __init__(self, path, tags):
        with tf.Graph().as_default() as graph:
            self._session = tf.compat.v1.Session(graph=graph)
            loaded = tf.compat.v1.saved_model.loader.load(self._session, list(tags), path)
        self.signatures = {name: self._function(definition)
                           for name, definition in loaded.signature_def.items()}

    def _function(self, definition):
        inputs, outputs = sorted(definition.inputs), sorted(definition.outputs)
        run = self._session._make_callable_from_options(config_pb2.CallableOptions(
            feed=[definition.inputs[name].name for name in inputs],
            fetch=[definition.outputs[name].name for name in outputs]))

        def function(**given):
            values = run(*(given[name].numpy() for name in inputs))
            return {name: tf.constant(value) for name, value in zip(outputs, values, strict=True)}

        return function

    def close(self):
        """Let the variables go."""
        self.signatures = {}
        self._session.close()
