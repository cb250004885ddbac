"""An exported version gives back the encoder and the tokenizer that went into it."""

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from harness import unsealed
from tiny_model import SEQ_LENGTH, TEXTS, config_of, word_piece

import bert_tf
from bert_tf.errors import BertTfError, NoTextError, UsageError
from bert_tf.models.families import build_encoder
from bert_tf.saved_model import exported_encoder
from bert_tf.saved_model.exported_encoder import exported_window, load_exported
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tokenization.packing import pack
from bert_tf.visualization.source import load_encoder


@pytest.mark.parametrize(("name", "dtype"), [("bert", "float32"), ("cased", "bfloat16")])
def test_the_encoder_is_the_one_that_was_exported(name, dtype, exported):
    export = exported(name, dtype)
    encoder, tokenizer = load_encoder(export.version, attention_probs=True)
    expected = from_pretrained(export.folder, "encoder", dtype="float32", attention_probs=True)
    if dtype == "bfloat16":  # which products and biases have been rounded to
        for variable in expected.weights:
            if variable.name in ("kernel", "bias"):
                variable.assign(tf.cast(tf.cast(variable.value, tf.bfloat16), tf.float32))
    pieces = tokenizer.tokenize(TEXTS)
    np.testing.assert_array_equal(pieces.values, export.tokenizer.tokenize(TEXTS).values)
    inputs = pack(tokenizer.vocabulary, [pieces, pieces], SEQ_LENGTH)
    tf.nest.map_structure(lambda given, wanted: np.testing.assert_allclose(
        given, wanted, atol=1e-6), encoder(inputs), expected(inputs))
    assert exported_window(export.version) == SEQ_LENGTH


def test_what_takes_ids_only_gives_the_encoder_alone(tmp_path):
    encoder = build_encoder(config_of(word_piece()), seed=7)
    encoder.save_pretrained(str(tmp_path / "model"))
    version = bert_tf.export(model=str(tmp_path / "model"), export_dir=str(tmp_path / "saved"))
    again, ids = bert_tf.from_pretrained(version), np.array([[2, 5, 6, 3, 0]])
    inputs = {"input_word_ids": ids, "input_mask": np.sign(ids), "input_type_ids": 0 * ids}
    np.testing.assert_allclose(again(inputs)["sequence_output"], encoder(inputs)["sequence_output"],
                               atol=1e-6)
    for refuse in (exported_window, load_encoder):
        with pytest.raises(NoTextError, match="token ids only"):
            refuse(version)


@pytest.fixture
def version(exported, tmp_path):
    """A copy of an exported version, to be spoiled."""
    return unsealed(pathlib.Path(shutil.copytree(exported("bert").version, tmp_path / "1")))


def test_what_cannot_be_told_is_refused(version, monkeypatch):
    extra = version / "assets.extra"
    config = (extra / "model_config.json").read_text()
    (extra / "model_config.json").write_text(
        config.replace('"hidden_size": 16', '"hidden_size": 8'))
    with pytest.raises(UsageError, match=r"bert/pooler/dense/kernel \(8, 8\), there \(16, 16\)"):
        load_exported(str(version))
    (extra / "model_config.json").write_text(config.replace('"bert"', '"electra"'))
    with pytest.raises(UsageError, match="- electra/embeddings/word_embeddings"):
        load_exported(str(version))
    (extra / "model_config.json").write_text(config)
    monkeypatch.setattr(exported_encoder, "_UNNAMED", "bert/pooler/dense/kernel")
    with pytest.raises(UsageError, match="without names.*try exporting the model again"):
        exported_window(str(version))


def test_other_peoples_saved_models_are_refused(tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path / "7"))
    with pytest.raises(BertTfError, match="a version that python -m bert_tf.export wrote"):
        load_encoder(str(tmp_path / "7"))
