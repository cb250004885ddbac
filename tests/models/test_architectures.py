"""Families whose layers know distances: they learn, travel as files, and take mixed precision."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from test_families import batch
from test_stack import families, tiny

from bert_tf.converters.checkpoint import parameter_shapes
from bert_tf.errors import UsageError
from bert_tf.models.families import build_encoder
from bert_tf.presets import generator_config
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens

LIKE_BERT = ("distilbert", "xlm_roberta", "camembert")
POSITIONS = np.array([[1, 2], [0, 1], [1, 0]], "int32")


def examples():
    inputs = batch()
    ids = np.take_along_axis(inputs["input_word_ids"], POSITIONS, 1)
    return {**inputs, "masked_lm_positions": POSITIONS, "masked_lm_ids": ids,
            "masked_lm_weights": np.ones(POSITIONS.shape, "float32")}


def losses(model, data, steps=2):
    """Of steps on one batch, and after them."""
    optimizer, found = keras.optimizers.Adam(3e-3), []
    for _ in range(steps + 1):
        with tf.GradientTape() as tape:
            loss = model.compute_loss(data, y_pred=model(data, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        assert all(gradient is not None for gradient in gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        found.append(float(loss))
    return found


@pytest.mark.parametrize("padding_free", [
    pytest.param(False, marks=pytest.mark.long), True])
@pytest.mark.parametrize("family", [
    "modernbert", *(pytest.param(family, marks=pytest.mark.long) for family in (
        *LIKE_BERT, "mpnet", "deberta", "deberta_v1", "nomic_bert", "gte", "jina_embeddings_v3",
        "eurobert", "ultrabert", "mobilebert", "gemma3", "t5"))])
def test_a_few_steps_in_mixed_precision_lower_the_loss(family, padding_free):
    """Every variable has a gradient."""
    config = tiny(family, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                  initializer_range=0.05, pooling="first")
    model = Pretrainer(config, None, dtype="mixed_bfloat16", seed=1)
    model.encoder.backbone.padding_free = padding_free
    found = losses(model, examples())
    assert found[-1] < found[1] < found[0]


def test_deberta_learns_to_tell_replaced_tokens():
    config = tiny("deberta", initializer_range=0.05, hidden_dropout_prob=0.0, num_hidden_layers=1)
    model = ReplacedTokens(config, generator_config(config), seed=1)
    found = losses(model, examples())
    assert found[-1] < found[0]


@pytest.mark.parametrize("family", families("bert", "albert", "deberta", "deberta_v1", "modernbert",
                                             "nomic_bert", "gte", "jina_embeddings_v3", "eurobert",
                                             "ultrabert", "mobilebert", "qwen3", "gemma3", "t5"))
def test_a_checkpoints_names_and_shapes_are_the_models(family):
    config = tiny(family)
    model = build_encoder(config, seed=1)
    assert {variable.path: tuple(variable.shape) for variable in model.weights} == (
        parameter_shapes(config, {"task": "encoder"}))


@pytest.mark.parametrize("family", [
    "modernbert", *(pytest.param(family, marks=pytest.mark.long) for family in (
        "mpnet", "deberta", "deberta_v1"))])
def test_a_keras_file_gives_the_same(family, tmp_path):
    model = build_encoder(tiny(family), seed=1)
    model.save(str(tmp_path / "encoder.keras"))
    loaded = keras.saving.load_model(str(tmp_path / "encoder.keras"))
    for one, other in zip(tf.nest.flatten(loaded(batch())), tf.nest.flatten(model(batch())),
                          strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.long
@pytest.mark.parametrize("family", ["mpnet", "deberta", "deberta_v1", "modernbert"])
def test_compiled_by_xla(family):
    model = build_encoder(tiny(family), seed=1)
    inputs = {name: tf.constant(value) for name, value in batch().items()}
    compiled = tf.function(model, autograph=False, jit_compile=True)(inputs)
    real = batch()["input_mask"][..., None]
    np.testing.assert_allclose(compiled["sequence_output"] * real,
                               model(inputs)["sequence_output"] * real, atol=1e-5)


def test_probabilities_and_blocks_agree():
    """Asked for probabilities, layers with a window compute the whole matrix."""
    config = tiny("modernbert")
    model = build_encoder(config, seed=1)
    whole = build_encoder(config, attention_probs=True, seed=1)
    outputs = whole(batch())
    mask = batch()["input_mask"]
    np.testing.assert_allclose(model(batch())["sequence_output"] * mask[..., None],
                               outputs["sequence_output"] * mask[..., None], atol=1e-5)
    place = np.arange(9)
    far = np.abs(place[:, None] - place) > config.local_attention // 2
    for layer, probs in enumerate(outputs["attention_probs"]):
        of_tokens = probs.numpy() * mask[:, None, :, None]
        assert (of_tokens[:, :, far] == 0).all() == bool(layer % 3)


@pytest.mark.parametrize(("changes", "message"), [
    ({"local_attention": 5}, "local_attention=5; expected an even number"),
    ({"relative_position": "rotary", "num_attention_heads": 16}, "heads of 1"),
    ({"relative_position": "bias"}, "position_buckets=0"),
    ({"relative_position": "disentangled", "position_buckets": 8}, "max_relative_position=0"),
    ({"relative_position": "bias", "position_buckets": 8, "max_relative_position": 9,
      "local_attention": 4}, "local_attention=4 with relative_position='bias'"),
    ({"norm_position": "pre", "num_hidden_groups": 1}, "num_hidden_groups=1"),
    ({"rotary_base": 0.0}, "rotary_base=0.0"),
    ({"global_attention_every": 0}, "global_attention_every=0"),
    ({"use_bias": False, "feed_forward": "conv"}, "use_bias=False"),
    ({"num_key_value_heads": 4}, "num_key_value_heads=4; expected 0, or a divisor of num_att"),
    ({"num_key_value_heads": 1, "relative_position": "disentangled", "position_buckets": 4,
      "max_relative_position": 6}, "num_key_value_heads=1 with relative_position='disentangled'"),
    ({"attention_head_size": 6, "relative_position": "disentangled", "position_buckets": 4,
      "max_relative_position": 6}, "attention_head_size=6 with relative_position='disentangled'"),
    ({"query_key_norm": True, "relative_position": "disentangled", "position_buckets": 4,
      "max_relative_position": 6}, "query_key_norm=True with relative_position='disentangled'"),
    ({"pos_att_type": "p2p"}, "pos_att_type='p2p'; expected one of c2p|p2c, c2p, p2c"),
    ({"relative_position": "disentangled", "share_att_key": False}, "position_buckets=0 with"),
    ({"attention_head_size": -1}, "attention_head_size=-1; expected at least 0"),
    ({"relative_position": "rotary", "attention_head_size": 5}, "heads of 5; expected an even"),
    ({"first_global_layer": 1}, "first_global_layer=1; expected 0 to global_attention_every - 1"),
    ({"norm_position": "both", "num_hidden_groups": 1}, "num_hidden_groups=1"),
    ({"key_query_shared_bottleneck": True}, "shared_bottleneck=True and .*; expected one of them"),
    ({"intra_bottleneck_size": 8, "key_query_shared_bottleneck": True,
      "use_bottleneck_attention": True}, "use_bottleneck_attention=True with .*; expected one of"),
    ({"intra_bottleneck_size": 9}, "intra_bottleneck_size=9 over num_attention_heads=2"),
    ({"num_feedforward_networks": 2, "norm_position": "pre"}, "networks=2 with norm_position='pre"),
    ({"num_feedforward_networks": 0}, "num_feedforward_networks=0; expected at least 1"),
    ({"trigram_input": True, "attention": "causal"}, "trigram_input=True shows a position its ri"),
    ({"masked_lm_head": "extended"}, "embedding_size=16 with .*'extended'; expected less than"),
    ({"masked_lm_head_size": 4}, "masked_lm_head_size=4 with masked_lm_head=.transform.; try mas"),
])
def test_contradictions_are_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        tiny("bert", **changes)
