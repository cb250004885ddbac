"""Memory that large requests take again and again, counted in page faults."""

import platform
import subprocess
import sys

import pytest

TAKE = """
import ctypes, resource
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: all pages are of one size
from bert_tf.serving.server import memory
if {reuse}:
    memory.reuse_large_blocks()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
taken = b"x" * (64 << 20)
del taken
before = faults()
for _ in range(5):
    taken = b"x" * (64 << 20)
    del taken
print(faults() - before)
before = faults()
memory.give_back()
taken = b"x" * (64 << 20)
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_a_large_block_comes_from_memory_that_was_used_before():
    def counted(reuse):
        program = TAKE.format(reuse=reuse)
        return [int(line) for line in subprocess.check_output(
            [sys.executable, "-c", program], text=True).split()]

    again, after_giving_back = counted(True)
    fresh, _ = counted(False)
    assert again < fresh / 10
    assert after_giving_back > fresh / 50  # what is given back is the system's
