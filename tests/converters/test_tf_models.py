"""Objects and checkpoints of tf-models-official: the library's numbers, both ways."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from official.modeling import activations
from official.nlp.modeling import networks
from same import check_same, near
from tf_models_objects import BERT, LIVE, made, prefix_in, pretrainer, sentence_head, write_config

from bert_tf.converters import google_tf1, tf_models
from bert_tf.errors import UsageError
from bert_tf.models.families import INPUTS, build_encoder
from bert_tf.storage import variables
from bert_tf.tasks.pretraining.masked_lm import Pretrainer


def randomized(model):
    """The live `model`, built, no weight of it left at its start."""
    model(model.inputs)
    draw = np.random.default_rng(5)
    for weight in model.weights:
        weight.assign(draw.normal(0, 0.3, weight.shape) + ("gamma" in weight.name))
    return model


def batch(length=12, vocab=30):
    draw = np.random.default_rng(1).integers
    mask = (np.arange(length) < np.array([[length], [7], [3]])).astype("int32")
    return {"input_word_ids": draw(0, vocab, (3, length), dtype="int32"), "input_mask": mask,
            "input_type_ids": draw(0, 2, (3, length), dtype="int32"),
            "masked_lm_positions": np.array([[1, 4, 0], [2, 2, 5], [0, 1, 2]], "int32")}


def our_outputs(checkpoint, inputs):
    """What our models compute, under the library's names."""
    encoder = build_encoder(checkpoint.config, encoder_outputs=True, attention_probs=True,
                            dtype="float32")
    variables.assign_variables(encoder.trainable_variables, checkpoint.tensors, "checkpoint")
    outputs = dict(encoder({name: inputs[name] for name in INPUTS}))
    outputs["attention_scores"] = outputs["attention_probs"]
    if checkpoint.task["task"] == "pretraining":
        model = Pretrainer(checkpoint.config, checkpoint.task["sentence_task"], dtype="float32")
        variables.assign_variables(model.trainable_variables, checkpoint.tensors, "checkpoint")
        logits = model(inputs)
        outputs["mlm_logits"] = logits["masked_lm_logits"]
        outputs["next_sentence"] = logits.get("next_sentence_logits")
    return outputs


@pytest.fixture(scope="module")
def reference(shared):
    """`reference(name)`: the live object with the weights of a reference folder, that folder."""

    def make(name):
        folder = shared / "reference" / name
        config = json.loads((folder / "config.json").read_text())
        arguments = dict(config["encoder_args"])
        for key in {"activation", "inner_activation"} & set(arguments):
            assert arguments[key] == "gelu (tanh approximation)"
            arguments[key] = activations.gelu
        live = getattr(networks, config["encoder"])(
            **arguments, initializer=tf_keras.initializers.TruncatedNormal(
                stddev=config["initializer"]["stddev"]))
        if config.get("pretrainer"):
            live = pretrainer(live)
        live(live.inputs)
        weights = np.load(folder / "weights.npz")
        for weight, row in zip(live.weights, json.loads((folder / "weights.json").read_text()),
                               strict=True):
            assert weight.shape == row["shape"]
            weight.assign(weights[row["name"]])
        return live, folder

    return make


@pytest.mark.parametrize("name", ["official_bert", "official_albert"])
def test_references_are_met_and_come_back_unchanged(reference, name, tmp_path):
    live, folder = reference(name)
    expected = np.load(folder / "expected.npz")
    checkpoint, path = tf_models.from_live(live), str(tmp_path / "folder")
    outputs = our_outputs(checkpoint, {key: expected[key] for key in expected})
    for i in range(3):
        near(outputs["encoder_outputs"][i], expected[f"encoder_outputs_{i}"])
        if name == "official_bert":
            near(outputs["attention_scores"][i], expected[f"attention_scores_{i}"])
    for key in {"sequence_output", "pooled_output", "mlm_logits"} & set(expected):
        near(outputs[key], expected[key])

    assert tf_models.write(checkpoint, path) == []
    check_same(checkpoint, tf_models.read(path))
    ours, theirs = (json.loads((where / "config.json").read_text())
                    for where in (tmp_path / "folder", folder))
    theirs["encoder_args"].pop("norm_first", None)
    assert ours["encoder_args"].items() >= theirs["encoder_args"].items()
    assert {key: ours[key] for key in theirs if not key.endswith("_args")} == {
        key: theirs[key] for key in theirs if not key.endswith("_args")}
    for weight, again in zip(live.weights, tf_models.to_live(checkpoint).weights, strict=True):
        assert weight.numpy().tobytes() == again.numpy().tobytes()


@pytest.mark.parametrize("kind", [
    pytest.param(kind, marks=[pytest.mark.long] * (kind != "BertPretrainerV2, NSP"))
    for kind in LIVE])
def test_live_objects_and_ours_compute_the_same(kind, tmp_path):
    live, inputs = randomized(LIVE[kind]()), batch()
    expected = live({name: inputs[name] for name in inputs
                     if name in INPUTS or "Pretrainer" in kind})
    if isinstance(expected, list):  # BertEncoder
        expected = dict(zip(("sequence_output", "pooled_output"), expected, strict=True))
    checkpoint, path = tf_models.from_live(live), str(tmp_path / "folder")
    outputs = our_outputs(checkpoint, inputs)
    if "NSP" in kind:
        # The library's head has a pooler of its own, which is the one we have.
        assert checkpoint.dropped == ("pooler_transform/kernel", "pooler_transform/bias")
        expected.pop("pooled_output")
    for name, value in expected.items():
        near(outputs[name], value)

    assert tf_models.write(checkpoint, path) == []
    check_same(checkpoint, tf_models.read(path))
    again = tf_models.to_live(tf_models.read(path))
    for name, value in again({name: inputs[name] for name in again.inputs} if isinstance(
            again.inputs, dict) else {name: inputs[name] for name in INPUTS}).items():
        if name in expected:
            np.testing.assert_allclose(value, expected[name], atol=1e-6, rtol=0)


def test_the_library_reads_what_we_write_to_the_last_tensor(tmp_path):
    live = randomized(LIVE["BertPretrainerV2, NSP"]())
    tf_models.write(tf_models.from_live(live), str(tmp_path / "bert"))
    prefix, fresh = prefix_in(tmp_path / "bert"), LIVE["BertPretrainerV2, NSP"]()
    fresh(fresh.inputs)
    tf.train.Checkpoint(model=fresh).read(prefix).assert_consumed()
    for weight, again in zip(live.weights, fresh.weights, strict=True):
        if "pooler_transform" not in weight.name:  # ours is the head's pooler, in both places
            np.testing.assert_array_equal(weight, again)


@pytest.mark.long
def test_the_library_reads_parts_of_what_we_write(tmp_path):
    live = randomized(LIVE["BertPretrainerV2, NSP"]())
    tf_models.write(tf_models.from_live(live), str(tmp_path / "bert"))
    prefix = prefix_in(tmp_path / "bert")
    items = LIVE["BertPretrainerV2"]().checkpoint_items
    tf.train.Checkpoint(**items).read(prefix).assert_existing_objects_matched().expect_partial()
    encoder = LIVE["BertEncoderV2"]()
    encoder(encoder.inputs)
    status = tf.train.Checkpoint(encoder=encoder).read(prefix)
    status.assert_existing_objects_matched().expect_partial()
    np.testing.assert_array_equal(encoder.pooler_layer.kernel,
                                  live.classification_heads[0].dense.kernel)

    live, fresh, path = (randomized(LIVE["AlbertEncoder"]()), LIVE["AlbertEncoder"](),
                         str(tmp_path / "albert"))
    tf_models.write(tf_models.from_live(live), path)
    fresh(fresh.inputs)
    tf.train.Checkpoint(model=fresh).read(prefix_in(path)).assert_consumed()
    tf.train.Checkpoint(encoder=fresh).read(prefix_in(path)).assert_consumed()
    for weight, again in zip(live.weights, fresh.weights, strict=True):
        np.testing.assert_array_equal(weight, again)


@pytest.mark.parametrize("optimizer", [
    tf_keras.optimizers.Adam,
    pytest.param(tf_keras.optimizers.legacy.Adam, marks=pytest.mark.long)])
def test_checkpoints_of_a_training_run_are_read_without_the_optimizer(optimizer, tmp_path):
    live, inputs = randomized(LIVE["BertPretrainerV2"]()), batch()
    optimizer = optimizer(0.0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(live(inputs)["mlm_logits"])
    used = [(gradient, weight) for gradient, weight in zip(
        tape.gradient(loss, live.trainable_weights), live.trainable_weights, strict=True)
        if gradient is not None]
    optimizer.apply_gradients(used)
    tf.train.Checkpoint(model=live, optimizer=optimizer, global_step=optimizer.iterations,
                        **live.checkpoint_items).save(str(tmp_path / "ckpt"))
    write_config(tmp_path, pretrainer_args={"mlm_activation": "gelu (tanh approximation)"})
    read = tf_models.read(str(tmp_path))
    check_same(read, tf_models.from_live(live))
    assert len(read.dropped) > 2 * len(used)


def test_the_configuration_of_the_library_s_releases_is_understood(tmp_path):
    live = randomized(LIVE["BertEncoder"]())
    tf.train.Checkpoint(encoder=live).write(str(tmp_path / "bert_model.ckpt"))
    (tmp_path / "bert_config.json").write_text(json.dumps({
        "vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 12, "type_vocab_size": 2}))
    check_same(tf_models.read(str(tmp_path)), tf_models.from_live(live))


def test_heads_without_a_place_are_dropped_and_named(tmp_path):
    albert = made("albert", {"task": "pretraining", "sentence_task": "sentence_order"})
    assert set(tf_models.write(albert, str(tmp_path / "albert"))) == {
        name for name in albert.tensors if name.startswith("cls/")}
    tagger = made("bert", {"task": "tagger", "labels": ["O", "B", "I"]})
    assert tf_models.write(tagger, str(tmp_path / "bert")) == [
        "cls/tagger/output_weights", "cls/tagger/output_bias"]
    for family in ("albert", "bert"):
        assert tf_models.read(str(tmp_path / family)).task == {"task": "encoder"}


@pytest.mark.parametrize(("family", "changes", "message"), [
    ("bert", {"layer_norm_eps": 1e-5}, "layer_norm_eps=1e-05 cannot be written to tf_models"),
    ("bert", {"padding_id": 1}, "padding_id=1"),
    ("bert", {"num_hidden_groups": 2}, "num_hidden_groups=2.*expected 0"),
    ("albert", {"num_hidden_groups": 2}, "num_hidden_groups=2.*expected 1"),
    ("bert", {"pooling": "first"}, "pooling='first'"),
    ("bert", {"attention": "causal"}, "attention='causal'"),
    ("albert", {"position_embedding": "sinusoidal"}, "position_embedding='sinusoidal'"),
    ("bert", {"feed_forward": "conv"}, "feed_forward='conv'"),
    ("bert", {"bilstm": True}, "bilstm=True"),
    ("electra", {}, "family='electra' is not in tf_models; expected one of bert, albert"),
])
def test_what_the_library_cannot_compute_is_refused_by_name(family, changes, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        tf_models.write(made(family, **changes), str(tmp_path / "folder"))
    assert not os.listdir(tmp_path)


SMALL = {**BERT, "num_layers": 1}


@pytest.mark.parametrize(("make", "message"), [
    (lambda: tf_keras.layers.Dense(2), "encoder='Dense' is unknown"),
    (lambda: networks.BertEncoderV2(**SMALL, inner_activation="elu"),
     "the encoder's activation: 'elu'; expected a function"),
    (lambda: networks.BertEncoderV2(**SMALL, norm_first=True), "norm_first=True"),
    (lambda: pretrainer(networks.BertEncoderV2(**SMALL), activation=None), "mlm_activation: None"),
    (lambda: pretrainer(networks.BertEncoderV2(**SMALL), [sentence_head(num_classes=3)]),
     "head 'next_sentence' of 3 classes"),
    *(pytest.param(
        lambda changes=changes: pretrainer(networks.BertEncoderV2(**SMALL),
                                           [sentence_head(**changes)]),
        message, marks=pytest.mark.long) for changes, message in (
            ({"name": "order"}, "head 'order' of 2 classes"),
            ({"activation": "relu"}, "a tanh layer on the first token"))),
])
def test_objects_that_no_model_of_ours_computes_are_refused(make, message):
    with pytest.raises(UsageError, match=message):
        tf_models.from_live(make())


@pytest.mark.long  # either to references: test_google_tf1, above
def test_from_google_to_the_library(shared, tmp_path):
    """The other converter and the library agree on the same weights."""
    folder = shared / "reference" / "google_bert"
    checkpoint, expected = google_tf1.read(str(folder)), np.load(folder / "expected.npz")
    live = tf_models.to_live(checkpoint)
    outputs = live({"input_word_ids": expected["input_ids"], "input_mask": expected["input_mask"],
                    "input_type_ids": expected["segment_ids"],
                    "masked_lm_positions": expected["masked_lm_positions"]})
    near(outputs["encoder_outputs"], expected["all_encoder_layers"])
    near(outputs["pooled_output"], expected["pooled_output"])
    near(tf.reshape(tf.nn.log_softmax(outputs["mlm_logits"]), [12, 400]),
         expected["masked_lm_log_probs"])
    near(tf.nn.log_softmax(outputs["next_sentence"]), expected["next_sentence_log_probs"])
    check_same(checkpoint, tf_models.from_live(live))
