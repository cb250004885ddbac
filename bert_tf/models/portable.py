"""Keras models that can be read wherever they were made."""

import abc
import inspect

import keras

import bert_tf


class _AtRoot(abc.ABCMeta):
    """Metaclass: instances are made outside of any `keras.name_scope`, such as that of a `build()`.

    Files know variables and frozen parts by their paths.
    """

    @property
    def __signature__(cls):
        signature = inspect.signature(cls.__init__)  # for `help()`: that of `__call__` says nothing
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    def __call__(cls, *args, **kwargs):
        with keras.name_scope("", override_parent=""):
            return super().__call__(*args, **kwargs)


class Portable(metaclass=_AtRoot):
    """Mixin of Keras models: their paths do not depend on where they are made, and a pickle can be
    read in a process that has not imported what they were compiled with."""

    @classmethod
    def _unpickle_model(cls, bytesio):
        bert_tf.import_public()
        return super()._unpickle_model(bytesio)
