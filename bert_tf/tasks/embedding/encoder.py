"""An encoder without a head that takes text."""

import keras

from bert_tf.models.families import EncoderModel
from bert_tf.tasks.base.takes_text import TakesText
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor, is_text


@keras.saving.register_keras_serializable("bert_tf")
class TextEncoder(TakesText, EncoderModel):
    """An `EncoderModel` that text may be given to, in place of the dict of token ids.

    Args:
        config: a `ModelConfig`.
        preprocessor: a `TextPreprocessor`, or None where only token ids are taken.
        options: see `build_encoder`.
    """

    preprocessor_class = TextPreprocessor

    def __init__(self, config, preprocessor=None, **options):
        super().__init__(config, **options)
        self.preprocessor = preprocessor

    def __call__(self, inputs, *args, **kwargs):
        """See Keras; text is tokenized before the functional model sees it."""
        inputs = self._as_called(inputs)
        return super().__call__(self.read(inputs) if is_text(inputs) else inputs, *args, **kwargs)
