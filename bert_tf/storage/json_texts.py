"""Texts in `.jsonl` files: what a vocabulary is learned from and examples are made of."""

import json

from bert_tf.errors import BertTfError, explain
from bert_tf.storage import files


def read_json_texts(path):
    """Yield the field `text` of each line of a `.jsonl` file; blank lines are passed over.

    Raises:
        BertTfError: as `files.read_lines`, or a line is no object with a string `text`.
    """
    for number, line in enumerate(files.read_lines(path), 1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["text"]
            text.encode("utf-8")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BertTfError(explain(f"{path} line {number}: invalid document",
                                      'an object such as {"text": "One sentence."}')) from error
        yield text
