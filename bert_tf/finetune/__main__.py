"""`python -m bert_tf.finetune`."""

import sys

from bert_tf import cli
from bert_tf.finetune import main

if __name__ == "__main__":
    sys.exit(cli.run(main))
