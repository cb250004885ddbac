"""The encoder of every family: embeddings, stack and pooling, as the configuration says."""

import keras
import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.layers.bilstm import BiLstm
from bert_tf.layers.dense import Dense
from bert_tf.layers.embeddings import Embeddings
from bert_tf.layers.masks import causal_adder, padding_adder
from bert_tf.layers.pooling import Pooler, last_token
from bert_tf.models.encoder import Encoder


@keras.saving.register_keras_serializable("bert_tf")
class Backbone(keras.Layer):
    """Embeddings, encoder and pooling of BERT (Devlin et al. 2019) and of what grew out of it.

    RoBERTa (Liu et al. 2019), ALBERT (Lan et al. 2020), ELECTRA (Clark et al. 2020) and GPT
    (Radford et al. 2018) are values of the configuration's fields, see `config.FAMILY_DEFAULTS`.

    Call: a dict of `input_word_ids`, `input_mask`, `input_type_ids`, int32
    `[batch, seq_length]` -> a dict, all float32 whatever the compute type:
    `sequence_output [batch, seq_length, hidden]`, `pooled_output [batch, hidden]`,
    with `encoder_outputs=True` also `embedding_output` (what enters the first layer) and
    `encoder_outputs` (each layer's output), both `[batch, seq_length, hidden]`, and with
    `attention_probs=True` also `attention_probs`, each layer's `[batch, heads, from, to]`.

    Args:
        config: a `ModelConfig`.
        encoder_outputs, attention_probs: return these too.
        seed: integer seed of the initial weights and of dropout outside
            `randomness.draw_at`; None draws from Keras' own random state.
        embeddings: another Backbone's `Embeddings` to share; None makes new ones.
    """

    def __init__(self, config, encoder_outputs=False, attention_probs=False, seed=None,
                 embeddings=None, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.encoder_outputs = encoder_outputs
        self.attention_probs = attention_probs
        self.seed = seed
        of_all = {"initializer_range": config.initializer_range, "seed": seed}
        common = {"layer_norm_eps": config.layer_norm_eps, "dropout": config.hidden_dropout_prob,
                  **of_all}
        self.embeddings = embeddings or Embeddings(
            config.vocab_size, config.embedding_width, config.max_position_embeddings,
            config.type_vocab_size, config.position_embedding,
            config.padding_id if config.positions_from_padding else None,
            layer_norm=config.family != "gpt", **common, name="embeddings",
            dtype=self.dtype_policy)
        self.embeddings_project = None
        if config.embedding_width != config.hidden_size:
            self.embeddings_project = Dense(config.hidden_size, **of_all,
                                            name="embeddings_project", dtype=self.dtype_policy)
        self.encoder = Encoder(
            config.num_hidden_layers, config.num_hidden_groups,
            {"hidden_size": config.hidden_size,
             "num_attention_heads": config.num_attention_heads,
             "intermediate_size": config.intermediate_size, "hidden_act": config.hidden_act,
             "kernel_size": config.conv_kernel_size if config.feed_forward == "conv" else None,
             "attention_dropout": config.attention_probs_dropout_prob, **common},
            name="encoder", dtype=self.dtype_policy)
        self.bilstm = self.pooler = None
        if config.bilstm:
            self.bilstm = BiLstm(config.hidden_size, seed, name="bilstm",
                                 dtype=self.dtype_policy)
        if config.pooling == "dense":
            self.pooler = Pooler(config.hidden_size, **of_all, name="pooler",
                                 dtype=self.dtype_policy)

    def build(self, inputs_shape=None):
        """Create all variables."""
        ids, hidden = (None, None), (None, None, self.config.hidden_size)
        if not self.embeddings.built:
            self.embeddings.build(ids, ids)
        if self.embeddings_project is not None:
            self.embeddings_project.build((None, None, self.config.embedding_width))
        self.encoder.build(hidden)
        for layer in (self.bilstm, self.pooler):
            if layer is not None:
                layer.build(hidden)

    def call(self, inputs, training=False, encoder_outputs=None, pooled_only=False):
        """Encode a batch of token ids; `encoder_outputs` as of the constructor, None for that.

        With `pooled_only=True` the result is `pooled_output` alone, and the last layer computes
        no other position where the first one is pooled.
        """
        return_outputs = self.encoder_outputs if encoder_outputs is None else encoder_outputs
        input_mask = inputs["input_mask"]
        hidden = self.embeddings(inputs["input_word_ids"], inputs["input_type_ids"],
                                 training=training)
        if self.embeddings_project is not None:
            hidden = self.embeddings_project(hidden)
        adder = padding_adder(input_mask, self.compute_dtype)
        if self.config.attention == "causal":
            adder += causal_adder(tf.shape(input_mask)[1], self.compute_dtype)
        encoder_outputs, attention_probs = self.encoder(
            hidden, adder, input_mask, training=training,
            queries=1 if pooled_only and self._pools_first else None)
        sequence_output = encoder_outputs[-1]
        if self.bilstm is not None:
            sequence_output = self.bilstm(sequence_output, input_mask)
        pooled_output = self._pool(sequence_output, input_mask)
        if pooled_only:
            return tf.cast(pooled_output, tf.float32)
        outputs = {"sequence_output": sequence_output, "pooled_output": pooled_output}
        if return_outputs:
            outputs["embedding_output"] = hidden
            outputs["encoder_outputs"] = encoder_outputs
        if self.attention_probs:
            outputs["attention_probs"] = attention_probs
        return tf.nest.map_structure(lambda x: tf.cast(x, tf.float32), outputs)

    @property
    def _pools_first(self):
        """Whether `pooled_output` needs no other output of the last layer than the first."""
        return (self.config.pooling != "last" and self.bilstm is None
                and self.config.feed_forward == "dense")

    def _pool(self, sequence_output, input_mask):
        if self.pooler is not None:
            return self.pooler(sequence_output)
        if self.config.pooling == "last":
            return last_token(sequence_output, input_mask)
        return sequence_output[:, 0, :]

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "config": self.config.to_dict(),
                "encoder_outputs": self.encoder_outputs,
                "attention_probs": self.attention_probs, "seed": self.seed}

    @classmethod
    def from_config(cls, config):
        """Build from what `get_config` gave."""
        return cls(**{**config, "config": ModelConfig.from_dict(config["config"])})
