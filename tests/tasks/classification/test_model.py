"""Classifiers of text: every problem, long texts in windows, files and folders, two replicas."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import mirrored
from scipy import special
from sklearn.metrics import log_loss, mean_squared_error
from text_models import CONFIG, VOCABULARY, classifier, make_preprocessor

import bert_tf
from bert_tf.errors import UsageError
from bert_tf.tasks.classification.model import Classifier

TEXTS = ["good a b", "bad", "good c d e f g", "bad a"] * 8
LABELS = np.array([1, 0, 1, 0] * 8, "int32")
LONG = ["a b c d e f g h a b c d e f g h a b", "c", "good a b c d e f g h a b c d e f"]


def multi_labels(size):
    return np.random.default_rng(0).integers(0, 2, (size, 3)).astype("int32")


def test_learns_from_text_and_predicts():
    model = classifier()
    model.compile(keras.optimizers.Adam(0.03))
    history = model.fit(TEXTS, LABELS, batch_size=8, epochs=6, verbose=0,
                        validation_data=(TEXTS, LABELS)).history
    assert history["loss"][-1] < 0.3 * history["loss"][0]
    assert history["val_classifier_accuracy"][-1] == 1
    logits = model(TEXTS).numpy()
    assert (logits.argmax(1) == LABELS).all() and logits.dtype == np.float32
    probabilities = model.probabilities(logits).numpy()
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    results = model.evaluate(np.array(TEXTS), LABELS, verbose=0, return_dict=True)
    assert results["loss"] == pytest.approx(log_loss(LABELS, probabilities), rel=1e-4)


def test_text_and_its_ids_are_one():
    model = classifier()
    ids = model.preprocessor(tf.constant(TEXTS))
    expected = model(ids).numpy()
    column = np.array(TEXTS)
    for form in (TEXTS, column, column.astype(object), {"text": TEXTS}, column[:, None]):
        np.testing.assert_array_equal(model(form), expected)
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(32)
    np.testing.assert_allclose(model.predict(dataset, verbose=0), expected, atol=1e-6)


def test_pairs(eager):
    model = classifier()
    one, other = TEXTS[:6], TEXTS[3:9]
    expected = model({"text_a": one, "text_b": other}).numpy()
    assert np.abs(expected - model(one).numpy()).max() > 0.01
    np.testing.assert_array_equal(model((tf.constant(one), tf.constant(other))), expected)
    np.testing.assert_allclose(model.predict({"text_a": np.array(one), "text_b": np.array(other)},
                                             verbose=0), expected, atol=1e-6)
    model.compile("sgd")
    model.fit({"text_a": one, "text_b": other}, LABELS[:6], verbose=0)


@pytest.mark.parametrize("as_dataset", [False, True])
def test_what_is_trained_on_pairs_is_a_model_of_pairs(as_dataset, tmp_path, eager):
    model = classifier(preprocessor=None)
    model.preprocessor = bert_tf.TextPreprocessor(make_preprocessor(16).tokenizer, 16)
    model.compile("sgd")
    data = {"text_a": TEXTS, "text_b": TEXTS[::-1]}, LABELS
    if as_dataset:
        data = [tf.data.Dataset.from_tensor_slices(data).batch(32)]
    else:
        model.fit(TEXTS, LABELS, verbose=0)
        assert not model.preprocessor.pair
    model.fit(*data, verbose=0)
    model.save_pretrained(str(tmp_path))
    model = bert_tf.from_pretrained(str(tmp_path), "classifier", labels=["a", "b", "c"])
    assert model.preprocessor.pair
    model.compile("sgd")
    model.fit(TEXTS, LABELS, verbose=0)  # a new head, of single texts
    assert model.preprocessor.pair is False


@pytest.mark.parametrize(("problem", "ignored", "loss", "name"), [
    ("single_label", -1, keras.losses.SparseCategoricalCrossentropy(from_logits=True), "accuracy"),
    ("regression", np.nan, "mse", "mae")])
def test_losses_and_metrics_of_keras_are_those_of_the_model(problem, ignored, loss, name, eager):
    labels = np.where(np.arange(32) < 16, LABELS, ignored)[:, None]
    told = []
    for given in (None, loss):
        model = classifier(("no", "yes") if problem == "single_label" else ("score",), problem)
        model.compile("sgd", given, metrics=[name])
        told.append(model.evaluate(TEXTS, labels, verbose=0, return_dict=True))
    own, of_keras = told
    assert own["loss"] == pytest.approx(of_keras["loss"], rel=1e-5)
    (of_model,) = (value for key, value in own.items() if key.startswith("classifier_"))
    assert of_model == pytest.approx(own[name]) == pytest.approx(of_keras[name])


class OfOnesOwn(keras.losses.Loss):
    """It reads labels as they were given."""

    def call(self, y_true, y_pred):
        return keras.ops.mean(keras.ops.square(y_pred[:, :1] - y_true[:, :1]), -1)


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "none"])
def test_a_loss_of_ones_own_sees_labels_as_they_are_given(reduction):
    """Such as the scores of a teacher, whatever the model's own loss would take."""
    model, given = classifier(("no", "yes")), np.linspace(0.1, 0.9, 32, dtype="float32")[:, None]
    model.compile("sgd", OfOnesOwn(reduction))
    expected = np.square(model.predict(TEXTS, verbose=0)[:, :1] - given).mean()
    assert model.evaluate(TEXTS, given, verbose=0) == pytest.approx(expected, rel=1e-4)


def test_no_reader_no_text():
    with pytest.raises(UsageError, match="classifier was given text and has no preprocessor"):
        classifier(preprocessor=None)(TEXTS)
    with pytest.raises(UsageError, match="a TextPreprocessor without a tokenizer"):
        keras.models.clone_model(classifier())(TEXTS)


@pytest.mark.parametrize(("labels", "problem", "message"), [
    (["score", "other"], "regression", "expected one name"),
    ([], "multi_label", "one or more different names"),
    (["one"], "single_label", "two or more different names"),
    (["a", "b"], "multilabel", "try problem='multi_label'")])
def test_labels_suit_the_problem(labels, problem, message):
    with pytest.raises(UsageError, match=message):
        Classifier(CONFIG, labels, problem)


@pytest.mark.parametrize(("problem", "labels", "expected"), [
    ("multi_label", LABELS, r"\[b, 3\]"),
    ("multi_label", LABELS[:, np.newaxis], r"\[b, 3\]"),
    ("single_label", multi_labels(32), r"\[b\] or \[b, 1\]")])
def test_labels_of_another_shape_are_refused(problem, labels, expected, eager):
    model = classifier(("a", "b", "c"), problem)
    model.compile()
    with pytest.raises(UsageError, match=f"label_ids of the shape .*; expected {expected}"):
        model.evaluate(TEXTS, labels, verbose=0)


def test_several_labels_against_scikit_learn():
    """The mean over all decisions that are known; -1 is not."""
    model = classifier(("a", "b", "c"), "multi_label")
    labels = multi_labels(len(TEXTS))
    labels[0] = -1
    labels[1, 2] = -1
    logits = model(TEXTS).numpy()
    known = labels >= 0
    probabilities = special.expit(logits)
    np.testing.assert_allclose(model.probabilities(logits), probabilities, rtol=1e-5)
    batch = {"label_ids": labels}
    mean = float(model.loss_sums(logits, batch)["classifier"]
                 / model.loss_weights(batch)["classifier"])
    assert mean == pytest.approx(log_loss(labels[known], probabilities[known]), rel=1e-5)
    right, total = model.metric_sums(logits, batch)["classifier_accuracy"]
    assert float(total) == known.sum()
    assert float(right) == ((probabilities > 0.5) == labels)[known].sum()


def test_regression_against_scikit_learn():
    model = classifier(("score",), "regression")
    values = np.random.default_rng(0).normal(size=len(TEXTS)).astype("float32")
    values[:5] = np.nan
    logits = model(TEXTS).numpy()
    assert logits.shape == (len(TEXTS), 1)
    np.testing.assert_array_equal(model.probabilities(logits), logits)
    weights = np.linspace(0, 2, len(TEXTS)).astype("float32")
    batch = {"label_ids": values, "example_weights": weights}
    mean = float(model.loss_sums(logits, batch)["classifier"]
                 / model.loss_weights(batch)["classifier"])
    assert mean == pytest.approx(mean_squared_error(
        values[5:], logits[5:, 0], sample_weight=weights[5:]), rel=1e-5)
    error, total = model.metric_sums(logits, batch)["classifier_error"]
    assert float(error / total) == pytest.approx(np.average(
        np.abs(values - logits[:, 0])[5:], weights=weights[5:]), rel=1e-5)


@pytest.mark.long
@pytest.mark.parametrize(("problem", "names", "loss"), [
    ("single_label", ("no", "yes"),
     lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True)),
    ("multi_label", ("a", "b", "c"), lambda: keras.losses.BinaryCrossentropy(from_logits=True)),
    ("regression", ("score",), lambda: "mse")])
def test_our_loss_is_that_of_keras(problem, names, loss):
    """`compile(optimizer)` and `compile(optimizer, loss)` train alike."""
    labels = {"single_label": LABELS, "multi_label": multi_labels(32),
              "regression": LABELS * 2.5}[problem]
    histories, kernels = [], []
    for arguments in ((), (loss(),)):
        model = classifier(names, problem)
        model.compile(keras.optimizers.SGD(0.1), *arguments)
        histories.append(model.fit(TEXTS, labels, batch_size=8, epochs=2, shuffle=False,
                                   verbose=0).history["loss"])
        kernels.append(model.head.output_weights.numpy())
    np.testing.assert_allclose(*histories, rtol=1e-4)
    np.testing.assert_allclose(*kernels, atol=1e-5)


def test_compiled_again_with_a_loss_of_keras(eager):
    model = classifier()
    model.compile("sgd")
    assert [metric.name for metric in model.metrics] == ["loss", "classifier_accuracy"]
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    assert set(model.fit(TEXTS, LABELS, verbose=0).history) == {"loss"}


@pytest.mark.long
@pytest.mark.parametrize(("problem", "names"), [
    ("single_label", ("no", "yes")), ("multi_label", ("a", "b", "c")), ("regression", ("score",))])
def test_two_replicas_train_as_one(problem, names):
    """`fit` on text; 33 rows in batches of 8 leave one, so that a replica's last batch is empty."""
    texts = [*TEXTS, "good"]
    labels = {"single_label": np.append(LABELS, 1), "multi_label": multi_labels(33),
              "regression": np.linspace(-1, 1, 33, dtype="float32")}[problem]
    data = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(8)
    accuracies, weights = [], []
    for replicas in (1, 2):
        with mirrored(replicas).scope():
            model = classifier(names, problem)
            model.compile(keras.optimizers.SGD(0.1))
        # Not the loss, which Keras reports as if all replicas had as many examples.
        accuracies.append(model.fit(data, verbose=0).history[f"{model.metric_names[0]}"])
        weights.append([variable.numpy() for variable in model.trainable_variables])
    np.testing.assert_allclose(accuracies[1], accuracies[0], rtol=1e-5)
    for one, two in zip(*weights, strict=True):
        np.testing.assert_allclose(two, one, atol=1e-5)


def test_windows_are_averaged():
    """Against each window by itself, as the encoder and the head see it."""
    model = classifier(preprocessor=(8, "windows", 4))
    logits = model(LONG).numpy()
    head = make_preprocessor(8)
    for text, row in zip(LONG, logits, strict=True):
        words = text.split()
        starts = [0]
        while starts[-1] + 6 < len(words):
            starts.append(starts[-1] + 4)
        vectors = [model.encoder(head(tf.constant([" ".join(words[start:start + 6])])))[
            "pooled_output"] for start in starts]
        expected = model.head(tf.reduce_mean(tf.concat(vectors, 0), 0, keepdims=True))
        np.testing.assert_allclose(row, expected[0], atol=1e-5)
    np.testing.assert_allclose(model(LONG[1:2])[0], logits[1], atol=1e-5)


@pytest.mark.parametrize("features", [
    pytest.param(None, marks=pytest.mark.long), {"layers": [0, -1], "lstm_size": 8}])
def test_windows_in_half_precision(features):
    whole = classifier(preprocessor=(8, "windows", 4), features=features)
    half = classifier(preprocessor=(8, "windows", 4), features=features, dtype="mixed_bfloat16")
    half.set_weights(whole.get_weights())
    for compute in (lambda model: model(LONG), lambda model: model.predict(LONG, verbose=0),
                    lambda model: model(LONG, training=True)):
        np.testing.assert_allclose(compute(half), compute(whole), atol=0.05)


@pytest.mark.long
def test_windows_on_two_replicas():
    texts = [LONG[row % 3] for row in range(17)]
    labels = np.arange(17, dtype="int32") % 2
    data = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(8)
    kernels = []
    for replicas in (1, 2):
        with mirrored(replicas).scope():
            model = classifier(preprocessor=(8, "windows", 4))
            model.compile(keras.optimizers.SGD(0.1))
        model.fit(data, verbose=0)
        kernels.append(model.head.output_weights.numpy())
    np.testing.assert_allclose(*kernels, atol=1e-5)


FRESH = """
import sys
import numpy as np, bert_tf
model = bert_tf.load_model(sys.argv[1])
texts = np.load(sys.argv[2] + "texts.npy")
np.save(sys.argv[2] + "told.npy", model.predict(texts, verbose=0))
model.fit(texts, np.zeros(len(texts), "int32"), verbose=0)
"""


@pytest.mark.long
def test_a_file_holds_all_in_a_fresh_process(tmp_path):
    """Text in, the same logits out: the tokenizer and its vocabulary are inside the file."""
    model = classifier(preprocessor=(8, "windows", 3))
    model.compile(bert_tf.AdamW(0.01))
    model.fit(LONG, [0, 1, 1], verbose=0)
    path = str(tmp_path / "model.keras")
    model.save(path)
    np.save(tmp_path / "texts.npy", np.array(LONG))
    subprocess.run([sys.executable, "-c", FRESH, path, f"{tmp_path}/"], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "told.npy"), model.predict(LONG, verbose=0),
                               atol=1e-6)


def test_a_file_holds_text_in_and_logits_out(tmp_path):
    model = classifier(preprocessor=(8, "windows", 3))
    path = str(tmp_path / "model.keras")
    model.save(path)
    np.testing.assert_array_equal(bert_tf.load_model(path)(LONG), model(LONG))


@pytest.mark.long
def test_keras_exports_it(tmp_path):
    model = classifier()
    folder = str(tmp_path / "exported")
    model.export(folder, input_signature=[tf.TensorSpec([None], tf.string)], verbose=False)
    loaded = tf.saved_model.load(folder)
    np.testing.assert_allclose(loaded.serve(tf.constant(TEXTS)), model(TEXTS), atol=1e-6)


def test_a_file_of_a_functional_model_around_it(tmp_path):
    text = keras.Input((), dtype="string", name="text")
    number = keras.Input((1,), name="number")
    logits = classifier()(text)
    model = keras.Model({"text": text, "number": number},
                        keras.layers.Dense(1)(keras.layers.Concatenate()([logits, number])))
    path = str(tmp_path / "model.keras")
    model.save(path)
    inputs = {"text": tf.constant(TEXTS[:4]), "number": tf.ones((4, 1))}
    np.testing.assert_array_equal(keras.saving.load_model(path)(inputs), model(inputs))


@pytest.mark.parametrize(("names", "problem"), [
    (("no", "yes"), "single_label"),
    *(pytest.param(*values, marks=pytest.mark.long) for values in (
        (("a", "b", "c"), "multi_label"), (("score",), "regression")))])
def test_a_folder_restores_the_reader(tmp_path, names, problem):
    model = classifier(names, problem, (8, "windows", 3))
    folder = str(tmp_path / "model")
    model.save_pretrained(folder)
    loaded = bert_tf.from_pretrained(folder)
    assert loaded.problem == problem and loaded.labels == list(names)
    assert loaded.preprocessor.reading() == model.preprocessor.reading() == {
        "seq_length": 8, "long": "windows", "stride": 3, "pair": False}
    assert loaded.preprocessor.tokenizer.vocabulary.tokens == VOCABULARY.tokens
    np.testing.assert_array_equal(loaded(LONG), model(LONG))
    # Another head on the same encoder, with a preprocessor of its own.
    other = bert_tf.from_pretrained(folder, "classifier", labels=["x", "y"],
                                    problem="single_label", preprocessor=make_preprocessor(12))
    assert other.preprocessor.seq_length == 12 and other(LONG).shape == (3, 2)
    assert {path.split("/")[0] for path in other.fresh_variables} == {"cls"}
