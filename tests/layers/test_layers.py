"""Every layer through the shared harness, and its numbers against the papers' formulas."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import check_layer
from scipy import special

from bert_tf.errors import UsageError
from bert_tf.layers.attention import SelfAttention
from bert_tf.layers.bilstm import BiLstm
from bert_tf.layers.conv import Conv
from bert_tf.layers.dense import Dense
from bert_tf.layers.dropout import Dropout
from bert_tf.layers.embeddings import Embeddings
from bert_tf.layers.feed_forward import Intermediate, Output
from bert_tf.layers.gather import gather_rows
from bert_tf.layers.label_head import LabelHead
from bert_tf.layers.layer_norm import LayerNorm
from bert_tf.layers.masks import padding_adder
from bert_tf.layers.mlm_head import MaskedLMHead, Transform
from bert_tf.layers.norm import RMSNorm
from bert_tf.layers.pooling import Pooler, mean_of_tokens
from bert_tf.layers.transformer_block import Attention, TransformerBlock

pytestmark = pytest.mark.graphs_improved

RANDOM = np.random.default_rng(0)
HIDDEN = RANDOM.normal(size=(3, 5, 8)).astype("float32")
WIDE = {"initializer_range": 0.3, "seed": 7}
IDS = RANDOM.integers(0, 11, (3, 5)).astype("int32")
TYPES = RANDOM.integers(0, 2, (3, 5)).astype("int32")
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]], "int32")
ADDER = np.where(MASK, 0, -10000).astype("float32")[:, None, None]
POSITIONS = np.array([[1, 4], [2, 0], [1, 0]], "int32")

LAYERS = {
    "dense": (lambda d: Dense(6, **WIDE, dtype=d), [HIDDEN]),
    "layer_norm": (lambda d: LayerNorm(dtype=d), [HIDDEN]),
    "rms_norm": (lambda d: RMSNorm(dtype=d), [HIDDEN]),
    "dropout": (lambda d: Dropout(0.1, 3, dtype=d), [HIDDEN]),
    "embeddings": (lambda d: Embeddings(11, 8, 6, 2, dropout=0.1, **WIDE, dtype=d), [IDS, TYPES]),
    "embeddings_of_gpt": (lambda d: Embeddings(11, 8, 6, 0, norm=None, **WIDE, dtype=d),
                          [IDS, TYPES]),
    "embeddings_of_roberta": (lambda d: Embeddings(11, 8, 8, 1, padding_id=1, **WIDE, dtype=d),
                              [IDS, TYPES]),
    "embeddings_without_table": (lambda d: Embeddings(11, 8, 6, 2, "sinusoidal", **WIDE, dtype=d),
                                 [IDS, TYPES]),
    "conv": (lambda d: Conv(6, 3, **WIDE, dtype=d), [HIDDEN, MASK]),
    "bilstm": (lambda d: BiLstm(8, seed=7, dtype=d), [HIDDEN, MASK]),
    "intermediate": (lambda d: Intermediate(12, "gelu", **WIDE, dtype=d), [HIDDEN]),
    "intermediate_tanh_form": (lambda d: Intermediate(12, "gelu_approximate", **WIDE, dtype=d),
                               [HIDDEN]),
    "output": (lambda d: Output(8, 0.1, **WIDE, dtype=d), [HIDDEN, HIDDEN]),
    "self_attention": (lambda d: SelfAttention(8, 2, 0.1, **WIDE, dtype=d), [HIDDEN, ADDER]),
    "grouped_attention": (lambda d: SelfAttention(8, 4, 0.1, **WIDE, num_key_value_heads=2,
                                                  dtype=d), [HIDDEN, ADDER]),
    "attention": (lambda d: Attention(8, 2, 0.1, 0.1, **WIDE, dtype=d), [HIDDEN, ADDER]),
    "block": (lambda d: TransformerBlock(8, 2, 12, "relu", None, 0.1, 0.1, **WIDE, dtype=d),
              [HIDDEN, ADDER]),
    "block_conv": (lambda d: TransformerBlock(8, 2, 12, "relu", 3, 0.1, 0.1, **WIDE, dtype=d),
                   [HIDDEN, ADDER]),
    "pooler": (lambda d: Pooler(8, **WIDE, dtype=d), [HIDDEN]),
    "transform": (lambda d: Transform(8, "tanh", **WIDE, dtype=d), [HIDDEN]),
    "next_sentence": (lambda d: LabelHead(2, **WIDE, dtype=d), [HIDDEN[:, 0]]),
    "tags": (lambda d: LabelHead(3, **WIDE, dtype=d), [HIDDEN]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer_harness(name, tmp_path):
    make, inputs = LAYERS[name]
    check_layer(make, inputs, tmp_path)


def test_attention_is_the_papers_formula():
    layer = SelfAttention(8, 2, initializer_range=0.5, seed=1)
    layer.build(HIDDEN.shape)
    for dense in (layer.query, layer.key, layer.value):
        dense.bias.assign(RANDOM.normal(size=8))
    context, probs = layer(HIDDEN, ADDER, return_attention_probs=True)
    query, key, value = (
        (HIDDEN @ dense.kernel.numpy() + dense.bias.numpy()).reshape(3, 5, 2, 4)
        for dense in (layer.query, layer.key, layer.value))
    scores = np.einsum("bfnh,btnh->bnft", query, key) / np.sqrt(4) + ADDER
    np.testing.assert_allclose(probs, special.softmax(scores, -1), atol=1e-5)
    expected = np.einsum("bnft,btnh->bfnh", special.softmax(scores, -1), value).reshape(3, 5, 8)
    np.testing.assert_allclose(context, expected, atol=1e-5)
    assert np.all(probs.numpy()[1, :, :, 3:] == 0)


@pytest.mark.parametrize("groups", [1, 2])
def test_grouped_heads_are_copies(groups):
    """Keys and values of a group are what each of its heads would have."""
    options = {"initializer_range": 0.5, "seed": 1, "name": "self"}  # of which queries are drawn
    grouped = SelfAttention(8, 4, **options, num_key_value_heads=groups)
    whole = SelfAttention(8, 4, **options)
    grouped.build(HIDDEN.shape)
    whole.build(HIDDEN.shape)
    for name in ("key", "value"):
        kernel = getattr(grouped, name).kernel.numpy()
        assert kernel.shape == (8, 2 * groups)
        getattr(whole, name).kernel.assign(np.repeat(
            kernel.reshape(8, groups, 2), 4 // groups, axis=1).reshape(8, 8))
    for one, other in zip(*(layer(HIDDEN, ADDER, return_attention_probs=True)
                            for layer in (grouped, whole)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_rms_norm():
    """Its numbers and gradients, where XLA makes one pass of it and where not."""
    for tokens in (5, 1 << 18):
        x, layer = tf.constant(RANDOM.normal(1, 2, (tokens, 4)).astype("float32")), RMSNorm(1e-3)
        layer.build(x.shape)
        layer.gamma.assign([0.5, 1, -1.5, 2])
        found = []
        for function in (layer, lambda x, gamma=layer.gamma: x / tf.sqrt(
                tf.reduce_mean(x * x, -1, keepdims=True) + 1e-3) * gamma):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
                loss = tf.reduce_sum(tf.sin(y))
            found.append((y, *tape.gradient(loss, [x, layer.gamma.value])))
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4, rtol=1e-4)


def test_padding_adder():
    np.testing.assert_array_equal(padding_adder(MASK), ADDER)
    assert np.isfinite(2 * padding_adder(MASK, "float16")).all()


def test_a_mask_above_1_attracts_no_attention():
    np.testing.assert_array_equal(padding_adder(255 * MASK), ADDER)
    np.testing.assert_array_equal(padding_adder(MASK > 0), ADDER)
    np.testing.assert_array_equal(mean_of_tokens(HIDDEN, MASK * [[1, 2, 3, 1, 1]]),
                                  mean_of_tokens(HIDDEN, MASK))


@pytest.mark.parametrize("kind", ["int32", "bool"])
def test_a_mask_is_no_adder(kind):
    hidden = tf.zeros([*MASK.shape, 8])
    with pytest.raises(ValueError, match=f"adder has type {kind}; expected a float one, 0 where"):
        SelfAttention(8, 2)(hidden, tf.cast(MASK, kind)[:, None, None])


@pytest.mark.parametrize("make", [lambda: SelfAttention(8, 2, **WIDE),
                                  lambda: TransformerBlock(8, 2, 12, **WIDE)])
def test_without_an_adder_nothing_is_hidden(make):
    layer = make()
    expected = layer(HIDDEN, np.zeros_like(ADDER))
    np.testing.assert_array_equal(layer(HIDDEN), expected)
    hidden = keras.Input((None, 8))
    np.testing.assert_allclose(keras.Model(hidden, layer(hidden))(HIDDEN), expected, atol=1e-6)


def test_masked_positions_change_nothing():
    block = TransformerBlock(8, 2, 12, **WIDE)
    changed = np.where(MASK[..., None] == 1, HIDDEN, 9.0).astype("float32")
    before, after = block(HIDDEN, ADDER), block(changed, ADDER)
    np.testing.assert_allclose(before[MASK == 1], after[MASK == 1], atol=1e-5)


def test_heads_must_divide_the_width():
    with pytest.raises(UsageError, match="hidden_size=10"):
        SelfAttention(10, 3)


def test_layer_norm_and_its_gradients_are_those_of_keras():
    ours, theirs = LayerNorm(1e-5), keras.layers.LayerNormalization(epsilon=1e-5)
    x = tf.constant(HIDDEN * 3 + 5)
    results = []
    for layer in (ours, theirs):
        layer.build(x.shape)
        layer.gamma.assign(np.linspace(0.5, 2, 8))
        layer.beta.assign(np.linspace(-1, 1, 8))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
            loss = tf.reduce_sum(tf.sin(y))
        results.append([y, *tape.gradient(loss, [x, layer.gamma.value, layer.beta.value])])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5)


def layer_norm_in_float64(x, epsilon=1e-12):
    centred = x - x.mean(-1, keepdims=True, dtype="float64")
    return centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + epsilon)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_mean_far_from_zero_is_taken_away_first(jit_compile):
    x = (RANDOM.normal(size=(300, 768)) + 100).astype("float32")
    norm = LayerNorm()
    norm.build(x.shape)
    got = tf.function(norm, jit_compile=jit_compile)(x)
    np.testing.assert_allclose(got, layer_norm_in_float64(x), atol=2e-5)


def test_layer_norm_keeps_float32_statistics():
    x = tf.cast(1000 + tf.random.stateless_normal((4, 256), [1, 2]), tf.bfloat16)
    got = LayerNorm(dtype="mixed_bfloat16")(x)
    want = LayerNorm()(tf.cast(x, tf.float32))
    np.testing.assert_allclose(tf.cast(got, tf.float32), want, atol=0.02)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_gradients_of_many_tokens_add_up_in_half_precision(policy):
    """Each number is 1: a sum in bfloat16 stays at 256, one in float16 at 2048."""
    dtype = policy.removeprefix("mixed_")
    tokens, count = tf.ones((4096, 2), dtype), [4096, 4096]
    output = Output(2, layer_norm_eps=None, dtype=policy)  # as layers call a Dense
    output.build((None, 2))
    conv = Conv(2, 1, dtype=policy)
    conv.build((None, 2))
    with tf.GradientTape() as tape:
        total = (tf.reduce_sum(output(tokens, tokens, training=True))
                 + tf.reduce_sum(conv(tokens, tf.ones(4096, tf.int32), training=True)))
    for gradient in tape.gradient(total, [output.dense.bias.value, conv.bias.value]):
        np.testing.assert_array_equal(gradient, count)
    table = tf.ones((3, 2), dtype)
    with tf.GradientTape() as tape:
        tape.watch(table)
        rows = gather_rows(table, tf.zeros(4096, tf.int32))
    np.testing.assert_array_equal(tape.gradient(rows, table)[0], count)


def test_embedding_gradient_is_dense_and_adds_to_the_tied_decoders():
    table = tf.Variable(RANDOM.normal(size=(11, 8)).astype("float32"))

    def loss(rows):
        hidden = tf.reshape(rows, [-1, 8])
        return tf.reduce_sum(tf.nn.log_softmax(tf.matmul(hidden, table, transpose_b=True))[:, 3])

    with tf.GradientTape(persistent=True) as tape:
        ours = loss(gather_rows(tf.convert_to_tensor(table), IDS))
        theirs = loss(tf.gather(table, IDS))
    gradient = tape.gradient(ours, table)
    assert isinstance(gradient, tf.Tensor)
    np.testing.assert_allclose(gradient, tf.convert_to_tensor(tape.gradient(theirs, table)),
                               atol=1e-5)


def test_embeddings_are_a_sum():
    layer = Embeddings(11, 8, 6, 2, **WIDE)
    outputs = layer(IDS, TYPES)
    words, types, positions = (np.asarray(table) for table in (
        layer.word_embeddings, layer.token_type_embeddings, layer.position_embeddings))
    total = words[IDS] + types[TYPES] + positions[:5]
    centred = total - total.mean(-1, keepdims=True)
    np.testing.assert_allclose(outputs, centred / centred.std(-1, keepdims=True), atol=1e-5)
    with pytest.raises(ValueError, match="at most 6: max_position_embeddings=6"):
        layer(np.zeros((1, 7), "int32"), np.zeros((1, 7), "int32"))


def test_masked_lm_head_decodes_only_the_masked_positions():
    table = RANDOM.normal(size=(11, 8)).astype("float32")
    head = MaskedLMHead(11, 8, "tanh", **WIDE)
    logits = head(HIDDEN, POSITIONS, table)
    head.output_bias.assign(np.arange(11.0))
    gathered = np.take_along_axis(HIDDEN, POSITIONS[..., None], 1)
    expected = head.transform(gathered).numpy() @ table.T
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    np.testing.assert_allclose(head(HIDDEN, POSITIONS, table), expected + np.arange(11.0),
                               atol=1e-5)
    assert MaskedLMHead(11, 8, dtype="mixed_bfloat16")(HIDDEN, POSITIONS, table).dtype == "float32"


@pytest.mark.parametrize("position", [5, -1])
def test_masked_positions_that_a_row_does_not_have(position):
    """Those of the row beside it were taken."""
    head, table = MaskedLMHead(11, 8, **WIDE), np.zeros((11, 8), "float32")
    wrong = np.array([[1, 4], [2, position], [1, 0]], "int32")
    for compute in (head, tf.function(head)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="masked_lm_positions must be 0"):
            compute(HIDDEN, wrong, table)


def test_a_dense_layer_takes_no_argument_that_it_would_not_heed():
    for name, value in (("activation", "relu"), ("kernel_initializer", "ones"),
                        ("kernel_regularizer", "l2")):
        with pytest.raises(TypeError, match=name):
            Dense(4, **{name: value})


def test_initial_weights_depend_on_seed_and_path_only():
    first = TransformerBlock(8, 2, 12, seed=1, name="layer_0")
    Dense(4, seed=1).build((None, 8))  # something built in between
    second = TransformerBlock(8, 2, 12, seed=1, name="layer_0")
    other = TransformerBlock(8, 2, 12, seed=2, name="layer_0")
    for block in (first, second, other):
        block.build(HIDDEN.shape)
    kernels = [variable.numpy() for variable in first.variables if variable.ndim == 2]
    for a, b in zip(first.variables, second.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    assert all(np.abs(kernel).max() <= 0.04 for kernel in kernels)
    assert not np.array_equal(kernels[0], kernels[1])
    assert not np.array_equal(first.variables[0], other.variables[0])
