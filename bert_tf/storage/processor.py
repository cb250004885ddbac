"""What Linux tells of an x86 processor."""

import contextlib

from bert_tf.errors import BertTfError
from bert_tf.storage import files

_CPU_INFO = "/proc/cpuinfo"


def processor_flags():
    """Return the names of what the processor can do, a set of str; empty where nothing tells."""
    with contextlib.suppress(BertTfError):  # no such file where the system is not Linux
        for line in files.read_lines(_CPU_INFO):
            if line.startswith("flags"):
                return set(line.partition(":")[2].split())
    return set()


def lacks_vnni():
    """Return whether the processor is known to have no VNNI: products of int8 overflow then.

    oneDNN adds pairs of products of 8 bits up in 16 bits there.
    """
    flags = processor_flags()
    return bool(flags) and not {"avx512_vnni", "avx_vnni"} & flags
