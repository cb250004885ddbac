"""Random spans of texts: what they are by the paper, whatever the text."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.tasks.embedding.crops import LONGEST, SHORTEST, RandomCrops

WORDS = st.lists(st.text("abcdefgh가나다", min_size=1, max_size=9), min_size=1, max_size=60)


@given(WORDS, st.integers(1, 6), st.integers(0, 2**31 - 1))
def test_spans_are_of_the_text_and_of_its_seed_alone(words, count, seed):
    text = " ".join(words)
    pairs = RandomCrops(count, seed)(text)
    assert len(pairs) == count and pairs == RandomCrops(count, seed)(text)
    for span in [span for pair in pairs for span in pair]:
        length = len(span.split())
        assert f" {span} " in f" {text} "
        assert max(1, SHORTEST * len(words) - 0.5) <= length <= max(1, LONGEST * len(words) + 0.5)


def test_lengths_and_places_are_even():
    words = [str(number) for number in range(1000)]
    spans = [span.split() for pair in RandomCrops(2000, 1)(" ".join(words)) for span in pair]
    lengths = np.array([len(span) for span in spans])
    assert abs(lengths.mean() - 275) < 8 and 50 <= lengths.min() < 55 and 495 < lengths.max() <= 500
    middles = [int(span[0]) / (1000 - len(span)) for span in spans]
    assert abs(np.mean(middles) - 0.5) < 0.02 and abs(np.std(middles) - 12 ** -0.5) < 0.02


def test_text_without_blanks_is_cut_between_characters():
    text = "東京は日本の首都であり世界でも最大級の都市である。人口は約千四百万人"
    for span in [span for pair in RandomCrops(20, 1)(text) for span in pair]:
        assert span in text and 1 <= len(span) <= len(text) / 2 + 1
    assert RandomCrops(2, 1)("") == [("", "")] * 2
