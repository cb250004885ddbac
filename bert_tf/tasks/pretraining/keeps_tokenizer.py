"""The tokenizer of a model that is called on token ids alone, kept where the model is saved."""

import numpy as np

from bert_tf.errors import UsageError, explain
from bert_tf.tokenization.load import holds_tokenizer, load_tokenizer


class KeepsTokenizer:
    """Mixin of Keras models whose folders and `.keras` files keep a `tokenizer`: that of methods
    which take text, or of what is made of the model later."""

    tokenizer = None  # `from_pretrained` reads the folder's
    text_method = None  # the name of the method that takes text

    def fit(self, x=None, *args, **kwargs):
        """See `Objective.fit`.

        Raises:
            UsageError: `x` is text.
        """
        return super().fit(self._not_text(x), *args, **kwargs)

    def evaluate(self, x=None, *args, **kwargs):
        """See `Objective.evaluate`; text is refused as in `fit`."""
        return super().evaluate(self._not_text(x), *args, **kwargs)

    def predict(self, x, *args, **kwargs):
        """See Keras; text is refused as in `fit`."""
        return super().predict(self._not_text(x), *args, **kwargs)

    def _not_text(self, x):
        first = x
        while isinstance(first, (list, tuple)) and first:
            first = first[0]
        if isinstance(first, np.ndarray) and first.size:
            first = first.flat[0]
        if isinstance(first, str):
            raise UsageError(explain(f"{self.name} was given text", "a dict of token ids",
                                     self.text_method and f"{self.text_method}(texts)"))
        return x

    def need_tokenizer(self):
        """Raise UsageError where there is no tokenizer, or one of more tokens than the model."""
        if self.tokenizer is None:
            raise UsageError(explain(f"{self.name} has no tokenizer to read text with",
                                     attempt="model.tokenizer = bert_tf.load_tokenizer(folder); "
                                     "or token ids, with model(batch)"))
        if self.tokenizer.vocabulary.num_rows > self.config.vocab_size:
            raise UsageError(explain(f"a tokenizer of {len(self.tokenizer.vocabulary)} tokens",
                                     f"vocab_size={self.config.vocab_size}"))

    def save_assets(self, folder):
        """Write the tokenizer's files, if there is one, into a `.keras` file. See Keras."""
        if self.tokenizer is not None:
            self.tokenizer.save(folder)

    def load_assets(self, folder):
        """See Keras; of a file without assets `folder` is None."""
        if folder is not None and holds_tokenizer(folder):
            self.tokenizer = load_tokenizer(folder)
