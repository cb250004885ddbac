"""Every loss of vectors beside its paper's formula in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.errors import UsageError
from bert_tf.tasks.embedding.losses.table import compute_loss, find_loss
from bert_tf.tasks.embedding.losses.vector_batch import VectorBatch
from bert_tf.tasks.embedding.options import EmbeddingLoss

RANDOM = np.random.default_rng(7)
SIZE, NEGATIVES, WIDTH = 6, 2, 8
VECTORS = RANDOM.normal(size=(SIZE, 2 + NEGATIVES, WIDTH)).astype("float32")
TEACHER = RANDOM.normal(size=(SIZE, 2 + NEGATIVES, WIDTH)).astype("float32")
SCORES = RANDOM.uniform(0, 1, (SIZE, 1 + NEGATIVES)).astype("float32")
# Rows 1 and 4 have one positive; row 2 lacks its second negative; the query of row 0 is that of
# row 3; the last row fills the batch.
IDS = np.arange(1, SIZE * 4 + 1).reshape(SIZE, 4).astype("int32")
IDS[4, 1] = IDS[1, 1]
IDS[2, 3] = 0
IDS[3, 0] = IDS[0, 0]
POSITIVES = np.stack([IDS[:, 1], np.full(SIZE, 2**31 - 1, "int32")], 1)
POSITIVES[[0, 3]] = [IDS[0, 1], IDS[3, 1]]
WEIGHTS = np.array([1, 1, 1, 1, 1, 0], "float32")
REAL = range(5)


def batch(vectors=VECTORS):
    return VectorBatch(*map(tf.constant, (vectors, IDS, POSITIVES, WEIGHTS, SCORES, TEACHER)))


def computed(name, **options):
    return float(compute_loss(batch(), EmbeddingLoss(loss=name, **options)))


def unit(vector):
    return vector / np.linalg.norm(vector)


def cosine(left, right):
    return unit(left) @ unit(right)


def dot(left, right):
    return left @ right


def log_sum_exp(values):
    return np.log(np.sum(np.exp(values)))


def in_batch(similarity, scale, two_sided=False, vectors=VECTORS):
    losses = []
    for i in REAL:
        own = scale * similarity(vectors[i, 0], vectors[i, 1])
        others = [scale * similarity(vectors[i, 0], vectors[j, k]) for j in REAL
                  for k in range(1, 4) if IDS[j, k] and IDS[j, k] not in POSITIVES[i]]
        loss = log_sum_exp([own, *others]) - own
        if two_sided:
            queries = [scale * similarity(vectors[j, 0], vectors[i, 1]) for j in REAL
                       if IDS[i, 1] not in POSITIVES[j]]
            loss = (loss + log_sum_exp([own, *queries]) - own) / 2
        losses.append(loss)
    return np.mean(losses)


def test_in_batch():
    assert computed("in_batch") == pytest.approx(in_batch(cosine, 20), rel=1e-5)
    assert computed("in_batch", scale=5, two_sided=True) == pytest.approx(
        in_batch(cosine, 5, two_sided=True), rel=1e-5)
    assert computed("in_batch", similarity="dot") == pytest.approx(in_batch(dot, 1), rel=1e-5)


def test_in_batch_of_duplicates_alone_is_0():
    """Where every other text is also a positive, nothing competes."""
    ids = tf.constant([[1, 2], [3, 2]])
    same = VectorBatch(tf.constant(VECTORS[:2, :2]), ids, tf.constant([[2], [2]]), tf.ones(2))
    assert float(compute_loss(same, EmbeddingLoss(two_sided=True))) == pytest.approx(0, abs=1e-6)


def test_triplet():
    losses = [max(np.linalg.norm(VECTORS[i, 0] - VECTORS[i, 1])
                  - np.linalg.norm(VECTORS[i, 0] - VECTORS[i, k]) + 1, 0)
              for i in REAL for k in (2, 3) if IDS[i, k]]
    assert len(losses) == 9
    assert computed("triplet") == pytest.approx(np.mean(losses), rel=1e-5)


def test_cosine():
    expected = np.mean([(cosine(VECTORS[i, 0], VECTORS[i, 1]) - SCORES[i, 0]) ** 2 for i in REAL])
    assert computed("cosine") == pytest.approx(expected, rel=1e-5)


def ordered(similarities, scale=20):
    return np.log(1 + sum(np.exp(scale * (similarities[j] - similarities[i])) for i in REAL
                          for j in REAL if SCORES[i, 0] > SCORES[j, 0]))


def test_cosent():
    assert computed("cosent") == pytest.approx(
        ordered([cosine(*VECTORS[i, :2]) for i in REAL]), rel=1e-5)


def test_angle():
    def difference(left, right):
        z, w = (vector[:WIDTH // 2] + 1j * vector[WIDTH // 2:] for vector in (left, right))
        turned = z * w.conj() / np.linalg.norm(z) / np.linalg.norm(w)
        return abs(np.sum(turned.real + turned.imag))

    assert computed("angle", scale=3) == pytest.approx(
        ordered([difference(*VECTORS[i, :2]) for i in REAL], 3), rel=1e-5)


def test_margin_mse():
    def expected(margin):
        return np.mean([(dot(VECTORS[i, 0], VECTORS[i, 1]) - dot(VECTORS[i, 0], VECTORS[i, k])
                         - margin(i, k)) ** 2 for i in REAL for k in (2, 3) if IDS[i, k]])

    by_vectors = expected(lambda i, k: TEACHER[i, 0] @ (TEACHER[i, 1] - TEACHER[i, k]))
    assert computed("margin_mse") == pytest.approx(by_vectors, rel=1e-5)
    scored = VectorBatch(*map(tf.constant, (VECTORS, IDS, POSITIVES, WEIGHTS, SCORES)))
    by_scores = expected(lambda i, k: SCORES[i, 0] - SCORES[i, k - 1])
    assert float(compute_loss(scored, EmbeddingLoss(loss="margin_mse"))) == pytest.approx(
        by_scores, rel=1e-5)


def test_vectors():
    expected = np.mean([(VECTORS[i, k] - TEACHER[i, k]) ** 2 for i in REAL for k in range(4)
                        if IDS[i, k]])
    assert computed("vectors") == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("given", "whole"), [({8: 0.7, 2: 0.5}, 0.7), ({2: 0.5}, 1)])
def test_matryoshka(given, whole):
    expected = sum(weight * in_batch(cosine, 20, vectors=VECTORS[..., :width])
                   for width, weight in ((8, whole), (2, 0.5)))
    assert computed("in_batch", matryoshka_widths=list(given),
                    matryoshka_weights=list(given.values())) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["in_batch", "triplet", "cosine", "cosent", "angle", "margin_mse",
                                  "vectors"])
def test_vectors_of_0_and_rows_that_fill_have_finite_gradients(name):
    vectors = tf.constant(VECTORS * (IDS > 0)[..., np.newaxis] * (np.arange(SIZE) != 1)[
        :, np.newaxis, np.newaxis])
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        loss = compute_loss(batch(vectors), EmbeddingLoss(loss=name))
    gradient = tape.gradient(loss, vectors).numpy()
    assert np.isfinite(gradient).all() and not gradient[5].any() and gradient[:5].any()


def pairs(scores=None, size=SIZE):
    arrays = VECTORS[:size, :2], IDS[:size, :2], POSITIVES[:size], WEIGHTS[:size]
    return VectorBatch(*map(tf.constant, arrays), scores)


def test_scored_pairs_are_ordered_where_no_loss_is_named():
    scored = pairs(tf.constant(SCORES[:, :1]))
    assert compute_loss(scored, EmbeddingLoss()) == compute_loss(
        scored, EmbeddingLoss(loss="cosent"))


@pytest.mark.parametrize(("options", "scores", "size", "message"), [
    ({"loss": "in_batch"}, SCORES[:, :1], SIZE, "'in_batch' of batches with scored pairs"),
    ({"loss": "cosent"}, None, SIZE, "'cosent' of batches with no scores"),
    ({"loss": "triplet"}, None, SIZE, "'triplet' of batches with no hard negatives"),
    ({"loss": "margin_mse"}, None, SIZE, "with no hard negatives"),
    ({"loss": "vectors"}, None, SIZE, "with no teacher's vectors"),
    ({}, None, 1, "'in_batch' of batches with one pair, which it has nothing to compare with"),
    ({"loss": "angle", "matryoshka_widths": [3]}, SCORES[:, :1], SIZE, "3 components"),
    ({"matryoshka_widths": [9]}, None, SIZE, "matryoshka_widths 9 of vectors of 8 components"),
])
def test_batches_of_which_nothing_can_be_learned(options, scores, size, message):
    scores = None if scores is None else tf.constant(scores)
    with pytest.raises(UsageError, match=message):
        compute_loss(pairs(scores, size), EmbeddingLoss(**options))


def test_options_that_do_not_fit():
    with pytest.raises(UsageError, match="loss='tripelt' is unknown.*try loss='triplet'"):
        find_loss(EmbeddingLoss(loss="tripelt"))
    with pytest.raises(UsageError, match="1 matryoshka_weights for 2 matryoshka_widths"):
        EmbeddingLoss(matryoshka_widths=[4, 2], matryoshka_weights=[1])
