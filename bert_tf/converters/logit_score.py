"""A language model that is asked for "yes" or "no", with the module `LogitScore` of
sentence-transformers, as the cross-encoder that it is.

Its score is the logit of one token at the last position, less that of another: the last state times
the difference of two rows of the matrix that makes logits, which is a classifier of one number.
"""

import dataclasses
import os

import numpy as np

from bert_tf.converters.checkpoint import Tensors, parameter_shapes
from bert_tf.converters.dense_module import CONFIG, read_checked
from bert_tf.errors import UsageError, explain
from bert_tf.tasks.ranking.model import LABEL

MODULES = ["Transformer", "LogitScore"]
LOGITS = "causal_logits"
_TASK = {"task": "classifier", "labels": [LABEL], "problem": "regression"}
_WEIGHTS = "cls/classifier/output_weights"


def as_classifier(checkpoint, folder):
    """Return the `Checkpoint` of a classifier of one number, and nothing to be read of text.

    Args:
        checkpoint: of a language model.
        folder: of the module.

    Raises:
        UsageError: the module reads other logits, or its tokens have none.
    """
    source = os.path.join(folder, CONFIG)
    values = read_checked(source, {"module_input_name": LOGITS})
    config, tensors = checkpoint.config, checkpoint.tensors
    rows = [_row(values, key, config.vocab_size, source)
            for key in ("true_token_id", "false_token_id")]
    shapes = parameter_shapes(config, _TASK)
    table = {"tied": f"{config.family}/embeddings/word_embeddings",
             "linear": "cls/predictions/output_weights"}.get(config.masked_lm_head)
    if rows[0] is None or table is None or {*shapes} - {*tensors} != {_WEIGHTS}:
        raise UsageError(explain(
            f"{source}: true_token_id={rows[0]} of a {config.family} model with masked_lm_head="
            f"{config.masked_lm_head!r}", "the id of a token whose logit is a scalar product"))

    def load(name):
        if name != _WEIGHTS:
            return tensors[name]
        table_rows = tensors[table]
        yes, no = (0 if row is None else table_rows[row] for row in rows)
        return np.reshape(yes - no, shapes[_WEIGHTS])

    return dataclasses.replace(checkpoint, task=_TASK, tensors=Tensors(shapes, load))


def _row(values, key, count, source):
    row = values.get(key)
    if row is not None and (type(row) is not int or not 0 <= row < count):
        raise UsageError(explain(f"{source}: {key}={row!r}", f"the id of one of {count} tokens"))
    return row
