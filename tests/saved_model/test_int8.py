"""Exports whose products are of whole numbers: near the model, small, the same in any batch."""

import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from processor_marks import needs_vnni
from test_c_api import answers
from tiny_model import SEQ_LENGTH, TEXTS, WORDS, Caller, only_signatures, own_signatures, save_model

from bert_tf import cli, export
from bert_tf.errors import BertTfError, UsageError
from bert_tf.layers.activations import gelu
from bert_tf.retrieval.codes import VectorCode
from bert_tf.saved_model import ops
from bert_tf.saved_model.exported_encoder import load_exported
from bert_tf.saved_model.int8_inputs import LayerInputs
from bert_tf.saved_model.int8_product import ByColumn, ByRow, int8_product
from bert_tf.saved_model.int8_rounding import LIMIT, round_kernel
from bert_tf.saved_model.int8_scales import best_int8
from bert_tf.saved_model.int8_weights import dense_layers
from bert_tf.saved_model.ops import used_ops
from bert_tf.saved_model.quantize import losses
from bert_tf.saved_model.save import export_saved_model
from bert_tf.saved_model.served_model import load_served
from bert_tf.serving.server.loaded_version import LoadedVersion
from bert_tf.serving.wire.request import ServingError
from bert_tf.storage import variables
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.text_signatures import read_signatures
from bert_tf.tokenization.packing import pack

pytestmark = pytest.mark.graphs_improved

KERNEL = np.random.default_rng(0).normal(size=(64, 48)).astype(np.float32)
BIAS = np.random.default_rng(1).normal(size=48).astype(np.float32)


@pytest.fixture
def random():
    """A generator of the test's own: whichever ran before, it draws the same."""
    return np.random.default_rng(2)


def inputs_of(random, outliers):
    """Numbers of which one column is far larger than the others, in every row or in few."""
    rows = random.normal(size=(200, 64)).astype(np.float32)
    rows[outliers, 7] += 60
    return rows


def seen(rows):
    inputs = LayerInputs(KERNEL)
    inputs.add(rows[:100])
    inputs.add(rows[100:])
    return inputs


def per_tensor(rows):
    """The product with one scale for all inputs and one for each column of the kernel."""
    step, scale = np.abs(rows).max() / LIMIT, np.abs(KERNEL).max(0) / LIMIT
    return (np.rint(rows / step) * step) @ (np.rint(KERNEL / scale) * scale) + BIAS


def test_rows_that_differ_in_size_are_stretched(random):
    rows = random.normal(size=(200, 64)) * 10 ** random.uniform(-1, 1, size=(200, 1))
    layer, error = best_int8(BIAS, seen(rows.astype(np.float32)))
    assert layer.stretched
    assert error < 0.02
    largest = 20 * rows[:20]  # beyond all that was seen
    np.testing.assert_allclose(layer.of_rows(largest), largest @ KERNEL + BIAS, atol=0.02 * np.abs(
        largest @ KERNEL).max())


def test_columns_far_from_0_that_hardly_vary(random):
    rows = (1000 + random.normal(scale=1e-3, size=(200, 64))).astype(np.float32)
    layer, error = best_int8(BIAS, seen(rows))
    assert error < 1e-3
    wanted = rows @ KERNEL + BIAS
    np.testing.assert_allclose(layer.of_rows(rows), wanted, atol=1e-3 * np.abs(wanted).max())


def error_of(given, rows):
    exact = rows @ KERNEL + BIAS
    return np.sqrt(np.mean((given - exact) ** 2) / np.mean((exact - exact.mean(0)) ** 2))


@pytest.mark.parametrize(("outliers", "kind"), [
    (slice(None), ByColumn), (slice(0, 200, 25), ByRow)])
def test_a_column_of_large_numbers_takes_nothing_from_the_others(random, outliers, kind):
    rows = inputs_of(random, outliers)
    layer, error = best_int8(BIAS, seen(rows))
    assert isinstance(layer, kind)
    assert error < 0.05
    usual = rows[1:25]  # by row, those that are not far out themselves
    assert error_of(layer.of_rows(usual), usual) < 0.3 * error_of(per_tensor(rows)[1:25], usual)
    kernel, bias = layer.restored()
    np.testing.assert_allclose(usual @ kernel + bias, usual @ KERNEL + BIAS, atol=1.0)
    assert np.abs(kernel - KERNEL)[np.arange(64) != 7].max() < 0.05


def test_weights_make_up_for_the_rounding_of_others_of_inputs_that_vary_together(random):
    rows = random.normal(size=(400, 8)) @ random.normal(size=(8, 64)) + random.normal(
        size=(400, 64)) / 10
    nearest, scale = round_kernel(KERNEL)
    chosen, same_scale = round_kernel(KERNEL, np.cov(rows.T))
    np.testing.assert_array_equal(scale, same_scale)
    np.testing.assert_array_equal(nearest, np.rint(KERNEL / scale))
    assert np.abs(chosen.astype(int)).max() == LIMIT

    def lost(whole):
        return np.square(rows @ (whole * scale - KERNEL)).sum()

    assert lost(chosen) < 0.3 * lost(nearest)


@needs_vnni
@pytest.mark.parametrize("layer", [
    ByColumn.of(KERNEL, BIAS, np.linspace(10, 40, 64), np.linspace(-20, 20, 64)),
    ByColumn.of(KERNEL, BIAS, np.linspace(0.1, 4, 64), np.linspace(-2, 2, 64), stretched=True),
    ByRow.of(KERNEL, BIAS, np.float32(-2))])
@pytest.mark.parametrize("function", [None, gelu, tf.nn.silu])
def test_the_op_computes_what_numpy_does(random, layer, function):
    fields = {**vars(layer), "limit": layer.scale * LIMIT}
    del fields["scale"]
    stretched = fields.pop("stretched", False)
    compute = tf.function(lambda rows: int8_product(
        rows, {name: tf.constant(value) for name, value in fields.items()}, function, stretched),
        autograph=False, input_signature=[tf.TensorSpec([None, 64])])
    for count in (0, 1, 33):
        rows = random.normal(scale=2, size=(count, 64)).astype(np.float32)
        wanted = layer.of_rows(rows)
        wanted = wanted if function is None else function(tf.constant(wanted)).numpy()
        np.testing.assert_allclose(compute(rows), wanted, atol=2e-3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_model(str(tmp_path_factory.mktemp("int8") / "model"))


@pytest.fixture(scope="module")
def texts():
    words = [word for word in WORDS.split() if not word.startswith("##")]
    random = np.random.default_rng(3)
    return [" ".join(random.choice(words, random.integers(1, 9))) for _ in range(64)]


@pytest.fixture(scope="module")
def version(folder, texts):
    with only_signatures("embed", "encode"):
        return export_saved_model(folder, os.path.join(folder, "../served"), dtype="int8",
                                  calibration=texts, max_loss=0.1)


def test_answers_are_near_and_the_same_among_neighbours(version, folder):
    call = Caller(version)
    given = call("encode", text=TEXTS)
    for row, text in enumerate(TEXTS):
        alone = call("encode", text=[text])
        own = given["sequence_output"][row, :alone["num_tokens"][0]]
        np.testing.assert_allclose(own, alone["sequence_output"][0], atol=1e-5)
    assert "_QuantizedMatMul" in used_ops(version)


@needs_vnni
def test_the_encoder_is_read_from_the_version(version, folder):
    encoder, tokenizer = load_exported(version)
    model = from_pretrained(folder, dtype="float32")
    inputs = pack(tokenizer.vocabulary, [tokenizer.tokenize(TEXTS)], SEQ_LENGTH)
    given = Caller(version)("encode", text=TEXTS)["sequence_output"]
    mask = inputs["input_mask"].numpy()[:, :given.shape[1], None]
    for other in (encoder, model.encoder):
        own = other(inputs)["sequence_output"].numpy()[:, :given.shape[1]] * mask
        assert 0 < np.linalg.norm(own - given) < 0.2 * np.linalg.norm(given)
    stored = {layer.path: layer for layer in dense_layers(encoder)}
    for layer in dense_layers(model.encoder):
        kernel, exact = stored[layer.path].kernel.numpy(), layer.kernel.numpy()
        assert 0 < np.abs(kernel - exact).max() < 0.05 * np.abs(exact).max()
        np.testing.assert_allclose(stored[layer.path].bias, layer.bias, atol=0.05)


def report_of(version):
    return json.loads(pathlib.Path(version, "assets.extra/export.json").read_text())


def test_what_is_stored_and_reported(version):
    reader = variables.VariableReader(os.path.join(version, "variables", "variables"))
    whole = [name for name, entry in reader.entries.items() if entry.dtype == tf.int8]
    assert len(whole) == 6 + 1  # of a layer, and the table of tokens
    shapes = [tuple(reader.shapes[name]) for name in reader.shapes if name not in whole]
    assert (16, 32) not in shapes and (32, 16) not in shapes
    report = report_of(version)
    assert report["dtype"] == "int8"
    assert len(report["int8"]["layers"]) == 6
    assert 0 < report["int8"]["mean_loss"] <= report["int8"]["loss"] <= 0.1


@pytest.mark.long
def test_through_the_c_library(version):
    inputs = {"text": [text.replace("[MASK]", "fox") for text in TEXTS]}
    answer, = answers(version, [("embed", inputs)])
    given = np.reshape(answer["embedding"]["values"], answer["embedding"]["shape"])
    np.testing.assert_allclose(given, Caller(version)("embed", **inputs)["embedding"], atol=1e-5)


@pytest.mark.long
def test_layers_stay_float32_until_the_loss_is_small(version, folder, texts):
    loss = report_of(version)["int8"]["loss"]
    served = load_served(folder, "int8", calibration=texts, max_loss=0.9 * loss)
    layers = served.int8_report["layers"]
    kept = {path for path, layer in layers.items() if layer["dtype"] == "float32"}
    assert served.int8_report["loss"] <= 0.9 * loss
    assert 1 <= len(kept) <= 3
    assert min(layers[path]["loss"] for path in kept) >= max(
        layer["loss"] for path, layer in layers.items() if path not in kept)
    exact = {variable.path for variable in served.model.weights}
    stored = {variable.name.partition(":")[0]: variable for variable in served.stored_weights}
    assert exact <= set(stored)
    assert {path for path in exact if path.rpartition("/")[0] in layers
            and stored[path].dtype == tf.int8} == {f"{path}/kernel" for path in layers
                                                   if path not in kept}
    with pytest.raises(BertTfError, match=r"int8 loses .* of 6 layers in float32"):
        load_served(folder, "int8", calibration=texts, max_loss=1e-9)


def test_losses_of_vectors():
    exact = np.float32([[3, 4], [1, 0], [1, 0], [1, 0], [0, 0]])
    given = np.float32([[6, 8], [0, 2], [0, 0], [np.nan, 1], [0, 0]])
    np.testing.assert_allclose(losses(given, exact), [0, 1, 1, 1], atol=1e-6)


@pytest.mark.long
def test_the_loss_is_of_the_components_that_are_stored(folder, texts):
    served = {dimensions: load_served(
        folder, "int8", calibration=texts, max_loss=0.5,
        code=VectorCode(dimensions=dimensions)) for dimensions in (None, 4)}
    assert served[4].int8_report["loss"] != served[None].int8_report["loss"]


@needs_vnni
@pytest.mark.long
@pytest.mark.parametrize("name", ["albert", "electra", "gpt", "roberta", "several", "tagger"])
def test_every_family(name, texts, tmp_path):
    """Exports compare themselves with the model whose layers are rounded."""
    folder = save_model(str(tmp_path / "model"), name)
    with own_signatures(name):
        version = export_saved_model(folder, str(tmp_path / "served"), dtype="int8",
                                     calibration=texts, max_loss=0.2)
    assert "_QuantizedMatMul" in used_ops(version)


def test_what_is_refused(folder, capsys):
    with pytest.raises(UsageError, match="3 texts to calibrate it by; expected at least 8"):
        export_saved_model(folder, dtype="int8", calibration=["fox"] * 3)
    assert cli.run(export.main, ["--model", folder, "--calibration", "x"]) == 2
    assert "--calibration with --dtype float32" in capsys.readouterr().err


def test_without_vnni_it_is_refused_instead_of_computed_wrongly(version, folder, monkeypatch):
    monkeypatch.setattr(ops, "lacks_vnni", lambda: True)
    with pytest.raises(UsageError, match="no VNNI; try an export in float32"):
        read_signatures(version)
    with pytest.raises(ServingError, match="no VNNI; serve one in float32 here") as refused:
        LoadedVersion(version)
    assert refused.value.code == "FAILED_PRECONDITION"
    monkeypatch.setattr(ops, "lacks_vnni", lambda: False)
    assert "encode" in read_signatures(version).specs
