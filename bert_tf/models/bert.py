"""BERT (Devlin et al. 2019)."""

import keras
import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.layers.embeddings import Embeddings
from bert_tf.layers.masks import padding_adder
from bert_tf.layers.pooling import Pooler
from bert_tf.models.encoder import Encoder


@keras.saving.register_keras_serializable("bert_tf")
class Bert(keras.Layer):
    """Embeddings, encoder and pooler.

    Call: a dict of `input_word_ids`, `input_mask`, `input_type_ids`, int32
    `[batch, seq_length]` -> a dict, all float32 whatever the compute type:
    `sequence_output [batch, seq_length, hidden]`, `pooled_output [batch, hidden]`,
    with `encoder_outputs=True` also `embedding_output` (what enters the first block) and
    `encoder_outputs` (each block's output), both `[batch, seq_length, hidden]`, and with
    `attention_probs=True` also `attention_probs`, each block's `[batch, heads, from, to]`.

    Args:
        config: a `ModelConfig`.
        encoder_outputs, attention_probs: return these too.
        seed: integer seed of the initial weights and of dropout outside
            `randomness.draw_at`; None draws from Keras' own random state.
    """

    def __init__(self, config, encoder_outputs=False, attention_probs=False, seed=None,
                 **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.encoder_outputs = encoder_outputs
        self.attention_probs = attention_probs
        self.seed = seed
        common = {"layer_norm_eps": config.layer_norm_eps, "dropout": config.hidden_dropout_prob,
                  "initializer_range": config.initializer_range, "seed": seed}
        self.embeddings = Embeddings(
            config.vocab_size, config.hidden_size, config.max_position_embeddings,
            config.type_vocab_size, **common, name="embeddings", dtype=self.dtype_policy)
        self.encoder = Encoder(
            config.num_hidden_layers,
            {"hidden_size": config.hidden_size,
             "num_attention_heads": config.num_attention_heads,
             "intermediate_size": config.intermediate_size, "hidden_act": config.hidden_act,
             "attention_dropout": config.attention_probs_dropout_prob, **common},
            name="encoder", dtype=self.dtype_policy)
        self.pooler = Pooler(config.hidden_size, config.initializer_range, seed, name="pooler",
                             dtype=self.dtype_policy)

    def build(self, inputs_shape=None):
        """Create all variables."""
        ids, hidden = (None, None), (None, None, self.config.hidden_size)
        self.embeddings.build(ids, ids)
        self.encoder.build(hidden)
        self.pooler.build(hidden)

    def call(self, inputs, training=False):
        """Encode a batch of token ids."""
        embedding_output = self.embeddings(inputs["input_word_ids"], inputs["input_type_ids"],
                                           training=training)
        adder = padding_adder(inputs["input_mask"], self.compute_dtype)
        encoder_outputs, attention_probs = self.encoder(embedding_output, adder,
                                                        training=training)
        outputs = {"sequence_output": encoder_outputs[-1],
                   "pooled_output": self.pooler(encoder_outputs[-1])}
        if self.encoder_outputs:
            outputs["embedding_output"] = embedding_output
            outputs["encoder_outputs"] = encoder_outputs
        if self.attention_probs:
            outputs["attention_probs"] = attention_probs
        return tf.nest.map_structure(lambda x: tf.cast(x, tf.float32), outputs)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "config": self.config.to_dict(),
                "encoder_outputs": self.encoder_outputs,
                "attention_probs": self.attention_probs, "seed": self.seed}

    @classmethod
    def from_config(cls, config):
        """Build from what `get_config` gave."""
        return cls(**{**config, "config": ModelConfig.from_dict(config["config"])})
