"""The encoder of every family: embeddings, stack and pooling, as the configuration says."""

import functools

import keras
import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError, explain
from bert_tf.layers.bilstm import BiLstm
from bert_tf.layers.dense import Dense
from bert_tf.layers.embeddings import Embeddings
from bert_tf.layers.frozen import freeze_parts, frozen_parts
from bert_tf.layers.layer import DenseSpecs
from bert_tf.layers.layout import Padded
from bert_tf.layers.lora import Adaptable
from bert_tf.layers.padding_free import PaddingFree
from bert_tf.layers.pooling import Pooler, last_token, mean_of_tokens
from bert_tf.layers.quantized import policy_of
from bert_tf.layers.trigram_embeddings import TrigramEmbeddings
from bert_tf.models.encoder import Encoder
from bert_tf.models.encoder_options import encoder_options
from bert_tf.shapes import check_rank, check_shape

INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


@keras.saving.register_keras_serializable("bert_tf")
class Backbone(Adaptable, DenseSpecs, keras.Layer):
    """Embeddings, encoder and pooling of BERT (Devlin et al. 2019) and of what grew out of it.

    RoBERTa (Liu et al. 2019), ALBERT (Lan et al. 2020), ELECTRA (Clark et al. 2020), GPT and GPT-2
    (Radford et al. 2018, 2019), DistilBERT (Sanh et al. 2019), MPNet (Song et al. 2020), DeBERTa
    (He et al. 2021), ModernBERT (Warner et al. 2024), EuroBERT (Boizard et al. 2025), Qwen3 (Yang
    et al. 2025), Gemma 3 (Gemma Team 2025) and others are values of the configuration's fields, see
    `FAMILY_DEFAULTS`; so is a `static` one without layers.

    Call: a dict of `input_word_ids`, `input_mask`, `input_type_ids`, int32
    `[batch, seq_length]` -> a dict, all float32 whatever the compute type:
    `sequence_output [batch, seq_length, hidden]`, `pooled_output [batch, hidden]`,
    with `encoder_outputs=True` also `embedding_output` (what enters the first layer) and
    `encoder_outputs` (each layer's output, the last one's after the stack's own LayerNorm, if it
    has one), both `[batch, seq_length, hidden]`, and with `attention_probs=True` also
    `attention_probs`, each layer's `[batch, heads, from, to]`.

    With `padding_free=True` only real tokens are computed: outputs at attended positions are the
    same, those at padding 0 (but at a row's first position, which may be pooled, and where
    attention knows distances at gaps within a row, which keep their places). Its shapes are not
    static, so it is for CPUs and GPUs, where Keras' `compile` then leaves XLA off, and for batches
    of mixed lengths.

    Args:
        config: a `ModelConfig`.
        encoder_outputs, attention_probs: return these too.
        seed: integer seed of the initial weights and of dropout outside
            `randomness.draw_at`; None draws from Keras' own random state.
        embeddings: another Backbone's `Embeddings` to share; None makes new ones.
        padding_free: leave padding out, but for gaps between tokens where distances count; may
            be set later as an attribute. Where
            `attention_probs` are asked for everything is computed all the same.
        frozen: paths of the parts that are not trained; None for all or none, as `trainable` says.
    """

    def __init__(self, config, encoder_outputs=False, attention_probs=False, seed=None,
                 embeddings=None, padding_free=False, frozen=None, **kwargs):
        super().__init__(autocast=False, **kwargs)  # half precision would round ids that are floats
        self.config = config
        self.encoder_outputs = encoder_outputs
        self.attention_probs = attention_probs
        self.seed = seed
        self.padding_free = padding_free
        self._frozen = frozen
        of_all = {"initializer_range": config.initializer_range, "seed": seed}
        common = {"layer_norm_eps": config.layer_norm_eps, "dropout": config.hidden_dropout_prob,
                  **of_all}
        self.embeddings = embeddings or _embeddings(config, common, self.dtype_policy)
        self.embeddings_project = None
        if config.projects_embeddings:
            self.embeddings_project = Dense(config.hidden_size, **of_all,
                                            name="embeddings_project", dtype=self.dtype_policy)
        self.encoder = Encoder(**encoder_options(config, of_all, common), name="encoder",
                               dtype=self.dtype_policy)
        self.bilstm = self.pooler = None
        if config.bilstm:
            self.bilstm = BiLstm(config.hidden_size, seed, name="bilstm",
                                 dtype=self.dtype_policy)
        if config.pooling == "dense":
            self.pooler = Pooler(config.hidden_size, **of_all, name="pooler",
                                 dtype=self.dtype_policy)

    @property
    def padding_free(self):
        """Whether only real tokens are computed."""
        return self._padding_free

    @padding_free.setter
    def padding_free(self, value):
        self._padding_free = value
        self.supports_jit = not value  # Keras' `compile` leaves XLA off then

    @property
    def gradient_checkpointing(self):
        """Whether training keeps the input of each layer alone and recomputes its activations in
        the backward pass (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"): less
        memory, the same gradients. False until it is set; no file holds it.
        """
        return self.encoder.gradient_checkpointing

    @gradient_checkpointing.setter
    def gradient_checkpointing(self, value):
        self.encoder.gradient_checkpointing = value

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
        if self._frozen is not None:
            freeze_parts(self, self._frozen)
        elif not self.trainable:  # what the constructor is told, Keras hands on to no part
            for part in self._flatten_layers(include_self=False):
                part.trainable = False

    def compute_output_spec(self, inputs, training=False, **options):
        """Tell the outputs' shapes; of free axes without a trace of all layers, half of the time
        that a model takes to build."""
        free = inputs.keys() >= set(INPUTS) and all(
            tuple(ids.shape) == (None, None) and not ids.ragged for ids in inputs.values())
        if options or not free:
            return super().compute_output_spec(inputs, training=training, **options)
        hidden, layers = self.config.hidden_size, range(self.config.num_hidden_layers)

        def of_shape(*shape):
            return keras.KerasTensor(shape, "float32")

        spec = {"sequence_output": of_shape(None, None, hidden),
                "pooled_output": of_shape(None, hidden)}
        if self.encoder_outputs:
            spec["embedding_output"] = of_shape(None, None, hidden)
            spec["encoder_outputs"] = [of_shape(None, None, hidden) for _ in layers]
        if self.attention_probs:
            heads = self.config.num_attention_heads
            spec["attention_probs"] = [of_shape(None, heads, None, None) for _ in layers]
        return spec

    def call(self, inputs, training=False, encoder_outputs=None, pooled_only=False):
        """Encode a batch of token ids; `encoder_outputs` as of the constructor, None for that.

        `inputs` may hold `causal_rows`, int32 `[batch]`, 1 where a row is read left to right; and
        `vector_mask`, int32 `[batch, seq_length]`, 1 where the output of a position is needed,
        though `input_mask` may hide it from the others.
        With `pooled_only=True` the result is `pooled_output` alone, and the last layer computes
        no other position where the first one is pooled.
        """
        return_outputs = self.encoder_outputs if encoder_outputs is None else encoder_outputs
        inputs = _checked(inputs)
        input_mask = inputs["input_mask"]
        layout = self._layout(input_mask, inputs.get("causal_rows"), inputs.get("vector_mask"))
        embeddings = self._embed(inputs, layout, training)
        first_only = pooled_only and self._pools_first
        encoder_outputs, attention_probs = self.encoder(
            embeddings, training=training, first_only=first_only, layout=layout,
            return_attention_probs=self.attention_probs)
        top = [embeddings, *encoder_outputs][-1]
        if first_only:
            first = layout.in_order(top)
            return tf.cast(self._pooled(first), tf.float32)

        def restored(tokens):
            return layout.restore(tf.cast(tokens, tf.float32))

        if self.bilstm is None:
            sequence_output = restored(top)
        else:
            sequence_output = tf.cast(self.bilstm(layout.restore(top), input_mask), tf.float32)
        outputs = {"sequence_output": sequence_output,
                   "pooled_output": self._pool(sequence_output, input_mask)}
        if pooled_only:
            return outputs["pooled_output"]
        if return_outputs:
            outputs["embedding_output"] = restored(embeddings)
            outputs["encoder_outputs"] = [restored(tokens) for tokens in encoder_outputs]
        if self.attention_probs:
            outputs["attention_probs"] = [tf.cast(probs, tf.float32)
                                          for (probs,) in attention_probs]
        return outputs

    def hidden_of(self, inputs, layout):
        """The last layer's output, float32 `[tokens, hidden]`, in a layout of the caller's."""
        embeddings = self._embed(inputs, layout)
        encoder_outputs, _ = self.encoder(embeddings, layout=layout)
        return tf.cast([embeddings, *encoder_outputs][-1], tf.float32)

    def _embed(self, inputs, layout, training=False):
        embeddings = self.embeddings(inputs["input_word_ids"], inputs["input_type_ids"],
                                     training=training, layout=layout)
        if self.embeddings_project is not None:
            embeddings = self.embeddings_project(embeddings)
        return embeddings

    def _layout(self, input_mask, causal_rows=None, vector_mask=None):
        causal = self.config.attention == "causal"
        if causal_rows is not None and not causal:
            if self.config.sees_neighbours:
                raise UsageError("causal_rows with a BiLSTM, a convolution or trigrams, which show "
                                 "what follows")
            causal = tf.cast(causal_rows, self.compute_dtype)[:, tf.newaxis, tf.newaxis, tf.newaxis]
            return Padded.of_mask(input_mask, self.compute_dtype, causal)
        if self.padding_free and not self.attention_probs:
            distances = (self.config.relative_position != "none" or self.config.local_attention
                         or max(self.config.conv_kernel_size,
                                self.config.first_conv_kernel_size) > 3)
            return PaddingFree(input_mask, self.compute_dtype, causal, keep_gaps=bool(distances),
                               asking=vector_mask)
        return Padded.of_mask(input_mask, self.compute_dtype, causal)

    @property
    def _pools_first(self):
        """Whether `pooled_output` needs no other output of the last layer than the first."""
        return (self.config.num_hidden_layers > 0
                and self.config.pooling in ("dense", "first") and self.bilstm is None
                and self.config.feed_forward != "conv"
                and not self.config.first_conv_kernel_size
                and self.config.relative_position != "disentangled")

    def _pool(self, sequence_output, input_mask):
        """`[batch, hidden]` float32 of the whole output, float32."""
        if self.config.pooling == "last":
            return last_token(sequence_output, input_mask)
        if self.config.pooling in ("mean", "late"):
            return mean_of_tokens(sequence_output, input_mask)
        return tf.cast(self._pooled(sequence_output[:, 0]), tf.float32)

    def _pooled(self, first):
        """What the pooler, if there is one, makes of every row's first token."""
        return first if self.pooler is None else self.pooler(first)

    @functools.cached_property
    def token_embedding(self):
        """The word embeddings as a `keras.layers.ReversibleEmbedding`, whose table is this one's.

        Call: ids `[…]` -> `[…, embedding]`; with `reverse=True` `[…, embedding]` -> `[…, vocab]`.
        """
        layer = _TokenEmbedding(
            self.config.vocab_size, self.config.embedding_width, name="token_embedding",
            dtype=self.dtype_policy)
        layer._embeddings = self.embeddings.word_embeddings
        layer.built = True
        return layer

    def get_config(self):
        """The constructor's arguments, and which parts are frozen now."""
        return {**super().get_config(), "config": self.config.to_dict(),
                "dtype": keras.dtype_policies.serialize(policy_of(self)),
                "encoder_outputs": self.encoder_outputs,
                "attention_probs": self.attention_probs, "seed": self.seed,
                "padding_free": self.padding_free,
                "frozen": frozen_parts(self) if self.built else self._frozen}

    @classmethod
    def from_config(cls, config):
        """Build from what `get_config` gave."""
        return cls(**{**config, "config": ModelConfig.from_dict(config["config"])})


def _embeddings(config, common, dtype):
    options = {
        "max_position_embeddings": config.max_position_embeddings,
        "type_vocab_size": config.type_vocab_size, "position_embedding": config.position_embedding,
        "padding_id": config.padding_id if config.positions_from_padding else None,
        "norm": config.norm if config.embedding_norm else None, "use_bias": config.use_bias,
        **common, "scale": config.scale_embeddings, "name": "embeddings", "dtype": dtype}
    if config.trigram_input:
        return TrigramEmbeddings(config.vocab_size, config.hidden_size, config.embedding_width,
                                 **options)
    return Embeddings(config.vocab_size, config.embedding_width, **options)


class _TokenEmbedding(keras.layers.ReversibleEmbedding):
    """A layer on a table that another layer saves: in a file there is nothing of it."""

    def get_config(self):
        """Refuse: what is built of a configuration would have a table of its own.

        Raises:
            UsageError: always.
        """
        raise UsageError(explain(
            f"{self.name}, whose table is another layer's, in a file or a clone of a functional "
            "model", attempt="building the model again and model.load_weights of what "
            "model.save_weights('NAME.weights.h5') wrote, or a model of a class of your own"))

    def save_own_variables(self, store):
        """See Keras."""

    def load_own_variables(self, store):
        """See Keras."""


def _checked(inputs):
    """Return `inputs` as int32, of which NumPy's integers are not.

    Raises:
        ValueError: one is missing or ragged, or their shapes are not one `[batch, seq_length]`.
    """
    missing = [name for name in INPUTS if name not in inputs]
    if missing:
        raise ValueError(f"inputs without {' and '.join(missing)}; expected {', '.join(INPUTS)}")
    for name, ids in inputs.items():
        if isinstance(ids, tf.RaggedTensor):
            raise ValueError(f"{name} is ragged; expected rows of one length, padded by "
                             "to_tensor(), with 0 in input_mask at padding")
    inputs = {name: tf.cast(ids, tf.int32) for name, ids in inputs.items()}
    ids = check_rank("input_word_ids", inputs["input_word_ids"], 2)
    if ids.shape[1] == 0:
        raise ValueError(f"input_word_ids has shape {tuple(ids.shape)}; expected rows of 1 token "
                         "at least")
    for name in INPUTS[1:]:
        check_shape(name, inputs[name], "input_word_ids", ids)
    return inputs
