"""Search by weights of tokens against the scalar products, written out."""

import json
import tracemalloc

import numpy as np
import pytest

from bert_tf.errors import UsageError
from bert_tf.retrieval import term_index
from bert_tf.retrieval.term_index import Postings, TermIndex

PASSAGES = [{"seine": 2.0, "river": 1.0}, {"spree": 2.0, "river": 1.5}, {}, {"paris": 1.0},
            {"seine": 2.0, "river": 1.0}]
QUERIES = [{"river": 1.0, "seine": 0.5, "unknown": 9.0}, {"unknown": 1.0}, {}, {"paris": 3.0}]


@pytest.mark.parametrize("at_once", [1 << 24, 1])
def test_scalar_products_and_of_equal_ones_the_earlier(at_once, monkeypatch):
    monkeypatch.setattr(term_index, "_SCORES_AT_ONCE", at_once)
    index = TermIndex()
    index.add(PASSAGES[:2])
    index.add(PASSAGES[2:])
    scores, rows = index.search(QUERIES, 9)
    assert len(index) == 5 and scores.shape == rows.shape == (4, 5)
    assert rows.tolist() == [[0, 4, 1, -1, -1], [-1] * 5, [-1] * 5, [3, -1, -1, -1, -1]]
    np.testing.assert_allclose(scores, [[2, 2, 1.5, 0, 0], [0] * 5, [0] * 5, [3, 0, 0, 0, 0]])
    assert index.search(QUERIES, 1)[1].tolist() == [[0], [-1], [-1], [3]]
    assert index.search([], 2)[0].shape == (0, 2)
    with pytest.raises(UsageError, match="k=0"):
        index.search(QUERIES, 0)


def test_tokens_that_parts_share_are_held_once():
    tokens, parts = json.dumps([f"token{number:05d}" for number in range(5000)]), 10
    starts = np.arange(5001)
    tracemalloc.start()
    index = TermIndex((json.loads(tokens), Postings(starts, np.zeros(5000, np.int32),
                                                    starts[1:].astype(np.float32), 1))
                      for _ in range(parts))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < parts * 5000 * 30
    scores, rows = index.search([{"token00007": 2}], 9)
    assert rows.tolist() == [[*range(9)]] and (scores == 16).all()


def test_without_passages_nothing_is_found():
    index = TermIndex()
    for _ in range(2):
        for found in index.search(QUERIES, 3):
            assert found.shape == (4, 0)
        index.add([])
