"""Base of the layers that read text: a tokenizer, a window, plain options."""

import numbers
import os
import tempfile
import zipfile

import keras

from bert_tf.errors import UsageError, explain
from bert_tf.storage import files
from bert_tf.tokenization.load import load_tokenizer


class Preprocessor(keras.Layer):
    """Base of `TextPreprocessor`, `QuestionPreprocessor` and `WordPreprocessor`.

    A subclass has `reading()`, its options as plain values, and `limits()` where others than a
    `stride` are limited; its constructor ends with `check()` and `use(tokenizer)`.

    Args:
        seq_length: the window in tokens, special ones counted.
    """

    def __init__(self, seq_length, **kwargs):
        super().__init__(**{"name": "preprocessor", "trainable": False, **kwargs})
        self.seq_length = _integer("seq_length", seq_length)
        self.supports_jit = False  # XLA knows no strings
        self.built = True

    def limits(self):
        """Return `{option: its maximum in this window}`; the least is 1."""
        return {"stride": self.seq_length - 2}

    def check(self):
        """Raise UsageError if an option is no integer or exceeds its limit."""
        for name, most in self.limits().items():
            value = _integer(name, getattr(self, name))
            setattr(self, name, value)
            if not 1 <= value <= most:
                raise UsageError(explain(f"{name}={value} with seq_length={self.seq_length}",
                                         f"1 to {most}" if most > 0 else "a longer window"))

    def resize(self, seq_length):
        """Take another window; an option that exceeds its limit there becomes the limit.

        Raises:
            UsageError: the window is no integer or has no space for text.
        """
        self.seq_length = _integer("seq_length", seq_length)
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
        self.need_tokenizer()
        self.tokenizer.save(folder)

    def load_assets(self, folder):
        """See Keras; of a file of 0.1, see `load_former_assets`, `folder` is None."""
        if folder is not None:
            self.use(load_tokenizer(folder))


def _integer(name, value):
    """Return an integer, also one of NumPy, as the plain one that files hold."""
    if not isinstance(value, numbers.Integral):
        raise UsageError(explain(f"{name}={value!r}", "an integer"))
    return int(value)


def share_tokenizer(model, path):
    """Give the one tokenizer of a `.keras` file to the preprocessors without: Keras writes what
    models share once, and makes one of it for each of them.

    Args:
        model: read from the file.
        path: of the file, for the message.

    Raises:
        UsageError: there are several tokenizers, so that it is not known which.
    """
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, Preprocessor)]
    tokenizers = [layer.tokenizer for layer in layers if layer.tokenizer is not None]
    for layer in layers:
        if layer.tokenizer is None and tokenizers:
            if len(tokenizers) > 1:
                raise UsageError(explain(
                    f"{path}: {len(tokenizers)} tokenizers for {len(layers)} preprocessors",
                    "one, or one for each", "making the model anew, and its load_weights"))
            layer.use(*tokenizers)


def load_former_assets(model, path):
    """Read tokenizers from a `.keras` file of 0.1, which has them under the classes' former names.

    Args:
        model: read from the file; its preprocessors without a tokenizer get theirs.
        path: of the file, local; what is no archive, such as a folder, was not written by 0.1.
    """
    if not zipfile.is_zipfile(path):
        return
    found = {}
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
        for layer in model._flatten_layers():
            if not isinstance(layer, Preprocessor) or layer.tokenizer is not None:
                continue
            former = type(layer).__name__.removesuffix("Preprocessor").lower() + "_reader"
            count = found[former] = found.get(former, -1) + 1
            inner = f"/{former}_{count}/" if count else f"/{former}/"
            names = [name for name in archive.namelist()
                     if name.startswith("assets/") and inner in name]
            for name in names:
                target = os.path.join(folder, former, os.path.basename(name))
                files.make_folder(os.path.dirname(target))
                files.write_bytes(target, archive.read(name))
            if names:
                layer.use(load_tokenizer(os.path.join(folder, former)))
