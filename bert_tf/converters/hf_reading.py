"""How much of a text transformers reads by a folder, as of `reading` in our `task.json`."""

import os

from bert_tf.converters.dense_module import read_checked
from bert_tf.errors import UsageError, explain
from bert_tf.models.find import MODULES
from bert_tf.storage import files
from bert_tf.tokenization import tokenizer_config, tokenizer_json
from bert_tf.tokenization.load import load_tokenizer

OPTIONS = "sentence_bert_config.json"  # of the module of sentence-transformers that reads text
# Older folders name it after the model; the first that is there counts.
_NAMES = (OPTIONS, *(f"sentence_{model}_config.json" for model in (
    "roberta", "distilbert", "camembert", "albert", "xlm-roberta")))


def options_of(folder):
    """Return the path of the options of the module in a folder."""
    sources = [os.path.join(folder, name) for name in _NAMES]
    return next(filter(files.exists, sources), sources[0])


def window_of(folder, longest, options=None):
    """Return how many tokens of a text are read, an int.

    Args:
        folder: of the tokenizer.
        longest: tokens that the model can read.
        options: path of a file whose `max_seq_length` counts more than the tokenizer's
            `model_max_length`; None where there is none.

    Raises:
        UsageError: neither is a number from 3 on.
    """
    source, key, stated = options, "max_seq_length", None
    if options is not None and files.exists(options):
        stated = files.read_json_object(options).get(key)
    if stated is None:
        source, key = os.path.join(folder, tokenizer_config.NAME), "model_max_length"
        values = files.read_json_object(source) if files.exists(source) else {}
        stated = values.get(key, values.get("max_len"))
    stated = longest if stated is None else stated
    if not isinstance(stated, int | float) or not stated >= 3:  # NaN, too
        raise UsageError(explain(f"{source}: {key}={stated!r}", "an integer from 3 on"))
    return int(min(stated, longest))


def check_end_is_cut(folder):
    """Raise UsageError if it is the beginning of a long text that is left out."""
    told = read_checked(os.path.join(folder, tokenizer_config.NAME), {"truncation_side": "right"})
    described = os.path.join(folder, tokenizer_json.NAME)
    direction = told.get("truncation_side") or tokenizer_json.stated_truncation(described).get(
        "direction", "Right")
    if direction not in ("Right", "right"):
        raise UsageError(explain(f"{described}: truncation.direction={direction!r}", '"Right"'))


def text_reading(folder, longest, pair, options=None):
    """Return the `reading` of a `TextPreprocessor`, a dict; errors as of the functions above.

    Args:
        folder, longest, options: as of `window_of`.
        pair: as of `TextPreprocessor`.
    """
    check_end_is_cut(folder)
    length = window_of(folder, longest, options)
    return {"seq_length": length, "long": "head", "stride": max(1, length // 2), "pair": pair}


def of_labels(checkpoint, folder):
    """Return what the `task.json` of a model of labels has further: `reading`, or nothing.

    A model without a tokenizer reads no text, and questions are read by windows of their own.

    Args:
        checkpoint: read from `folder`.
        folder: of the hf format, perhaps that of a `CrossEncoder` with its modules.
    """
    task, longest = checkpoint.task["task"], checkpoint.config.longest
    if task not in ("classifier", "tagger") or not reads_text(checkpoint.tokenizer):
        return {}
    options = options_of(folder) if files.exists(os.path.join(folder, MODULES)) else None
    if task == "classifier":  # no file says whether it is about pairs
        return {"reading": text_reading(checkpoint.tokenizer, longest, None, options)}
    length = window_of(checkpoint.tokenizer, longest, options)
    return {"reading": {"seq_length": length, "unit": "word", "stride": max(1, length // 2)}}


def reads_text(folder):
    """Return whether there is a tokenizer in a folder, or None, whose rules we run."""
    if folder is None:
        return False
    try:
        load_tokenizer(folder)
    except UsageError:  # rules that we do not run, such as GPT's, or not without an extra
        return False
    return True
