"""Learning vectors: whole batches in parts, on replicas and workers, features, plain Keras."""

import pathlib
import sys

import embedder_step
import numpy as np
import pytest
import tensorflow as tf
from embedder_step import make, one_step, queries
from faults.workers import Loopback, Workers
from harness import mirrored
from text_models import CONFIG

import bert_tf
from bert_tf import side_by_side
from bert_tf.data.tables import BadRow
from bert_tf.data.task_input import TaskInput
from bert_tf.errors import BertTfError, UsageError
from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.crops import RandomCrops
from bert_tf.tasks.embedding.features import query_features
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.embedding.options import EmbeddingLoss
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.embedding.teacher import load_teacher
from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.training import step

PROGRAM = pathlib.Path(embedder_step.__file__)


@pytest.fixture(scope="module")
def whole():
    tf.config.run_functions_eagerly(True)
    try:
        return one_step(tf.distribute.get_strategy())
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.mark.parametrize("replicas, accumulate_steps", [
    pytest.param(1, 4, marks=pytest.mark.long), pytest.param(2, 1, marks=pytest.mark.long), (2, 2)])
def test_parts_and_replicas_equal_the_whole_batch(whole, eager, replicas, accumulate_steps):
    """With dropout: what an example draws depends on its place in the batch alone."""
    loss, norm, weights = one_step(
        mirrored(2) if replicas == 2 else tf.distribute.get_strategy(), accumulate_steps)
    check_equal(loss, norm, weights, whole)


@pytest.mark.parametrize("is_eager", [True, pytest.param(False, marks=pytest.mark.long)])
def test_halves_equal_the_whole_batch(whole, is_eager, monkeypatch, request):
    """Computed side by side, and compared as one batch."""
    if is_eager:
        request.getfixturevalue("eager")
    monkeypatch.setattr(side_by_side, "at_once", lambda: 2)
    parts, part_of = [], step._part_of
    monkeypatch.setattr(step, "_part_of", lambda batch, index, size: parts.append(
        (index, size)) or part_of(batch, index, size))
    check_equal(*one_step(tf.distribute.get_strategy()), whole)
    assert parts == [(0, 8), (1, 8)]


def check_equal(loss, norm, weights, whole):
    assert loss == pytest.approx(whole[0], abs=1e-5) and loss > 1
    assert norm == pytest.approx(whole[1], rel=1e-5)
    assert weights.keys() == whole[2].keys()
    for name, value in weights.items():
        if name.endswith("key/bias"):
            continue  # adds the same to all scores: its gradient is 0 but for rounding
        np.testing.assert_allclose(value, whole[2][name], rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.long
def test_two_workers_equal_the_whole_batch(whole, tmp_path):
    words = [sys.executable, str(PROGRAM), str(tmp_path)]
    with Workers(words, Loopback(2), tmp_path) as workers:
        assert workers.codes() == [0, 0], workers.tails()
    for index in range(2):
        weights = dict(np.load(tmp_path / f"{index}.npz"))
        check_equal(float(weights.pop("loss")), float(weights.pop("norm")), weights, whole)


def test_features():
    model = make(prompts={"query": "w0 ", "passage": "w1 "})
    examples = [QueryExample("0", "w2", ("w3", "w4"), ("w5",)), QueryExample("1", "w2", ("w6",)),
                QueryExample("2", "w7", ("w3",), ("w5", "w4", "w8"))]
    features = query_features(examples, model, EmbeddingLoss(negatives=2))
    assert features.example.tolist() == [0, 0, 1, 2]
    ids, vocabulary = features.rows["input_word_ids"], model.preprocessor.tokenizer.vocabulary
    words = [[vocabulary.tokens[id] for id in ids[row]][1:-1] for row in range(len(ids))]
    assert [[" ".join(words[row]) if row >= 0 else "" for row in rows]
            for rows in features.lists] == [
        ["w0 w2", "w1 w3", "w1 w5", ""], ["w0 w2", "w1 w4", "w1 w5", ""],
        ["w0 w2", "w1 w6", "", ""], ["w0 w7", "w1 w3", "w1 w5", "w1 w4"]]
    # All positives of a query, of whatever row.
    assert [{words[id - 1][1] for id in row} for row in features.rows["positive_ids"]] == [
        {"w3", "w4", "w6"}] * 3 + [{"w3"}]
    batch = next(iter(TaskInput(features, 4, 1, False, shuffle=False).dataset()))
    assert batch["input_word_ids"].shape == (4, 4, 4)
    assert batch["input_mask"].numpy().sum(-1)[2].tolist() == [4, 4, 0, 0]
    np.testing.assert_array_equal(batch["text_ids"], features.lists + 1)


@pytest.mark.parametrize("prompts", [{}, {"query": "w0 ", "passage": "w1 "}])
def test_the_own_text_of_a_query_is_none_of_its_negatives(prompts):
    examples = [QueryExample("0", "w2", ("w3",)), QueryExample("1", "w4", ("w2",)),
                QueryExample("2", "w5", ("w5", "w6"))]
    features = query_features(examples, make(prompts=prompts), EmbeddingLoss())
    (_, first), (_, own), (_, same), (_, other) = features.rows["text_ids"].tolist()
    assert [set(row) for row in features.rows["positive_ids"]] == [
        {first, own}, {own}, {same, other}, {same, other}]
    examples[1] = QueryExample("1", "w4", (" W2",))  # is read otherwise
    features = query_features(examples, make(prompts=prompts), EmbeddingLoss())
    (_, first), (_, own), *_ = features.rows["text_ids"].tolist()
    assert set(features.rows["positive_ids"][0]) == {first, own}


def test_what_the_model_reads_alike_is_none_of_its_negatives():
    long = "w1 " * 10
    examples = [QueryExample("0", "w2", (long + "w3",)), QueryExample("1", "w4", (long + "w5",)),
                QueryExample("2", "  w2", ("w6",), ("w7  w8", "w7 w8"))]
    features = query_features(examples, make(), EmbeddingLoss())
    (query, first, *_), (_, second, *_), (again, third, one, other) = (
        features.rows["text_ids"].tolist())
    assert (query, first, one) == (again, second, other) and len({query, first, third, one}) == 4
    assert [set(row) for row in features.rows["positive_ids"]] == [
        {first, third}, {first}, {first, third}]


def test_a_query_with_many_positives_costs_the_others_nothing():
    many = tuple(f"w1 w{a} w{b} w{c}" for a in range(8) for b in range(8) for c in range(8))
    examples = [QueryExample("0", "w2", many), QueryExample("1", "w4", ("w5",))]
    features = query_features(examples, make(), EmbeddingLoss())
    assert features.rows["positive_ids"].lists.values.size == 513
    batch = next(iter(TaskInput(features, 513, 1, False, shuffle=False).dataset()))
    assert batch["positive_ids"].shape == (513, 512)
    assert batch["positive_ids"].numpy()[-1].tolist() == [514 + 1] + 511 * [2**31 - 1]


def test_texts_in_windows_are_refused():
    model = make()
    model.preprocessor = TextPreprocessor(model.preprocessor.tokenizer, 6, long="windows")
    with pytest.raises(UsageError, match=r"\(long='windows'\); expected long='head'"):
        query_features(queries(4), model, EmbeddingLoss())


def test_what_keras_cannot_learn_from(write_file):
    path = write_file("a.tsv", "query\tpositive\nw1\tw2\nw3\t \n")
    with pytest.raises(BadRow, match="a.tsv line 3: empty positive"):
        bert_tf.query_batches(list(bert_tf.read_queries(path)), make(), 2, seed=1)
    scored = [QueryExample("0", "w1", ("w2",), scores=(1.0,), where="a.tsv line 2")]
    with pytest.raises(UsageError, match="a.tsv line 2: labelled pairs for sparse_embedder"):
        bert_tf.query_batches(scored, make(SparseEmbedder), 1, seed=1)
    with pytest.raises(BertTfError, match="queries with positives among labelled pairs"):
        bert_tf.query_batches([*scored, QueryExample("1", "w1", ("w2",))], make(), 2, seed=1)
    for loss in ("in_batch", "", bert_tf.SparseLoss()):
        with pytest.raises(UsageError, match="for .*; expected EmbeddingLoss"):
            bert_tf.query_batches(queries(4), make(), 2, seed=1, loss=loss)


@pytest.mark.parametrize("model", [
    lambda: SparseEmbedder(CONFIG), lambda: MultiVectorEmbedder(CONFIG),
    lambda: Classifier(CONFIG, problem="regression", num_labels=1),
    lambda: TokenClassifier(CONFIG, labels=["O", "B-X"])])
def test_what_learned_no_vectors_of_texts_is_no_teacher(model, tmp_path):
    made = model()
    made.save_pretrained(str(tmp_path / "other"))
    with pytest.raises(UsageError, match=f"{made.saved_as}'; expected a model with a vector for e"):
        load_teacher(EmbeddingLoss(loss="margin_mse", teacher=str(tmp_path / "other")), None)


def test_a_teacher_reads_a_text_in_each_of_its_roles(eager):
    model, teacher = make(), make(prompts={"query": "w0 ", "passage": "w1 "})
    examples = [QueryExample("0", "w2", ("w3",)), QueryExample("1", "w4", ("w2",))]
    features = query_features(examples, model, EmbeddingLoss(loss="vectors"), teacher)
    np.testing.assert_allclose(
        features.of_rows["teacher"][features.lists],
        [teacher.embed(["w0 w2", "w1 w3"]), teacher.embed(["w0 w4", "w1 w2"])], atol=1e-5)


def test_a_text_alone_is_its_own_positive_under_another_dropout():
    model = make()
    features = query_features([QueryExample("0", "w1 w2"), QueryExample("1", "w3")], model,
                              EmbeddingLoss(loss="in_batch"))
    np.testing.assert_array_equal(features.lists, [[0, 0], [1, 1]])
    batch = next(iter(TaskInput(features, 2, 1, False, shuffle=False).dataset()))
    left, right = tf.unstack(model(batch, training=True), axis=1)
    assert np.abs(left - right).max() > 0.01
    left, right = tf.unstack(model(batch, training=False), axis=1)
    np.testing.assert_allclose(left, right, atol=1e-6)
    np.testing.assert_allclose(left, model.embed(["w1 w2", "w3"]), atol=1e-5)


def texts_of_one_kind():
    """32 texts, of which all words are of one kind."""
    draw = np.random.default_rng(1)
    return [QueryExample(str(8 * kind + number),
                         " ".join(f"w{kind * 5 + word}" for word in draw.integers(5, size=12)))
            for kind in range(4) for number in range(8)]


def test_spans_of_texts_are_rows():
    model, examples = make(), texts_of_one_kind()
    features = query_features(examples, model, EmbeddingLoss(loss="in_batch"),
                              crops=RandomCrops(3, 1))
    assert features.example.tolist() == [number for number in range(32) for _ in range(3)]
    ids, vocabulary = features.rows["input_word_ids"], model.preprocessor.tokenizer.vocabulary
    found = [tuple(" ".join(vocabulary.tokens[id] for id in ids[row][1:-1]) for row in rows)
             for rows in features.lists]
    assert len(bert_tf.query_batches(queries(16), model, 8, seed=1, epochs=8)) == 16
    assert found == [pair for each in examples for pair in RandomCrops(3, 1)(each.query)]
    # No span of a text is a negative of another one, which it may overlap.
    positives = features.rows["positive_ids"]
    for number in range(0, len(features.lists), 3):
        spans = set(features.lists[number:number + 3].ravel() + 1)
        assert all(spans <= set(positives[number + at]) for at in range(3))


def test_spans_of_queries_that_have_positives_are_refused():
    with pytest.raises(UsageError, match="crops=3 of queries with positives; expected texts alone"):
        bert_tf.query_batches(queries(4), make(), 2, seed=1, crops=3)


@pytest.mark.parametrize("loss, message", [
    (bert_tf.SparseLoss(), "expected EmbeddingLoss"),
    (EmbeddingLoss(loss="triplet", two_sided=True), "--two_sided with --loss triplet")])
def test_a_loss_of_another_model_or_with_options_that_it_does_not_heed(loss, message):
    with pytest.raises(UsageError, match=message):
        make().compile("adam", loss)


@pytest.mark.long
def test_plain_keras_learns_from_spans_of_texts():
    model = make()
    model.compile("adam", EmbeddingLoss(loss="in_batch"))
    model.optimizer.learning_rate = 1e-2
    data = bert_tf.query_batches(texts_of_one_kind(), model, 16, seed=1, epochs=4, crops=3)
    before = model.evaluate(data, verbose=0)
    model.fit(data, verbose=0)
    assert model.evaluate(data, verbose=0) < before - 0.3


@pytest.mark.parametrize("loss, expected", [("cosine", [[0.25], [1]]), ("cosent", [[1], [4]])])
def test_scores_of_a_cosine_are_at_most_1(loss, expected):
    examples = [QueryExample(str(score), "w1", ("w2",), scores=(score,)) for score in (1.0, 4.0)]
    rows = query_features(examples, make(), EmbeddingLoss(loss=loss)).rows
    np.testing.assert_array_equal(rows["scores"], expected)
