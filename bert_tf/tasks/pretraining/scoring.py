"""How probable texts are to a language model: each token by those before it."""

import numpy as np
import tensorflow as tf

from bert_tf.data.task_input import by_length
from bert_tf.tasks.base.cross_entropy import cross_entropy
from bert_tf.tokenization.windows import cut_windows

_ENCODED = 1 << 12  # positions at once: attention's weights grow with their number times a length
_DECODED = 512  # tokens at once: each has a logit for all of the vocabulary


def log_probabilities(model, rows, batch_size):
    """Compute how probable rows of tokens are after their first one.

    A row that is longer than the model's window is read in windows that overlap by half, so that
    a token is predicted once, from half a window of those before it or more.

    Args:
        model: a `LanguageModel`.
        rows: RaggedTensor int32 `[n, (tokens)]`.
        batch_size: rows, or windows of them, that are read together at most; of long ones fewer.

    Returns: float32 `[n]`, the sums of the tokens' log-probabilities, nats.
    """
    longest = model.config.longest
    stride = max(1, longest // 2)
    owners, starts, windows = cut_windows(rows, longest, stride)
    sums = np.zeros(rows.nrows(), np.float64)
    groups = by_length(windows.row_lengths().numpy(), _ENCODED)
    for part in (group[begin:begin + batch_size] for group in groups
                 for begin in range(0, len(group), batch_size)):
        read = tf.gather(windows, part)
        ids, lengths = read.to_tensor(model.config.padding_id), read.row_lengths()
        mask = tf.sequence_mask(lengths, dtype=tf.int32)
        hidden = model.hidden_of({"input_word_ids": ids, "input_mask": mask})
        # Not what the window before has.
        new = tf.where(tf.gather(starts, part) > 0, tf.cast(longest - stride, tf.int64), 1)
        positions = tf.range(tf.shape(ids, tf.int64)[1])
        places = tf.where((positions >= new[:, tf.newaxis]) & (mask > 0))
        for first in range(0, len(places), _DECODED):
            place = places[first:first + _DECODED]
            nats = cross_entropy(tf.gather_nd(ids, place),
                                 model.decode(tf.gather_nd(hidden, place - [0, 1])))
            np.subtract.at(sums, tf.gather(owners, part[place[:, 0].numpy()]).numpy(), nats.numpy())
    return sums.astype(np.float32)
