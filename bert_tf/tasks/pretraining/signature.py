"""Signatures of a pre-trained model: masks, pairs of sentences, replaced tokens, continuations."""

import functools

import numpy as np
import tensorflow as tf

from bert_tf.tasks.base.signature import (
    IDS,
    PAIR,
    PROMPT,
    SEED,
    TEXT,
    Signature,
    clear_ranks,
    result,
)
from bert_tf.tasks.pretraining import generation
from bert_tf.tasks.pretraining.continuation import added_text
from bert_tf.tasks.pretraining.language_model import LanguageModel
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens

_TOKENS = {"text": "tokens", "count": "num_tokens"}


def signatures(served):
    """Return `{name: Signature}` of a served model of pre-training."""
    if isinstance(served.model, LanguageModel):
        return _by_text(served, {"generate": _generation(TEXT), "sample": _generation(TEXT, SEED)},
                        {"generate_ids": _generation(PROMPT),
                         "sample_ids": _generation(PROMPT, SEED)})
    if isinstance(served.model, ReplacedTokens):
        results = {"tokens": result("tokens", score="probability", **_TOKENS)}
        return _by_text(served, {"replaced": Signature(replaced, TEXT, "replaced", results)},
                        {"replaced_ids": Signature(replaced, IDS, "replaced", results)})
    if not isinstance(served.model, Pretrainer):
        return {}
    rows = {"fill_mask": Signature(fill_mask, TEXT, "masked_lm", {"masks": result(
        "candidates", text="tokens", written="texts", score="scores", position="positions",
        count="num_masks")},
        compared=_compared_masks)}
    task = served.model.sentence_task
    if task:
        rows[task] = Signature(functools.partial(sentence_pair, task=task), PAIR, task,
                               {"probability": result("number", value="probability")})
    return _by_text(served, rows, {})


def _by_text(served, rows, by_ids):
    return {**rows, **by_ids} if served.tokenizer is not None else by_ids


def _generation(inputs, seed=None):
    results = {"tokens": result("tokens", id="output_word_ids", **_TOKENS)}
    if "text" in inputs:
        results = {"continuation": result("continuation", of="text", text="text"), **results}
    return Signature(generate, {**inputs, **(seed or {})}, "language_model", results,
                     expected=_expected)


def fill_mask(served, text):
    """Return the likeliest pieces for each mask token, such as `[MASK]`, written in the text.

    `tokens [B, M, k]`, the `texts [B, M, k]` that these write (see `BaseTokenizer.texts`) and their
    probabilities `scores [B, M, k]`, best first; `positions [B, M]`, indices into what `encode`
    would call `tokens`; `num_masks [B]`. M is the most masks of a text
    in the batch; a mask after the window is not counted.
    """
    vocabulary = served.tokenizer.vocabulary
    found = served.model.likeliest(served.read({"text": text}, allow_special=True),
                                   vocabulary.mask_id, served.top_k, len(vocabulary))
    real = tf.sequence_mask(found["num_masks"], tf.shape(found["positions"])[1])[:, :, tf.newaxis]
    ids = found.pop("ids")
    return {**served.tokens(ids, real),
            "texts": tf.where(real, served.tokenizer.texts(ids), ""), **found}


def _compared_masks(served, inputs, actual, expected, tolerance):
    """See `Signature.compared`."""
    return actual, expected, dict.fromkeys(("tokens", "texts"),
                                           clear_ranks(expected["scores"], tolerance))


def sentence_pair(served, task, **inputs):
    """Return `probability [B]` that `text_b` follows (`next_sentence`), or that both are in their
    order.

    Args:
        task: `next_sentence` or `sentence_order`.
    """
    inputs = served.read(inputs)
    positions = tf.zeros_like(inputs["input_word_ids"][:, :0])
    outputs = served.model({**inputs, "masked_lm_positions": positions}, training=False)
    # Class 0 is "follows", "in order", as in the official records.
    return {"probability": tf.nn.softmax(outputs[f"{task}_logits"])[:, 0]}


def replaced(served, **inputs):
    """Return `probability [B, S]` that a token was replaced; `tokens`, `num_tokens`."""
    inputs = served.read(inputs)
    probability = tf.sigmoid(served.model.discriminate(inputs))
    return {"probability": probability * tf.cast(inputs["input_mask"], tf.float32),
            **served.read_tokens(inputs)}


def generate(served, seed=None, **inputs):
    """Return the likeliest continuation token by token, or with a `seed [B]` one that is drawn by
    the export's `top_k`, `temperature` and `top_p`.

    `output_word_ids [B, N]`, `tokens [B, N]`, `num_tokens [B]`: N is `max_new_tokens`, and a row
    that comes to its `[SEP]` ends there; one of ids also with the first token after the window. Of
    a text also `text [B]`, to be put after it.
    """
    prompt = served.prompt(inputs)
    vocabulary = served.tokenizer and served.tokenizer.vocabulary
    made = generation.generate(
        served.model, prompt.to_tensor(), tf.sequence_mask(prompt.row_lengths(), dtype=tf.int32),
        served.max_new_tokens, 1 if seed is None else served.top_k, served.temperature,
        seed=0 if seed is None else seed, end_id=vocabulary and vocabulary.sep_id, may_slide=False,
        num_tokens=vocabulary and len(vocabulary), top_p=served.top_p)
    num_tokens = tf.reduce_sum(made["output_mask"], axis=1)
    return continuation(served, prompt, made["output_word_ids"], num_tokens, "text" in inputs)


def continuation(served, prompt, ids, num_tokens, text):
    """Return what `generate` answers when `ids [B, N]` follow a `prompt`, ragged `[B,
    (tokens)]`."""
    real = tf.sequence_mask(num_tokens, tf.shape(ids)[1])
    answer = {"output_word_ids": tf.where(real, ids, 0), **served.tokens(ids, real),
              "num_tokens": num_tokens}
    if text:
        answer["text"] = added_text(served.tokenizer, prompt,
                                    tf.RaggedTensor.from_tensor(ids, num_tokens))
    return answer


def _expected(served, inputs, actual, tolerance):
    """See `Signature.expected`: after as likely a token another continuation may follow.

    Of every token the Keras model is asked, with those that were chosen before it. One that is
    none of its likeliest is -1 in the answer.
    """
    prompt = served.prompt(inputs)
    ids, num_tokens = actual["output_word_ids"], actual["num_tokens"]
    whole = tf.concat([prompt, tf.RaggedTensor.from_tensor(ids, num_tokens)], axis=1)
    mask = tf.sequence_mask(whole.row_lengths(), dtype=tf.int32)
    # Where a token was chosen alone: the logits of all positions may be more than memory holds.
    chosen = prompt.row_lengths()[:, tf.newaxis] - 1 + tf.range(ids.shape[1], dtype=tf.int64)
    hidden = served.model.hidden_of({"input_word_ids": whole.to_tensor(), "input_mask": mask})
    logits = served.model.decode(tf.gather(
        hidden, tf.minimum(chosen, whole.bounding_shape()[1] - 1), batch_dims=1)).numpy()
    if served.tokenizer is not None:
        logits = logits[..., :len(served.tokenizer.vocabulary)]
    top_k = served.top_k if "seed" in inputs else 1
    checked = ids.copy()
    for row, count in enumerate(num_tokens):
        for step in range(count):
            given = logits[row, step]
            least = np.partition(given, -top_k)[-top_k]
            if given[ids[row, step]] < least - 2 * tolerance * max(1, np.abs(given).max()):
                checked[row, step] = -1
    return {**continuation(served, prompt, ids, num_tokens, "text" in inputs),
            "output_word_ids": checked}
