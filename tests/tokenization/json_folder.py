"""Folders with a `tokenizer.json`, read and written."""

import inspect
import json

import numpy as np
import tokenizers

from bert_tf.converters.hf_tokenizer import write_tokenizer
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.vocabulary import Vocabulary


def load(tmp_path, values, config=None):
    """Load the tokenizer of `tokenizer.json` with `values` beside a `tokenizer_config.json`."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config or {}))
    return load_tokenizer(str(tmp_path))


def write_classic(values, folder, config):
    """Write the model of a `tokenizer.json` of bytes as `vocab.json` and `merges.txt`."""
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps(values["model"]["vocab"]))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(
        f"{left} {right}\n" for left, right in values["model"]["merges"]))
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return str(folder)


def both_ways(tokenizer, tmp_path, tokenizer_class):
    """Save a tokenizer in our form and write it in that of transformers; both are read as it is.

    Returns: the library's tokenizer of what was written.
    """
    ours, theirs = (tmp_path / name for name in ("ours", "theirs"))
    for folder in (ours, theirs):
        folder.mkdir()
    tokenizer.save(str(ours))
    write_tokenizer(str(ours), str(theirs), tokenizer_class, 9)
    for again in map(load_tokenizer, (str(ours), str(theirs))):
        # With all of these the same it reads text alike: its own graph need not be traced.
        assert type(again) is type(tokenizer) and again.options == tokenizer.options
        assert again.merges == tokenizer.merges
        for name in {*inspect.signature(Vocabulary).parameters} - {"source", "continues"}:
            assert getattr(again.vocabulary, name) == getattr(tokenizer.vocabulary, name), name
        np.testing.assert_array_equal(again.vocabulary.continuation,
                                      tokenizer.vocabulary.continuation)
    return tokenizers.Tokenizer.from_file(str(theirs / "tokenizer.json"))
