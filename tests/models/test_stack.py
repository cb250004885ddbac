"""What the options of the shared stack do, in every family."""

import numpy as np
import pytest
import tensorflow as tf
from test_families import batch

from bert_tf import randomness
from bert_tf.config import ModelConfig
from bert_tf.family_defaults import FAMILIES
from bert_tf.layers.embeddings import Embeddings
from bert_tf.layers.masks import causal_adder, padding_adder
from bert_tf.models.distances import layer_distances
from bert_tf.models.families import build_encoder

SIZES = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 32, "max_position_embeddings": 12, "initializer_range": 0.3}
INPUTS = batch()
MASK = INPUTS["input_mask"]


def tiny(family, **changes):
    own = {"albert": {"embedding_size": 8}, "electra": {"embedding_size": 8},
           "mpnet": {"position_buckets": 8, "max_relative_position": 6},
           "t5": {"attention_head_size": 6, "position_buckets": 8, "max_relative_position": 6},
           "deberta": {"position_buckets": 4, "max_relative_position": 6},
           "deberta_v1": {"position_buckets": 4},
           "modernbert": {"local_attention": 4}, "eurobert": {"num_key_value_heads": 1},
           "ultrabert": {"num_key_value_heads": 1, "local_attention": 4, "masked_lm_head_size": 8},
           "mobilebert": {"embedding_size": 8, "intra_bottleneck_size": 8,
                          "num_feedforward_networks": 2},
           "qwen3": {"num_key_value_heads": 1, "attention_head_size": 6},
           "gemma3": {"num_key_value_heads": 1, "attention_head_size": 6, "score_size": 4,
                      "local_attention": 4, "global_attention_every": 2,
                      "first_global_layer": 1}}
    return ModelConfig.from_dict({**SIZES, "family": family, **own.get(family, {}), **changes})


def families(*quick):
    """All, of which the others than `quick` take their turn in long runs."""
    return [pytest.param(family, marks=[pytest.mark.long] * (family not in quick))
            for family in FAMILIES]


@pytest.mark.parametrize("family", families("bert", "deberta", "modernbert", "mpnet"))
def test_causal_attention_sees_nothing_after(family):
    config = tiny(family, attention="causal", padding_id=0, trigram_input=False)
    model = build_encoder(config, seed=1)
    ids = np.random.default_rng(1).integers(1, 50, (2, 9)).astype("int32")
    inputs = {"input_word_ids": ids, "input_mask": np.ones_like(ids),
              "input_type_ids": np.zeros_like(ids)}
    before = model(inputs)["sequence_output"].numpy()
    ids = ids.copy()
    ids[:, 5:] = ids[:, 5:] % 49 + 1
    after = model({**inputs, "input_word_ids": ids})["sequence_output"].numpy()
    np.testing.assert_allclose(after[:, :5], before[:, :5], atol=1e-5)
    assert np.abs(after[:, 5:] - before[:, 5:]).max(-1).min() > 1e-3


@pytest.mark.parametrize(("family", "policy"), [
    pytest.param(family, policy, marks=[pytest.mark.long] * (
        policy == "mixed_float16" or family not in ("bert", "deberta", "modernbert")))
    for policy in ("mixed_bfloat16", "mixed_float16") for family in FAMILIES])
def test_half_precision(family, policy):
    """Causal and padding adders add up; the sum is finite and its softmax hides both."""
    config = tiny(family, attention="causal", initializer_range=0.1, trigram_input=False)
    model = build_encoder(config, attention_probs=True, dtype="float32", seed=1)
    half = build_encoder(config, attention_probs=True, dtype=policy, seed=1)
    want, got = model(INPUTS), half(INPUTS)
    for a, b in zip(tf.nest.flatten(got), tf.nest.flatten(want), strict=True):
        assert a.dtype == tf.float32 and np.isfinite(a).all()
        # At padding that has nothing in its window adders alone decide, of which little is left.
        real = {2: 1, 3: MASK[..., None], 4: MASK[:, None, :, None]}[len(a.shape)]
        np.testing.assert_allclose(a * real, b * real, atol=0.15)
    for probs in got["attention_probs"]:
        hidden = np.triu(np.ones((9, 9)), 1) + (1 - MASK[:, None, None, :]) > 0
        # A token of padding may have nothing else within its window.
        of_tokens = probs.numpy() * MASK[:, None, :, None]
        assert (of_tokens[np.broadcast_to(hidden, probs.shape)] == 0).all()
        np.testing.assert_allclose(tf.reduce_sum(probs, -1), 1, atol=0.02)


def test_summed_adders_stay_finite():
    for dtype in ("float16", "bfloat16", "float32"):
        total = padding_adder(MASK, dtype) + causal_adder(9, dtype)
        assert np.isfinite(tf.cast(total, "float32")).all()
        assert total.shape == (3, 1, 9, 9)


@pytest.mark.parametrize("groups", [
    0, 2, *(pytest.param(groups, marks=pytest.mark.long) for groups in (1, 3))])
def test_layers_of_a_group_share_weights(groups):
    config = tiny("albert", num_hidden_layers=3, num_hidden_groups=groups)
    model = build_encoder(config, encoder_outputs=True, seed=1)
    blocks = model.backbone.encoder.blocks
    assert len(blocks) == (groups or 3)
    kind = "group" if groups else "layer"
    assert {variable.path.split("/")[2] for variable in model.trainable_variables
            if "/encoder/" in variable.path} == {f"{kind}_{i}" for i in range(groups or 3)}
    outputs = model(INPUTS)
    hidden, adder = outputs["embedding_output"], padding_adder(MASK)
    for layer, output in enumerate(outputs["encoder_outputs"]):
        hidden = blocks[layer * len(blocks) // 3](hidden, adder)
        np.testing.assert_allclose(output, hidden, atol=1e-5)


def test_layers_of_a_group_drop_differently():
    config = tiny("albert", num_hidden_layers=3, num_hidden_groups=1, hidden_dropout_prob=0.5,
                  attention_probs_dropout_prob=0.0)
    encoder = build_encoder(config, seed=1).backbone.encoder
    dropped = []
    dropout = encoder.blocks[0].block_output.dropout
    call = dropout.call
    dropout.call = lambda x, training=False, layout=None: dropped.append(
        call(tf.ones_like(x), training, layout)) or call(x, training, layout)
    hidden = np.ones((2, 5, 16), "float32")
    with randomness.draw_at(1, 2, 3):
        encoder(hidden, np.zeros((2, 1, 1, 5), "float32"), training=True)
    masks = [mask.numpy() for mask in dropped]
    assert len(masks) == 3
    assert all((a != b).mean() > 0.3 for a, b in zip(masks, masks[1:], strict=False))


@pytest.mark.parametrize("family", families("bert"))
def test_poolings(family):
    for pooling in ("dense", "first", "last"):
        model = build_encoder(tiny(family, pooling=pooling, num_hidden_layers=1), seed=1)
        outputs = {name: value.numpy() for name, value in model(INPUTS).items()}
        first = outputs["sequence_output"][:, 0]
        if pooling == "dense":
            dense = model.backbone.pooler.dense
            first = np.tanh(first @ dense.kernel.numpy() + dense.bias.numpy())
        elif pooling == "last":
            first = outputs["sequence_output"][np.arange(3), MASK.sum(1) - 1]
        np.testing.assert_allclose(outputs["pooled_output"], first, atol=1e-5)
        assert any("pooler" in v.path for v in model.variables) == (pooling == "dense")


@pytest.mark.parametrize(("family", "changes"), [
    pytest.param(family, changes, marks=[pytest.mark.long] * (
        family != "bert" or not changes.keys() <= {"bilstm"}))
    for family in FAMILIES for changes in (
        {}, {"pooling": "first"}, {"pooling": "last"}, {"bilstm": True}, {"num_hidden_groups": 1},
        {"feed_forward": "conv", "conv_kernel_size": 3})])
def test_the_pooled_output_alone(family, changes):
    """It is the same vector, and the same gradients come from it."""
    refused = {"gpt": ("conv_kernel_size",), "gpt2": ("num_hidden_groups", "conv_kernel_size"),
               "modernbert": ("num_hidden_groups",), "eurobert": ("num_hidden_groups",),
               "ultrabert": ("num_hidden_groups",), "mobilebert": ("conv_kernel_size",),
               "gemma3": ("num_hidden_groups",), "t5": ("num_hidden_groups",),
               "qwen3": ("num_hidden_groups", "conv_kernel_size")}
    if changes.keys() & {*refused.get(family, ())}:
        changes = {}  # a convolution looks ahead, layers with LayerNorm before them differ
    if "conv_kernel_size" in changes:
        changes |= dict.fromkeys(("use_bias", "dense_bias", "intermediate_bias"), True)
    model = build_encoder(tiny(family, **changes), seed=1)
    backbone, found = model.backbone, []
    for pooled_only in (False, True):
        with tf.GradientTape() as tape:
            pooled = backbone(INPUTS, pooled_only=pooled_only)
            pooled = pooled if pooled_only else pooled["pooled_output"]
            loss = tf.reduce_sum(tf.sin(3 * pooled))
        found.append((pooled, *tape.gradient(
            loss, [variable.value for variable in model.trainable_variables],
            unconnected_gradients=tf.UnconnectedGradients.ZERO)))
    for one, other in zip(*found, strict=True):
        one, other = tf.convert_to_tensor(one), tf.convert_to_tensor(other)
        np.testing.assert_allclose(one, other, atol=2e-5 * max(1, np.abs(one).max()))


def test_inputs_of_different_shapes_are_refused():
    backbone = build_encoder(tiny("bert", num_hidden_layers=1)).backbone
    for padding_free in (False, True):
        backbone.padding_free = padding_free
        for name in ("input_mask", "input_type_ids"):
            for part in (np.s_[:, 1:], np.s_[:1]):
                with pytest.raises(ValueError, match=rf"{name} has shape \(.*\); expected "
                                                     r"\(.*\), that of input_word_ids"):
                    backbone({**INPUTS, name: INPUTS[name][part]})


@pytest.mark.parametrize(("family", "changes"), [
    ("bert", {}), *(pytest.param("bert", changes, marks=pytest.mark.long) for changes in (
        {"bilstm": True}, {"position_embedding": "sinusoidal"}, {"pooling": "last"},
        {"feed_forward": "conv", "conv_kernel_size": 3})),
    *(pytest.param(family, {}, marks=pytest.mark.long) for family in FAMILIES
      if family != "bert")])
def test_without_padding(family, changes):
    """The same numbers and gradients at attended positions, whatever else the batch holds."""
    model = build_encoder(tiny(family, padding_id=0, **changes), encoder_outputs=True, seed=1)
    lengths = np.array([5, 9, 1, 3, 9, 7, 2])
    mask = (np.arange(9) < lengths[:, None]).astype("int32")
    random = np.random.default_rng(3)
    inputs = {"input_word_ids": random.integers(1, 50, mask.shape).astype("int32") * mask,
              "input_mask": mask, "input_type_ids": random.integers(0, 2, mask.shape)}
    free = tf.function(model, autograph=False, input_signature=[
        {name: tf.TensorSpec([None, None], tf.int32) for name in inputs}])
    found = []
    for call in (model, free):
        model.backbone.padding_free = call is free
        with tf.GradientTape() as tape:
            outputs = call({name: tf.constant(value, tf.int32)
                            for name, value in inputs.items()})
            loss = (tf.reduce_sum(tf.sin(outputs["pooled_output"]))
                    + tf.reduce_sum(tf.sin(outputs["sequence_output"]) * mask[..., None]))
        gradients = tape.gradient(loss, [variable.value for variable in
                                         model.trainable_variables])
        found.append((outputs, [tf.convert_to_tensor(gradient) for gradient in gradients]))
    for rows in ([1, 4], [3], [0, 2]):  # as many tokens in each row, one row, others
        part = free({name: tf.constant(value[rows], tf.int32) for name, value in inputs.items()})
        for some, all_rows in zip(tf.nest.flatten(part), tf.nest.flatten(found[1][0]),
                                  strict=True):
            np.testing.assert_allclose(some, tf.gather(all_rows, rows), atol=1e-5)
    assert free.experimental_get_tracing_count() == 1
    (padded, padded_gradients), (packed, packed_gradients) = found
    for one, other in zip(tf.nest.flatten(padded), tf.nest.flatten(packed), strict=True):
        expected = one if len(one.shape) == 2 else one * mask[..., None]
        np.testing.assert_allclose(other, expected, atol=1e-5)
    for one, other in zip(padded_gradients, packed_gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * max(1, np.abs(one).max()))


@pytest.mark.parametrize("changes", [
    {"position_embedding": "sinusoidal"}, {"feed_forward": "conv", "conv_kernel_size": 3},
    {"bilstm": True}, *(pytest.param(changes, marks=pytest.mark.long) for changes in (
        {"hidden_act": "relu"}, {"embedding_size": 8}))])
@pytest.mark.parametrize("family", [
    "bert", pytest.param("roberta", marks=pytest.mark.long)])
def test_padding_changes_nothing(family, changes):
    """A batch cut to its longest row gives the same, and so does each row alone."""
    model = build_encoder(tiny(family, **changes), seed=1)
    ids = np.where(MASK, np.maximum(INPUTS["input_word_ids"], 1), 0)
    inputs = {**INPUTS, "input_word_ids": ids}
    outputs = model(inputs)
    for row, length in enumerate(MASK.sum(1)):
        alone = model({name: value[row:row + 1, :length] for name, value in inputs.items()})
        np.testing.assert_allclose(outputs["sequence_output"][row, :length],
                                   alone["sequence_output"][0], atol=1e-5)
        np.testing.assert_allclose(outputs["pooled_output"][row], alone["pooled_output"][0],
                                   atol=1e-5)


def test_shared_embeddings_are_one_layer():
    first = build_encoder(tiny("electra"), seed=1)
    second = build_encoder(tiny("electra", hidden_size=8, embedding_size=8), name="generator",
                           embeddings=first.backbone.embeddings)
    assert isinstance(second.backbone.embeddings, Embeddings)
    own = {variable.path for variable in second.trainable_variables}
    assert "electra/embeddings/word_embeddings" in own
    assert not any("generator/embeddings/" in path for path in own)


def test_layer_distances():
    model = build_encoder(tiny("albert"), encoder_outputs=True, seed=1)
    outputs = model(INPUTS)
    states = [np.asarray(outputs["embedding_output"], "float64"),
              *(np.asarray(state, "float64") for state in outputs["encoder_outputs"])]
    got = layer_distances(outputs, MASK)
    real = MASK == 1
    for layer, (before, after) in enumerate(zip(states, states[1:], strict=False)):
        before, after = before[real], after[real]
        lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
        cosine = (before * after).sum(1) / lengths
        expected = {"l2": np.linalg.norm(after - before, axis=1).mean(),
                    "cosine": (1 - cosine).mean(),
                    "degrees": np.degrees(np.arccos(np.clip(cosine, -1, 1))).mean()}
        for name, value in expected.items():
            np.testing.assert_allclose(got[name][layer], value, rtol=1e-4)


@pytest.mark.parametrize("pooling", ["dense", "first"])
def test_the_pooled_output_alone_of_a_table(pooling):
    """The tokens of an encoder without layers are as many in either case."""
    config = ModelConfig.from_dict({"family": "static", "vocab_size": SIZES["vocab_size"],
                                    "hidden_size": 16, "pooling": pooling})
    backbone = build_encoder(config, seed=1).backbone
    inputs = {**INPUTS, "input_type_ids": np.zeros_like(INPUTS["input_type_ids"])}
    alone = backbone(inputs, pooled_only=True)
    assert alone.shape == (len(MASK), 16)
    np.testing.assert_array_equal(alone, backbone(inputs)["pooled_output"])


def test_a_wide_convolution_over_a_gap():
    """What is not attended to takes room, also where nothing is computed of it."""
    backbone = build_encoder(tiny("bert", feed_forward="conv", conv_kernel_size=5), seed=1).backbone
    mask = MASK.copy()
    mask[:, 2] = 0
    states = []
    for padding_free in (False, True):
        backbone.padding_free = padding_free
        states.append(backbone({**INPUTS, "input_mask": mask})["sequence_output"].numpy()[mask > 0])
    np.testing.assert_allclose(*states, atol=1e-5)
