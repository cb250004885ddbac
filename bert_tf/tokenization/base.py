"""What all tokenizers do alike: special tokens in texts, packing, Python lists of ids."""

import functools
import numbers
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.shapes import check_rank
from bert_tf.tokenization.packing import join
from bert_tf.tokenization.special import WrittenTokens
from bert_tf.tokenization.texts import text_list

_SPACE = r"[\t-\r\x1c-\x20\x{85}\pZ]+"  # `tf.strings.strip` knows ASCII's alone
_AROUND = f"^{_SPACE}|{_SPACE}$"


class BaseTokenizer(tf.Module):
    """Base of the tokenizers; a subclass adds how plain text is tokenized.

    A subclass has `_tokenize(text)` -> ids and `_tokenize_with_offsets(text)` -> ids, starts,
    ends, of text in which no token is written, or finds such tokens itself; `detokenize(ids)` ->
    text; `options` (what its `tokenizer_config.json` holds); `save(folder)` and `load(folder)`. All
    of it runs in a graph, unless `python_only` says why not.

    Args:
        vocabulary: `Vocabulary`.
    """

    python_only = None  # the reason why it cannot be in a graph
    pretokenize = None
    composes = False  # whether text is composed (NFC) first

    def __init__(self, vocabulary):
        super().__init__(name="tokenizer")
        self.vocabulary = vocabulary
        self._tokens = tf.constant(vocabulary.tokens)
        added = vocabulary.added_tokens
        self._written = WrittenTokens(vocabulary, added)
        always = [each for each in added if not each.special]
        self._always_written = WrittenTokens(vocabulary, always) if always else None

    def tokenize(self, text, allow_special=False):
        """Ids of the tokens of each text.

        Args:
            text: string `[n]`; what is not UTF-8 becomes U+FFFD. With `pretokenize` as
                `bert_tf.analyse` splits it.
            allow_special: take `[MASK]` and the other special tokens written in the text for what
                they name; else they are text like any other.

        Returns:
            RaggedTensor int32 `[n, (tokens)]`.
        """
        return self._in_graph(self._ids, text, allow_special)

    def tokenize_with_offsets(self, text, allow_special=False):
        """Ids of the tokens, and where in the text each comes from.

        Args:
            text: string `[n]`; offsets are into the text that has U+FFFD for what is not UTF-8.
            allow_special: as for `tokenize`.

        Returns:
            ids, starts, ends: RaggedTensors `[n, (tokens)]`, int32, int64 and int64. Token `j` of
            text `i` comes from the bytes `starts[i, j]` up to, without, `ends[i, j]` of `text[i]`;
            the white space before a word is not counted.
        """
        return self._in_graph(self._ids_with_offsets, text, allow_special)

    def tokens(self, ids):
        """Tokens as strings, of the shape of `ids` (integers, ragged or not)."""
        return tf.gather(self._tokens, ids)

    def texts(self, ids):
        """What each token writes by itself, without white space around it, and with U+FFFD for a
        part of a character: string of the shape of `ids`, a tensor of integers."""
        alone = self.detokenize(tf.reshape(ids, [-1, 1]))
        return tf.reshape(stripped(valid_text(alone)), tf.shape(ids))

    def blanks_in_pieces(self):
        """Whether the blank before a word is part of its pieces and none is put before a text, so
        that a word has other pieces at the beginning of a text than after a blank: bool."""
        begins, after, both = self.tokenize(["a", " a", "a a"]).to_list()
        return both == begins + after != 2 * begins

    def encode(self, texts, pair=None, allow_special=False):
        """Ids with the special tokens of a model's input, of any length.

        Args:
            texts: a str, or a list of them.
            pair: a second segment: a str where `texts` is one, else as many as `texts`.
            allow_special: as for `tokenize`.

        Returns: list of int, or a list of such lists.

        Raises:
            UsageError: `texts` and `pair` are not of one form.
        """
        one = isinstance(texts, str | bytes)
        if pair is not None and (isinstance(pair, str | bytes) != one):
            raise UsageError(explain(f"texts of type {type(texts).__name__} with pair of type "
                                     f"{type(pair).__name__}", "two strings, or two lists"))
        segments = [text_list([part] if one else part, name)
                    for name, part in (("texts", texts), ("pair", pair)) if part is not None]
        if len({len(segment) for segment in segments}) != 1:
            raise UsageError(explain(f"{len(segments[0])} texts with {len(segments[1])} in pair",
                                     "as many of either"))
        ids = [self._rows(segment, allow_special) for segment in segments]
        packed = [join(self.vocabulary, *row)[0] for row in zip(*ids, strict=True)]
        return packed[0] if one else packed

    def decode(self, ids):
        """The text of token ids; special tokens vanish, and tokens that are parts of a character
        come as U+FFFD where the rest of it is missing.

        Args:
            ids: list of int, or a list of such lists; NumPy arrays and tensors too.

        Returns: str, or a list of them.

        Raises:
            UsageError: no such list, or an id that the vocabulary does not have.
        """
        ids = _plain(ids)
        rows = [_plain(row) for row in ids] if isinstance(ids, Iterable) else [None]
        are_lists = {isinstance(row, list) for row in rows}
        if rows == [None] or len(are_lists) > 1:
            raise UsageError(explain(f"ids={ids!r}"[:200],
                                     "a list of token ids, or a list of such lists"))
        one = True not in are_lists
        rows = [rows] if one else rows
        for token_id in (token_id for row in rows for token_id in row):
            if not isinstance(token_id, numbers.Integral) or not (
                    0 <= token_id < len(self.vocabulary)):
                raise UsageError(explain(f"token id {token_id!r}",
                                         f"0 to {len(self.vocabulary) - 1}"))
        texts = [text.decode(errors="replace") for text in self.detokenize(
            tf.ragged.constant(rows, tf.int32, ragged_rank=1)).numpy()]
        return texts[0] if one else texts

    def _in_graph(self, method, text, allow_special):
        """Call a method; graphs that do so share one graph of it, which is traced once: the graphs
        of `fit`, `evaluate` and `predict` and of all signatures."""
        text = check_rank("text", tf.convert_to_tensor(text, tf.string), 1)
        written = self._written if allow_special else self._always_written
        if not tf.inside_function():
            return method(text, written)
        key = method.__name__, allow_special
        if key not in self._graphs:
            self._graphs[key] = tf.function(
                functools.partial(method, written=written),
                input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        return self._graphs[key](text)

    @functools.cached_property  # not tracked by `tf.Module`, so that no export holds them all
    def _graphs(self):
        return {}

    def __getstate__(self):
        """What a copy has, here or in another process: graphs are made anew there."""
        return {name: value for name, value in vars(self).items() if name != "_graphs"}

    def _ids(self, text, written):
        if written is None:
            return self._tokenize(text)
        return written.around(valid_text(text), lambda parts: (self._tokenize(parts),))[0]

    def _ids_with_offsets(self, text, written):
        text = valid_text(text)
        if written is None:
            return self._tokenize_with_offsets(text)
        return written.around(text, self._tokenize_with_offsets)

    def _rows(self, texts, allow_special):
        """Ids of texts without special tokens around, as lists."""
        from bert_tf.tokenization.morphemes import pretokenize

        return self.tokenize(tf.constant(pretokenize(self, texts), tf.string, shape=[len(texts)]),
                             allow_special).to_list()

    def __repr__(self):
        stated = "".join(f", {name}={value!r}" for name, value in self.options.items()
                         if not isinstance(value, list | dict) and value is not None)
        return f"{type(self).__name__}({len(self.vocabulary):,} tokens{stated})"


def _plain(ids):
    """Return what may be an array or a tensor as Python numbers, in lists."""
    if isinstance(ids, tf.RaggedTensor):
        return ids.to_list()
    ids = ids.numpy() if isinstance(ids, tf.Tensor) else ids
    if isinstance(ids, np.ndarray | np.generic):
        return ids.tolist()
    return list(ids) if isinstance(ids, tuple) else ids


def valid_text(text):
    """Texts, string of any shape, with U+FFFD for what is not UTF-8."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")


def stripped(text):
    """Texts, UTF-8 of any shape, without the white space around them, as of `str.strip`."""
    return tf.strings.regex_replace(text, _AROUND, "")
