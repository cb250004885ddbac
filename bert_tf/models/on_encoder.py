"""What models on an encoder have in common, whatever their heads."""

import keras
import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.layers.frozen import freeze_parts, frozen_parts
from bert_tf.layers.layer import DenseSpecs
from bert_tf.layers.quantized import Quantizes, policy_of
from bert_tf.models.families import INPUTS
from bert_tf.models.made_anew import MadeAnew
from bert_tf.models.portable import Portable
from bert_tf.models.pretrained import Saved


class OnEncoder(Quantizes, Saved, Portable, MadeAnew, DenseSpecs):
    """Mixin of Keras models with an `encoder`, a `config` and a `seed`.

    Their constructors take an encoder or its `ModelConfig`, `dtype`, `seed` and `options()`.
    """

    call_inputs = INPUTS  # names of what a call needs, int32 of rank 2

    @property
    def backbone(self):
        """The encoder's `Backbone`, with `token_embedding` and `enable_lora`."""
        return self.encoder.backbone

    def export(self, filepath, *args, input_signature=None, **kwargs):
        """As of Keras; without an `input_signature` the graph takes `call_inputs`.

        `bert_tf.export` makes what TensorFlow Serving answers text with.
        """
        if input_signature is None:
            input_signature = [{name: keras.InputSpec(shape=(None, None), dtype="int32")
                                for name in self.call_inputs}]
        return super().export(filepath, *args, input_signature=input_signature, **kwargs)

    @property
    def _default_save_signature(self):
        """What `tf.saved_model.save` serves by itself; Keras knows no shapes of a built model."""
        signature = {name: tf.TensorSpec((None, None), tf.int32, name) for name in self.call_inputs}
        return tf.function(lambda inputs: self(inputs, training=False), [signature],
                           autograph=False)

    def get_config(self):
        """The constructor's arguments, `padding_free`, and which parts are frozen."""
        return {**super().get_config(), "config": self.config.to_dict(), **self.options(),
                "seed": self.seed, "dtype": keras.dtype_policies.serialize(policy_of(self)),
                "padding_free": self.backbone.padding_free, "frozen": frozen_parts(self)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Build from what `get_config` gave."""
        config = dict(config)
        encoder = ModelConfig.from_dict(config.pop("config"))
        padding_free, frozen = config.pop("padding_free", False), config.pop("frozen", ())
        model = cls(encoder, **config)
        model.backbone.padding_free = padding_free
        freeze_parts(model, frozen)
        return model
