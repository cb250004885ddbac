"""Marks of tests that depend on what TensorFlow's kernels do on this processor."""

import pytest
from tensorflow.python.util import _pywrap_util_port

from bert_tf.storage.processor import lacks_vnni

needs_vnni = pytest.mark.skipif(lacks_vnni(), reason="no VNNI: products of int8 overflow")
# TensorFlow has oneDNN on by default where there are instructions for neural networks.
needs_onednn = pytest.mark.skipif(not _pywrap_util_port.IsMklEnabled(),
                                  reason="oneDNN is off on this processor")
