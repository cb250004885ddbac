"""Losses by their formulas; candidates side by side, on replicas; what is saved."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from queries import queries, ranker
from sentiment import MARKS, config, tokenizer

from bert_tf.data.task_input import TaskInput
from bert_tf.errors import UsageError
from bert_tf.randomness import draw_at
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.ranking.features import list_features
from bert_tf.tasks.ranking.losses import LOSSES
from bert_tf.tasks.ranking.model import Ranker

LOGITS = np.array([[2, 0, -1, 5], [1, 1, 3, 0], [0, 4, 0, 0]], np.float32)
LABELS = np.array([[1, 0, 0, -1], [1, 1, 0, 0], [0, 0, -1, -1]], np.int32)


def test_losses_are_their_formulas():
    loss, weights = LOSSES["listwise"]
    present = [[2, 0, -1], [1, 1, 3, 0]]
    expected = [np.log(np.exp(present[0]).sum()) - 2, np.log(np.exp(present[1]).sum()) - 1]
    np.testing.assert_allclose(loss(LOGITS, LABELS)[:2], expected, rtol=1e-5)
    assert weights(tf.constant(LABELS)).numpy().tolist() == [True, True, False]
    loss, weights = LOSSES["binary"]
    probability = 1 / (1 + np.exp(-LOGITS.astype(float)))
    expected = -np.log(np.where(LABELS > 0, probability, 1 - probability))
    there = LABELS >= 0
    np.testing.assert_allclose(loss(LOGITS, LABELS).numpy()[there], expected[there], rtol=1e-5)
    np.testing.assert_array_equal(weights(LABELS), there)


def lists(count=6):
    """Lists of different sizes; a candidate is in several."""
    made = queries(count)
    shared = made[0].negatives[0]
    return [(each.query, [each.positives[0], shared, *each.negatives[:number % 3]])
            for number, each in enumerate(made)]


@pytest.mark.parametrize("loss", [
    "listwise", pytest.param("binary", marks=pytest.mark.long)])
def test_candidates_side_by_side_are_scored_as_pairs(loss):
    model = ranker(loss=loss)
    made = lists()
    batch = next(iter(TaskInput(list_features(made, model.preprocessor), 6, 1,
                                shuffle=False).dataset()))
    logits = model(batch).numpy()
    assert logits.shape == (6, 4)
    for row, labels, (query, texts) in zip(logits, batch["label_ids"].numpy(), made, strict=True):
        alone = model((tf.constant([query] * len(texts)), tf.constant(texts))).numpy()
        np.testing.assert_allclose(row[:len(texts)], alone[:, 0], atol=2e-6)
        assert labels.tolist() == [1] + [0] * (len(texts) - 1) + [-1] * (4 - len(texts))
    sums = LOSSES[loss][0](logits, batch["label_ids"].numpy())
    weights = np.asarray(LOSSES[loss][1](batch["label_ids"]), float)
    expected = np.sum(sums.numpy() * weights)
    assert float(model.loss_sums(logits, batch)["ranker"]) == pytest.approx(expected, rel=1e-5)
    assert float(model.loss_weights(batch)["ranker"]) == weights.sum()
    [(right, weight)] = model.metric_sums(logits, batch).values()
    there = np.where(batch["label_ids"] < 0, -np.inf, logits)
    assert float(weight) == 6 and float(right) == np.sum(there.argmax(1) == 0)


def test_dropout_of_a_candidate_does_not_depend_on_the_replica():
    model = ranker(config={"hidden_dropout_prob": 0.3})
    data = TaskInput(list_features(lists(), model.preprocessor), 6, 1)
    batch = next(iter(data.dataset()))
    parts = list(data.dataset(num_replicas=2, replicas=(0, 1)).take(2))
    assert [int(part["first_example"]) for part in parts] == [0, 3]

    def logits(batch):
        with draw_at(7, 2, batch["first_example"]):
            return model(batch, training=True).numpy()

    whole = logits(batch)
    np.testing.assert_allclose(np.concatenate([logits(part) for part in parts]), whole, atol=1e-6)
    with draw_at(7, 3, batch["first_example"]):
        assert not np.allclose(model(batch, training=True), whole, atol=1e-3)


def test_it_is_saved_as_a_cross_encoder_and_goes_on_from_one(tmp_path, eager):
    model, folder = ranker(), str(tmp_path / "ranker")
    model.head.output_bias.assign([0.5])
    model.save_pretrained(folder)
    saved = from_pretrained(folder)
    assert isinstance(saved, Classifier) and saved.labels == ["relevance"]
    passages = ["the film fine", "", "dull music story"]
    expected = model((["the end"] * 3, passages)).numpy()[:, 0]
    found = saved.rank("the end", passages)
    assert [each["index"] for each in found] == np.argsort(-expected).tolist()
    np.testing.assert_allclose([each["score"] for each in found], np.sort(expected)[::-1],
                               atol=1e-6)
    again = from_pretrained(folder, "ranker", preprocessor=model.preprocessor)
    np.testing.assert_array_equal(again.head.output_bias, [0.5])
    # The head of three labels is none of one.
    Classifier(config(), ["a", "b", "c"], seed=4).save_pretrained(str(tmp_path / "labels"))
    fresh = from_pretrained(str(tmp_path / "labels"), "ranker").fresh_variables
    assert set(fresh) == {"cls/classifier/output_weights", "cls/classifier/output_bias"}


@pytest.mark.long
def test_plain_fit_on_pairs():
    model = ranker(loss="binary", config={"num_hidden_layers": 1, "hidden_dropout_prob": 0.0})
    made = queries(16)
    texts = ([each.query for each in made] * 2,
             [each.positives[0] for each in made] + [each.negatives[0] for each in made])
    model.compile(keras.optimizers.Adam(0.01))
    losses = model.fit(texts, [1] * 16 + [0] * 16, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    with pytest.raises(UsageError, match="'listwise' of a query beside a single passage"):
        ranker().loss_sums(np.zeros([2, 1]), {"label_ids": tf.constant([1, 0])})


@pytest.mark.parametrize(("name", "loss"), [
    ("binary", keras.losses.BinaryCrossentropy),
    ("listwise", keras.losses.CategoricalCrossentropy)])
def test_losses_of_keras_see_no_missing_candidate(name, loss, eager):
    """They learned from its label, -1."""
    told, weights = [], np.array([1, 2, 0, 1], np.float32)
    for given in (None, loss(from_logits=True, reduction="sum")):
        model = ranker(loss=name)
        batch = dict(next(iter(TaskInput(list_features(lists(4), model.preprocessor), 4, 1,
                                         shuffle=False).dataset())), example_weights=weights)
        del batch["first_example"]
        model.compile("sgd", given)
        told.append(model.test_on_batch(batch))
        total = float(model.loss_weights(batch)["ranker"])
    assert np.min(batch["label_ids"]) < 0
    assert np.ravel(told[1])[0] == pytest.approx(total * told[0][0], rel=1e-5)


def test_a_mean_is_that_of_what_can_be_compared(eager):
    """A query whose candidates are all missing but one counts in none; for other losses than a
    softmax each candidate is a row."""
    batch = dict(next(iter(TaskInput(list_features(lists(4), ranker().preprocessor), 4, 1,
                                     shuffle=False).dataset())))
    del batch["first_example"]
    batch["label_ids"] = np.array(batch["label_ids"])
    batch["label_ids"][1, 1:] = -1
    told = []
    for given in (None, keras.losses.CategoricalCrossentropy(from_logits=True),
                  keras.losses.BinaryCrossentropy(from_logits=True)):
        model = ranker()
        model.compile("sgd", given)
        told.append(np.ravel(model.test_on_batch(batch))[0])
    assert told[1] == pytest.approx(told[0], rel=1e-5)
    labels, logits = batch["label_ids"], model(batch).numpy()
    label, logit = labels[labels >= 0], logits[labels >= 0]
    assert told[2] == pytest.approx(np.mean(np.log1p(np.exp(logit)) - label * logit), rel=1e-5)


def test_losses_of_keras_see_no_ignored_pair(eager):
    model, texts = ranker(), (["the end"] * 4, ["fine", "dull", "music", "story"])
    model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
    found = model.test_on_batch(texts, [1, -1, 0, 1])
    kept = tuple([column[row] for row in (0, 2, 3)] for column in texts)
    assert found == pytest.approx(model.test_on_batch(kept, [1, 0, 1]), rel=1e-5)
    model.compile("sgd", "mse")  # of a teacher's scores
    scores = np.array([3.5, -2, 0.5, -1], np.float32)
    assert model.test_on_batch(texts, scores) == pytest.approx(
        np.square(model.scores(*texts) - scores).mean(), rel=1e-5)


@pytest.mark.parametrize("call, message", [
    (lambda: ranker().rank("a", "b"), "a list of strings"),
    (lambda: ranker().rank(["a"], ["b"]), "expected a string"),
    (lambda: ranker().scores(["a"], ["b", "c"]), "1 queries and 2 passages"),
    (lambda: ranker(loss="pairwise"), "loss='pairwise' is unknown"),
    (lambda: Ranker(config()).rank("a", ["b"]), "no preprocessor"),
    (lambda: Ranker(config(attention="causal")), "the first token alone"),
    (lambda: Classifier(config(), list(MARKS), preprocessor=TextPreprocessor(tokenizer(), 9)).rank(
        "a", ["b"]), "no number to rank by"),
])
def test_refused(call, message):
    with pytest.raises(UsageError, match=message):
        call()
    assert ranker().rank("a", []) == []


def test_a_missing_candidate_has_no_token_to_compute():
    model = ranker()
    batch = next(iter(TaskInput(list_features(lists(4), model.preprocessor), 4, 1,
                                shuffle=False).dataset()))
    padded = model(batch).numpy()
    model.backbone.padding_free = True
    there = batch["label_ids"].numpy() >= 0
    np.testing.assert_allclose(model(batch).numpy()[there], padded[there], atol=2e-6)
    assert not there[-1, -1]  # after which no token comes
