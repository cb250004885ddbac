"""New pieces against byte-pair encoding written out as plain loops."""

import collections
import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.tokenization.new_pieces import known_characters, learn_new_pieces, split_piece
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.tokenization.word_counts import WordPieceWords, count_words

# No word begins with c, none has d.
OLD = [*SPECIAL_TOKENS, "a", "b", "##a", "##b", "ab", "##ab", "##c"]


def longest(word, tokens):
    """The pieces of a word, None where it has none: google-research's loop."""
    pieces, begin = [], 0
    while begin < len(word):
        ends = [end for end in range(len(word), begin, -1)
                if "##" * (begin > 0) + word[begin:end] in tokens]
        if not ends:
            return None
        pieces.append("##" * (begin > 0) + word[begin:ends[0]])
        begin = ends[0]
    return pieces


def lacking(word, tokens):
    """The characters of a word that no piece is of, each as often as it is there."""
    return [piece for piece in [word[0], *("##" + character for character in word[1:])]
            if piece not in tokens]


def plain_characters(unknown, tokens, most):
    """Of the words that fit that whose rarest character is the most frequent, again and again."""
    often = collections.Counter(piece for word, count in unknown.items()
                                for piece in lacking(word, tokens) * count)
    frequent = sorted((piece for piece in often if often[piece] >= 2),
                      key=lambda piece: (-often[piece], piece))
    chosen = set()
    while fitting := [need for need in (set(lacking(word, tokens)) for word in unknown)
                      if not need <= chosen and need <= {*frequent}
                      and len(need | chosen) <= most]:
        chosen |= min(fitting, key=lambda need: sorted(map(frequent.index, need), reverse=True))
    return sorted(chosen)


def plain(counts, number):
    """The definition, recounted from scratch for every piece."""
    pieces = [*OLD]
    split = {word: longest(word, OLD) for word in counts}
    parts = {word: row for word, row in split.items() if row and len(row) > 1}
    unknown = {word: counts[word] for word, row in split.items() if not row}
    fresh = plain_characters(unknown, pieces, number // 3)
    while True:
        pieces += fresh
        parts.update((word, longest(word, pieces)) for word in unknown if longest(word, pieces))
        unknown = {word: count for word, count in unknown.items() if word not in parts}
        join(parts, counts, pieces, len(OLD) + number)
        parts = {}
        fresh = plain_characters(unknown, pieces, len(OLD) + number - len(pieces))
        if not fresh:
            return pieces[len(OLD):]


def join(parts, counts, pieces, size):
    """Append to `pieces`, up to `size`, what the most frequent pairs of words' parts make."""
    while len(pieces) < size:
        pairs = collections.Counter()
        for word, row in parts.items():
            for pair in zip(row, row[1:], strict=False):
                pairs[pair] += counts[word]
        frequent = [pair for pair, count in pairs.items() if count >= 2]
        if not frequent:
            break
        best = min(frequent, key=lambda pair: (-pairs[pair], *map(pieces.index, pair)))
        joined = best[0] + best[1].removeprefix("##")
        if joined not in pieces:
            pieces.append(joined)
        for row in parts.values():
            at = 0
            while at < len(row) - 1:
                if tuple(row[at:at + 2]) == best:
                    row[at:at + 2] = [joined]
                at += 1


@settings(max_examples=20, deadline=None)
@given(counts=st.dictionaries(st.text("abcd", min_size=1, max_size=7), st.integers(1, 9),
                              min_size=1, max_size=12), number=st.integers(1, 12))
def test_equals_plain_byte_pair_encoding_of_pieces(counts, number):
    tokenizer = Tokenizer(Vocabulary(OLD))
    learned = learn_new_pieces(tokenizer, {word.encode(): n for word, n in counts.items()}, number)
    assert learned == plain(counts, number)


def test_where_no_pairs_are_more_characters_come():
    """As of Chinese, whose words are single characters to WordPiece."""
    old = Tokenizer(Vocabulary(OLD))
    assert learn_new_pieces(old, {b"c": 3, b"d": 4, b"e": 5, b"f": 6}, 3) == ["f", "d", "e"]
    assert learn_new_pieces(old, {b"c": 3}, 1) == ["c"]


def test_a_character_comes_with_those_without_which_it_cannot_occur():
    old = Tokenizer(Vocabulary(OLD))
    words = {b"xyz": 9, b"d": 2}  # there is space for one character beside the pairs
    assert learn_new_pieces(old, {**words, b"abab": 4, b"aab": 3}, 3) == ["d", "abab", "aab"]
    assert learn_new_pieces(old, words, 4) == ["d", "##y", "##z", "x"]


def test_words_that_are_one_piece_stay_one(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("ab ab ab aba aba abc abc\n" * 3)
    old = Tokenizer(Vocabulary(OLD))
    new = learn_new_pieces(old, count_words([str(text)], WordPieceWords.of(old)), 9)
    assert set(new) == {"aba", "abc"}
    now = old.with_tokens([*OLD, *new])
    assert now.tokenize(["ab aba abc b"]).to_list() == [[9, len(OLD), len(OLD) + 1, 6]]


def test_hangul_is_learned_as_the_tokenizer_sees_it(tmp_path):
    """Where accents are stripped Hugging Face's way, syllables come apart into jamo."""
    text = tmp_path / "text.txt"
    text.write_text("영화 영화가 ÉTÉ\n" * 4)
    jamo = sorted({*unicodedata.normalize("NFD", "영화가"), *"et"})
    old = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *jamo, *("##" + each for each in jamo)]),
                    lower_case=True, strip_accents=True, normalization="huggingface")
    counts = count_words([str(text)], WordPieceWords.of(old))
    new = learn_new_pieces(old, counts, 30)
    assert unicodedata.normalize("NFD", "영화") in new and "ete" in new and "영화" not in new
    now = old.with_tokens([*old.vocabulary.tokens, *new])
    assert [len(row) for row in now.tokenize(["영화", "영화가", "été"])] == [1, 1, 1]
    composed = Tokenizer(old.vocabulary, lower_case=True, strip_accents=True)
    assert "영화" in learn_new_pieces(
        composed, count_words([str(text)], WordPieceWords.of(composed)), 30)


def test_what_a_new_piece_is_made_of():
    vocabulary = Vocabulary(OLD)
    names = [vocabulary.tokens[number] for number in split_piece("abab", vocabulary)]
    assert names == ["ab", "##ab"]
    assert [vocabulary.tokens[number] for number in split_piece("##ca", vocabulary)] == [
        "##c", "##a"]
    assert split_piece("cab", vocabulary) == []
    assert [vocabulary.tokens[number] for number in known_characters("cab", vocabulary)] == [
        "##a", "##b"]
    assert known_characters("xyz", vocabulary) == []


def test_of_unknown_words_the_pieces_that_there_are_stay_whole():
    letters = "helo"
    old = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "hello", *letters, *("##" + c for c in letters)]))
    assert learn_new_pieces(old, {b"helloX": 5, b"helloY": 4}, 6) == [
        "##X", "##Y", "helloX", "helloY"]


def test_what_was_known_stays_so_where_single_characters_are_no_pieces():
    """As in a vocabulary that lost what a text did not have: `going` was `g ##oing`."""
    old = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "g", "##o", "##oing", "##n", "##e"]))
    counts = {b"go": 9, b"going": 1, b"gone": 3}
    assert "go" in learn_new_pieces(old, {b"go": 9, b"gone": 3}, 9)
    assert learn_new_pieces(old, counts, 9) == ["##ne", "gone"]
