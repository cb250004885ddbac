"""Texts of files as they stand: what a vocabulary is learned from and examples are made of."""

import json

from bert_tf.errors import BertTfError, explain
from bert_tf.storage import files


def read_text_blocks(path):
    """Yield the texts of a file, plain (one a line) or `.jsonl`, either also `.gz`, in lists.

    White space stays as it is; a text may be empty.

    Raises:
        BertTfError: as `files.read_line_blocks` or `read_json_texts`.
    """
    if is_json_lines(path):
        return ([text] for text in read_json_texts(path))
    return files.read_line_blocks(path)


def is_json_lines(path):
    """Return whether a file is of JSON lines, by its name."""
    return files.suffix(path) == ".jsonl"


def read_json_texts(path):
    """Yield the field `text` of each line of a `.jsonl` file; blank lines are passed over.

    Raises:
        BertTfError: as `files.read_lines`, or a line is no object with a string `text`
            of whole characters.
    """
    for number, line in enumerate(files.read_lines(path), 1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["text"]
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise BertTfError(explain(f"{path} line {number}: half a surrogate pair in the text",
                                      "whole characters", "\\ufffd in its place")) from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BertTfError(explain(f"{path} line {number}: invalid document",
                                      'an object such as {"text": "One sentence."}')) from error
        yield text
