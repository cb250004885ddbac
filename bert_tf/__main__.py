"""`python -m bert_tf COMMAND …`: lists the commands, and runs one."""

import sys

from bert_tf import cli

if __name__ == "__main__":
    sys.exit(cli.main())
