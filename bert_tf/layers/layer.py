"""The base of the layers here: each says its arguments once, in its constructor."""

import inspect

import keras

from bert_tf.errors import UsageError, explain


class DenseSpecs:
    """Mixin of Keras layers and models, none of which takes sparse tensors: Keras (3.15) says that
    a symbolic tensor times a number is one."""

    def compute_output_spec(self, *args, **kwargs):
        """See Keras."""
        args, kwargs = keras.tree.map_structure(_dense, (args, kwargs))
        return super().compute_output_spec(*args, **kwargs)


def _dense(value):
    """Return a symbolic tensor as a dense one, of the same shape; anything else as it is."""
    if isinstance(value, keras.KerasTensor) and value.sparse:
        return keras.KerasTensor(value.shape, value.dtype)
    return value


class Layer(DenseSpecs, keras.Layer):
    """A Keras layer whose `get_config` is what its constructor was called with.

    Keras does the same of itself, but only where every argument is a plain value, which a `dtype`
    handed on by an outer layer is not. What a subclass takes as `**kwargs` is given under its own
    names; what it takes as `*args` has none, so that `get_config` refuses it.
    """

    def __new__(cls, *args, **kwargs):
        layer = super().__new__(cls, *args, **kwargs)
        signature = inspect.signature(cls.__init__)
        bound = signature.bind(None, *args, **kwargs)
        bound.apply_defaults()
        arguments, unnamed = {}, ()
        for name, value in list(bound.arguments.items())[1:]:  # without `self`
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                unnamed = value
            else:
                arguments |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
        # Past `__setattr__`, which Keras tracks only from its own constructor on.
        vars(layer).update(_arguments=arguments, _unnamed=unnamed)
        return layer

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        # Keras notes the scope that it is in.
        if getattr(getattr(self, "_remat_mode", None), "mode", None) is not None:
            raise UsageError(explain(
                "a model that is built within keras.RematScope, which cannot recompute its layers",
                "one that is built outside of it", "model.backbone.gradient_checkpointing = True"))

    def get_config(self):
        """The constructor's arguments, for `from_config`.

        Raises:
            TypeError: the constructor of a subclass was given some as `*args`.
        """
        if self._unnamed:
            raise TypeError(f"{type(self).__name__}(*args) was called with {self._unnamed!r}, "
                            "which get_config has no names for; expected keyword arguments")
        return {**self._arguments, **super().get_config()}
