"""Which tokens are predicted and what stands in their place (BERT paper, section 3.1).

15 % of an example's tokens are chosen; 80 % of the chosen are replaced by `[MASK]`, 10 % by a
random token, 10 % stay. One function serves static masking, when records are written, and dynamic
masking, in the input pipeline (RoBERTa paper, section 4.1).
"""

import numpy as np
import tensorflow as tf

from bert_tf.randomness import example_bits

MASKED_SHARE = 0.15
_MASK, _RANDOM = 0.8, 0.1


class Masking:
    """Chooses and replaces tokens.

    Args:
        vocab_size: entries of the vocabulary.
        special_ids: ids that are neither chosen nor drawn as replacements.
        mask_id: id of `[MASK]`.
        max_predictions_per_seq: chosen tokens of an example at most (P).
        whole_word: choose whole words, with one fate (mask, random, keep) each; a word that
            would exceed what is left of the 15 % is skipped.
    """

    def __init__(self, *, vocab_size, special_ids, mask_id, max_predictions_per_seq, whole_word):
        self.special_ids = np.array(sorted(special_ids), np.int32)
        self.regular_ids = np.setdiff1d(np.arange(vocab_size, dtype=np.int32), self.special_ids)
        self.mask_id = mask_id
        self.max_predictions_per_seq = max_predictions_per_seq
        self.whole_word = whole_word

    def __call__(self, key, first_example, word_ids, num_tokens, word_starts):
        """Mask a batch.

        Args:
            key: uint64 `[1]` from `randomness.stream_key`.
            first_example: index of the first example in the stream, scalar integer; an example's
                result depends on the key, its index and itself only.
            word_ids: int32 `[batch, seq_length]`.
            num_tokens: int32 `[batch]`, real tokens of each example, specials counted.
            word_starts: int32 `[batch, seq_length]`, 1 at the first piece of a word.

        Returns:
            dict of `input_word_ids` int32 `[batch, seq_length]` and, ascending by position,
            `masked_lm_positions`, `masked_lm_ids` int32, `masked_lm_weights` float32 `[batch, P]`.
        """
        batch, seq_length = tf.unstack(tf.shape(word_ids))
        bits = example_bits(key, first_example, [batch, 3, seq_length])
        candidates = tf.sequence_mask(num_tokens, seq_length)
        for special in self.special_ids:
            candidates &= word_ids != special
        # A special token ends a word, so that one cut at its front starts anew behind it.
        starts = candidates
        if self.whole_word:
            behind = tf.pad(candidates[:, :-1], [[0, 0], [1, 0]])
            starts &= (word_starts > 0) | ~behind
        words = tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1  # [batch, seq_length]

        chosen_words = self._choose(bits[:, 0], words, candidates, num_tokens)
        place = tf.maximum(words, 0)
        chosen = candidates & tf.gather(chosen_words, place, batch_dims=1)
        fate = tf.gather(_uniform(bits[:, 1]), place, batch_dims=1)
        masked = chosen & (fate < _MASK)
        random = chosen & (fate >= _MASK) & (fate < _MASK + _RANDOM)
        replacement = tf.gather(self.regular_ids, _below(bits[:, 2], len(self.regular_ids)))
        output = tf.where(masked, self.mask_id, tf.where(random, replacement, word_ids))

        # The n-th chosen token goes to slot n; unused slots stay 0.
        slots = self.max_predictions_per_seq
        slot = tf.cumsum(tf.cast(chosen, tf.int32), axis=1) - 1 + tf.range(batch)[:, None] * slots
        slot = tf.where(chosen, slot, -1)

        def into_slots(values):
            return tf.reshape(tf.math.unsorted_segment_sum(values, slot, batch * slots),
                              [batch, slots])

        return {"input_word_ids": output,
                "masked_lm_positions": into_slots(tf.zeros_like(slot) + tf.range(seq_length)),
                "masked_lm_ids": into_slots(word_ids),
                "masked_lm_weights": into_slots(tf.ones_like(slot, tf.float32))}

    def _choose(self, bits, words, candidates, num_tokens):
        """Chosen words, bool `[batch, seq_length]` by number of the word in its example."""
        batch, seq_length = tf.unstack(tf.shape(words))
        row = tf.range(batch)[:, None] * seq_length
        size = tf.math.unsorted_segment_sum(
            tf.ones_like(words), tf.where(candidates, row + words, -1), batch * seq_length)
        size = tf.reshape(size, [batch, seq_length])
        # float64 and round-half-even, as Python's round() in the original.
        share = tf.round(tf.cast(num_tokens, tf.float64) * MASKED_SHARE)
        budget = tf.clip_by_value(tf.cast(share, tf.int32), 1, self.max_predictions_per_seq)

        shuffled = tf.where(size > 0, tf.cast(_shift(bits, 2), tf.int32) + 1, 0)
        # Of words of one token, the first that fill the budget are enough.
        enough = seq_length if self.whole_word else tf.minimum(self.max_predictions_per_seq,
                                                               seq_length)
        order = tf.math.top_k(shuffled, enough).indices
        size = tf.gather(size, order, batch_dims=1)

        # In random order each word is taken that still fits. All words before the first that does
        # not fit are taken at once, then all that are longer than what is left are struck out.
        def more(waiting, taken):
            return tf.reduce_any(waiting)

        def take(waiting, taken):
            left = budget - tf.reduce_sum(tf.where(taken, size, 0), axis=1)
            waiting &= size <= left[:, None]
            used = tf.cumsum(tf.where(waiting, size, 0), axis=1)
            fits = waiting & (used <= left[:, None])
            return waiting & ~fits, taken | fits

        waiting = size > 0
        _, taken = tf.while_loop(more, take, [waiting, tf.zeros_like(waiting)])
        chosen = tf.math.unsorted_segment_sum(tf.cast(taken, tf.int32), row + order,
                                              batch * seq_length)
        return tf.reshape(chosen, [batch, seq_length]) > 0


def _shift(bits, count):
    return tf.bitwise.right_shift(bits, tf.constant(count, bits.dtype))


def _uniform(bits):
    """uint32 bits -> float32 in [0, 1)."""
    return tf.cast(_shift(bits, 8), tf.float32) * 2.0**-24


def _below(bits, count):
    """uint32 bits -> int32 in [0, count)."""
    return tf.cast(_shift(tf.cast(bits, tf.uint64) * tf.constant(count, tf.uint64), 32), tf.int32)
