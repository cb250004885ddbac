"""A Keras model of an encoder of any family."""

import keras

from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError, explain
from bert_tf.layers.frozen import freeze_parts, frozen_parts
from bert_tf.layers.lora import Adaptable
from bert_tf.layers.quantized import Quantizes
from bert_tf.models.backbone import INPUTS, Backbone
from bert_tf.models.made_anew import MadeAnew
from bert_tf.models.portable import Portable
from bert_tf.models.pretrained import Saved


@keras.saving.register_keras_serializable("bert_tf")
class EncoderModel(Adaptable, Quantizes, Saved, Portable, MadeAnew, keras.Model):
    """A `Backbone` as a functional Keras model; see `build_encoder`."""

    saved_as = "encoder"

    def __init__(self, config, encoder_outputs=False, attention_probs=False, dtype=None,
                 seed=None, name=None, embeddings=None, padding_free=False):
        name = name or config.family
        backbone = Backbone(config, encoder_outputs, attention_probs, seed, embeddings,
                            padding_free, name=name, dtype=dtype)
        inputs = {key: keras.Input((None,), dtype="int32", name=key) for key in INPUTS}
        super().__init__(inputs, backbone(inputs), name=name)
        self.backbone = backbone
        self.dtype_policy = backbone.dtype_policy  # by which `compile` decides on loss scaling

    @property
    def config(self):
        """The `ModelConfig`."""
        return self.backbone.config

    @property
    def token_embedding(self):
        """See `Backbone.token_embedding`."""
        return self.backbone.token_embedding

    def get_config(self):
        """The constructor's arguments, and which parts are frozen."""
        config = self.backbone.get_config()
        del config["trainable"]
        return {**config, "name": self.name, "frozen": frozen_parts(self)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """See Keras."""
        config = dict(config)
        frozen = config.pop("frozen", ())
        model = cls(**{**config, "config": ModelConfig.from_dict(config["config"])})
        freeze_parts(model, frozen)
        return model


def as_encoder(encoder, dtype=None, seed=None):
    """Return the encoder of a model with a head.

    Args:
        encoder: an `EncoderModel`, which is returned; or the `ModelConfig` of a new one.
        dtype, seed: of a new one, see `build_encoder`; one that is given has such a policy.

    Raises:
        UsageError: neither, or an encoder of another policy, or under whose name no checkpoint
            keeps variables.
    """
    if isinstance(encoder, ModelConfig):
        return build_encoder(encoder, dtype=dtype, seed=seed)
    if not isinstance(encoder, EncoderModel):
        raise UsageError(explain(f"{type(encoder).__name__} as encoder",
                                 "a ModelConfig, or an encoder of build_encoder, from_pretrained "
                                 "or from_live"))
    if encoder.name != encoder.config.family:
        raise UsageError(explain(f"an encoder with the name {encoder.name!r}",
                                 f"{encoder.config.family!r}, under which its variables are saved"))
    policy = encoder.backbone.dtype_policy
    given, own = (getattr(each, "default_policy", each).name  # without its quantized parts
                  for each in (keras.dtype_policies.get(dtype or policy), policy))
    if given != own:
        raise UsageError(explain(f"dtype={given!r} of a model on an encoder of {own!r}",
                                 f"{own!r} or None", f"an encoder with dtype={given!r}"))
    return encoder


def build_encoder(config, encoder_outputs=False, attention_probs=False, dtype=None, seed=None,
                  name=None, embeddings=None):
    """A functional Keras model of `config.family`, with the family's name.

    Inputs: a dict of `input_word_ids`, `input_mask` (1 = real token), `input_type_ids`, int32
    `[batch, seq_length]`, both axes free. Outputs: a dict, all float32:
    `sequence_output [batch, seq_length, hidden]` and `pooled_output [batch, hidden]`; on
    request `embedding_output` and the list `encoder_outputs`, each
    `[batch, seq_length, hidden]`, and the list `attention_probs`, each
    `[batch, heads, from, to]`. Its one layer, `model.backbone`, of the same name, holds the
    parts: `.embeddings`, `.embeddings_project`, `.encoder`, `.pooler`, `.config`.

    Args:
        config: a `ModelConfig`.
        encoder_outputs: also return what every layer gives, and the embeddings.
        attention_probs: also return the attention probabilities of every layer.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer: equal seeds give equal initial weights, whatever is built before. None
            draws from Keras' own random state (`keras.utils.set_random_seed`).
        name: of the model, with which its variables' paths begin; None for the family's.
        embeddings: another model's `backbone.embeddings` to share; None makes new ones. Keras
            cannot read the `.keras` file of a model that holds both, only that of either.
    """
    return EncoderModel(config, encoder_outputs, attention_probs, dtype, seed, name, embeddings)
