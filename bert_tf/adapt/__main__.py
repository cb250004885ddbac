"""`python -m bert_tf.adapt`."""

import sys

from bert_tf import cli
from bert_tf.adapt import main

if __name__ == "__main__":
    sys.exit(cli.run(main))
