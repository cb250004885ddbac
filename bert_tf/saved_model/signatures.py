"""The signatures of a served model: text in, numbers out, with everything between in the graph.

Every output has the batch as its first axis and a fixed rank; floats are float32. Real tokens alone
are computed, however long others of the batch are; where prompts are continued, padding as well.
Text is raw, or split into morphemes by the caller where the tokenizer was trained so
(`morphemes.pretokenize`). After a row's end come 0 and `""`; `num_tokens` and `num_masks` are their
numbers.
"""

import json

import tensorflow as tf

from bert_tf.tasks.base.signature import IDS, TEXT, Signature, result
from bert_tf.tasks.registry import type_signatures

DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_ENCODED = {"tokens": result("tokens", text="tokens", vector="sequence_output",
                             count="num_tokens"),
            "pooled_output": result("vector", value="pooled_output")}
_DESCRIPTION = {"description": result("json", value="description")}


def signatures(served):
    """Return `{name: Signature}`, all that a `ServedModel` can answer.

    The first is `serving_default`, the same object as the one that it stands for; then come those
    of the tasks, in the order in which people want them.
    """
    rows = {**type_signatures(served), **common_signatures(served)}
    return {DEFAULT: next(row for row in rows.values() if row.main), **rows}


def common_signatures(served):
    """Return `{name: Signature}` of what every model has, whatever its task."""
    by_text = {"encode": Signature(encode, TEXT, results=_ENCODED),
               "count_tokens": Signature(count_tokens, TEXT)}
    return {**(by_text if served.tokenizer is not None else {}),
            "encode_ids": Signature(encode, IDS, results=_ENCODED),
            "describe": Signature(describe, TEXT, results=_DESCRIPTION)}


def unanswered(served):
    """Return the objectives that a `ServedModel` was trained for and no signature answers."""
    answered = {signature.objective for signature in signatures(served).values()}
    return [objective for objective in served.objectives if objective not in answered]


def encode(served, **inputs):
    """Return `sequence_output [B, S, D]`, `pooled_output [B, D]`, `tokens [B, S]`, `num_tokens`."""
    inputs = served.read(inputs)
    # As `embed` does, so that one graph of the encoder is in the version.
    outputs = served.encoder.backbone(inputs, training=False, encoder_outputs=True)
    real = tf.cast(inputs["input_mask"], tf.float32)[:, :, tf.newaxis]
    return {"sequence_output": outputs["sequence_output"] * real,
            "pooled_output": outputs["pooled_output"], **served.read_tokens(inputs)}


def count_tokens(served, text):
    """Return `num_tokens` int32 `[B]`: of each whole text, `[CLS]` and `[SEP]` among them.

    Nothing is truncated, so that a server can tell which texts are too long for the window.
    """
    pieces = served.tokenizer.tokenize(text).row_lengths()
    return {"num_tokens": tf.cast(pieces, tf.int32) + served.tokenizer.vocabulary.num_special()}


def describe(served, text):
    """Return `description` string `[B]`: for each row of `text`, which is not read, the same JSON.

    A signature like any other, so that every server and client has it; the batch axis is there for
    servers that merge requests.
    """
    described = json.dumps(description(served), ensure_ascii=False)
    return {"description": tf.fill(tf.shape(text), described)}


def description(served):
    """Return what a client must know of a served model, as plain values; also in `export.json`.

    Returns:
        dict of `task` (`saved_as` of the model), `problem` of a classifier, its or a token
        classifier's `labels`, `pair` (texts come as `text_a` and `text_b`), `pretokenize`
        (`"morphemes"` where the caller has to split text into them, else None), `lower_case` and
        `strip_accents`, which the graph does, `mask_token` (None where no text is taken), `dtype`
        that the graph computes in, `seq_length` of the window, `long` (what becomes of longer
        texts, as of `TextPreprocessor`), `text_tokens` and `pair_tokens` (the special tokens of a
        text and of a pair, or the tokens of its template), `prompts` of an embedder, `roles` (how
        late interaction reads a query and a passage, as of `RoleReader.described`), `top_k`,
        `temperature`, `top_p`, `max_new_tokens`, `max_terms`, the options of `embedding` (of
        `VectorPooling`, and of a `VectorCode` where vectors are stored small), and `results`: by
        signature what its outputs mean, see `Signature.results`.
    """
    model, tokenizer = served.model, served.tokenizer
    preprocessor = getattr(model, "preprocessor", None)
    return {
        "task": model.saved_as, "problem": getattr(model, "problem", None),
        "labels": list(getattr(model, "labels", ())), "pair": served.pair,
        "pretokenize": getattr(tokenizer, "pretokenize", None),
        "lower_case": getattr(tokenizer, "lower_case", False),
        "strip_accents": getattr(tokenizer, "strip_accents", False),
        "mask_token": tokenizer and tokenizer.vocabulary.special_tokens[-1],
        "dtype": served.dtype,
        "seq_length": served.seq_length, "long": getattr(preprocessor, "long", "head"),
        "text_tokens": tokenizer and tokenizer.vocabulary.num_special(),
        "pair_tokens": tokenizer and getattr(preprocessor, "num_special",
                                             tokenizer.vocabulary.num_special)(2),
        "prompts": getattr(model, "prompts", {}), "roles": getattr(model, "roles", {}),
        "top_k": served.top_k, "temperature": served.temperature, "top_p": served.top_p,
        "max_new_tokens": served.max_new_tokens, "max_terms": served.max_terms,
        "embedding": {**served.pooling.options(), **served.code.options()},
        "results": {name: signature.results for name, signature in signatures(served).items()
                    if signature.results}}
