"""Learn the pieces that a WordPiece vocabulary lacks for a text.

Byte-pair encoding (Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword
Units", section 3.2) that does not begin with characters but with the pieces a tokenizer splits
words into already. Words that are one piece teach nothing, and stay that piece whatever is added:
the longest piece is taken first.
"""

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
    the pieces that there are and these characters.

    Args:
        tokenizer: a WordPiece `Tokenizer`.
        counts: dict of word (UTF-8 bytes, as `tokenizer.cut` takes them) -> int.
        number: pieces that are wanted; fewer come out where the words have no more.
        progress: show a bar.

    Returns:
        list of str, none in the vocabulary, in the order in which they were learned.
    """
    vocabulary = tokenizer.vocabulary
    symbols, lengths, weights, unknown = _split(tokenizer, counts)
    characters = _new_characters(unknown, vocabulary, number // 3)
    known = vocabulary.with_tokens([*vocabulary.tokens, *characters])
    pieces = list(known.tokens)
    for word, count in unknown:
        row = split_piece(word, known)
        if row:
            symbols.append(np.array(row, np.int32))
            lengths.append([len(row)])
            weights.append([count])
    symbols, lengths, weights = (
        np.concatenate([np.zeros(0, kind), *parts]) for kind, parts in (
            (np.int32, symbols), (np.int64, lengths), (np.int64, weights)))
    learn_merges(PairCounts(symbols, lengths, weights, _MIN_FREQUENCY), pieces,
                 len(vocabulary) + number, joined, progress)
    return pieces[len(vocabulary):]


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
    prefix, text = _divided(piece)
    ids, begin = [], 0
    while begin < len(text):
        for end in range(len(text), begin, -1):
            number = vocabulary.id(prefix + text[begin:end])
            if number != vocabulary.unk_id:
                ids.append(number)
                break
        else:
            return ids, False
        begin, prefix = end, CONTINUATION_PREFIX
    return ids, True


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


def _characters(word):
    return [word[:1], *(CONTINUATION_PREFIX + character for character in word[1:])]


def _new_characters(unknown, vocabulary, most):
    """The single-character pieces that unknown words need, the most frequent ones, sorted."""
    frequency = {}
    for word, count in unknown:
        for piece in _characters(word):
            if vocabulary.id(piece) == vocabulary.unk_id:
                frequency[piece] = frequency.get(piece, 0) + count
    frequent = sorted((-count, piece) for piece, count in frequency.items()
                      if count >= _MIN_FREQUENCY)
    return sorted(piece for _, piece in frequent[:most])
