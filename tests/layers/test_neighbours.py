"""The convolution beside DeBERTa's first layer: its formula, in the model, in files."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from test_families import batch
from test_stack import tiny

from bert_tf.config import ModelConfig
from bert_tf.converters import hf_safetensors, ours
from bert_tf.converters.checkpoint import parameter_shapes
from bert_tf.errors import UsageError
from bert_tf.models.families import build_encoder
from bert_tf.tasks.pretrained import from_pretrained

RANDOM = np.random.default_rng(2)
BESIDE = {"first_conv_kernel_size": 3, "first_conv_act": "tanh"}


@pytest.fixture(scope="module")
def model():
    made = build_encoder(tiny("deberta", initializer_range=0.2, **BESIDE), encoder_outputs=True,
                         seed=1)
    for variable in made.trainable_variables:
        if variable.ndim == 1:
            variable.assign(variable + RANDOM.normal(size=variable.shape) * 0.3)
    return made


def convolved(layer, sequence):
    """The convolution of one sequence `[length, hidden]`, whose neighbours outside are 0."""
    beside = np.pad(sequence, [[1, 1], [0, 0]])
    return layer.bias.numpy() + sum(beside[tap:tap + len(sequence)] @ kernel
                                    for tap, kernel in enumerate(layer.kernel.numpy()))


@pytest.mark.parametrize("padding_free", [False, True])
def test_the_formula(model, padding_free):
    """What it adds to the first layer's output, row by row in NumPy."""
    inputs, backbone = batch(), model.backbone
    layer, lengths = backbone.encoder.neighbours, batch()["input_mask"].sum(1)
    backbone.padding_free = padding_free
    found = backbone(inputs)
    backbone.encoder.neighbours = None
    without = backbone(inputs)["encoder_outputs"][0].numpy()
    backbone.encoder.neighbours, backbone.padding_free = layer, False
    gamma, beta = layer.layer_norm.gamma.numpy(), layer.layer_norm.beta.numpy()
    for row, length in enumerate(lengths):
        embedded = found["embedding_output"].numpy()[row, :length]
        total = without[row, :length] + np.tanh(convolved(layer.conv, embedded))
        centered = total - total.mean(-1, keepdims=True)
        expected = centered / np.sqrt((centered ** 2).mean(-1, keepdims=True) + 1e-7)
        np.testing.assert_allclose(found["encoder_outputs"][0][row, :length],
                                   expected * gamma + beta, atol=2e-5)


def test_what_none_sees_is_no_neighbour(model):
    """Gaps and padding on the left: the same with padding and without, whatever stands there."""
    inputs, backbone = {name: np.array(values) for name, values in batch().items()}, model.backbone
    inputs["input_mask"][0, [0, 2]] = 0
    seen = inputs["input_mask"][..., np.newaxis]
    told = []
    for padding_free in (False, True):
        backbone.padding_free = padding_free
        for changed in (0, 1):
            words = np.where(inputs["input_mask"], inputs["input_word_ids"],
                             inputs["input_word_ids"] ^ changed)
            told.append(backbone({**inputs, "input_word_ids": words})["sequence_output"] * seen)
    backbone.padding_free = False
    for each in told[1:]:
        np.testing.assert_allclose(each, told[0], atol=2e-5)


@pytest.mark.long
def test_files(model, tmp_path):
    assert {variable.path: tuple(variable.shape) for variable in model.weights} == (
        parameter_shapes(model.config, {"task": "encoder"}))
    model.save(str(tmp_path / "encoder.keras"))
    model.save_pretrained(str(tmp_path / "ours"))
    hf_safetensors.write(ours.read(str(tmp_path / "ours")), str(tmp_path / "hf"))
    ours.write(hf_safetensors.read(str(tmp_path / "hf")), str(tmp_path / "again"))
    expected = model(batch())["sequence_output"]
    for read in (keras.saving.load_model(str(tmp_path / "encoder.keras")),
                 from_pretrained(str(tmp_path / "again"))):
        np.testing.assert_array_equal(read(batch())["sequence_output"], expected)


def test_every_variable_learns_in_mixed_precision(model):
    trained = build_encoder(model.config, dtype="mixed_bfloat16", seed=1)
    with tf.GradientTape() as tape:
        states = trained(batch(), training=True)["sequence_output"]
        loss = tf.reduce_sum(states * tf.random.stateless_normal(states.shape, [1, 2]))
    gradients = tape.gradient(loss, trained.trainable_variables)
    for variable, gradient in zip(trained.trainable_variables, gradients, strict=True):
        assert np.any(tf.convert_to_tensor(gradient)), variable.path


@pytest.mark.parametrize(("changes", "message"), [
    ({"first_conv_kernel_size": 2}, "first_conv_kernel_size=2; expected 0, or an odd number"),
    ({"first_conv_act": "sine"}, "first_conv_act='sine' is unknown"),
    ({"attention": "causal", "pooling": "last", "relative_position": "none",
      "position_buckets": 0, "max_relative_position": 0}, "with attention='causal'")])
def test_what_makes_no_sense_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        ModelConfig.from_dict({**tiny("deberta").to_dict(), **BESIDE, **changes})
