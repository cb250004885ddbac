"""How far TensorFlow improves the graph of a function before its first run."""

import contextlib
import functools
import itertools

from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python.eager import context

_ONCE = (("meta_optimizer_iterations", rewriter_config_pb2.RewriterConfig.ONE),)
_NEVER = (("disable_meta_optimizer", True),)
_number = itertools.count(1)


def improved_once():
    """Functions called in this block by this thread are improved once, not twice.

    A second time takes a third of that first call and makes none of the later ones faster.
    """
    return _called_with(_options(_ONCE))


def made_anew():
    """As `improved_once`, and their graphs are made in this block even if they were before."""
    return _called_with(_options(_ONCE, next(_number)))


def as_they_are():
    """Functions called in this block by this thread are not improved."""
    return _called_with(_options(_NEVER))


@contextlib.contextmanager
def _called_with(options):
    eager = context.context()
    before = eager.function_call_options
    eager.function_call_options = options
    try:
        yield
    finally:
        eager.function_call_options = before


@functools.lru_cache(4)
def _options(settings, number=0):
    config = context.context().config
    config.allow_soft_placement = True  # TensorFlow's default for functions
    # Graphs are kept by function and options.
    config.experimental.session_metadata.version = number
    for name, value in settings:
        setattr(config.graph_options.rewrite_options, name, value)
    return context.FunctionCallOptions(config_proto=config)
