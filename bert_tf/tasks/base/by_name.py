"""Arguments of Keras' methods by their names, in whichever way they are given."""

import functools
import inspect

import keras


def by_name(method):
    """Decorate a method of `keras.Model`'s name, such as `fit`: by its name comes also what is
    given by position."""
    signature = inspect.signature(getattr(keras.Model, method.__name__))

    @functools.wraps(method)
    def named(self, *args, **kwargs):
        try:
            arguments = signature.bind(self, *args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{method.__name__}: {error}") from None
        further = arguments.pop("kwargs", {})
        return method(**arguments, **further)

    named.__signature__ = signature
    return named
