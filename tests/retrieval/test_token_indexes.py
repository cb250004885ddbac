"""Indexes of weights and of vectors of tokens against brute force, interrupted and damaged."""

import json
import zlib

import numpy as np
import pytest
from folders import files_of

from bert_tf.errors import BertTfError, UsageError
from bert_tf.retrieval import token_vectors
from bert_tf.retrieval.build_index import build_index
from bert_tf.retrieval.corpus import Passage
from bert_tf.retrieval.multi_vector_index import MultiVectorIndex, StoredTokenVectors
from bert_tf.retrieval.sparse_index import SparseIndex, StoredWeights
from bert_tf.retrieval.token_vectors import TokenVectors
from bert_tf.retrieval.vector_index import VectorIndex
from bert_tf.storage import checksums

N, WIDTH = 70, 8
OPTIONS = {"dimensions": None, "precision": "float32", "shard_size": 16, "seed": 1}
WORDS = ["seine", "spree", "river", "paris", "berlin", "bridge", "boat", "water"]


def words(text):
    generator = np.random.default_rng(zlib.crc32(text.encode()))
    return generator, list(generator.choice(WORDS, int(generator.integers(1, 5)), replace=False))


def weights(texts):
    """Some tokens of each text; of the text `none` no token."""
    found = []
    for text in texts:
        generator, tokens = words(text)
        found.append({} if text == "none" else
                     {token: float(np.float32(generator.random() + 0.1)) for token in tokens})
    return found


def vectors(texts):
    """A vector of length 1 for each of some tokens of each text; of `none` there is none."""
    found = []
    for text in texts:
        generator, tokens = words(text)
        each = generator.normal(size=(0 if text == "none" else len(tokens), WIDTH))
        found.append(np.float32(each / np.linalg.norm(each, axis=1, keepdims=True)))
    return TokenVectors.of(found)


TEXTS = ["none" if number == 3 else "the same" if number % 20 == 0 else f"passage {number}"
         for number in range(N)]
QUERIES = [f"query {number}" for number in range(9)]


def scalar_products():
    return np.array([[sum(weight * passage.get(token, 0) for token, weight in query.items())
                      for passage in weights(TEXTS)] for query in weights(QUERIES)])


def sums_of_maxima(code=lambda values: values):
    queries, passages = vectors(QUERIES), vectors(TEXTS)
    return np.array([[(queries[[query]].values @ code(passages[[row]].values).T).max(1).sum()
                      if len(passages[[row]].values) else 0 for row in range(N)]
                     for query in range(len(QUERIES))])


KINDS = {
    "sparse": (lambda: StoredWeights(lambda part: weights([each.text for each in part])),
               SparseIndex, weights, scalar_products),
    "multi_vector": (lambda: StoredTokenVectors("float32", lambda part: vectors(
        [each.text for each in part])), MultiVectorIndex, vectors, sums_of_maxima)}


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.tsv"
    path.write_text("".join(f"id{number}\t{text}\n" for number, text in enumerate(TEXTS)))
    return str(path)


@pytest.mark.parametrize("kind", KINDS)
def test_search_is_brute_force_in_the_order_of_passages(kind, tmp_path, corpus, monkeypatch):
    monkeypatch.setattr("bert_tf.retrieval.multi_vector_index._AT_ONCE", 11)
    stored, index_class, of_queries, expected = KINDS[kind]
    build_index(str(tmp_path / "index"), OPTIONS, [corpus], stored, {})
    index, expected = index_class(str(tmp_path / "index"), of_queries), expected()
    scores, rows = index.rows_of(of_queries(QUERIES), N)
    assert len(index) == N and rows.shape == (len(QUERIES), N)
    if kind == "multi_vector":  # sums of equal passages may differ in their last bit
        rows = np.take_along_axis(rows, np.lexsort((rows, -scores.round(4))), 1)
    order = np.argsort(-expected.round(4), axis=1, kind="stable")
    found = np.take_along_axis(expected, order, 1) > (0 if kind == "sparse" else -np.inf)
    np.testing.assert_array_equal(rows, np.where(found, order, -1))
    np.testing.assert_allclose(scores, np.where(found, np.take_along_axis(expected, order, 1), 0),
                               atol=1e-5)
    (nearest,) = index.search(QUERIES[:1], 1)
    assert nearest == [{"id": f"id{rows[0, 0]}", "text": TEXTS[rows[0, 0]], "title": "",
                        "score": pytest.approx(scores[0, 0])}]
    np.testing.assert_array_equal(index.rows_of(of_queries(QUERIES), 10 ** 14)[0], scores)
    with pytest.raises(UsageError, match="k=0"):
        index.rows_of(of_queries(QUERIES), 0)
    with pytest.raises(UsageError, match="exact for .*, which is searched exactly; try leaving"):
        index.search(QUERIES, exact=True)
    with pytest.raises(UsageError, match=f"kind '{kind}'; expected one of 'vectors'"):
        VectorIndex(str(tmp_path / "index"))


def test_int8_of_vectors_of_tokens(tmp_path, corpus):
    options = OPTIONS | {"precision": "int8"}
    build_index(str(tmp_path / "index"), options, [corpus], lambda: StoredTokenVectors(
        "int8", lambda part: vectors([each.text for each in part])), {})
    index = MultiVectorIndex(str(tmp_path / "index"))
    scale = index.manifest["scale"]
    expected = sums_of_maxima(lambda values: np.clip(np.rint(values * scale), -127, 127) / scale)
    scores, rows = index.rows_of(vectors(QUERIES), 5)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, rows, 1), atol=1e-5)
    np.testing.assert_allclose(scores, -np.sort(-expected)[:, :5], atol=1e-5)
    with pytest.raises(UsageError, match=f"for vectors of {WIDTH}"):
        index.rows_of(TokenVectors.of([np.ones((2, WIDTH + 1), np.float32)]))


def test_int8_whose_first_passages_have_no_vector():
    stored = StoredTokenVectors("int8", lambda part: vectors([each.text for each in part]))
    none, some = [Passage("1", "none")], [Passage("2", "seine")]
    arrays, about = stored.arrays(none)
    assert about == {"scale": 127} and len(arrays["int8"]) == 0
    np.testing.assert_array_equal(stored.arrays(some)[0]["int8"],
                                  np.rint(vectors(["seine"]).values * 127))


def test_many_queries_are_compared_a_block_at_a_time(tmp_path, corpus, monkeypatch):
    build_index(str(tmp_path / "index"), OPTIONS, [corpus], KINDS["multi_vector"][0], {})
    index, queries = MultiVectorIndex(str(tmp_path / "index")), vectors(QUERIES)
    expected, compare, at_once = index.rows_of(queries, 5), token_vectors.max_sims, set()

    def max_sims(queries, passages):
        at_once.add(len(queries))
        return compare(queries, passages)

    monkeypatch.setattr(token_vectors, "max_sims", max_sims)
    monkeypatch.setattr("bert_tf.retrieval.multi_vector_index.QUERY_BLOCK", 4)
    for found, whole in zip(index.rows_of(queries, 5), expected, strict=True):
        np.testing.assert_allclose(found, whole, rtol=1e-6)
    assert at_once == {4, 1} and index.rows_of(queries[:0], 5)[1].shape == (0, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_build_gives_the_same_bytes(kind, tmp_path, corpus):
    stored, index_class, *_ = KINDS[kind]
    build_index(str(tmp_path / "whole"), OPTIONS, [corpus], stored, {})
    interrupted, shards = stored(), []

    def arrays(passages, whole=interrupted.arrays):
        shards.append(len(passages))
        if len(shards) == 3:
            raise KeyboardInterrupt
        return whole(passages)

    interrupted.arrays = arrays
    with pytest.raises(KeyboardInterrupt):
        build_index(str(tmp_path / "parts"), OPTIONS, [corpus], lambda: interrupted, {})
    build_index(str(tmp_path / "parts"), OPTIONS, [corpus], lambda: interrupted, {})
    assert shards == [16, 16, 16, 16, 16, 6]
    assert files_of(tmp_path / "parts") == files_of(tmp_path / "whole")
    assert len(index_class(str(tmp_path / "parts"))) == N


@pytest.mark.parametrize("kind, name, values", [
    ("sparse", "starts", [0, 1]), ("sparse", "rows", [N] * 99), ("multi_vector", "splits", [0, 9]),
    ("multi_vector", "float32", np.zeros((0, WIDTH)))])
def test_arrays_that_do_not_fit_each_other(kind, name, values, tmp_path, corpus):
    stored, index_class, of_queries, _ = KINDS[kind]
    folder = tmp_path / "index"
    build_index(str(folder), OPTIONS, [corpus], stored, {})
    path = folder / "shard-00001" / f"{name}.npy"
    held = np.load(path)
    np.save(path, np.asarray(values)[:len(held)].astype(held.dtype))
    (folder / "shard-00001" / "checksums.json").unlink()
    checksums.write(str(folder / "shard-00001"))  # as who means harm would
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = checksums.facts(str(folder), list(manifest["files"]))
    del manifest["blake2b"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BertTfError, match="damaged"):
        index_class(str(folder)).rows_of(of_queries(QUERIES))
