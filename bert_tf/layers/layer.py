"""The base of the layers here: each says its arguments once, in its constructor."""

import inspect

import keras


class Layer(keras.Layer):
    """A Keras layer whose `get_config` is what its constructor was called with.

    Keras does the same of itself, but only where every argument is a plain value, which a `dtype`
    handed on by an outer layer is not.
    """

    def __new__(cls, *args, **kwargs):
        layer = super().__new__(cls, *args, **kwargs)
        bound = inspect.signature(cls.__init__).bind(None, *args, **kwargs)
        bound.apply_defaults()
        # Past `__setattr__`, which Keras tracks only from its own constructor on.
        vars(layer)["_arguments"] = {name: value for name, value in bound.arguments.items()
                                     if name not in ("self", "kwargs")}
        return layer

    def get_config(self):
        """The constructor's arguments, for `from_config`."""
        return {**self._arguments, **super().get_config()}
