"""The signatures of a served model: text in, numbers out, with everything between in the graph.

Every output has the batch as its first axis and a fixed rank; floats are float32. Real tokens alone
are computed, however long others of the batch are. Text is raw, or cut into morphemes by the caller
where the tokenizer was trained so (`morphemes.pretokenize`). After a row's end stand 0 and `""`;
`num_tokens` and `num_masks` say where that is.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from bert_tf.saved_model.answers import answer
from bert_tf.saved_model.classification import classify, predict, regress
from bert_tf.saved_model.description import describe
from bert_tf.saved_model.embeddings import embed
from bert_tf.saved_model.entities import tag
from bert_tf.tasks import generation
from bert_tf.tasks.continuation import added_text


def encode(served, **inputs):
    """`sequence_output [B, S, D]`, `pooled_output [B, D]`, `tokens [B, S]`, `num_tokens [B]`."""
    inputs = served.read(inputs)
    outputs = served.encoder(inputs)
    real = tf.cast(inputs["input_mask"], tf.float32)[:, :, tf.newaxis]
    return {"sequence_output": outputs["sequence_output"] * real,
            "pooled_output": outputs["pooled_output"], **_tokens(served, inputs)}


def fill_mask(served, text):
    """The likeliest pieces for each mask token, such as `[MASK]`, written in the text.

    `tokens [B, M, k]` and their probabilities `scores [B, M, k]`, best first; `positions [B, M]`,
    indices into what `encode` would call `tokens`; `num_masks [B]`. M is the most masks of a text
    in the batch; a mask after the window is not counted.
    """
    inputs = served.read({"text": text}, allow_special=True)
    is_mask = inputs["input_word_ids"] == served.tokenizer.vocabulary.mask_id
    num_masks = tf.reduce_sum(tf.cast(is_mask, tf.int32), axis=1)
    indices = tf.cast(tf.where(is_mask), tf.int32)
    # [B, M], 0 after a row's last mask.
    positions = tf.RaggedTensor.from_row_lengths(indices[:, 1], num_masks, validate=False)
    positions = positions.to_tensor()
    outputs = served.model({**inputs, "masked_lm_positions": positions}, training=False)
    probabilities = tf.nn.softmax(outputs["masked_lm_logits"])
    scores, ids = tf.math.top_k(probabilities, served.top_k)  # [B, M, k]
    real = tf.sequence_mask(num_masks, tf.shape(positions)[1])[:, :, tf.newaxis]
    return {**served.tokens(ids, real), "scores": tf.where(real, scores, 0.0),
            "positions": positions, "num_masks": num_masks}


def sentence_pair(served, task, **inputs):
    """`probability [B]` that `text_b` follows (`next_sentence`), or that both are in their order.

    Args:
        task: `next_sentence` or `sentence_order`.
    """
    inputs = served.read(inputs)
    positions = tf.zeros_like(inputs["input_word_ids"][:, :0])
    outputs = served.model({**inputs, "masked_lm_positions": positions}, training=False)
    # Class 0 is "follows", "in order", as in the official records.
    return {"probability": tf.nn.softmax(outputs[f"{task}_logits"])[:, 0]}


def replaced(served, **inputs):
    """`probability [B, S]` that a token was put in place of another; `tokens`, `num_tokens`."""
    inputs = served.read(inputs)
    probability = tf.sigmoid(served.model.discriminate(inputs))
    return {"probability": probability * tf.cast(inputs["input_mask"], tf.float32),
            **_tokens(served, inputs)}


def generate(served, seed=None, **inputs):
    """The likeliest continuation token by token, or with a `seed [B]` one drawn from `top_k`.

    `output_word_ids [B, N]`, `tokens [B, N]`, `num_tokens [B]`: N is `max_new_tokens`, and a row
    that comes to its `[SEP]` ends there. Of a text also `text [B]`, to be put after it.
    """
    prompt = served.prompt(inputs)
    end_id = served.tokenizer.vocabulary.sep_id if served.tokenizer else None
    made = generation.generate(
        served.model, prompt.to_tensor(), tf.sequence_mask(prompt.row_lengths(), dtype=tf.int32),
        served.max_new_tokens, 1 if seed is None else served.top_k,
        seed=0 if seed is None else seed, end_id=end_id, may_slide=False)
    num_tokens = tf.reduce_sum(made["output_mask"], axis=1)
    return continuation(served, prompt, made["output_word_ids"], num_tokens, "text" in inputs)


def continuation(served, prompt, ids, num_tokens, text):
    """What `generate` answers when `ids [B, N]` follow a `prompt`, ragged `[B, (tokens)]`."""
    real = tf.sequence_mask(num_tokens, tf.shape(ids)[1])
    answer = {"output_word_ids": tf.where(real, ids, 0), **served.tokens(ids, real),
              "num_tokens": num_tokens}
    if text:
        answer["text"] = added_text(served.tokenizer, prompt,
                                    tf.RaggedTensor.from_tensor(ids, num_tokens))
    return answer


def _tokens(served, inputs):
    mask = inputs["input_mask"]
    return {**served.tokens(inputs["input_word_ids"], tf.cast(mask, tf.bool)),
            "num_tokens": tf.reduce_sum(mask, axis=1)}


class Signature(NamedTuple):
    """A row of the tables: what is called, with which inputs, after which training task."""

    function: Callable
    inputs: dict
    task: str | None = None  # None: every model has it


def _texts(*names):
    return {name: tf.TensorSpec([None], tf.string, name) for name in names}


def _ids(*names):
    return {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}


_TEXT, _PAIR = _texts("text"), _texts("text_a", "text_b")
_QUESTION = _texts("question", "context")
_EXAMPLES = _texts("inputs")  # serialized `tf.Example`s
_PROMPT = _ids("input_word_ids", "input_mask")
_IDS = {**_PROMPT, **_ids("input_type_ids")}
_SEED = {"seed": tf.TensorSpec([None], tf.int32, "seed")}

BY_IDS = {
    "embed_ids": Signature(embed, _IDS),
    "encode_ids": Signature(encode, _IDS),
    "replaced_ids": Signature(replaced, _IDS, "replaced"),
    "generate_ids": Signature(generate, _PROMPT, "language_model"),
    "sample_ids": Signature(generate, {**_PROMPT, **_SEED}, "language_model"),
    "describe": Signature(describe, _TEXT),
}
# Where the model's tokenizer runs in the graph, these too.
BY_TEXT = {
    "embed": Signature(embed, _TEXT),
    "encode": Signature(encode, _TEXT),
    "fill_mask": Signature(fill_mask, _TEXT, "masked_lm"),
    **{task: Signature(functools.partial(sentence_pair, task=task), _PAIR, task)
       for task in ("next_sentence", "sentence_order")},
    "replaced": Signature(replaced, _TEXT, "replaced"),
    "generate": Signature(generate, _TEXT, "language_model"),
    "sample": Signature(generate, {**_TEXT, **_SEED}, "language_model"),
    "predict": Signature(predict, _TEXT, "classifier"),
    "classify": Signature(classify, _EXAMPLES, "classifier"),
    "regress": Signature(regress, _EXAMPLES, "classifier"),
    "tag": Signature(tag, _TEXT, "tagger"),
    "answer": Signature(answer, _QUESTION, "span"),
}
# Of a model whose reader is for pairs, in place of those.
BY_PAIR = {"predict": Signature(predict, _PAIR, "classifier")}
DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
# What `serving_default` is: the first of these that there is.
_DEFAULTS = ("predict", "tag", "answer", "embed", "embed_ids")


def signatures(served):
    """`{name: Signature}`: the rows of the tables that a `ServedModel` can answer.

    The first is `serving_default`, the same object as the row that it stands for.
    """
    rows = BY_IDS if served.tokenizer is None else {**BY_IDS, **BY_TEXT}
    if served.pair:
        rows = {**rows, **BY_PAIR}
    left_out = {"classify" if getattr(served.model, "problem", "") == "regression" else "regress"}
    if not hasattr(served.tokenizer, "tokenize_with_offsets"):
        left_out.add("answer")
    rows = {name: signature for name, signature in rows.items()
            if name not in left_out and signature.task in (None, *served.tasks)}
    return {DEFAULT: next(rows[name] for name in _DEFAULTS if name in rows), **rows}


def unanswered(served):
    """Names of what a `ServedModel` was trained for and no signature of it answers."""
    answered = {signature.task for signature in signatures(served).values()}
    return [task for task in served.tasks if task not in answered]
