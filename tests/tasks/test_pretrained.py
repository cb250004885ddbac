"""Model folders: what is written is read back, and what is wrong is said."""

import pathlib

import numpy as np
import pytest
from test_families import TINY, batch

from bert_tf.config import ModelConfig
from bert_tf.errors import BertTfError, UsageError
from bert_tf.models.families import build_encoder
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.pretraining import Pretrainer


class Words:
    """Stands for a tokenizer."""

    def save(self, folder):
        pathlib.Path(folder, "vocab.txt").write_text("[PAD]\n")


def test_round_trip(tmp_path):
    folder = str(tmp_path / "model")
    model = Pretrainer(TINY, seed=4)
    model.save_pretrained(folder, Words())
    assert (tmp_path / "model" / "vocab.txt").exists()
    assert ModelConfig.load(folder + "/model_config.json") == TINY
    again = from_pretrained(folder, seed=5)
    for a, b in zip(model.trainable_variables, again.trainable_variables, strict=True):
        np.testing.assert_array_equal(a, b)
    encoder = from_pretrained(folder, "encoder", dtype="mixed_bfloat16")
    np.testing.assert_allclose(encoder(batch())["pooled_output"],
                               model.encoder(batch())["pooled_output"], atol=0.05)


def test_what_is_wrong_is_said(tmp_path):
    folder = str(tmp_path / "model")
    with pytest.raises(BertTfError, match="model_config.json"):
        from_pretrained(folder)
    build_encoder(TINY).save_pretrained(folder)
    with pytest.raises(UsageError, match=r"- bert/encoder/layer_2/attention/self/query/kernel"):
        from_pretrained(folder, config={"num_hidden_layers": 3})
    data = tmp_path / "model" / "model.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(BertTfError, match="damaged"):
        from_pretrained(folder)
