"""Learn the pieces that a WordPiece vocabulary lacks for a text.

Byte-pair encoding (Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword
Units", section 3.2) that does not begin with characters but with the pieces a tokenizer splits
words into already. Words that are one piece teach nothing, and stay that piece whatever is added:
the longest piece is taken first.
"""

import collections

import numpy as np
import tensorflow as tf

from bert_tf.tokenization.pair_counts import PairCounts, learn_merges
from bert_tf.tokenization.vocabulary import CONTINUATION_PREFIX, joined

_AT_ONCE = 1 << 16  # words
_MIN_FREQUENCY = 2  # a character or pair that occurs less often gives no piece


def learn_new_pieces(tokenizer, counts, number, progress=False):
    """Learn pieces that shorten texts most.

    First come the single characters for want of which words are unknown, the most frequent ones and
    at most a third of all; then pairs of neighbouring pieces, joined again and again, those first
    that are joined most often, which is how many tokens that saves. Unknown words are split into
    the pieces that there are and these characters. Where pairs run out, as in Chinese, whose words
    are single characters to WordPiece, further characters come, and the pairs that they make. Every
    character makes a word known; one that could not occur, for want of its neighbours, is not
    learned.

    Args:
        tokenizer: a WordPiece `Tokenizer`.
        counts: dict of word (UTF-8 bytes, as `tokenizer.cut` takes them) -> int.
        number: pieces that are wanted; fewer come out where the words have no more.
        progress: show a bar.

    Returns:
        list of str, none in the vocabulary, in the order in which they were learned. With them no
        word of `counts` is unknown that was known before.
    """
    vocabulary = tokenizer.vocabulary
    symbols, lengths, weights, unknown = _split(tokenizer, counts)
    unknown_before = {word for word, _ in unknown}
    pieces, size = list(vocabulary.tokens), len(vocabulary) + number
    characters = _new_characters(unknown, vocabulary, number // 3)
    while True:
        pieces += characters
        known, still_unknown = vocabulary.with_tokens(pieces), []
        for word, count in unknown:
            row = split_piece(word, known)
            if row:
                symbols.append(np.array(row, np.int32))
                lengths.append([len(row)])
                weights.append([count])
            else:
                still_unknown.append((word, count))
        pairs = PairCounts(*(np.concatenate([np.zeros(0, kind), *parts]) for kind, parts in (
            (np.int32, symbols), (np.int64, lengths), (np.int64, weights))), _MIN_FREQUENCY)
        learn_merges(pairs, pieces, size, joined, progress)
        symbols, lengths, weights, unknown = [], [], [], still_unknown
        characters = _new_characters(unknown, vocabulary.with_tokens(pieces), size - len(pieces))
        if not characters:
            return _harmless(pieces[len(vocabulary):], tokenizer, counts, unknown_before)


def split_piece(piece, vocabulary):
    """Split a piece into those of a vocabulary, the longest first.

    Args:
        piece: str; one that begins with `##` continues a word.
        vocabulary: `Vocabulary`.

    Returns:
        list of ids; empty where it cannot be split.
    """
    ids, complete = longest_pieces(piece, vocabulary)
    return ids if complete else []


def known_characters(piece, vocabulary):
    """The ids of those characters of a piece that are pieces of a vocabulary."""
    prefix, text = _divided(piece)
    own = [prefix + text[:1], *(CONTINUATION_PREFIX + character for character in text[1:])]
    found = [vocabulary.id(character) for character in own]
    return [number for number in found if number != vocabulary.unk_id]


def longest_pieces(piece, vocabulary):
    """Return `(ids, complete)`: pieces from the left, and whether they reach the end."""
    ids = []
    for _, number in _walk(piece, vocabulary):
        if number is None:
            return ids, False
        ids.append(number)
    return ids, True


def _walk(piece, vocabulary):
    """Yield the longest pieces from the left with their ids, and each character for want of which
    there is none, with None."""
    prefix, text = _divided(piece)
    begin = 0
    while begin < len(text):
        for end in range(len(text), begin, -1):
            number = vocabulary.id(prefix + text[begin:end])
            if number != vocabulary.unk_id:
                break
        else:
            number = None
        yield prefix + text[begin:end], number
        begin, prefix = end, CONTINUATION_PREFIX


def _divided(piece):
    text = piece.removeprefix(CONTINUATION_PREFIX)
    # The word "##" itself, and what begins so, has no text after it.
    return (piece[:len(piece) - len(text)], text) if text else ("", piece)


def _split(tokenizer, counts):
    """Words that a tokenizer splits into several pieces, or does not know.

    Returns:
        symbols, lengths, weights: lists of int arrays: pieces of words one after the other, how
            many each word has, how often it occurs.
        unknown: list of `(word, count)`, but for overlong words, which stay unknown.
    """
    symbols, lengths, weights, unknown, words = [], [], [], [], list(counts)
    for begin in range(0, len(words), _AT_ONCE):
        part = words[begin:begin + _AT_ONCE]
        ids = tokenizer.cut(tf.constant(part, tf.string))[0]
        values, sizes = ids.values.numpy(), ids.row_lengths().numpy()
        several, rows = sizes > 1, ids.value_rowids().numpy()
        symbols.append(values[np.repeat(several, sizes)])
        lengths.append(sizes[several])
        weights.append(np.array([counts[part[row]] for row in np.flatnonzero(several)], np.int64))
        for place in np.flatnonzero(values == tokenizer.vocabulary.unk_id):
            word = part[rows[place]]
            if len(word.decode()) <= tokenizer.max_characters_per_word:
                unknown.append((word.decode(), counts[word]))
    return symbols, lengths, weights, unknown


def _harmless(new, tokenizer, counts, unknown_before):
    """Leave out those new pieces after which no piece goes on in a word that was known.

    That happens where the vocabulary lacks single characters: `go` is taken first, and of `going`,
    which was `g ##oing`, is `ing` left.
    """
    old = tokenizer.vocabulary.tokens
    while True:
        now = tokenizer.with_tokens([*old, *new])
        lost = [word for word, _ in _split(now, counts)[3] if word not in unknown_before]
        if not lost:
            return new
        ways = [longest_pieces(word, now.vocabulary)[0] for word in lost]
        # The last new one on each; one without any would be that of before, which ended.
        harmful = {next(number for number in reversed(way) if number >= len(old)) for way in ways}
        new = [piece for number, piece in enumerate(new, len(old)) if number not in harmful]


def _new_characters(unknown, vocabulary, most):
    """The single-character pieces that make unknown words known, the most frequent ones, sorted."""
    if not most:
        return []
    frequency, wanted = collections.Counter(), set()
    for word, count in unknown:
        lacking = [piece for piece, number in _walk(word, vocabulary) if number is None]
        wanted.add(frozenset(lacking))
        for piece in lacking:
            frequency[piece] += count
    frequent = sorted((-count, piece) for piece, count in frequency.items()
                      if count >= _MIN_FREQUENCY)
    rank = {piece: place for place, (_, piece) in enumerate(frequent)}
    chosen = set()
    # Word by word, in the order of the rarest character that each lacks.
    for lacking in sorted((each for each in wanted if each <= rank.keys()),
                          key=lambda each: sorted(map(rank.get, each), reverse=True)):
        if len(chosen) + len(lacking - chosen) <= most:
            chosen |= lacking
    return sorted(chosen)
