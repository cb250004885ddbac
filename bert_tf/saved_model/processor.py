"""What this processor can compute."""

import platform

from bert_tf.storage import files

_CPU_INFO = "/proc/cpuinfo"


def lacks_vnni():
    """Whether it is known to have no VNNI, without which products of int8 overflow.

    oneDNN adds pairs of products of 8 bits up in 16 bits there. Processors other than x86 have
    other instructions; what is not Linux is not asked.
    """
    if platform.machine() != "x86_64" or not files.exists(_CPU_INFO):
        return False
    return not {"avx512_vnni", "avx_vnni"} & set(files.read_text(_CPU_INFO).split())
