"""Base of the trained models that read text: how they come by their encoder."""

import keras
import numpy as np

from bert_tf import side_by_side
from bert_tf.data.processes import in_threads
from bert_tf.models.families import as_encoder
from bert_tf.tasks.base.character_batches import batches_by_length, sizes_of
from bert_tf.tasks.base.objective import Objective
from bert_tf.tasks.base.takes_text import TakesText


class TextModel(TakesText, Objective):
    """An encoder, of text or of token ids, to which a subclass adds a head.

    Args:
        encoder: a `ModelConfig`, or an encoder: of `build_encoder`, `from_pretrained`, `from_live`.
        dtype: Keras policy, of an encoder that is given its own; None for that.
        seed: see `build_encoder`.
        preprocessor: a `TextPreprocessor`, or None where only token ids are taken.

    Raises:
        UsageError: the encoder is none or of another policy, see `as_encoder`.
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

    def outputs_by_length(self, columns, batch_size=None, compute=None, least=0):
        """Return an iterator of `(rows, outputs)` of batches of texts of similar length.

        Args:
            columns: one or two lists or arrays of as many str.
            batch_size: texts of a batch. None: texts of 16,384 characters together, padding
                counted: many short ones, whose calls cost more than they compute, few long ones.
            compute: function of a batch; None for what a call computes.
            least: tokens that a text counts for at least.

        Raises:
            UsageError: the model takes no text, or `batch_size` is below 1.
        """
        self.need_preprocessor()
        compute = compute or self.predict_on_batch
        columns = [np.array(column, object) for column in columns]
        window = self.preprocessor.seq_length if self.preprocessor.long == "head" else None
        sizes = sizes_of(columns, window, self.preprocessor.num_special(len(columns)), least)

        def outputs(rows):
            batch = tuple(column[rows] for column in columns)
            return compute(batch if len(batch) > 1 else batch[0])

        return in_threads(batches_by_length(sizes, batch_size), outputs, side_by_side.at_once())
