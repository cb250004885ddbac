"""Folders that are read as a BERT: ERNIE's, and BigBird's, where every token attends to all; and
data2vec's of text, which are a RoBERTa under other names.

Beyond a number of tokens BigBird attends to blocks of them (Zaheer et al. 2020, "Big Bird", section
2); texts that are no longer have the same numbers here.
"""

from bert_tf.converters import hf_variants
from bert_tf.errors import UsageError, explain

MODEL_TYPES = {"ernie": "bert", "big_bird": "bert", "data2vec-text": "roberta"}
# What transformers takes for a key that a file leaves out, where the family has another or none.
DEFAULTS = {
    "ernie": {"use_task_id": False, "task_type_vocab_size": 3},
    "big_bird": {"vocab_size": 50358, "hidden_act": "gelu_new", "max_position_embeddings": 4096,
                 "attention_type": "block_sparse", "block_size": 64, "num_random_blocks": 3,
                 "use_bias": True, "rescale_embeddings": False},
    "data2vec-text": {"vocab_size": 30522},
    **hf_variants.DEFAULTS,
}
_CHOICES = {"use_task_id": (False, True), "attention_type": ("block_sparse", "original_full"),
            "use_bias": (True,), "rescale_embeddings": (False,), "rotary_value": (False,)}
_COUNTS = ("task_type_vocab_size", "block_size", "num_random_blocks")


def filled(values, source):
    """A `config.json` with what a file of its `model_type` leaves out.

    Args:
        values: the JSON object; one of another kind stays as it is.
        source: its path, for messages.

    Raises:
        UsageError: a key has a value that we cannot compute; it is named.
    """
    defaults = DEFAULTS.get(values["model_type"])
    if defaults is None:
        return values
    values = defaults | {key: value for key, value in values.items() if value is not None}
    for key in defaults:
        value = values[key]
        if key in _CHOICES and value not in _CHOICES[key]:
            raise UsageError(explain(f"{source}: {key}={value!r}",
                                     " or ".join(map(repr, _CHOICES[key]))))
        if key in _COUNTS and not (isinstance(value, int) and value > 0):
            raise UsageError(explain(f"{source}: {key}={value!r}", "an integer from 1 on"))
    return values


def has_own_head(values, task):
    """Whether a head of labels is RoBERTa's: BigBird's, of texts."""
    return values["model_type"] == "big_bird" and task["task"] == "classifier"


def notes(values):
    """What is not as in the folder: a tuple of lines.

    Args:
        values: of `filled`.
    """
    if values.get("use_task_id"):
        return ("row 0 of task_type_embeddings, which transformers adds where no task ids are "
                "given, is added to the token types; its other rows are left out",)
    if values.get("attention_type") == "block_sparse":
        most = (5 + 2 * values["num_random_blocks"]) * values["block_size"]
        if most < values["max_position_embeddings"]:
            return (f"every token attends to all others; of texts longer than {most} tokens "
                    "transformers computes block-sparse attention, so that here they cost more, "
                    "and their numbers differ",)
    return ()
