"""Tokenizers whose rules no graph can run, through the package tokenizers: in Python only."""

import contextlib
import copy
import functools
import json
import os

import numpy as np
import tensorflow as tf

from bert_tf.errors import BertTfError, UsageError, explain, needs
from bert_tf.shapes import check_rank
from bert_tf.storage import files
from bert_tf.tokenization import tokenizer_json
from bert_tf.tokenization.base import BaseTokenizer, valid_text
from bert_tf.tokenization.offsets import without_white_space
from bert_tf.tokenization.tokenizer_config import NAME as CONFIG_NAME
from bert_tf.tokenization.tokenizer_config import (
    read_config,
    read_vocabulary_options,
    vocabulary_options,
)
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

_BEGIN = ("Ġ", "▁")  # of tokens before which there is a blank


class LibraryTokenizer(BaseTokenizer):
    """Any `tokenizer.json`, run by the package tokenizers.

    In a `tf.function` or a `tf.data.Dataset` of this process it works too (`tf.numpy_function`),
    but in no SavedModel.

    Args:
        text: str, the content of the file.
        reason: which of its rules no graph can run.
        source: what an error names.
        special_tokens, pair_separators, …: as of `Vocabulary`.

    Raises:
        BertTfError: the package cannot read the file.
        UsageError: the package is missing.
    """

    def __init__(self, text, reason, source="the tokenizer", special_tokens=SPECIAL_TOKENS,
                 **vocabulary):
        self.python_only = reason
        self._text = text
        with needs("convert", f"{reason}; to run it needs the package tokenizers"):
            import tokenizers
        self._source = source
        try:
            with self._panics_named():
                self._library = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the package has no class of its own
            raise BertTfError(f"{source} cannot be read: {error}") from error
        self._library.no_truncation()
        self._library.no_padding()
        ids = self._library.get_vocab(with_added_tokens=True)
        tokens = sorted(ids, key=ids.get)
        if [ids[token] for token in tokens] != list(range(len(tokens))):
            raise UsageError(explain(f"{source}: the ids of its vocabulary have gaps",
                                     "0, 1, 2, …"))
        super().__init__(Vocabulary(tokens, source, special_tokens, _continues(tokens),
                                    **vocabulary))
        self._library.encode_special_tokens = True

    @property
    def options(self):
        """What `tokenizer_config.json` holds."""
        return {"python_only": self.python_only,
                **vocabulary_options(self.vocabulary, SPECIAL_TOKENS, 1)}

    def detokenize(self, ids):
        """The text of ids `[n, tokens]`, ragged or not: string `[n]`; special ones vanish."""
        def decode(values, splits):
            with self._panics_named():
                return np.array([self._finding_special.decode(values[begin:end].tolist()).encode()
                                 for begin, end in zip(splits, splits[1:], strict=False)], object)

        ids = ids if isinstance(ids, tf.RaggedTensor) else tf.RaggedTensor.from_tensor(ids)
        text = tf.numpy_function(decode, [ids.values, ids.row_splits], tf.string)
        return tf.ensure_shape(text, [None])

    def save(self, folder):
        """Write `tokenizer.json` as it was read and `tokenizer_config.json`."""
        files.write_text(os.path.join(folder, tokenizer_json.NAME), self._text)
        files.write_json(os.path.join(folder, CONFIG_NAME), self.options)

    @classmethod
    def load(cls, folder):
        """Read what `save` wrote."""
        path = os.path.join(folder, CONFIG_NAME)
        config = read_config(path)
        described = read_vocabulary_options(config, path, rstrip=True)
        path = os.path.join(folder, tokenizer_json.NAME)
        return cls(files.read_text(path), config.get("python_only") or "rules of its own", path,
                   **described)

    @classmethod
    def of_json(cls, path, config, reason, values=None):
        """The tokenizer of a `tokenizer.json` that none of ours runs.

        Args:
            path: the file.
            config: dict, the `tokenizer_config.json` beside it.
            reason: why none of ours does.
            values: dict, what counts in place of the file's content; None for that.

        Raises:
            BertTfError: the file is damaged.
            UsageError: special tokens go where ours never do, or nothing says which they are.
        """
        text = files.read_text(path) if values is None else json.dumps(values)
        return cls(text, reason, path, **tokenizer_json.read_special(path, config))

    def tokenize(self, text, allow_special=False):
        """See `BaseTokenizer.tokenize`; the library finds the tokens that are written."""
        text = check_rank("text", tf.convert_to_tensor(text, tf.string), 1)
        return self._run(text, allow_special)[0]

    def tokenize_with_offsets(self, text, allow_special=False):
        """See `BaseTokenizer.tokenize_with_offsets`."""
        text = valid_text(check_rank("text", tf.convert_to_tensor(text, tf.string), 1))
        ids, starts, ends = self._run(text, allow_special)
        return ids, without_white_space(text, starts, ends), ends

    @functools.cached_property
    def _finding_special(self):
        """The library's tokenizer with which special tokens mean themselves."""
        library = copy.deepcopy(self._library)
        library.encode_special_tokens = False
        known = {added.content for added in library.get_added_tokens_decoder().values()}
        library.add_special_tokens([token for token in self.vocabulary.special_tokens
                                    if token not in known])
        return library

    @contextlib.contextmanager
    def _panics_named(self):
        """Raise BertTfError where the library's own code fails, which passes `except Exception`."""
        try:
            yield
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # a class that cannot be imported
                raise
            raise BertTfError(f"{self._source}: the package tokenizers fails with its rules: "
                              f"{error}") from error

    def _run(self, text, allow_special):
        library = self._finding_special if allow_special else self._library

        def run(texts):
            texts = [each.decode(errors="replace") for each in texts]
            with self._panics_named():
                found = library.encode_batch(texts, add_special_tokens=False)
            edges = [np.cumsum([0, *(len(character.encode()) for character in each)])
                     for each in texts]
            splits = np.cumsum([0, *(len(each.ids) for each in found)])
            offsets = [edge[np.array(each.offsets, np.int64).reshape(-1, 2)]
                       for each, edge in zip(found, edges, strict=True)]
            offsets = np.concatenate([np.zeros([0, 2], np.int64), *offsets])
            ids = np.array([token for each in found for token in each.ids], np.int32)
            return ids, offsets[:, 0], offsets[:, 1], splits.astype(np.int64)

        ids, starts, ends, splits = tf.numpy_function(
            run, [text], [tf.int32, tf.int64, tf.int64, tf.int64])
        for each in (ids, starts, ends, splits):
            each.set_shape([None])
        return tuple(tf.RaggedTensor.from_row_splits(each, splits, validate=False)
                     for each in (ids, starts, ends))


def _continues(tokens):
    """Return the function that tells tokens which continue a word, by the way most of them say."""
    begins = sum(token.startswith(_BEGIN) for token in tokens)
    if begins > sum(token.startswith("##") for token in tokens):
        return lambda token: not token.startswith(_BEGIN)
    return lambda token: token.startswith("##")
