"""Folders with a `tokenizer.json`, read and written."""

import json

import tokenizers

from bert_tf.converters.hf_tokenizer import write_tokenizer
from bert_tf.tokenization.load import load_tokenizer


def load(tmp_path, values, config=None):
    """Load the tokenizer of `tokenizer.json` with `values` beside a `tokenizer_config.json`."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config or {}))
    return load_tokenizer(str(tmp_path))


def both_ways(tokenizer, tmp_path, tokenizer_class):
    """Save a tokenizer in our form and write it in that of transformers.

    Returns: what is loaded from the one and from the other, and the library's of the other.
    """
    ours, theirs = (tmp_path / name for name in ("ours", "theirs"))
    for folder in (ours, theirs):
        folder.mkdir()
    tokenizer.save(str(ours))
    write_tokenizer(str(ours), str(theirs), tokenizer_class, 9)
    return (load_tokenizer(str(ours)), load_tokenizer(str(theirs)),
            tokenizers.Tokenizer.from_file(str(theirs / "tokenizer.json")))
