"""A worker process of Beam that is killed once, in the midst of a prediction.

    python lossy_beam_worker.py MARKER

MARKER is a file that is there from the kill on.
"""

import os
import signal
import sys

from apache_beam.runners.worker import sdk_worker_main

from bert_tf.predict.work import Work

LOST_AFTER = 5  # the number of a block

if __name__ == "__main__":
    do, marker = Work.do, sys.argv[1]

    def lost(self, block, *arguments):
        do(self, block, *arguments)
        if block.number >= LOST_AFTER and not os.path.exists(marker):
            with open(marker, "w"):
                os.kill(os.getpid(), signal.SIGKILL)

    Work.do = lost
    sdk_worker_main.main(sys.argv)
