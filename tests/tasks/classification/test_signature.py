"""What classifiers answer: one label, several, a number, of pairs, of long texts, of Examples."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from scipy import special
from tensorflow.core.protobuf import saved_model_pb2
from tiny_model import (
    LABELS,
    SEQ_LENGTH,
    TEXTS,
    Traced,
    examples,
    own_signatures,
    word_piece,
)

from bert_tf.config import ModelConfig
from bert_tf.errors import BertTfError
from bert_tf.saved_model.served_model import load_served
from bert_tf.saved_model.verify import verify
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tokenization.packing import pack

LONG = [" ".join(TEXTS), "a [MASK] dog " * 30, "", "the fox"]


def classifier(reading):
    tokenizer = word_piece()
    config = ModelConfig(vocab_size=len(tokenizer.vocabulary), hidden_size=16, num_hidden_layers=1,
                         num_attention_heads=2, intermediate_size=32, initializer_range=0.5,
                         max_position_embeddings=SEQ_LENGTH)
    return Classifier(config, ["no", "yes"], seed=7,
                      preprocessor=TextPreprocessor(tokenizer, **{"seq_length": 12, **reading}))


def traced(model, folder, **options):
    """What an export of the model would answer."""
    model.save_pretrained(str(folder))
    return Traced(folder, **options)


def probabilities(export, transform, *segments):
    """The Keras model's, of what the texts are made into by the tokenizer."""
    pieces = [export.tokenizer.tokenize(tf.constant(texts)) for texts in segments]
    logits = export.model(pack(export.tokenizer.vocabulary, pieces, SEQ_LENGTH)).numpy()
    return transform(logits.astype(np.float64))


def test_the_likeliest_label_and_all_of_them(exported):
    export = exported("classifier")
    expected = probabilities(export, lambda logits: special.softmax(logits, -1), TEXTS)
    answer = export.call("predict", text=TEXTS)
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    np.testing.assert_allclose(answer["score"], expected.max(1), atol=1e-5)
    assert [label.decode() for label in answer["label"]] == [
        LABELS[best] for best in expected.argmax(1)]
    assert answer["labels"].tolist() == [[name.encode() for name in LABELS]] * len(TEXTS)


def test_pairs_are_asked_for_by_both_texts_and_may_have_several_labels(exported):
    export = exported("several")
    inputs = export.call.signatures["predict"].structured_input_signature[1]
    assert set(inputs) == {"text_a", "text_b"}
    expected = probabilities(export, special.expit, TEXTS, TEXTS[::-1])
    answer = export.call("predict", text_a=TEXTS, text_b=TEXTS[::-1])
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    np.testing.assert_array_equal(answer["chosen"], expected >= 0.5)
    assert 0 < answer["chosen"].sum() < answer["chosen"].size


def test_a_number_is_the_score_itself(exported):
    export = exported("regressor")
    answer = export.call("predict", text=TEXTS)
    assert set(answer) == {"score"}
    np.testing.assert_allclose(answer["score"], probabilities(export, np.array, TEXTS)[:, 0],
                               atol=1e-5)


@pytest.mark.parametrize(("name", "signature"), [
    ("classifier", "classify"), ("several", "classify"), ("regressor", "regress")])
def test_examples_are_answered_as_texts_are(name, signature, exported):
    call = exported(name).call
    columns = ({"text_a": TEXTS, "text_b": TEXTS[::-1]} if name == "several" else {"text": TEXTS})
    answer = call(signature, inputs=examples(**columns, further=TEXTS))
    expected = call("predict", **columns)
    if signature == "regress":
        np.testing.assert_allclose(answer["outputs"], expected["score"], atol=1e-6)
    else:
        np.testing.assert_allclose(answer["scores"], expected["probabilities"], atol=1e-6)
        np.testing.assert_array_equal(answer["classes"], expected["labels"])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Feature: text.* is required"):
        call(signature, inputs=examples(comment=TEXTS))
    with pytest.raises(tf.errors.InvalidArgumentError, match="parse"):
        call(signature, inputs=[b"no example"])


@pytest.mark.parametrize(("name", "signature", "outputs"), [
    ("classifier", "classify", {"classes", "scores"}), ("regressor", "regress", {"outputs"})])
def test_the_classify_and_regress_apis_find_what_they_look_for(name, signature, outputs, exported):
    # servables/tensorflow/classifier.cc and regressor.cc: one input, these names and no others.
    proto = saved_model_pb2.SavedModel.FromString(
        pathlib.Path(exported(name).version, "saved_model.pb").read_bytes())
    signature_defs = proto.meta_graphs[0].signature_def
    assert signature_defs[signature].method_name == f"tensorflow/serving/{signature}"
    assert set(signature_defs[signature].inputs) == {"inputs"}
    assert set(signature_defs[signature].outputs) == outputs
    assert signature_defs["predict"].method_name == "tensorflow/serving/predict"


@pytest.mark.parametrize(("output", "damage"), [
    ("label", lambda values: np.full_like(values, b"other")), ("chosen", np.logical_not),
    ("probabilities", lambda values: values + 0.01)])
def test_another_prediction_is_not_published(output, damage, exported, monkeypatch):
    export = exported("several")
    right = export.call.signatures["predict"]

    def wrong(**inputs):
        return {**right(**inputs), output: damage(right(**inputs)[output].numpy())}

    class Reloaded:
        signatures = {**export.call.signatures, "predict": wrong}

    wrong.graph = right.graph
    monkeypatch.setattr(tf.saved_model, "load", lambda _: Reloaded)
    served = load_served(export.folder)
    with own_signatures("several"), pytest.raises(
            BertTfError, match=f"different `{output}` for the signature `predict`"):
        verify(served, export.version, 1e-4)


@pytest.mark.long
@pytest.mark.parametrize("reading", [{"long": "head_tail"}, {"long": "windows", "stride": 4}])
def test_long_texts_are_read_as_in_training(reading, tmp_path):
    model = classifier(reading)
    call = traced(model, tmp_path)
    expected = tf.nn.softmax(model({"text": LONG})).numpy()
    np.testing.assert_allclose(call("predict", text=LONG)["probabilities"], expected, atol=1e-5)
    tokenizer = word_piece()
    head = special.softmax(
        model(pack(tokenizer.vocabulary, [tokenizer.tokenize(LONG)], 12)).numpy(), -1)
    assert np.abs(expected - head)[:2].max() > 1e-3  # what is after the window counts


@pytest.mark.long
def test_a_window_may_be_chosen_anew(tmp_path):
    model = classifier({"long": "windows", "stride": 9})
    call = traced(model, tmp_path, seq_length=8)
    (told,) = call("describe", text=[""])["description"]
    assert json.loads(told)["seq_length"] == 8
    model.preprocessor.seq_length, model.preprocessor.stride = 8, 6  # at most 8 less [CLS], [SEP]
    np.testing.assert_allclose(call("predict", text=LONG)["probabilities"],
                               tf.nn.softmax(model({"text": LONG})), atol=1e-5)
