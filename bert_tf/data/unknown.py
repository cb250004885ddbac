"""How much of a text the vocabulary does not know."""

import numpy as np

from bert_tf.data import records

MUCH = 0.1  # of the tokens unknown
_EXAMPLES = 1000  # that are looked at


def unknown_fraction(shard, table, vocabulary):
    """Return the fraction of tokens that are unknown among the first examples of a shard.

    Args:
        shard: path.
        table: its `records.feature_table`.
        vocabulary: `Vocabulary` of the tokens; its special ones are not counted.

    Returns: float; 0 where there is no token.

    Raises:
        BertTfError: the shard is damaged.
    """
    reader = records.Records([shard])
    rows = records.parse(table, reader.read(np.arange(min(len(reader), _EXAMPLES))))
    ids = np.array(getattr(rows["input_word_ids"], "flat_values", rows["input_word_ids"]))
    if "masked_lm_ids" in rows:  # what was there before masks
        example, place = np.nonzero(rows["masked_lm_weights"])
        positions, masked = np.array(rows["masked_lm_positions"]), np.array(rows["masked_lm_ids"])
        ids[example, positions[example, place]] = masked[example, place]
    return unknown_share(ids, vocabulary)


def unknown_share(ids, vocabulary):
    """Return the fraction of token ids, int `[…]`, that are unknown; see `unknown_fraction`."""
    # Such as GPT-2's one special token.
    shared = vocabulary.unk_id in (vocabulary.pad_id, vocabulary.cls_id, vocabulary.sep_id)
    unknown = 0 if shared else np.count_nonzero(ids == vocabulary.unk_id)
    known = np.count_nonzero(~np.isin(ids, vocabulary.special_ids))
    return unknown / max(unknown + known, 1)
