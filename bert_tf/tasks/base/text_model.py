"""Base of the trained models that read text: how they come by their encoder."""

import keras

from bert_tf.models.families import as_encoder
from bert_tf.tasks.base.objective import Objective
from bert_tf.tasks.base.takes_text import TakesText


class TextModel(TakesText, Objective):
    """An encoder, of text or of token ids, to which a subclass adds a head.

    Args:
        encoder: a `ModelConfig`, or an encoder: of `build_encoder`, `from_pretrained`, `from_live`.
        dtype: Keras policy; None for that of an encoder that is given.
        seed: see `build_encoder`.
        preprocessor: a `TextPreprocessor`, or None where only token ids are taken.

    Raises:
        UsageError: the encoder is none, see `as_encoder`.
    """

    def __init__(self, encoder, dtype=None, seed=None, preprocessor=None, **kwargs):
        if dtype is None and isinstance(encoder, keras.Model):
            dtype = encoder.backbone.dtype_policy
        super().__init__(dtype=dtype, **kwargs)
        self.seed = seed
        if preprocessor is not None and preprocessor is getattr(encoder, "preprocessor", None):
            # Keras writes an object into a file once, and would write this one as the encoder's.
            preprocessor = type(preprocessor)(preprocessor.tokenizer, **preprocessor.reading())
        self.preprocessor = preprocessor
        self.encoder = as_encoder(encoder, self.dtype_policy, seed)
        self.config = self.encoder.config
