"""A folder with a `tokenizer.json`."""

import json

from bert_tf.tokenization.load import load_tokenizer


def load(tmp_path, values, config=None):
    """The tokenizer of `tokenizer.json` with `values` beside a `tokenizer_config.json`."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config or {}))
    return load_tokenizer(str(tmp_path))
