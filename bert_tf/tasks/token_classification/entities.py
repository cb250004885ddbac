"""From a label for every unit to entities, inside the graph.

`B-X` begins an entity of the type X, `I-X` continues it, `O` is outside. An `I-X` that follows
no `B-X` or `I-X` of its type begins an entity; this repair is that of CoNLL's `conlleval` and of
seqeval, whose further tags are read, too: `E-X` ends an entity and `S-X` is a whole one. Any other
label, such as a part of speech, makes its unit an entity of that label.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.tasks.token_classification.examples import OUTSIDE
from bert_tf.tokenization.units import substrings

_TAGS = ("B", "I", "E", "S")


class Entities(NamedTuple):
    """Entities in the order of the text; each field a RaggedTensor `[b, (entities)]`."""

    first: tf.RaggedTensor  # int64, the entity's first unit, counted in its row
    last: tf.RaggedTensor  # int64, its last unit
    label: tf.RaggedTensor  # string, its type
    score: tf.RaggedTensor  # float32, the mean of its units' scores


def split_tag(label):
    """Return `(tag, type)`: `("I", "PER")` of `I-PER`; of a label that is none of these, `S` and
    itself.
    """
    tag, dash, kind = label.partition("-")
    if label == OUTSIDE:
        return OUTSIDE, ""
    return (tag, kind) if dash and tag in _TAGS else ("S", label)


def join_units(labels, label_ids, scores):
    """Find the entities.

    Args:
        labels: the labels' names.
        label_ids: RaggedTensor int `[b, (units)]`, the label of each unit.
        scores: RaggedTensor float32 `[b, (units)]`.

    Returns: `Entities`.
    """
    split = [split_tag(label) for label in labels]
    types = sorted({kind for _, kind in split})
    tags, kinds = (tf.gather(tf.constant(table), label_ids.values) for table in (
        [tag for tag, _ in split], np.array([types.index(kind) for _, kind in split])))
    rows = label_ids.value_rowids()
    within = tf.concat([tf.zeros_like(rows[:1], tf.bool), rows[1:] == rows[:-1]], axis=0)

    inside = tags != OUTSIDE
    before = tf.roll(tags, 1, 0)
    goes_on = (within & (tf.roll(kinds, 1, 0) == kinds) & ((tags == "I") | (tags == "E"))
               & ((before == "B") | (before == "I")))
    opens = inside & ~goes_on
    first = tf.where(opens)[:, 0]
    count = tf.size(first)
    entity = tf.boolean_mask(tf.cumsum(tf.cast(opens, tf.int32)) - 1, inside)
    units = tf.where(inside)[:, 0]
    last = tf.math.unsorted_segment_max(units, entity, count)
    score = tf.math.unsorted_segment_mean(tf.boolean_mask(scores.values, inside), entity, count)
    of_row = tf.gather(rows, first)
    begin = tf.gather(tf.cast(label_ids.row_starts(), tf.int64), of_row)

    def ragged(values):
        return tf.RaggedTensor.from_value_rowids(values, of_row, label_ids.nrows(),
                                                 validate=False)

    return Entities(ragged(first - begin), ragged(last - begin),
                    ragged(tf.gather(tf.constant(types), tf.gather(kinds, first))), ragged(score))


def tag_text(model, preprocessor, text):
    """Return the labels and the entities of texts.

    Args:
        model: a `TokenClassifier`.
        preprocessor: a `WordPreprocessor`.
        text: string `[b]`.

    Returns:
        dict of RaggedTensors: of the units, `[b, (units)]`, string `unit_texts` and `unit_labels`,
        int32 `unit_starts` and `unit_ends` (characters) and float32 `unit_scores`
        (probabilities); of the entities, `[b, (entities)]`, `entities` (their texts), `labels`,
        `starts`, `ends` and `scores` of the same types.
    """
    read = preprocessor(text)
    probabilities = tf.nn.softmax(model.unit_logits(read))

    def of_units(values):
        return tf.RaggedTensor.from_row_lengths(values, read["num_units"], validate=False)

    label_ids = of_units(tf.argmax(probabilities, -1, output_type=tf.int32))
    scores = of_units(tf.reduce_max(probabilities, -1))
    starts, ends = of_units(read["unit_starts"]), of_units(read["unit_ends"])
    found = join_units(model.labels, label_ids, scores)
    entity_starts = tf.gather(starts, found.first, batch_dims=1)
    entity_ends = tf.gather(ends, found.last, batch_dims=1)
    return {"unit_texts": substrings(text, starts, ends),
            "unit_labels": tf.gather(tf.constant(model.labels), label_ids),
            "unit_starts": tf.cast(starts, tf.int32), "unit_ends": tf.cast(ends, tf.int32),
            "unit_scores": scores,
            "entities": substrings(text, entity_starts, entity_ends), "labels": found.label,
            "starts": tf.cast(entity_starts, tf.int32), "ends": tf.cast(entity_ends, tf.int32),
            "scores": found.score}
