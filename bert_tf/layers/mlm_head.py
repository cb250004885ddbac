"""Masked-token prediction (Devlin et al. 2019, section 3.1, task 1)."""

import keras
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.layers.activations import activation
from bert_tf.layers.dense import Dense, unflatten
from bert_tf.layers.gather import gather_rows
from bert_tf.layers.inference import is_for_inference
from bert_tf.layers.initializers import truncated_normal
from bert_tf.layers.layer import Layer
from bert_tf.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable("bert_tf")
class Transform(Layer):
    """Dense layer, activation and, where it has one, LayerNorm: `[…, in]` -> `[…, hidden]`.

    Args:
        hidden_size: width of the output.
        hidden_act: one of `config.ACTIVATIONS`.
        layer_norm_eps: added to the variance; None for no LayerNorm.
        initializer_range, seed: see `Dense`.
        use_bias: whether the dense layer and LayerNorm have one.
    """

    def __init__(self, hidden_size, hidden_act="gelu", layer_norm_eps=1e-12,
                 initializer_range=0.02, seed=None, use_bias=True, **kwargs):
        super().__init__(**kwargs)
        self.hidden_act = hidden_act
        self.activation = activation(hidden_act)
        self.dense = Dense(hidden_size, initializer_range, seed, use_bias=use_bias, name="dense",
                           dtype=self.dtype_policy)
        self.layer_norm = None if layer_norm_eps is None else LayerNorm(
            layer_norm_eps, use_bias, name="LayerNorm", dtype=self.dtype_policy)

    def build(self, input_shape):
        """Create the dense layer and LayerNorm."""
        self.dense.build(input_shape)
        if self.layer_norm is not None:
            self.layer_norm.build(self.dense.compute_output_shape(input_shape))

    def call(self, inputs, training=False):
        """Map `[…, in]` to `[…, hidden]`."""
        hidden = self.activation(self.dense(inputs), training)
        return hidden if self.layer_norm is None else self.layer_norm(hidden)


@keras.saving.register_keras_serializable("bert_tf")
class MaskedLMHead(Layer):
    """Logits over the vocabulary at the masked positions, from the word embeddings themselves.

    A `linear` one has a matrix of its own and no bias, and no transform but with an `inner_size`,
    which has two dense layers without bias, each with an activation; a `tied` one has nothing but
    the word embeddings. An `extended` one has further columns beside the word embeddings.

    The masked positions are gathered first, so that only they are transformed and decoded.

    Call: `sequence_output [batch, seq_length, in]`, `masked_lm_positions` int32 `[batch, P]`,
    `word_embeddings [vocab, hidden]` -> `masked_lm_logits` float32 `[batch, P, vocab]`. Without
    positions (None) any `[…, in]` -> `[…, vocab]`. A position that its row does not have is
    an `InvalidArgumentError`, but in XLA, which drops such checks.

    Args:
        vocab_size: rows of `word_embeddings`.
        hidden_size: width of the word embeddings, or of its own matrix.
        hidden_act: activation of the transform, one of `config.ACTIVATIONS`.
        layer_norm_eps: added to the variance.
        initializer_range, seed: see `Dense`.
        use_bias: whether the dense layer and LayerNorm have one.
        kind: as `masked_lm_head` of `ModelConfig`.
        inner_size: as `masked_lm_head_size` there.
        extra_size: of an `extended` one, by which its transform is wider than `hidden_size`.
    """

    def __init__(self, vocab_size, hidden_size, hidden_act="gelu", layer_norm_eps=1e-12,
                 initializer_range=0.02, seed=None, use_bias=True, kind="transform", inner_size=0,
                 extra_size=0, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.kind = kind
        self.initializer_range = initializer_range
        self.seed = seed
        self.extra_size = extra_size
        self.output_weights = self.output_bias = self.extra_output_weights = None
        self.inner = self.transform = None
        if inner_size:
            self.inner = Transform(inner_size, hidden_act, None, initializer_range, seed, False,
                                   name="inner", dtype=self.dtype_policy)
        if kind in ("transform", "extended") or inner_size:
            self.transform = Transform(
                hidden_size + extra_size, hidden_act, None if inner_size else layer_norm_eps,
                initializer_range, seed, use_bias and not inner_size, name="transform",
                dtype=self.dtype_policy)

    @classmethod
    def of_model(cls, config, seed, dtype, name="predictions"):
        """Return the head of a `ModelConfig`, not built yet; `dtype` is a Keras policy.

        Raises:
            UsageError: the embeddings have another width than the layers, and are all of the head.
        """
        kind = config.masked_lm_head
        if kind == "tied" and config.embedding_width != config.hidden_size:
            raise UsageError(explain(
                f"embedding_size={config.embedding_size} with masked_lm_head='tied', which decodes "
                "with the word embeddings alone", f"hidden_size={config.hidden_size}"))
        width = config.hidden_size if kind == "linear" else config.embedding_width
        return cls(config.vocab_size, width, config.head_activation, config.layer_norm_eps,
                   config.initializer_range, seed, config.use_bias, kind,
                   config.masked_lm_head_size,
                   config.hidden_size - width if kind == "extended" else 0, name=name, dtype=dtype)

    def build(self, sequence_output_shape, masked_lm_positions_shape=None,
              word_embeddings_shape=None):
        """Create the transform, `output_bias [vocab]` and `extra_output_weights [vocab, extra]`, or
        `output_weights [vocab, in]` and what stands before it."""
        width = sequence_output_shape[-1]
        if self.kind == "linear":
            self.output_weights = self._table("output_weights", width)
        if self.extra_size:
            self.extra_output_weights = self._table("extra_output_weights", self.extra_size)
        if self.inner is not None:
            self.inner.build((None, width))
            width = self.inner.dense.units
        if self.transform is not None:
            self.transform.build((None, width))
        if self.kind in ("transform", "extended"):
            self.output_bias = self.add_weight(name="output_bias", shape=(self.vocab_size,),
                                               initializer="zeros", autocast=False,
                                               dtype="float32")

    def _table(self, name, width):
        initializer = truncated_normal(self.initializer_range, self.seed, f"{self.path}/{name}")
        return self.add_weight(name=name, shape=(self.vocab_size, width), initializer=initializer)

    def call(self, sequence_output, masked_lm_positions, word_embeddings, training=False):
        """Logits float32 `[batch, P, vocab]`."""
        masked, like = sequence_output, sequence_output
        if masked_lm_positions is not None:
            like = masked_lm_positions[..., tf.newaxis]
            masked = self._gather(sequence_output, masked_lm_positions)
        masked, table, bias = self.decoded(masked, word_embeddings, training)
        logits = decode(masked, table)  # [B P, V]
        return unflatten(logits if bias is None else tf.nn.bias_add(logits, bias), like)

    def decoded(self, inputs, word_embeddings, training=False):
        """Return what logits are made of: `hidden […, width]` and a table `[vocab, width]`, whose
        products they are, and a bias float32 `[vocab]` or None."""
        if self.kind == "linear":
            word_embeddings = tf.convert_to_tensor(self.output_weights)
        table = tf.cast(word_embeddings, self.compute_dtype)
        if self.extra_size:
            extra = tf.cast(tf.convert_to_tensor(self.extra_output_weights), self.compute_dtype)
            table = tf.concat([table, extra], 1)
        hidden = tf.cast(inputs, self.compute_dtype)
        for layer in filter(None, (self.inner, self.transform)):
            hidden = layer(hidden, training=training)
        bias = None if self.output_bias is None else tf.convert_to_tensor(self.output_bias)
        return hidden, table, bias

    def _gather(self, sequence_output, positions):
        """`[B, S, D]`, `[B, P]` -> `[B P, D]`."""
        shape = tf.shape(sequence_output)
        if not is_for_inference():
            # Rows stand one after the other below: beyond its end a row's next one would be read.
            there = tf.debugging.Assert(
                tf.reduce_all((positions >= 0) & (positions < tf.cast(shape[1], positions.dtype))),
                ["masked_lm_positions must be 0 or above, and below seq_length", shape[1]])
            with tf.control_dependencies([there]):
                positions = tf.identity(positions)
        starts = tf.range(shape[0], dtype=positions.dtype)[:, tf.newaxis]
        rows = positions + starts * tf.cast(shape[1], positions.dtype)
        tokens = tf.reshape(sequence_output, [-1, sequence_output.shape[-1]])  # [B S, D]
        return gather_rows(tokens, tf.reshape(rows, [-1]))

    def compute_output_shape(self, sequence_output_shape, masked_lm_positions_shape=None,
                             word_embeddings_shape=None):
        """`[batch, P, vocab]`."""
        positions = masked_lm_positions_shape or sequence_output_shape[:-1]
        return (*positions, self.vocab_size)

    def compute_output_spec(self, sequence_output, masked_lm_positions, word_embeddings,
                            training=False):
        """Logits are float32 whatever the compute type."""
        positions = None if masked_lm_positions is None else masked_lm_positions.shape
        return keras.KerasTensor(self.compute_output_shape(sequence_output.shape, positions),
                                 "float32")


def decode(hidden, word_embeddings):
    """Products of every vector with every word embedding.

    Args:
        hidden: `[…, width]`.
        word_embeddings: `[vocab, width]`, of the same type.

    Returns: float32 `[K, vocab]`, the leading axes in one.
    """
    tokens = tf.reshape(hidden, [-1, hidden.shape[-1]])
    return tf.cast(tf.matmul(tokens, word_embeddings, transpose_b=True), tf.float32)
