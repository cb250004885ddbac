"""One or two texts as a model input: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`.

RoBERTa, whose vocabulary says so, has two separators between them and knows no segments:
`<s> a </s></s> b </s>` (fairseq `examples/roberta`). With Llama 3's, as EuroBERT has it, nothing is
at the end, `<bos> a <bos> b`; with Qwen's nothing at the beginning, `a <eos> b <eos>`; with Gemma's
each segment is as if it was alone, `<bos> a <eos> <bos> b <eos>`.
"""

import tensorflow as tf

from bert_tf.errors import UsageError, explain


def pack(vocabulary, segments, seq_length, fixed=True):
    """Cut segments to the window, add the special tokens and pad.

    Of a pair that is too long the longer segment loses tokens from its end until both are equally
    long, then both in turn (google-research/bert `run_classifier.py`, `_truncate_seq_pair`). Of an
    odd number that is left transformers gives the second one more, unless the first was longer.

    Args:
        vocabulary: `Vocabulary`, for the special ids and where they stand.
        segments: one or two RaggedTensors int32 `[n, (tokens)]`.
        seq_length: the window, special tokens counted.
        fixed: pad to `seq_length`; else to the longest row there is.

    Returns:
        dict of int32 `[n, seq_length]` or `[n, longest]`: `input_word_ids`, `input_mask` (1 for
        real tokens) and `input_type_ids` (1 for the second segment and its `[SEP]`; all 0
        unless `pair_types`).

    Raises:
        UsageError: not one or two segments, or a window without room for a token of each.
    """
    if len(segments) not in (1, 2):
        raise UsageError(explain(f"{len(segments)} segments", "one or two"))
    separators = vocabulary.pair_separators
    special = vocabulary.num_special(len(segments))
    if seq_length < special + len(segments):
        raise UsageError(explain(f"seq_length={seq_length}",
                                 f"at least {special + len(segments)}"))
    budget = seq_length - special
    lengths = [segment.row_lengths() for segment in segments]
    if len(segments) == 2:
        first = tf.minimum(lengths[0], tf.maximum(budget - lengths[1], (budget + 1) // 2))
        lengths = [first, tf.minimum(lengths[1], budget - first)]
    else:
        lengths = [tf.minimum(lengths[0], budget)]

    total = special + tf.add_n(lengths)
    # Not by ragged operations, each of which is some fifty of TensorFlow's.
    longest = seq_length if fixed else tf.maximum(tf.reduce_max(total), 0)  # 0 without rows
    position, begin = tf.range(tf.cast(longest, tf.int64)), int(vocabulary.initial_token)
    ids = tf.constant(vocabulary.sep_id)  # at the end, if anywhere
    if len(segments) == 2:
        between = begin + lengths[0][:, tf.newaxis]
        for place, token in enumerate(vocabulary.between_ids):
            ids = tf.where(position == between + place, token, ids)
    for segment, length in zip(segments, lengths, strict=True):
        inside = (position >= begin) & (position < begin + length[:, tf.newaxis])
        place = segment.row_starts()[:, tf.newaxis] + position - begin
        # What is not inside reads the one that is there for it.
        tokens = tf.gather(tf.concat([segment.values, [0]], 0),
                           tf.where(inside, place, tf.size(segment.values, tf.int64)))
        ids = tf.where(inside, tokens, ids)
        begin += length[:, tf.newaxis] + separators
    real = position < total[:, tf.newaxis]
    ids = tf.where(real, ids, vocabulary.pad_id)
    if vocabulary.initial_token:
        ids = tf.where(position == 0, vocabulary.cls_id, ids)
    second = real & vocabulary.pair_types & (
        position >= lengths[0][:, tf.newaxis] + vocabulary.initial_token + separators)
    return {"input_word_ids": ids, "input_mask": tf.cast(real, tf.int32),
            "input_type_ids": tf.cast(second, tf.int32)}


def join(vocabulary, first, second=None):
    """Token ids of one input, however long.

    Args:
        vocabulary: as for `pack`.
        first, second: lists of int, the segments.

    Returns: `(ids, types)`, lists of int.
    """
    begin = [vocabulary.cls_id] * vocabulary.initial_token
    last = [vocabulary.sep_id] * vocabulary.final_separator
    if second is None:
        ids = [*begin, *first, *last]
        return ids, [0] * len(ids)
    before = [*begin, *first, *vocabulary.between_ids]
    after = [*second, *last]
    return before + after, [0] * len(before) + [int(vocabulary.pair_types)] * len(after)
