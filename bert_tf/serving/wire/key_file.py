"""A file of API keys, for servers that check them and for clients that show one."""

import re

from bert_tf.errors import UsageError, explain
from bert_tf.storage import files

KEY = re.compile(r"[!-~]+")  # what a header field can hold without a blank


def read_keys(path):
    """Read a file with a key on each line; blank lines and those that begin with `#` do not count.

    Returns: list of str.

    Raises:
        UsageError: there is no key in it, or a line that no client can send.
        BertTfError: it cannot be read.
    """
    keys = []
    for number, line in enumerate(files.read_lines(path), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if not KEY.fullmatch(line):  # which is not shown: it may be a key
            raise UsageError(explain(f"{path}, line {number}: a key with blanks or other "
                                     "characters than ASCII", "letters, digits and signs"))
        keys.append(line)
    if not keys:
        raise UsageError(explain(f"{path} holds no key", "one on each line",
                                 "openssl rand -hex 32"))
    return keys
