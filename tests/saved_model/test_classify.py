"""The signature `classify` of models for pairs, numbers, several labels and long texts."""

import os

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import SEQ_LENGTH, TEXTS, Caller, word_piece

from bert_tf import files
from bert_tf.config import ModelConfig
from bert_tf.saved_model.save import export_saved_model
from bert_tf.tasks.classifier import Classifier
from bert_tf.tasks.reader import TextReader
from bert_tf.tokenization.packing import pack

LONG = [" ".join(TEXTS), "a [MASK] dog " * 30, "", "the fox"]


def classifier(reading, labels=("no", "yes"), problem="single_label"):
    tokenizer = word_piece()
    config = ModelConfig(vocab_size=len(tokenizer.vocabulary), hidden_size=16, num_hidden_layers=1,
                         num_attention_heads=2, intermediate_size=32, initializer_range=0.5,
                         max_position_embeddings=SEQ_LENGTH)
    return Classifier(config, list(labels), problem, seed=7,
                      reader=TextReader(tokenizer, **{"seq_length": 12, **reading}))


def export(model, folder, **options):
    """The version's path, and its caller."""
    model.save_pretrained(str(folder / "model"))
    version = export_saved_model(str(folder / "model"), str(folder / "saved"), **options)
    return version, Caller(version)


def logits(model, *segments):
    """Of texts that are cut to the window of 12 tokens, by way of token ids."""
    tokenizer = word_piece()
    pieces = [tokenizer.tokenize(tf.constant(texts)) for texts in segments]
    return model(pack(tokenizer.vocabulary, pieces, 12)).numpy().astype(np.float64)


def test_pairs_are_asked_for_by_both_texts(tmp_path):
    model = classifier({"pair": True})
    version, call = export(model, tmp_path)
    assert set(call.signatures["classify"].structured_input_signature[1]) == {"text_a", "text_b"}
    exponents = np.exp(logits(model, TEXTS, TEXTS[::-1]))
    answer = call("classify", text_a=TEXTS, text_b=TEXTS[::-1])
    np.testing.assert_allclose(answer["scores"], exponents / exponents.sum(-1, keepdims=True),
                               atol=1e-5)
    assert files.read_json(os.path.join(version, "assets.extra", "export.json"))["seq_length"] == 12
    task = files.read_json(os.path.join(version, "assets.extra", "task.json"))
    assert task["reading"]["pair"] is True


def test_a_number_is_the_score_itself(tmp_path):
    model = classifier({}, ["likeness"], "regression")
    answer = export(model, tmp_path)[1]("classify", text=TEXTS)
    np.testing.assert_allclose(answer["scores"], logits(model, TEXTS), atol=1e-5)
    assert answer["labels"].tolist() == [[b"likeness"]] * len(TEXTS)


def test_several_labels_have_probabilities_of_their_own(tmp_path):
    model = classifier({}, ["a", "b", "c"], "multi_label")
    answer = export(model, tmp_path)[1]("classify", text=TEXTS)
    np.testing.assert_allclose(answer["scores"], 1 / (1 + np.exp(-logits(model, TEXTS))),
                               atol=1e-5)


@pytest.mark.parametrize("reading", [{"long": "head_tail"}, {"long": "windows", "stride": 4}])
def test_long_texts_are_read_as_in_training(reading, tmp_path):
    model = classifier(reading)
    call = export(model, tmp_path)[1]
    expected = tf.nn.softmax(model({"text": LONG})).numpy()
    np.testing.assert_allclose(call("classify", text=LONG)["scores"], expected, atol=1e-5)
    head = tf.nn.softmax(logits(model, LONG)).numpy()
    assert np.abs(expected - head)[:2].max() > 1e-3  # what is behind the window counts


def test_a_window_may_be_chosen_anew(tmp_path):
    model = classifier({"long": "windows", "stride": 9})
    version, call = export(model, tmp_path, seq_length=8)
    assert files.read_json(os.path.join(version, "assets.extra", "export.json"))["seq_length"] == 8
    model.reader.seq_length, model.reader.stride = 8, 6  # at most the window without [CLS], [SEP]
    np.testing.assert_allclose(call("classify", text=LONG)["scores"],
                               tf.nn.softmax(model({"text": LONG})), atol=1e-5)
