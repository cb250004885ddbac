"""Joins the bytes of words pair by pair, as byte-pair encoding does, inside the graph."""

import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, explain

# So often all words go through the loop, each time with one byte less, as long as one of them needs
# it. Longer words that are not finished then, such as encoded data, go on by themselves.
_OFTEN = 64


class PairMerges:
    """The merges of a vocabulary, as tables.

    Args:
        byte_ids: the id that each of the 256 bytes begins as.
        ids: `{piece: id}`, all of them.
        merges: pairs of pieces, the first to be joined first.
        source: what an error names.

    Raises:
        UsageError: there are none, or one uses or makes a piece that is no entry.
    """

    def __init__(self, byte_ids, ids, merges, source):
        self._byte_ids = tf.constant(byte_ids)
        self._size, self._count = len(ids), len(merges)
        self._merge_keys, self._merge_ranks, self._merged = _merge_table(ids, merges, source)

    def pieces(self, words):
        """Pieces of words, string `[n]`: RaggedTensor int32 `[n, (pieces)]`."""
        symbols = tf.gather(self._byte_ids, tf.cast(
            tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8), tf.int32))
        lengths = tf.strings.length(words)
        rows = tf.repeat(tf.range(tf.size(words)), lengths)
        symbols, rows, merging = self._merge(symbols, rows, _OFTEN)
        symbols, rows = tf.cond(merging, lambda: self._merge_long(symbols, rows, lengths),
                                lambda: (symbols, rows))
        return tf.RaggedTensor.from_value_rowids(symbols, tf.cast(rows, tf.int64),
                                                 tf.size(words, tf.int64), validate=False)

    def _merge(self, symbols, rows, times=None):
        """Join until nothing is to be joined, or so many `times`; also whether something may be."""
        shape = tf.TensorShape([None])
        return tf.while_loop(
            lambda symbols, rows, merging: merging, self._merge_once,
            (symbols, rows, tf.constant(True)), maximum_iterations=times,
            shape_invariants=(shape, shape, tf.TensorShape([])))

    def _merge_long(self, symbols, rows, lengths):
        """Join in the words that are longer than others have been finished by."""
        long = tf.gather(lengths > _OFTEN, rows)
        joined, their_rows, _ = self._merge(tf.boolean_mask(symbols, long),
                                            tf.boolean_mask(rows, long))
        symbols = tf.concat([tf.boolean_mask(symbols, ~long), joined], axis=0)
        rows = tf.concat([tf.boolean_mask(rows, ~long), their_rows], axis=0)
        order = tf.argsort(rows, stable=True)
        return tf.gather(symbols, order), tf.gather(rows, order)

    def _merge_once(self, symbols, rows, _):
        """Join in every word all places of the pair that comes first in `merges`."""
        none = self._count
        left, right = tf.cast(symbols[:-1], tf.int64), tf.cast(symbols[1:], tf.int64)
        key = left * self._size + right
        place = tf.minimum(tf.searchsorted(self._merge_keys, key), none - 1)
        known = (tf.gather(self._merge_keys, place) == key) & (rows[1:] == rows[:-1])
        rank = tf.where(known, tf.gather(self._merge_ranks, place), none)
        rank = tf.concat([rank, tf.fill(tf.shape(symbols[:1]), none)], axis=0)  # [k]
        best = tf.gather(tf.math.segment_min(rank, rows), rows)
        chosen = (rank == best) & (rank < none)
        # Neighbours are chosen where a piece repeats; of `aaa` only the first two are joined.
        opens = chosen & ~tf.roll(chosen, 1, 0)
        position = tf.range(tf.size(symbols))
        opened = tf.gather(tf.concat([[0], tf.boolean_mask(position, opens)], axis=0),
                           tf.cumsum(tf.cast(opens, tf.int32)))
        joined = chosen & ((position - opened) % 2 == 0)
        symbols = tf.where(joined, tf.gather(self._merged, tf.minimum(rank, none - 1)), symbols)
        kept = ~tf.roll(joined, 1, 0)
        return (tf.boolean_mask(symbols, kept), tf.boolean_mask(rows, kept),
                tf.reduce_any(joined))


class WholeWords:
    """Words that are pieces as they are, where merges make other pieces of them.

    Args:
        written: the bytes of each piece in the order of their ids, empty where it is no word.
        joined: `PairMerges`.
    """

    def __init__(self, written, joined):
        self._joined = joined
        made = joined.pieces(tf.constant(written))
        same = (made.row_lengths() == 1) & (
            made[:, :1].to_tensor(-1, [None, 1])[:, 0] == tf.range(len(written)))
        ids = np.flatnonzero(~same.numpy() & [len(piece) > 0 for piece in written])
        keys = _key(tf.constant(written)).numpy()[ids]
        order = np.argsort(keys)
        self._ids, self._keys = tf.constant(ids[order], tf.int32), tf.constant(keys[order])
        self._words = tf.constant([written[number] for number in ids[order]], tf.string)

    def pieces(self, words):
        """See `PairMerges.pieces`."""
        if not len(self._keys):
            return self._joined.pieces(words)
        keys = _key(words)
        place = tf.minimum(tf.searchsorted(self._keys, keys), len(self._keys) - 1)
        whole = tf.gather(self._words, place) == words
        ids = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(tf.gather(self._ids, place), whole), tf.cast(whole, tf.int64),
            validate=False)
        return tf.concat([ids, self._joined.pieces(tf.where(whole, "", words))], axis=1)


def _key(words):
    """Return int64 `[n]`, of 2^63 numbers one for each word."""
    return tf.strings.to_hash_bucket_fast(words, np.iinfo(np.int64).max)


def _merge_table(ids, merges, source):
    """Pairs of ids sorted as one number, int64 `[m]`, the rank of each and what a rank makes."""
    keys, merged = [], []
    for number, (left, right) in enumerate(merges, 1):
        for piece in (left, right, left + right):
            if piece not in ids:
                raise UsageError(explain(f"merge {number}, {left!r} and {right!r}: {piece!r} is "
                                         f"no entry of {source}",
                                         "the merges that belong to this vocabulary"))
        keys.append(ids[left] * len(ids) + ids[right])
        merged.append(ids[left + right])
    if not merges:
        raise UsageError(explain(f"no merges for {source}", "at least one pair of pieces"))
    # Of a pair that is there twice the later counts, as where a dict is filled in order.
    ranks = {key: rank for rank, key in enumerate(keys)}
    keys = np.array(sorted(ranks), np.int64)
    return (tf.constant(keys), tf.constant([ranks[key] for key in keys.tolist()], tf.int32),
            tf.constant(merged, tf.int32))
