"""BM25 against the formula, written out."""

import collections
import math
import sys
import unicodedata

import numpy as np
import pytest

from bert_tf.errors import BertTfError, UsageError
from bert_tf.retrieval import bm25
from bert_tf.retrieval.bm25 import Bm25

TEXTS = ["The Seine flows through Paris.", "paris, Paris, PARIS", "Berlin lies on the Spree.",
         "", "The Seine flows through Paris."]


def by_formula(query, k1=1.5, b=0.75):
    """The scores in Lucene's variant: idf ln(1 + (N - n + 0.5) / (n + 0.5)), no factor k1 + 1."""
    split = [text.lower().replace(".", "").replace(",", "").split() for text in TEXTS]
    average = sum(map(len, split)) / len(split)
    scores = []
    for words in split:
        counts = collections.Counter(words)
        score = 0
        for word in query.split():
            n = sum(word in other for other in split)
            tf = counts[word]
            score += math.log(1 + (len(split) - n + .5) / (n + .5)) * tf / (
                tf + k1 * (1 - b + b * len(words) / average))
        scores.append(score)
    return np.array(scores)


def test_scores_are_those_of_the_formula_and_ties_go_to_the_first():
    index = Bm25(TEXTS)
    scores, rows = index.search(["seine paris", "Spree!", "Moscow", ""], 10)
    expected = by_formula("seine paris")
    assert rows[0].tolist() == [0, 4, 1, -1, -1]
    np.testing.assert_allclose(scores[0, :3], expected[[0, 4, 1]], rtol=1e-5)
    assert rows[1].tolist() == [2, -1, -1, -1, -1] and (rows[2:] == -1).all()
    assert (scores[2:] == 0).all() and scores.dtype == np.float32
    assert index.search([], 3)[0].shape == (0, 3)


def test_korean_by_morphemes_and_by_bigrams():
    texts = ["한강은 서울을 흐른다", "세느강은 파리를 흐른다"]
    for terms in ("morphemes", "bigrams", "auto"):
        assert Bm25(texts, terms).search(["서울의 강", "파리에서"], 1)[1].tolist() == [[0], [1]]
    assert Bm25(texts, "words").search(["서울의 강"], 1)[1].tolist() == [[-1]]
    assert Bm25(["東京は日本の首都です", "abc東京1"], "bigrams").search(
        ["日本", "abc", "東京1"], 2)[1].tolist() == [[0, -1], [1, -1], [1, 0]]
    assert Bm25(["佐々木は走る", "佐藤の絵"]).search(["々木", "木"], 1)[1].tolist() == [[0], [-1]]


@pytest.mark.parametrize("of_texts, of_query", [("NFC", "NFD"), ("NFD", "NFC")])
def test_korean_is_found_however_it_is_composed(of_texts, of_query):
    texts = [unicodedata.normalize(of_texts, text) for text in ("음악이 좋았다", "서울은 수도이다")]
    index = Bm25(texts)
    assert index.terms == "morphemes"
    query = unicodedata.normalize(of_query, "수도가 어디인가")
    assert index.search([query], 1)[1].tolist() == [[1]]


def test_other_scripts_beside_korean():
    """Of a corpus that is split into morphemes Japanese and Chinese are pairs of characters still,
    and marks belong to their word."""
    index = Bm25(["서울은 한국의 수도이다", "東京は日本の首都です", "हिन्दी भाषा", "İstanbul"])
    assert index.terms == "morphemes"
    assert index.search(["日本", "हिन्दी", "istanbul'İSTANBUL", "한국"], 1)[1].tolist() == [
        [1], [2], [3], [0]]
    assert index.search(["ह न"], 1)[0].tolist() == [[0]]


def test_pairs_of_characters_in_place_of_morphemes_are_told(monkeypatch):
    def missing(_):
        raise UsageError("kiwipiepy is not installed")

    assert Bm25(["서울은 수도이다"]).notes == []
    monkeypatch.setattr(bm25, "analyse", missing)
    index = Bm25(["서울은 수도이다"])
    assert index.terms == "bigrams"
    assert "bert_tf[korean]' and --overwrite" in index.notes[0]
    assert Bm25(TEXTS).notes == Bm25(["서울은 수도이다"], "bigrams").notes == []


def test_what_cannot_be_searched(monkeypatch):
    with pytest.raises(BertTfError, match="without a word"):
        Bm25(["", "?!"])
    with pytest.raises(UsageError, match="terms='word' is unknown"):
        Bm25(TEXTS, "word")
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(UsageError, match=r"pip install 'bert_tf\[search\]'"):
        Bm25(TEXTS)
