"""Marks of tests that depend on what TensorFlow's kernels do on this processor."""

import pytest
from tensorflow.python.util import _pywrap_util_port

from bert_tf.storage.processor import lacks_vnni

needs_vnni = pytest.mark.skipif(lacks_vnni(), reason="no VNNI: products of int8 overflow")
# `conftest.py` switches oneDNN on; TensorFlow's builds for some processors have none.
needs_onednn = pytest.mark.skipif(not _pywrap_util_port.IsMklEnabled(),
                                  reason="no oneDNN in this TensorFlow")
