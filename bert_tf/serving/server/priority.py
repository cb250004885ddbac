"""Requests before other work: a version that is loaded, collections of garbage."""

import gc
import os
import sys
import threading

# Than the process is: a tenth of the processor time of a thread that answers, where both want it.
_NICER = 10
_SWITCH_SECONDS = 1e-3  # that a thread of Python waits for another one, instead of 5e-3


def favor_requests():
    """Have requests wait less for what else the process does; call it once all is imported.

    What is imported lives as long as the process: garbage collections, which stop every thread,
    need not look through it. And a thread that loads a version gives way sooner.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(_SWITCH_SECONDS)


def lower_priority():
    """Let this thread compute when those that answer requests leave time; on Linux only.

    It must not hold Python's lock for long: others would wait for a thread that waits itself.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + _NICER  # cut at 19
        os.setpriority(os.PRIO_PROCESS, thread, niceness)
