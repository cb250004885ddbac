"""What the expressions of byte-level tokenizers match, against the `tokenizers` library."""

import functools
import random
import sys
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from nasty_texts import TEXTS, real_lines
from tokenizers import Regex, pre_tokenizers

from bert_tf.errors import UsageError
from bert_tf.tokenization.word_patterns import EXPRESSIONS, WordPattern

MORE = ["I CAN'T, SHE'LL'VE 'RE'Re 'ſ don'tx ''s \"'s 's't", "1234567 12 ½²३४५६ 1a22b333c4444",
        "!!\n\n  \n x ?\r\n\r\n\ty .\n", "a\n\n b \n c  \n", "\ta \t\tb  c\u3000d\xa0\xa0e",
        "def f(x):\n    return x\n\n\n\tz", "e\u0301\u0301x \u0301y 1\u0301z", "\r\r\n",
        " \n ", "   "]
CHARACTERS = "aeTthdsrvmlLSEVRMD'’ ½19.,!\n\r\t\xa0\u3000한😀\0\u0301\u017f"


@functools.cache
def _ways(pattern):
    graph = tf.function(WordPattern(pattern).words, autograph=False,
                        input_signature=[tf.TensorSpec([None], tf.string)])
    return graph, pre_tokenizers.Split(Regex(EXPRESSIONS[pattern]), "isolated")


def compare(pattern, texts):
    ours, library = _ways(pattern)
    words, rows = ours(tf.constant(texts, tf.string))
    found = [[] for _ in texts]
    for word, row in zip(words.numpy(), rows.numpy(), strict=True):
        found[row].append(word.decode())
    assert found == [[word for word, _ in library.pre_tokenize_str(text)] for text in texts]


@pytest.mark.parametrize("pattern", EXPRESSIONS)
def test_hard_texts(pattern):
    compare(pattern, [*TEXTS, *MORE])
    compare(pattern, [])
    draw = random.Random(1)
    compare(pattern, ["".join(draw.choices(CHARACTERS, k=draw.randrange(12)))
                      for _ in range(3000)])


@given(st.lists(st.text(st.sampled_from(CHARACTERS), max_size=12), max_size=4))
@settings(max_examples=100, deadline=None)
def test_any_text(texts):
    for pattern in ("llama3", "qwen2"):
        compare(pattern, texts)


@pytest.mark.parametrize("pattern", EXPRESSIONS)
def test_real_text(pattern, shared):
    lines = real_lines(shared, 1000)
    compare(pattern, [*lines, *("\n".join(lines[i:i + 9]) for i in range(0, 1000, 9))])


@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.long)])
def test_every_character(step):
    characters = [chr(point) for point in range(0, sys.maxunicode, step) if unicodedata.category(
        chr(point)) not in ("Cn", "Co", "Cs")]
    compare("llama3", [f"a{c}b {c}1'{c}x\n{c}\n'{c}{c} '{c}e'r{c} 'l{c} {c} {c}"
                       for c in characters])


def test_unknown_patterns():
    with pytest.raises(UsageError, match="pattern='llama4'"):
        WordPattern("llama4")
