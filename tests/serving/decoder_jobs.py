"""What tests have a `Decoder` do; its processes import this and no TensorFlow."""

import os
import signal
import time

from bert_tf.serving.server import codec
from bert_tf.serving.wire.request import ServingError


def process(data, packed=False):
    """What a decoder is asked for here: which process runs it."""
    return os.getpid()


def dies(*_):
    os._exit(1)


def is_told_to_stop(data):
    os.kill(os.getpid(), signal.SIGTERM)
    return os.getpid()


def hangs(data):
    time.sleep(600)  # ended long before


def fails(data):
    raise ServingError("OUT_OF_RANGE", f"{len(data)} bytes")


def breaks(data):
    raise ZeroDivisionError("/secret/path")


def takes_too_much(data):
    return bytearray(codec._MOST_MEMORY)
