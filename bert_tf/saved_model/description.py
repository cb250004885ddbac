"""What a client must know of a served model: the signature `describe`, and `export.json`."""

import json

import keras
import tensorflow as tf


def description(served):
    """What is served, as plain values.

    Returns:
        dict of `task` (of `tasks.pretrained.TASKS`), `problem` of a classifier, its or a tagger's
        `labels`, `pair` (texts come as `text_a` and `text_b`), `pretokenize` (`"morphemes"` where
        the caller has to cut text into them, else None), `lower_case` and `strip_accents`, which
        the graph does, `mask_token` (None where no text is taken), `dtype` that the graph computes
        in, `seq_length` of the window, `top_k`, `max_new_tokens`, and the options of `embedding`.
    """
    model, tokenizer = served.model, served.tokenizer
    options = getattr(tokenizer, "options", {})  # of a SentencePiece one
    return {
        "task": model.task_config()["task"], "problem": getattr(model, "problem", None),
        "labels": list(getattr(model, "labels", ())), "pair": served.pair,
        "pretokenize": getattr(tokenizer, "pretokenize", None),
        "lower_case": getattr(tokenizer, "lower_case", options.get("do_lower_case", False)),
        "strip_accents": getattr(tokenizer, "strip_accents",
                                 not options.get("keep_accents", True)),
        "mask_token": tokenizer and tokenizer.vocabulary.special_tokens[-1],
        "dtype": keras.backend.standardize_dtype(model.compute_dtype),
        "seq_length": served.seq_length, "top_k": served.top_k,
        "max_new_tokens": served.max_new_tokens, "embedding": served.pooling.options()}


def describe(served, text):
    """`description` string `[B]`: for each row of `text`, which is not read, the same JSON object.

    A signature like any other, so that every server and client has it; the batch axis is there for
    servers that merge requests.
    """
    told = json.dumps(description(served), ensure_ascii=False)
    return {"description": tf.fill(tf.shape(text), told)}
