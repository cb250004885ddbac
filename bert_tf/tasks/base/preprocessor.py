"""Base of the layers that read text: a tokenizer, a window, plain options."""

import keras

from bert_tf.errors import UsageError, explain
from bert_tf.tokenization.load import load_tokenizer


class Preprocessor(keras.Layer):
    """Base of `TextPreprocessor`, `QuestionPreprocessor` and `WordPreprocessor`.

    A subclass has `reading()`, its options as plain values, and `limits()`; its constructor ends
    with `check()` and `use(tokenizer)`.

    Args:
        seq_length: the window in tokens, special ones counted.
    """

    def __init__(self, seq_length, **kwargs):
        super().__init__(**{"name": "preprocessor", "trainable": False, **kwargs})
        self.seq_length = seq_length
        self.supports_jit = False  # XLA knows no strings
        self.built = True

    def limits(self):
        """Return `{option: its maximum in this window}`; the least is 1."""
        raise NotImplementedError

    def check(self):
        """Raise UsageError if an option exceeds its limit."""
        for name, most in self.limits().items():
            value = getattr(self, name)
            if not 1 <= value <= most:
                raise UsageError(explain(f"{name}={value} with seq_length={self.seq_length}",
                                         f"1 to {most}" if most > 0 else "a longer window"))

    def resize(self, seq_length):
        """Take another window; an option that exceeds its limit there becomes the limit.

        Raises:
            UsageError: the window has no space for text.
        """
        self.seq_length = seq_length
        for name, most in self.limits().items():
            setattr(self, name, max(1, min(getattr(self, name), most)))
        self.check()

    def use(self, tokenizer):
        """Read with this tokenizer, which may be None in a layer whose file is being loaded."""
        self.tokenizer = tokenizer

    def need_tokenizer(self):
        """Raise UsageError without a tokenizer, as in a `keras.models.clone_model`."""
        if self.tokenizer is None:
            kind = type(self).__name__
            raise UsageError(explain(f"a {kind} without a tokenizer", f"{kind}(tokenizer)"))

    def get_config(self):
        """Return the constructor's arguments but for the tokenizer, whose files are the layer's
        assets."""
        return {**super().get_config(), **self.reading()}

    def save_assets(self, folder):
        """Write the tokenizer's files into a `.keras` file. See Keras."""
        self.tokenizer.save(folder)

    def load_assets(self, folder):
        """Read what `save_assets` wrote. See Keras."""
        if folder is None:  # of a file until 0.1, which has it under another name: comes later
            raise ValueError("the file has no tokenizer for this preprocessor")
        self.use(load_tokenizer(folder))
