"""One vector for a text from the vectors of its tokens, of any layers."""

import keras
import tensorflow as tf

from bert_tf.config import ACTIVATIONS, as_list, as_option
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.layers.activations import activation
from bert_tf.layers.dense import Dense
from bert_tf.layers.pooling import last_token
from bert_tf.layers.term_weighting import WEIGHTINGS, TermWeighting

POOLINGS = ("mean", "max", "mean_max", "cls", "cls_pooled", "sep", "none")
COMBINATIONS = ("concat", "sum")
_OVER_TOKENS = ("mean", "max", "mean_max")


@keras.saving.register_keras_serializable("bert_tf")
class VectorPooling(keras.Layer):
    """Layers are combined first, then tokens are pooled, then the vector may pass dense layers and
    is normalised.

    Call: `states`, a list of float `[b, seq_length, hidden]` (those of `layers`, see
    `layer_numbers`), `input_word_ids` and `input_mask` int `[b, seq_length]`, and for `cls_pooled`
    `pooled_output [b, hidden]` -> float32 `[b, width]`:

    | pooling | vector |
    |---|---|
    | `mean` | mean over the real tokens, weighted where there is a `weighting` |
    | `max` | largest value of each component |
    | `mean_max` | `mean` and after it `max` |
    | `cls` | first token |
    | `cls_pooled` | `pooled_output`, as it is |
    | `sep` | last real token |
    | `none` | every token: `[b, seq_length, width]`, 0 at padding |

    A text without a token to be pooled gives 0.

    Args:
        num_hidden_layers: how many layers the encoder has.
        vocab_size: number of ids.
        pooling: one of `POOLINGS`.
        layers: which layers: 0 the embeddings, 1 the lowest layer, -1 the topmost one.
        combine: several layers side by side (`concat`) or summed up (`sum`).
        mask_specials: leave tokens with `special_ids` out of means and maxima.
        special_ids: ids of `[CLS]` and `[SEP]`.
        weighting: weights of the tokens in the mean, see `TermWeighting`; None is a plain mean.
        normalize: divide the vector by its Euclidean length.
        dense: None, or `{"units", "act", "use_bias"}` of a dense layer on the pooled vector; `act`
            is `linear` or one of `config.ACTIVATIONS`. A list of such dicts for one after the
            other.

    Raises:
        UsageError: the options do not fit each other.
    """

    def __init__(self, num_hidden_layers, vocab_size, pooling="mean", layers=(-1,),
                 combine="concat", mask_specials=False, special_ids=None, weighting=None,
                 normalize=False, dense=None, **kwargs):
        super().__init__(**kwargs)
        self.num_hidden_layers = num_hidden_layers
        self.vocab_size = vocab_size
        self.pooling = check_choice("pooling", pooling, POOLINGS)
        self.layer_numbers = check_layers(layers, num_hidden_layers)
        self.combine = check_choice("combine", combine, COMBINATIONS)
        self.mask_specials = bool(mask_specials)
        self.special_ids = None if special_ids is None else tuple(map(int, special_ids))
        self.normalize = bool(normalize)
        self.weighting = check_choice("weighting", weighting, (None, *WEIGHTINGS))
        self.dense_options = as_list(dense)
        self._check()
        self.term_weights = None
        self.dense = [Dense(options["units"], use_bias=options["use_bias"],
                            name=f"dense_{number}" if number else "dense", dtype=self.dtype_policy)
                      for number, options in enumerate(self.dense_options)]
        if weighting is not None:
            self.term_weights = TermWeighting(vocab_size, weighting, name="term_weights",
                                              dtype=self.dtype_policy)

    def _check(self):
        pooling = f"pooling={self.pooling!r}"
        if self.weighting and self.pooling not in ("mean", "mean_max"):
            raise UsageError(explain(f"weighting={self.weighting!r} with {pooling}",
                                     "pooling='mean' or 'mean_max'"))
        if self.mask_specials and self.pooling not in _OVER_TOKENS:
            raise UsageError(explain(f"mask_specials with {pooling}",
                                     f"one of {', '.join(_OVER_TOKENS)}"))
        if self.mask_specials and self.special_ids is None:
            raise UsageError(explain("mask_specials without a tokenizer to know them from",
                                     "special_ids=(id of [CLS], id of [SEP])",
                                     "preprocessor=TextPreprocessor(tokenizer)"))
        for options in self.dense_options:
            expected = ("units", "act", "use_bias")
            if not isinstance(options, dict) or set(options) != set(expected):
                raise UsageError(explain(f"dense={options!r}",
                                         f"a dict of {', '.join(expected)}, or a list of them"))
            check_choice("act", options["act"], ("linear", *ACTIVATIONS))
            if self.pooling == "none":
                raise UsageError(explain(f"dense with {pooling}", "one vector a text"))
        if self.pooling == "cls_pooled" and self.layer_numbers != (self.num_hidden_layers,):
            raise UsageError(explain(f"{pooling} with layers={self.layer_numbers}",
                                     "layers=(-1,), which the pooler reads"))

    def build(self, states_shape=None, input_word_ids_shape=None, input_mask_shape=None,
              pooled_output_shape=None):
        """Create the weights of the tokens, if any."""
        if self.term_weights is not None:
            self.term_weights.build()
        if self.dense:
            state = states_shape[0] if isinstance(states_shape[0], (list, tuple)) else states_shape
            width = self.width_factor * state[-1]
            for dense in self.dense:
                dense.build((None, width))
                width = dense.units

    def compute_output_shape(self, states_shape, input_word_ids_shape=None,
                             input_mask_shape=None, pooled_output_shape=None):
        """`[batch, width]`, or of every token `[batch, seq_length, width]`."""
        state = states_shape[0] if isinstance(states_shape[0], (list, tuple)) else states_shape
        leading = state[:2] if self.pooling == "none" else state[:1]
        return (*leading, self.width(state[-1]))

    def width(self, hidden_size):
        """Length of a vector of an encoder of `hidden_size`."""
        return self.dense[-1].units if self.dense else self.width_factor * hidden_size

    @property
    def width_factor(self):
        """The pooled vector's width in hidden sizes."""
        layers = len(self.layer_numbers) if self.combine == "concat" else 1
        return layers * (2 if self.pooling == "mean_max" else 1)

    def options(self):
        """What is pooled and how, as plain values."""
        return {"pooling": self.pooling, "layers": list(self.layer_numbers),
                "combine": self.combine, "mask_specials": self.mask_specials,
                "special_ids": self.special_ids and list(self.special_ids),
                "weighting": self.weighting, "normalize": self.normalize,
                **({"dense": as_option(self.dense_options)} if self.dense else {})}

    def call(self, states, input_word_ids, input_mask, pooled_output=None):
        """Pool a batch."""
        states = [tf.cast(state, tf.float32) for state in states]
        hidden = tf.concat(states, -1) if self.combine == "concat" else tf.add_n(states)
        vectors = self._pool(hidden, input_word_ids, input_mask, pooled_output)
        for dense, options in zip(self.dense, self.dense_options, strict=True):
            vectors = dense(vectors)
            if options["act"] != "linear":
                vectors = activation(options["act"])(vectors)
        return self.normalized(vectors)

    def normalized(self, vectors):
        """`vectors [..., width]`, with `normalize` each of length 1; one of 0 stays 0."""
        # With the epsilon so do gradients.
        return tf.math.l2_normalize(vectors, -1, 1e-30) if self.normalize else vectors

    def _pool(self, hidden, ids, mask, pooled_output):
        if self.pooling == "cls":
            return hidden[:, 0, :]
        if self.pooling == "cls_pooled":
            return tf.cast(pooled_output, tf.float32)
        if self.pooling == "sep":
            return last_token(hidden, mask)
        if self.pooling == "none":
            return hidden * tf.cast(mask > 0, hidden.dtype)[:, :, tf.newaxis]
        kept = mask > 0
        if self.mask_specials:
            special = tf.constant(self.special_ids, ids.dtype)
            kept &= ~tf.reduce_any(ids[:, :, tf.newaxis] == special, -1)
        vectors = []
        if "mean" in self.pooling:
            weights = tf.cast(kept, tf.float32)
            if self.term_weights is not None:
                weights *= self.term_weights(ids, mask)
            vectors.append(_mean(hidden, weights))
        if "max" in self.pooling:
            vectors.append(_max(hidden, kept))
        return tf.concat(vectors, -1)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "num_hidden_layers": self.num_hidden_layers,
                "vocab_size": self.vocab_size, **self.options()}


def _mean(hidden, weights):
    """Of `hidden [b, s, d]` with weights `[b, s]`."""
    total = tf.einsum("bsd,bs->bd", hidden, weights)
    return tf.math.divide_no_nan(total, tf.reduce_sum(weights, axis=1, keepdims=True))


def _max(hidden, kept):
    """Of `hidden [b, s, d]` where `kept [b, s]`."""
    largest = tf.reduce_max(tf.where(kept[:, :, tf.newaxis], hidden, hidden.dtype.min), axis=1)
    return tf.where(tf.reduce_any(kept, axis=1, keepdims=True), largest, 0.0)


def check_layers(layers, num_hidden_layers):
    """`layers` counted from 0, the embeddings; UsageError where one is not there or there twice."""
    numbers = tuple(layers) if isinstance(layers, (list, tuple)) else (layers,)
    for number in numbers:
        if not isinstance(number, int) or not -num_hidden_layers - 1 <= number <= num_hidden_layers:
            raise UsageError(explain(
                f"layer {number!r} of an encoder with {num_hidden_layers}",
                f"0 (the embeddings) to {num_hidden_layers}, or -1 (the last) and below"))
    counted = tuple(number % (num_hidden_layers + 1) for number in numbers)
    if not counted or len(set(counted)) < len(counted):
        raise UsageError(explain(f"layers={numbers}", "one or more different layers"))
    return counted
