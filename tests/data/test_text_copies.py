"""Hashes and signatures of texts against sets of their runs, counted in plain Python."""

import random
import unicodedata

import numpy as np
import pytest

from bert_tf.data import text_copies

ENGLISH = "The quick brown fox jumps over the lazy dog, and every dog has its day. " * 3
KOREAN = "정말 재미있는 영화였습니다. 배우들의 연기도 좋고 음악도 훌륭했어요. 다시 보고 싶네요!"


def runs(text):
    kept = [c for c in text_copies.normal_form(text) if unicodedata.category(c)[0] in "LMN"]
    return {"".join(kept[i:i + 7]) for i in range(max(len(kept) - 6, 1))}


def changed(text, count, rng):
    words = text.split()
    for place in rng.sample(range(len(words)), count):
        words[place] = "".join(rng.choices("abcdefgh가나다라", k=4))
    return " ".join(words)


@pytest.mark.parametrize("text", [ENGLISH, KOREAN])
@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_signatures_estimate_the_similarity_of_sets(text, count):
    """Within 3.5 standard deviations of the fraction of 112 equal least hashes."""
    other = changed(text, count, random.Random(count))
    exact = len(runs(text) & runs(other)) / len(runs(text) | runs(other))
    one, two = text_copies.signatures([text, other])
    assert abs((one == two).mean() - exact) <= 3.5 * np.sqrt(exact * (1 - exact) / len(one))


def test_hash_functions_are_independent_enough():
    """Of 300 pairs with half of their runs in common, mean and spread are the binomial's."""
    rng, estimates = random.Random(1), []
    for _ in range(300):
        halves = ["".join(rng.choices("abcdefghij", k=120)) for _ in range(3)]
        one, two = halves[0] + halves[1], halves[0] + halves[2]
        exact = len(runs(one) & runs(two)) / len(runs(one) | runs(two))
        a, b = text_copies.signatures([one, two])
        estimates.append(((a == b).mean() - exact) / np.sqrt(exact * (1 - exact) / 112))
    assert abs(np.mean(estimates)) < 0.25 and 0.8 < np.std(estimates) < 1.2


def test_what_is_the_same():
    texts = ["Café  AU lait.", "cafe\u0301 au\nLAIT.", "ＣＡＦÉ au lait."]
    assert len(set(text_copies.text_hashes(texts).tolist())) == 1
    assert len(set(text_copies.text_hashes([*texts, "café au lait"]).tolist())) == 2
    found = text_copies.signatures([*texts, "café, au lait", "", "…!", "ab", "a b.", "abc",
                                    "\ud800"])
    assert (found[:4] == found[0]).all() and (found[4:6] == text_copies.NOTHING).all()
    assert (found[6] == found[7]).all() and (found[6] != found[8]).any()


def test_a_text_is_measured_alike_in_any_company_and_in_parts():
    texts = [ENGLISH, "", KOREAN, "x", ENGLISH[:9]]
    together = text_copies.signatures(texts)
    alone = np.concatenate([text_copies.signatures([text]) for text in texts])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(text_copies.band_hashes(together)[2:3],
                                  text_copies.band_hashes(alone[2:3]))
    assert len(text_copies.signatures([])) == 0
    parts = text_copies.signatures([KOREAN[:30], KOREAN[30:]]).min(axis=0)
    assert (parts == together[2]).mean() > 0.7  # but for the runs across the parts
