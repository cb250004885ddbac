"""The signatures of a served model: text in, numbers out, with everything between in the graph.

Every output has the batch as its first axis and a fixed rank; floats are float32. A batch is padded
to its own longest sequence, never to the window. Behind a row's end stand 0 and `""`; `num_tokens`
and `num_masks` say where that is.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from bert_tf.tasks.pretraining import Pretrainer
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A trained model and its tokenizer, as the signatures need them."""

    pretrainer: Pretrainer
    tokenizer: Tokenizer
    seq_length: int  # the window in tokens; longer text is cut
    top_k: int  # predictions that `fill_mask` gives for a `[MASK]`

    def signatures(self):
        """The rows of `SIGNATURES` that this model can answer."""
        return {name: signature for name, signature in SIGNATURES.items()
                if signature.task in self.pretrainer.tasks}

    def pack(self, *segments, split_special=False):
        """Token ids, mask and segment ids int32 `[B, S]` of one or two string `[B]` tensors."""
        pieces = [self.tokenizer.tokenize(text, split_special) for text in segments]
        inputs = pack(self.tokenizer.vocabulary, pieces, self.seq_length, fixed=False)
        return self.fit(inputs)

    def fit(self, inputs):
        """Cut `inputs` to the window; give a batch without rows or positions one position."""
        missing = tf.maximum(1 - tf.shape(inputs["input_word_ids"])[1], 0)
        return {name: tf.pad(ids[:, :self.seq_length], [[0, 0], [0, missing]])
                for name, ids in inputs.items()}


def embed(model, text):
    """`embedding [B, D]`: the mean of `sequence_output` over the real tokens, `[CLS]`, `[SEP]` too.

    Not `pooled_output`: that is trained to tell whether a sentence follows, if at all.
    """
    inputs = model.pack(text)
    mask = tf.cast(inputs["input_mask"], tf.float32)
    total = tf.einsum("bsd,bs->bd", model.pretrainer.encoder(inputs)["sequence_output"], mask)
    return {"embedding": total / tf.reduce_sum(mask, axis=1, keepdims=True)}


def encode(model, text):
    """`sequence_output [B, S, D]`, `pooled_output [B, D]`, `tokens [B, S]`, `num_tokens [B]`."""
    return _encode(model, model.pack(text))


def encode_ids(model, **inputs):
    """What `encode` gives, of `input_word_ids`, `input_mask` and `input_type_ids` `[B, S]`."""
    return _encode(model, model.fit(inputs))


def _encode(model, inputs):
    outputs = model.pretrainer.encoder(inputs)
    mask = inputs["input_mask"]
    real = tf.cast(mask, tf.float32)[:, :, tf.newaxis]
    tokens = model.tokenizer.tokens(inputs["input_word_ids"])
    return {"sequence_output": outputs["sequence_output"] * real,
            "pooled_output": outputs["pooled_output"],
            "tokens": tf.where(tf.cast(mask, tf.bool), tokens, ""),
            "num_tokens": tf.reduce_sum(mask, axis=1)}


def fill_mask(model, text):
    """The likeliest pieces for each `[MASK]` written in the text.

    `tokens [B, M, k]` and their probabilities `scores [B, M, k]`, best first; `positions [B, M]`,
    indices into what `encode` would call `tokens`; `num_masks [B]`. M is the most masks of a text
    in the batch; a `[MASK]` behind the window is not counted.
    """
    inputs = model.pack(text, split_special=True)
    is_mask = inputs["input_word_ids"] == model.tokenizer.vocabulary.mask_id
    num_masks = tf.reduce_sum(tf.cast(is_mask, tf.int32), axis=1)
    indices = tf.cast(tf.where(is_mask), tf.int32)
    # [B, M], 0 behind a row's last mask.
    positions = tf.RaggedTensor.from_row_lengths(indices[:, 1], num_masks, validate=False)
    positions = positions.to_tensor()
    outputs = model.pretrainer({**inputs, "masked_lm_positions": positions}, training=False)
    probabilities = tf.nn.softmax(outputs["masked_lm_logits"])
    scores, ids = tf.math.top_k(probabilities, model.top_k)  # [B, M, k]
    real = tf.sequence_mask(num_masks, tf.shape(positions)[1])[:, :, tf.newaxis]
    return {"tokens": tf.where(real, model.tokenizer.tokens(ids), ""),
            "scores": tf.where(real, scores, 0.0),
            "positions": positions,
            "num_masks": num_masks}


def next_sentence(model, text_a, text_b):
    """`probability [B]` that `text_b` is what follows `text_a`."""
    inputs = model.pack(text_a, text_b)
    positions = tf.zeros_like(inputs["input_word_ids"][:, :0])
    outputs = model.pretrainer({**inputs, "masked_lm_positions": positions}, training=False)
    # Class 0 is "follows", 1 "random", as in the official records.
    return {"probability": tf.nn.softmax(outputs["next_sentence_logits"])[:, 0]}


class Signature(NamedTuple):
    """A row of the table: what is called, with which inputs, after which training task."""

    function: Callable
    inputs: dict
    task: str = "masked_lm"


def _texts(*names):
    return {name: tf.TensorSpec([None], tf.string, name) for name in names}


def _ids(*names):
    return {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}


SIGNATURES = {
    "serving_default": Signature(embed, _texts("text")),
    "encode": Signature(encode, _texts("text")),
    "encode_ids": Signature(
        encode_ids, _ids("input_word_ids", "input_mask", "input_type_ids")),
    "fill_mask": Signature(fill_mask, _texts("text")),
    "next_sentence": Signature(next_sentence, _texts("text_a", "text_b"), "next_sentence"),
}
