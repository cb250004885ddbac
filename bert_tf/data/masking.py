"""The choice of predicted tokens and what replaces them (BERT paper, section 3.1).

15 % of an example's tokens are chosen; 80 % of the chosen are replaced by `[MASK]`, 10 % by a
random token, 10 % stay. What is chosen and replaced together is a token, a whole word, or a span
of several of either. One function serves static masking, when records are written, and dynamic
masking, in the input pipeline (RoBERTa paper, section 4.1).
"""

import numpy as np
import tensorflow as tf

from bert_tf.randomness import example_bits, uniform

MASKED_LM_PROB = 0.15
REPLACEMENT_PROBS = (0.8, 0.1)  # fractions of `[MASK]` and of random tokens; the others are kept
ELECTRA_REPLACEMENT_PROBS = (0.85, 0.0)  # google-research/electra `pretrain_helpers.py`


class Masking:
    """Chooses and replaces tokens.

    Spans (ALBERT paper, section 4.1): with `max_ngram` N the text is laid out in spans of 1 to N
    tokens, or words under `whole_word`, the length n drawn with p(n) = (1/n) / (1 + 1/2 + … + 1/N),
    and each span is as likely to be chosen as any other. A special token ends a span; one longer
    than all that may be chosen counts as single words. A span is replaced as one, as in the work
    that ALBERT takes its n-gram masking from (Joshi et al., SpanBERT, section 3.1); the code of
    google-research/albert draws one for every token.

    Args:
        vocab_size: entries of the vocabulary.
        special_ids: ids that are neither chosen nor drawn as replacements.
        mask_id: id of `[MASK]`.
        max_predictions_per_seq: maximum of predicted tokens of an example (P).
        whole_word: choose whole words, each replaced as one (mask, random, keep); a word that
            would exceed what is left of `masked_lm_prob` is skipped.
        max_ngram: maximum of tokens or words of a span (N); 1 for no spans.
        masked_lm_prob: fraction of an example's tokens that are chosen, above 0 and below 1.
        replacement_probs: fractions of the chosen that become `[MASK]` and a random token.
    """

    def __init__(self, *, vocab_size, special_ids, mask_id, max_predictions_per_seq, whole_word,
                 max_ngram=1, masked_lm_prob=MASKED_LM_PROB, replacement_probs=REPLACEMENT_PROBS):
        self.special_ids = np.array(sorted(special_ids), np.int32)
        self.regular_ids = np.setdiff1d(np.arange(vocab_size, dtype=np.int32), self.special_ids)
        self.mask_id = mask_id
        self.max_predictions_per_seq = max_predictions_per_seq
        self.whole_word = whole_word
        self.max_ngram = max_ngram
        self.masked_lm_prob = masked_lm_prob
        self.replacement_probs = replacement_probs

    def __call__(self, key, first_example, word_ids, num_tokens, word_starts, masked_lm_prob=None):
        """Mask a batch.

        Args:
            key: uint64 `[1]` from `randomness.stream_key`.
            first_example: index of the first example in the stream, scalar integer; an example's
                result depends on the key, its index and itself only.
            word_ids: int32 `[batch, seq_length]`.
            num_tokens: int32 `[batch]`, real tokens of each example, specials counted.
            word_starts: int32 `[batch, seq_length]`, 1 at the first piece of a word.
            masked_lm_prob: fraction of this batch, float64 scalar; None for the object's own.

        Returns:
            dict of `input_word_ids` int32 `[batch, seq_length]` and, ascending by position,
            `masked_lm_positions`, `masked_lm_ids` int32, `masked_lm_weights` float32 `[batch, P]`.
        """
        batch, seq_length = tf.unstack(tf.shape(word_ids))
        bits = example_bits(key, first_example, [batch, 3 + (self.max_ngram > 1), seq_length])
        candidates = tf.sequence_mask(num_tokens, seq_length)
        for special in self.special_ids:
            candidates &= word_ids != special
        # float64 and round-half-even, as Python's round() in the original.
        fraction = self.masked_lm_prob if masked_lm_prob is None else masked_lm_prob
        wanted = tf.round(tf.cast(num_tokens, tf.float64) * fraction)
        budget = tf.clip_by_value(tf.cast(wanted, tf.int32), 1, self.max_predictions_per_seq)

        starts = candidates
        if self.whole_word or self.max_ngram > 1:
            after = tf.pad(candidates[:, :-1], [[0, 0], [1, 0]])
        if self.whole_word:
            # A special token ends a word, so that one truncated at its front starts anew after it.
            starts &= (word_starts > 0) | ~after
        if self.max_ngram > 1:
            starts = self._join(bits[:, 3], starts, after, candidates, budget)
        spans = tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1  # [batch, seq_length]

        chosen_spans = self._choose(bits[:, 0], spans, candidates, budget)
        span = tf.maximum(spans, 0)
        chosen = candidates & tf.gather(chosen_spans, span, batch_dims=1)
        draw = tf.gather(uniform(bits[:, 1]), span, batch_dims=1)
        mask, random = self.replacement_probs
        masked = chosen & (draw < mask)
        random = chosen & (draw >= mask) & (draw < mask + random)
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

    def _join(self, bits, starts, after, candidates, budget):
        """Return which of the `starts` of words open a span: bool `[batch, seq_length]`."""
        weights = 1 / np.arange(1, self.max_ngram + 1)
        limits = np.cumsum(weights / weights.sum())[:-1].astype(np.float32)
        length = 1 + tf.searchsorted(limits, tf.reshape(uniform(bits), [-1]), side="right")
        # Span j holds the words from number begin[j] on, wherever special tokens stand.
        begin = tf.cumsum(tf.reshape(length, tf.shape(bits)), axis=1, exclusive=True)
        begins = _count(begin, begin < tf.shape(bits)[1]) > 0
        words = tf.maximum(tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1, 0)
        opens = starts & (tf.gather(begins, words, batch_dims=1) | ~after)

        spans = tf.maximum(tf.cumsum(tf.cast(opens, tf.int32), axis=1) - 1, 0)
        size = tf.gather(_count(spans, candidates), spans, batch_dims=1)
        return opens | (starts & (size > budget[:, None]))

    def _choose(self, bits, spans, candidates, budget):
        """Choose spans, bool `[batch, seq_length]` by number of the span in its example."""
        seq_length = tf.shape(spans)[1]
        size = _count(spans, candidates)
        shuffled = tf.where(size > 0, tf.cast(_shift(bits, 2), tf.int32) + 1, 0)
        # Of spans of one token, the first that fill the budget are enough.
        enough = (seq_length if self.whole_word or self.max_ngram > 1
                  else tf.minimum(self.max_predictions_per_seq, seq_length))
        order = tf.math.top_k(shuffled, enough).indices
        size = tf.gather(size, order, batch_dims=1)

        # In random order each span is taken that still fits. All spans before the first that does
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
        return _count(order, taken, seq_length) > 0


def _count(numbers, which, limit=None):
    """Count how often a row of `numbers` holds each number below its length, or `limit`, where
    `which` is true: int32 `[batch, limit]`."""
    batch = tf.shape(numbers)[0]
    limit = tf.shape(numbers)[1] if limit is None else limit
    flat = tf.where(which, numbers + tf.range(batch)[:, None] * limit, -1)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(flat), flat, batch * limit)
    return tf.reshape(counts, [batch, limit])


def _shift(bits, count):
    return tf.bitwise.right_shift(bits, tf.constant(count, bits.dtype))


def _below(bits, count):
    """Convert uint32 bits to int32 in [0, count)."""
    return tf.cast(_shift(tf.cast(bits, tf.uint64) * tf.constant(count, tf.uint64), 32), tf.int32)
