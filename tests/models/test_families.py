"""The functional encoder: saving, seeds, compute types, fit."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import mirrored

from bert_tf.config import ModelConfig
from bert_tf.models.backbone import INPUTS, Backbone
from bert_tf.models.families import build_encoder

TINY = ModelConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                   intermediate_size=32, max_position_embeddings=12)


def batch(size=3, length=9, seed=0):
    random = np.random.default_rng(seed)
    lengths = random.integers(2, length + 1, (size, 1))
    return {"input_word_ids": random.integers(0, 50, (size, length)).astype("int32"),
            "input_mask": (np.arange(length) < lengths).astype("int32"),
            "input_type_ids": random.integers(0, 2, (size, length)).astype("int32")}


@pytest.mark.parametrize(("given", "said"), [
    (lambda inputs: {**inputs, "input_word_ids": tf.RaggedTensor.from_tensor(
        inputs["input_word_ids"], lengths=[9, 2, 3])}, "input_word_ids is ragged; expected rows"),
    (lambda inputs: {name: inputs[name] for name in ("input_word_ids", "input_mask")},
     "inputs without input_type_ids; expected input_word_ids, input_mask, input_type_ids"),
    (lambda inputs: {name: ids[0] for name, ids in inputs.items()}, r"rank 1, shape \(9,\)"),
    (lambda inputs: {name: ids[:, :0] for name, ids in inputs.items()},
     r"shape \(3, 0\); expected rows of 1 token at least")])
def test_inputs_of_other_shapes_are_refused_by_name(given, said):
    with pytest.raises(ValueError, match=said):
        Backbone(TINY)(given(batch()))


def test_outputs_on_request():
    model = build_encoder(TINY, encoder_outputs=True, attention_probs=True)
    outputs = model(batch())
    assert outputs["sequence_output"].shape == (3, 9, 16)
    assert outputs["pooled_output"].shape == (3, 16)
    assert [x.shape for x in outputs["encoder_outputs"]] == [(3, 9, 16)] * 2
    assert [x.shape for x in outputs["attention_probs"]] == [(3, 2, 9, 9)] * 2
    np.testing.assert_allclose(tf.reduce_sum(outputs["attention_probs"][0], -1), 1.0, atol=1e-5)
    assert set(build_encoder(TINY)(batch())) == {"sequence_output", "pooled_output"}


@pytest.mark.parametrize("options", [
    {}, {"family": "albert", "embedding_size": 8}, {"family": "modernbert"},
    {"family": "gpt", "attention": "causal", "type_vocab_size": 0},
    {"family": "static", "num_hidden_layers": 0}])
def test_shapes_are_those_of_a_trace(options):
    model = build_encoder(ModelConfig.from_dict({**TINY.to_dict(), "family": "bert", **options}),
                          encoder_outputs=True, attention_probs=True)
    traced = super(Backbone, model.backbone).compute_output_spec(
        {name: keras.KerasTensor((None, None), "int32") for name in INPUTS})
    told, traced = (keras.tree.map_structure(lambda each: (tuple(each.shape), each.dtype), spec)
                    for spec in (model.output, traced))
    assert told == traced
    with pytest.raises(ValueError, match="inputs without input_mask"):
        model.backbone({name: keras.Input((None,), dtype="int32")
                        for name in ("input_word_ids", "input_type_ids")})


@pytest.mark.parametrize("policy", [
    "mixed_bfloat16", *(pytest.param(policy, marks=pytest.mark.long) for policy in (
        "float32", "mixed_float16"))])
def test_save_load_and_free_length(policy, tmp_path):
    model = build_encoder(TINY, attention_probs=True, dtype=policy, seed=3)
    path = str(tmp_path / "encoder.keras")
    model.save(path)
    loaded = keras.saving.load_model(path)
    assert [v.path for v in loaded.trainable_variables] == [
        v.path for v in model.trainable_variables]
    for length in (4, 9):
        got, want = loaded(batch(length=length)), model(batch(length=length))
        for a, b in zip(tf.nest.flatten(got), tf.nest.flatten(want), strict=True):
            assert a.dtype == tf.float32
            np.testing.assert_array_equal(a, b)


def test_the_loss_of_an_encoder_in_float16_is_scaled():
    for policy, scaled in (("mixed_float16", True), ("mixed_bfloat16", False)):
        model = build_encoder(TINY.replace(num_hidden_layers=1), dtype=policy)
        model.compile("sgd")
        assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer) == scaled


def test_equal_seeds_give_equal_weights():
    first, second, other = (build_encoder(TINY.replace(num_hidden_layers=1), seed=seed)
                            for seed in (1, 1, 2))
    for a, b in zip(first.trainable_variables, second.trainable_variables, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first.trainable_variables[0], other.trainable_variables[0])


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.long)])
def test_fit_inside_another_functional_model(replicas):
    with mirrored(replicas).scope():
        encoder = build_encoder(TINY.replace(num_hidden_layers=1), seed=1)
        outputs = encoder(encoder.input)
        logits = keras.layers.Dense(2)(outputs["pooled_output"])
        model = keras.Model(encoder.input, logits)
        model.compile(keras.optimizers.Adam(3e-3),
                      keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    inputs = batch(32)
    labels = inputs["input_word_ids"][:, 1] % 2
    data = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(8).repeat()
    losses = model.fit(data, steps_per_epoch=20, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
