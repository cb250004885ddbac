"""Joins the symbols of words pair by pair, as byte-pair encoding does, inside the graph."""

import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.tokenization.string_table import StringTable

# So often all words go through the loop; those that are not finished then go on by themselves.
_OFTEN = 12
# Longer words than two blocks are split in parts of two blocks, which overlap by one.
_BLOCK = 32


class PairMerges:
    """The merges of a vocabulary, as tables.

    Args:
        first: function of words, string `[n]`, to what they are before anything is joined: ids
            int32 `[k]`, of all words, and how many each has, int32 `[n]`.
        ids: `{piece: id}`, all of them.
        merges: pairs of pieces, the first to be joined first.
        source: what an error names.

    Raises:
        UsageError: there are none, or one uses or makes a piece that is no entry.
    """

    def __init__(self, first, ids, merges, source):
        self.merges = merges
        self._first = first
        self._size, self._count = len(ids), len(merges)
        (self._merge_keys, self._merge_ranks, self._merged,
         self._one_by_one) = _merge_table(ids, merges, source)

    def pieces(self, words):
        """Pieces of words, string `[n]`: RaggedTensor int32 `[n, (pieces)]`."""
        symbols, lengths = self._first(words)
        rows = tf.repeat(tf.range(tf.size(words)), lengths)
        pieces, places = tf.cond(tf.reduce_any(lengths > 2 * _BLOCK),
                                 lambda: self._merge_parts(symbols, lengths),
                                 lambda: self._merge(symbols, rows))
        return tf.RaggedTensor.from_value_rowids(
            pieces, tf.cast(tf.gather(rows, places), tf.int64), tf.size(words, tf.int64),
            validate=False)

    def _merge(self, symbols, rows):
        """Join until nothing is to be joined: pieces int32 `[p]`, and where each begins among the
        symbols, int32 `[p]`."""
        pieces, places, merging = self._loop(symbols, tf.range(tf.size(symbols)), rows, _OFTEN)
        return tf.cond(merging, lambda: self._merge_unfinished(pieces, places, rows),
                       lambda: (pieces, places))

    def _merge_unfinished(self, pieces, places, rows):
        """Join on in the words in which there is something to be joined."""
        unfinished = self._ranks(pieces, tf.gather(rows, places))[1] < self._count
        joined, their_places, _ = self._loop(tf.boolean_mask(pieces, unfinished),
                                             tf.boolean_mask(places, unfinished), rows)
        pieces = tf.concat([tf.boolean_mask(pieces, ~unfinished), joined], axis=0)
        places = tf.concat([tf.boolean_mask(places, ~unfinished), their_places], axis=0)
        order = tf.argsort(places)
        return tf.gather(pieces, order), tf.gather(places, order)

    def _loop(self, symbols, places, rows, times=None):
        """Join until nothing is to be joined, or so many `times`; also whether something may be."""
        shape = tf.TensorShape([None])
        return tf.while_loop(
            lambda symbols, places, merging: merging,
            lambda symbols, places, _: self._merge_once(symbols, places, rows),
            (symbols, places, tf.constant(True)), maximum_iterations=times,
            shape_invariants=(shape, shape, tf.TensorShape([])))

    def _ranks(self, symbols, rows):
        """The rank of each symbol with the one after it, int32 `[k]`, and the lowest of its row."""
        none = self._count
        left, right = tf.cast(symbols[:-1], tf.int64), tf.cast(symbols[1:], tf.int64)
        key = left * self._size + right
        place = tf.minimum(tf.searchsorted(self._merge_keys, key),
                           tf.size(self._merge_keys) - 1)
        known = (tf.gather(self._merge_keys, place) == key) & (rows[1:] == rows[:-1])
        rank = tf.where(known, tf.gather(self._merge_ranks, place), none)
        rank = tf.concat([rank, tf.fill(tf.shape(symbols[:1]), none)], axis=0)  # [k]
        return rank, tf.gather(tf.math.segment_min(rank, rows), rows)

    def _merge_once(self, symbols, places, rows):
        """Join in every word the pair that comes first in `merges`: all its places, or the first
        one, where what it makes may be joined before the others."""
        none = self._count
        rows = tf.gather(rows, places)
        rank, best = self._ranks(symbols, rows)
        chosen = (rank == best) & (rank < none)
        if self._one_by_one is not None:
            number = tf.cumsum(tf.cast(chosen, tf.int32))
            is_first = number - 1 == tf.gather(tf.math.segment_min(
                number - tf.cast(chosen, tf.int32), rows), rows)
            chosen &= is_first | ~tf.gather(self._one_by_one, tf.minimum(rank, none - 1))
        # Neighbours are chosen where a piece repeats; of `aaa` only the first two are joined.
        opens = chosen & ~tf.roll(chosen, 1, 0)
        position = tf.range(tf.size(symbols))
        opened = tf.gather(tf.concat([[0], tf.boolean_mask(position, opens)], axis=0),
                           tf.cumsum(tf.cast(opens, tf.int32)))
        joined = chosen & ((position - opened) % 2 == 0)
        symbols = tf.where(joined, tf.gather(self._merged, tf.minimum(rank, none - 1)), symbols)
        kept = ~tf.roll(joined, 1, 0)
        return (tf.boolean_mask(symbols, kept), tf.boolean_mask(places, kept),
                tf.reduce_any(joined))

    def _merge_parts(self, symbols, lengths):
        """As `_merge`, of words of any lengths, in a time that grows as these do.

        Pieces are those of a word if each two neighbours are those of the two alone: nothing is
        joined across them in the word unless it is there. So the pieces of two parts that overlap
        are those of both together where a piece of the overlap is the same in either, up to it
        those of the one, from it on those of the other. Parts without one are made one part.
        """
        blocks = -(-lengths // _BLOCK)
        word = tf.repeat(tf.range(tf.size(lengths)), blocks)  # [b], of each block
        number = tf.cast(tf.ragged.range(blocks).values, tf.int32)
        word_ends = tf.gather(tf.cumsum(lengths), word)
        begins = word_ends - tf.gather(lengths, word) + number * _BLOCK
        ends = tf.minimum(begins + _BLOCK, word_ends)
        block_of = tf.repeat(tf.range(tf.size(word)), ends - begins)  # [k]

        def merge(opens, *_):
            """Join in parts that begin with the blocks `opens`, bool `[b]`."""
            part = tf.cast(tf.where(opens)[:, 0], tf.int32)  # [parts], the block it begins with
            following = tf.concat([part[1:], [0]], axis=0)
            follows = (following > part) & (tf.gather(word, following) == tf.gather(word, part))
            whole = tf.gather(word_ends, part)
            limits = tf.where(follows, tf.gather(ends, following), whole)
            source = tf.ragged.range(tf.gather(begins, part), limits)
            rows = tf.cast(source.value_rowids(), tf.int32)
            pieces, places = self._merge(tf.gather(symbols, source.values), rows)
            rows, places = tf.gather(rows, places), tf.gather(source.values, places)
            is_last = tf.concat([rows[1:] != rows[:-1], tf.ones_like(rows[:1], tf.bool)], axis=0)
            stops = tf.where(is_last, tf.gather(limits, rows), tf.roll(places, -1, 0))

            # Where pieces end that begin at a place, in the part and in the one before it.
            shared = places >= tf.gather(tf.where(
                follows, tf.gather(begins, following), whole), rows)
            size = tf.shape(symbols)
            own, before = (tf.scatter_nd(
                tf.boolean_mask(places, each)[:, tf.newaxis], tf.boolean_mask(stops, each), size)
                for each in (~shared, shared))
            cut = tf.math.segment_max(tf.where(own == before, own, 0), block_of)  # [b]
            meets = opens & (number > 0)
            first = tf.gather(tf.where(meets, cut, begins), part)
            last = tf.where(follows, tf.gather(cut, following), whole)
            kept = (places >= tf.gather(first, rows)) & (places < tf.gather(last, rows))
            apart = meets & (cut == 0)
            return (opens & ~apart, tf.boolean_mask(pieces, kept), tf.boolean_mask(places, kept),
                    tf.reduce_any(apart))

        shape, none = tf.TensorShape([None]), tf.zeros([0], tf.int32)
        # The last block of several belongs to the part before it.
        opens = (number == 0) | (number < tf.gather(blocks, word) - 1)
        return tf.while_loop(lambda *state: state[3], merge, (opens, none, none, tf.constant(True)),
                             shape_invariants=(shape, shape, shape, tf.TensorShape([])))[1:3]


def bytes_first(byte_ids):
    """The `first` of `PairMerges` that begins with bytes, of which each has an id."""
    byte_ids = tf.constant(byte_ids)

    def first(words):
        values = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)
        return tf.gather(byte_ids, tf.cast(values, tf.int32)), tf.strings.length(words)

    return first


class WholeWords:
    """Words that are pieces as they are, whatever merges make of them.

    Args:
        written: string tensor `[vocab_size]`, the bytes of each piece in the order of their ids.
        ids: int array, of the pieces that may be words.
        joined: `PairMerges`, for the other words.
    """

    def __init__(self, written, ids, joined):
        self._table, self._joined = StringTable(written, ids), joined

    def pieces(self, words):
        """See `PairMerges.pieces`."""
        found, whole = self._table.find(words)
        ids = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(found, whole), tf.cast(whole, tf.int64), validate=False)
        return tf.concat([ids, self._joined.pieces(tf.where(whole, "", words))], axis=1)


def characters_first(ids, byte_ids):
    """The `first` of `PairMerges` that begins with characters, or the bytes of those without an id.

    Args:
        ids: `{code point: id}`.
        byte_ids: of each of the 256 bytes; where a character of one byte has an id, anything.
    """
    known = tf.constant(sorted(ids), tf.int32)
    known_ids = tf.constant([ids[point] for point in sorted(ids)], tf.int32)
    byte_ids = tf.constant(byte_ids, tf.int32)

    def first(words):
        characters = tf.strings.unicode_decode(words, "UTF-8")
        points = characters.values
        place = tf.minimum(tf.searchsorted(known, points), tf.size(known) - 1)
        is_known = tf.gather(known, place) == points
        sizes = 1 + tf.add_n([tf.cast(points >= least, tf.int32)
                              for least in (0x80, 0x800, 0x10000)])  # in UTF-8
        counts = tf.where(is_known, 1, sizes)
        source = tf.repeat(tf.range(tf.size(points)), counts)
        inside = tf.range(tf.size(source)) - tf.gather(tf.cumsum(counts, exclusive=True), source)
        raw = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8), tf.int32)
        symbols = tf.where(
            tf.gather(is_known, source), tf.gather(known_ids, tf.gather(place, source)),
            tf.gather(byte_ids, tf.gather(
                raw, tf.gather(tf.cumsum(sizes, exclusive=True), source) + inside)))
        return symbols, tf.reduce_sum(characters.with_values(counts), axis=1)

    return first


def _merge_table(ids, merges, source):
    """Pairs of ids sorted as one number, int64 `[m]`, the rank of each, what a rank makes, and of
    each rank whether that is part of a pair with a lower one, bool `[m]`; None where none is."""
    if not merges:
        raise UsageError(explain(f"no merges for {source}", "at least one pair of pieces"))
    left, right, merged = (np.array(column, np.int64) for column in (
        [ids.get(left, -1) for left, _ in merges], [ids.get(right, -1) for _, right in merges],
        [ids.get(left + right, -1) for left, right in merges]))
    missing = np.flatnonzero((left < 0) | (right < 0) | (merged < 0))
    if len(missing):
        number = int(missing[0])
        left, right = merges[number]
        piece = next(piece for piece in (left, right, left + right) if piece not in ids)
        raise UsageError(explain(f"merge {number + 1}, {left!r} and {right!r}: {piece!r} is no "
                                 f"entry of {source}", "the merges that belong to this vocabulary"))
    # Of a pair that is there twice the later counts, as where a dict is filled in order.
    keys, from_end = np.unique((left * len(ids) + right)[::-1], return_index=True)
    ranks = len(merges) - 1 - from_end
    used = np.full(len(ids), len(merges))  # the lowest rank of a pair with each piece
    for part in (left, right):
        np.minimum.at(used, part[ranks], ranks)
    one_by_one = used[merged] < np.arange(len(merges))
    return (tf.constant(keys), tf.constant(ranks, tf.int32), tf.constant(merged, tf.int32),
            tf.constant(one_by_one) if one_by_one.any() else None)
