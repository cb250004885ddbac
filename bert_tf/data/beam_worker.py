"""A worker process of Beam's engine on one machine: Beam's own, but quiet and never an orphan.

    python -m bert_tf.data.beam_worker PID

PID is that of the process that started it. Where that was killed nobody is left to work for, and
nobody would know what else is written into the folder.
"""

import logging
import os
import sys
import threading
import time


def _die_with(parent):
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def main(argv):
    """Work until the parent ends the work; errors are reported to it."""
    threading.Thread(target=_die_with, args=[int(argv[1])], daemon=True).start()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.root.addHandler(logging.NullHandler())

    from apache_beam.runners.worker import sdk_worker_main

    with open(os.devnull, "w") as sys.stderr:  # where Beam prints every traceback, too
        sdk_worker_main.main(argv)


if __name__ == "__main__":
    main(sys.argv)
