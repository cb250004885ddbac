"""How far TensorFlow improves the graph of a function before its first run."""

import contextlib
import functools
import itertools

from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python.eager import context

ONCE = (("meta_optimizer_iterations", rewriter_config_pb2.RewriterConfig.ONE),)
TWICE = (("meta_optimizer_iterations", rewriter_config_pb2.RewriterConfig.TWO),)
_NEVER = (("disable_meta_optimizer", True),)
_number = itertools.count(1)


def how_often(bodies):
    """Return how often TensorFlow is to improve the graph of these `FunctionDef`s, `ONCE` or
    `TWICE`.

    A second time takes a third of the first call and makes later ones faster only where there is
    the tanh form of gelu: it goes into the product before it once that has taken its bias in, which
    the first time does.
    """
    return TWICE if any(node.op == "Tanh" and "gelu" in node.name.lower()
                        for body in bodies for node in body.node_def) else ONCE


def improved(settings):
    """Functions called in this block by this thread are improved so often, see `how_often`."""
    return called_with(_kept_options(settings))


def as_they_are():
    """Functions called in this block by this thread are not improved."""
    return called_with(_kept_options(_NEVER))


def own_options(settings):
    """Return those of `improved` for `called_with`, under which graphs are made that were made
    under others before: they are kept by function and options."""
    return _options(settings, next(_number))


@contextlib.contextmanager
def called_with(options):
    """Functions called in this block by this thread have these `FunctionCallOptions`."""
    eager = context.context()
    before = eager.function_call_options
    eager.function_call_options = options
    try:
        yield
    finally:
        eager.function_call_options = before


def _options(settings, number=0):
    config = context.context().config
    config.allow_soft_placement = True  # TensorFlow's default for functions
    config.experimental.session_metadata.version = number
    for name, value in settings:
        setattr(config.graph_options.rewrite_options, name, value)
    return context.FunctionCallOptions(config_proto=config)


_kept_options = functools.cache(_options)
