"""Marks of tests that depend on what TensorFlow's kernels do on this processor."""

import pathlib
import platform

import pytest
from tensorflow.python.util import _pywrap_util_port

_CPU_INFO = pathlib.Path("/proc/cpuinfo")
_HAS_VNNI = not (platform.machine() == "x86_64" and _CPU_INFO.exists()) or bool(
    {"avx512_vnni", "avx_vnni"} & set(_CPU_INFO.read_text().split()))
# Without VNNI, oneDNN adds pairs of products of 8 bits up in 16 bits, which is not enough for some.
needs_vnni = pytest.mark.skipif(not _HAS_VNNI, reason="no VNNI: products of int8 overflow")
# TensorFlow has oneDNN on by default where there are instructions for neural networks.
needs_onednn = pytest.mark.skipif(not _pywrap_util_port.IsMklEnabled(),
                                  reason="oneDNN is off on this processor")
