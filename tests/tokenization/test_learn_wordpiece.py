"""Learning a vocabulary against byte-pair encoding written out as plain loops."""

import collections
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.errors import BertTfError, UsageError
from bert_tf.tokenization.learn_wordpiece import learn_pieces, learn_wordpiece
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS
from bert_tf.tokenization.word_counts import WordPieceWords, count_words


def plain_byte_pair_encoding(counts, alphabet, vocab_size, min_frequency):
    """The same definition, recounted from scratch for every piece."""
    words = {word: [word[:1], *(f"##{c}" for c in word[1:])] for word in counts}
    pieces = sorted({piece for word in words.values() for piece in word} | alphabet,
                    key=lambda piece: (piece.startswith("##"), piece))
    while len(pieces) < vocab_size - len(SPECIAL_TOKENS):
        pairs = collections.Counter()
        for word, parts in words.items():
            for pair in zip(parts, parts[1:], strict=False):
                pairs[pair] += counts[word]
        frequent = [pair for pair, count in pairs.items() if count >= min_frequency]
        if not frequent:
            break
        best = min(frequent, key=lambda pair: (-pairs[pair], *map(pieces.index, pair)))
        joined = best[0] + best[1].removeprefix("##")
        if joined not in pieces:
            pieces.append(joined)
        for word, parts in words.items():
            at, done = 0, []
            while at < len(parts):
                both = tuple(parts[at:at + 2]) == best
                done.append(joined if both else parts[at])
                at += 1 + both
            words[word] = done
    return [*SPECIAL_TOKENS, *pieces]


@settings(max_examples=150, deadline=None)
@given(counts=st.dictionaries(st.text("abc가", min_size=1, max_size=9), st.integers(1, 9),
                              min_size=1, max_size=12),
       vocab_size=st.integers(16, 60), seed=st.integers(0, 99))
def test_equals_plain_byte_pair_encoding(counts, vocab_size, seed):
    frequency = collections.Counter()
    for word, count in counts.items():
        for character in word:
            frequency[character] += count
    kept = sorted(frequency, key=lambda c: (-frequency[c], c))[:vocab_size // 3]
    alphabet = {c for c in kept if frequency[c] >= 2}
    usable = {word: count for word, count in counts.items() if set(word) <= alphabet}
    order = list(counts.items())
    random.Random(seed).shuffle(order)
    learned = learn_pieces({word.encode(): count for word, count in order}, vocab_size)
    assert learned == plain_byte_pair_encoding(usable, alphabet, vocab_size, 2)


def test_counts_the_words_that_the_tokenizer_cuts(tmp_path):
    lines = ["Hello, wörld!  hello", "한국어 ㅋㅋ中文", "x\u200by", "a" * 250, "İZMİR ΟΔΟΣ"]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    counts = count_words([str(path)], WordPieceWords(True, True))
    assert {word.decode(): count for word, count in counts.items()} == {
        "hello": 2, ",": 1, "world": 1, "!": 1, "한국어": 1, "ㅋㅋ": 1, "中": 1, "文": 1, "xy": 1,
        "a" * 250: 1, "izmir": 1, "οδος": 1}


def test_the_word_table_stays_bounded():
    counter = WordPieceWords(max_words=100)
    for batch in range(5):
        counter.add(["often"] * 10 + [f"word{batch}x{index}" for index in range(90)])
        assert len(counter.counts) <= 100
    assert counter.counts[b"often"] == 50


def test_learn_from_files(tmp_path):
    (tmp_path / "a.txt").write_text("the cat sat on the mat\n\n" * 20)
    (tmp_path / "b.jsonl").write_text('{"text": "한국어 한국어\\n한국어"}\n' * 20)
    paths = [str(tmp_path / "a.txt"), str(tmp_path / "b.jsonl")]
    vocabulary = learn_wordpiece(paths, 100, progress=False)
    assert vocabulary.tokens[:5] == list(SPECIAL_TOKENS)
    assert {"the", "cat", "mat", "한국어"} <= set(vocabulary.tokens)
    tokenizer = Tokenizer(vocabulary)
    assert tokenizer.tokens(tokenizer.tokenize(["the cat, 한국어"])).to_list() == [
        [b"the", b"cat", b"[UNK]", "한국어".encode()]]


@pytest.mark.long
def test_korean_text_is_never_mostly_unknown(shared, tmp_path):
    path = str(shared / "data" / "nsmc" / "ratings_dev.txt.gz")
    vocabulary = learn_wordpiece([path], 8000, progress=False)
    assert len(vocabulary) == 8000
    ids = Tokenizer(vocabulary).tokenize(["이 영화는 정말 재미있었어요 ㅋㅋㅋ 최고!"])
    assert vocabulary.unk_id not in ids.values.numpy()
    assert len(ids.values) <= 14


def test_errors(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(" \n\n")
    with pytest.raises(BertTfError, match="text.txt holds no text"):
        learn_wordpiece([str(path)], 100, progress=False)
    path.write_text("abc")
    with pytest.raises(BertTfError, match="no character of the text occurs 2 times"):
        learn_wordpiece([str(path)], 100, progress=False)
    with pytest.raises(UsageError, match="vocab_size=15; expected at least 16"):
        learn_wordpiece([str(path)], 15, progress=False)
