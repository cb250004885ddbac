"""Text to word pieces inside the graph: the same ops make data, train and serve.

    tokenizer = Tokenizer(Vocabulary.load("vocab.txt"), lower_case=True)
    ids = tokenizer.tokenize(["Any text."])

Three tensorflow-text ops do the work: `NormalizeUTF8`, `FastBertNormalize` over the character
table of `normalization.py`, and `FastWordpieceTokenizeWithOffsets` (the linear-time WordPiece of
Song et al. 2021, "Fast WordPiece Tokenization").
"""

import os
import re

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.shapes import check_rank
from bert_tf.storage import checksums, files
from bert_tf.tokenization import normalization
from bert_tf.tokenization.morphemes import MORPHEMES
from bert_tf.tokenization.offsets import before_nfc
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, SUFFIX, Vocabulary

CONFIG_NAME = "tokenizer_config.json"
VOCABULARY_NAME = "vocab.txt"
MAX_CHARACTERS_PER_WORD = 200
_MAX_BYTES_PER_CHARACTER = 4
_SPECIAL_PATTERN = "|".join(map(re.escape, SPECIAL_TOKENS))


class Tokenizer(tf.Module):
    """WordPiece tokenizer of raw text.

    Text is composed to NFC; control characters and U+FFFD vanish and white space becomes a blank;
    then, where asked, `str.lower` and the removal of accents. Words end at white space; every
    punctuation mark and every Chinese character is a word. A word is cut into the longest pieces
    there are from the left (google-research/bert `tokenization.py`); a word that cannot be cut
    or has more than 200 characters is `[UNK]`.

    Args:
        vocabulary: `Vocabulary`.
        lower_case: lower-case as `str.lower` does.
        strip_accents: remove combining marks, as uncased BERT does for Latin; Hangul stays whole.
        pretokenize: `"morphemes"` where the text is to be cut into morphemes before it comes here
            (`morphemes.pretokenize`, which no graph can do); else None.
    """

    def __init__(self, vocabulary, lower_case=False, strip_accents=False, pretokenize=None):
        super().__init__(name="tokenizer")
        self.vocabulary = vocabulary
        self.lower_case = lower_case
        self.strip_accents = strip_accents
        self.pretokenize = pretokenize and check_choice("pretokenize", pretokenize, [MORPHEMES])
        rules = normalization.character_rules(lower_case, strip_accents)
        model = np.frombuffer(normalization.normalizer_model(rules), np.uint8)
        self._characters = tf_text.FastBertNormalizer(model_buffer=tf.constant(model))
        try:
            self._wordpiece = tf_text.FastWordpieceTokenizer(
                vocabulary.tokens, token_out_type=tf.int32,
                max_bytes_per_word=MAX_CHARACTERS_PER_WORD * _MAX_BYTES_PER_CHARACTER)
        except RuntimeError as error:
            raise UsageError(f"the vocabulary cannot be used: {error}") from error
        self._continuation = tf.constant(vocabulary.continuation)
        self._tokens = tf.constant(vocabulary.tokens)
        self._written = tf.constant([
            "" if token in SPECIAL_TOKENS else
            token.removeprefix(SUFFIX) if token.startswith(SUFFIX) else f" {token}"
            for token in vocabulary.tokens])

    def normalize(self, text):
        """The text that is cut into words: string `[n]` -> string `[n]`."""
        composed = tf_text.normalize_utf8(text, "NFC")
        return self._characters.normalize(self._final_sigma(composed))

    def tokenize(self, text, split_special=False):
        """Ids of the word pieces of each text.

        Args:
            text: string `[n]`, UTF-8.
            split_special: take `[MASK]` and the other special tokens written in the text for
                what they name; else they are text like any other.

        Returns:
            RaggedTensor int32 `[n, (tokens)]`.
        """
        text = check_rank("text", tf.convert_to_tensor(text, tf.string), 1)
        if not split_special:
            return self.cut(self.normalize(text))[0]
        parts, _, _, is_special = self._split_special(text)
        special_ids = self._special_rows(is_special, self.vocabulary.special_ids)
        return _join(parts, special_ids, self.tokenize(parts.values))

    def tokenize_with_offsets(self, text, split_special=False):
        """Ids of the word pieces, and where in the original text each comes from.

        Args:
            text, split_special: as for `tokenize`.

        Returns:
            ids, starts, ends: RaggedTensors `[n, (tokens)]`, int32, int64 and int64. Piece `j` of
            text `i` comes from the bytes `starts[i, j]` up to, without, `ends[i, j]` of `text[i]`;
            what is removed right after a piece counts as part of it.
        """
        text = check_rank("text", tf.convert_to_tensor(text, tf.string), 1)
        if split_special:
            parts, begins, ends, is_special = self._split_special(text)
            inner_ids, inner_starts, inner_ends = self.tokenize_with_offsets(parts.values)
            begins = begins.values[:, tf.newaxis]
            ends = ends.values[:, tf.newaxis]
            return (_join(parts, self._special_rows(is_special, self.vocabulary.special_ids),
                          inner_ids),
                    _join(parts, self._special_rows(is_special, begins), inner_starts + begins),
                    _join(parts, self._special_rows(is_special, ends), inner_ends + begins))
        composed = tf_text.normalize_utf8(text, "NFC")
        normalized, sources = self._characters.normalize_with_offsets(self._final_sigma(composed))
        ids, starts, ends = self.cut(normalized)
        starts, ends = (before_nfc(text, composed, tf.gather(sources, offsets, batch_dims=1))
                        for offsets in (starts, ends))
        # Of two pieces of one character (İ is "i" and a dot) the first ends where the second does.
        ends = ends.with_values(tf.where(ends.values > starts.values, ends.values,
                                         tf.roll(ends.values, -1, axis=0)))
        return ids, starts, ends

    def cut(self, text):
        """Cut text that is already normalized, string `[n]`.

        Returns:
            ids, starts, ends: RaggedTensors `[n, (tokens)]`, as of `tokenize_with_offsets`, with
            byte offsets into `text`.
        """
        ids, starts, ends = self._wordpiece.tokenize_with_offsets(text)
        is_start = tf.logical_not(tf.gather(self._continuation, ids.values))
        first = tf.where(is_start)[:, 0]
        last = tf.concat([first, ids.row_splits[-1:]], axis=0)[1:] - 1
        lengths = tf.gather(ends.values, last) - tf.gather(starts.values, first)
        return tf.cond(tf.reduce_any(lengths > MAX_CHARACTERS_PER_WORD),
                       lambda: self._without_long_words(text, ids, starts, ends, is_start),
                       lambda: (ids, starts, ends))

    def tokens(self, ids):
        """Pieces as strings, of the shape of `ids` (integers, ragged or not)."""
        return tf.gather(self._tokens, ids)

    def detokenize(self, ids):
        """Words of pieces `[n, tokens]`, ragged or not, with blanks between them: string `[n]`.

        Special tokens vanish; a punctuation mark is a word.
        """
        text = tf.strings.reduce_join(tf.gather(self._written, ids), axis=-1)
        return tf.strings.regex_replace(text, "^ ", "")

    def save(self, folder):
        """Write `vocab.txt` and `tokenizer_config.json`."""
        self.vocabulary.save(os.path.join(folder, VOCABULARY_NAME))
        self.save_casing(folder, self.lower_case, self.strip_accents, self.pretokenize)

    @staticmethod
    def save_casing(folder, lower_case, strip_accents, pretokenize=None):
        """Write `tokenizer_config.json`, which goes beside every vocabulary."""
        files.write_json(os.path.join(folder, CONFIG_NAME), {
            "lower_case": lower_case, "strip_accents": strip_accents,
            **({"pretokenize": pretokenize} if pretokenize else {})})

    @classmethod
    def load(cls, folder):
        """Read what `save` wrote."""
        return cls(Vocabulary.load(os.path.join(folder, VOCABULARY_NAME)),
                   **_read_config(os.path.join(folder, CONFIG_NAME)))

    @classmethod
    def of_vocabulary(cls, path, **casing):
        """The tokenizer of a vocabulary file.

        Args:
            path: of the file; a `tokenizer_config.json` beside it is heeded.
            casing: as of `casing`; what is not said is False.

        Raises:
            BertTfError: the file is missing or damaged.
            UsageError: `casing` contradicts the folder.
        """
        stated = cls.casing(os.path.dirname(path), **casing)
        return cls(Vocabulary.load(path),
                   **{name: value or False for name, value in stated.items()})

    @staticmethod
    def casing(folder, lower_case=None, strip_accents=None, pretokenize=None):
        """The options that `folder`'s `tokenizer_config.json` states, or else the given ones.

        Returns: dict of `lower_case` and `strip_accents`, None where nothing states one; and of
            `pretokenize`, where there is any.

        Raises:
            UsageError: a given flag contradicts the folder.
        """
        given = {"lower_case": lower_case, "strip_accents": strip_accents}
        if pretokenize:
            given["pretokenize"] = pretokenize
        path = os.path.join(folder, CONFIG_NAME)
        if not files.exists(path):
            return given
        stated = _read_config(path)
        for key, value in given.items():
            if value not in (None, stated.get(key)):
                raise UsageError(explain(f"{key}={value}, but {path} has {key}={stated.get(key)}",
                                         attempt=f"leaving --{key} away"))
        return stated

    def _final_sigma(self, text):
        """Σ at the end of a word becomes ς, as `str.lower` has it, which has as many bytes."""
        if not self.lower_case:
            return text
        return tf.strings.regex_replace(text, normalization.final_sigma_pattern(), r"\1ς\2")

    def _without_long_words(self, text, ids, starts, ends, is_start):
        """Each word of more than 200 characters becomes one `[UNK]`."""
        word_of = tf.cumsum(tf.cast(is_start, tf.int64)) - 1
        word_starts = tf.boolean_mask(starts.values, is_start)
        word_ends = tf.math.segment_max(ends.values, word_of)
        rows = tf.boolean_mask(ids.value_rowids(), is_start)
        long = word_ends - word_starts > MAX_CHARACTERS_PER_WORD
        where = tf.where(long)[:, 0]
        words = tf.strings.substr(tf.gather(text, tf.gather(rows, where)),
                                  tf.gather(word_starts, where),
                                  tf.gather(word_ends - word_starts, where))
        too_long = tf.strings.length(words, "UTF8_CHAR") > MAX_CHARACTERS_PER_WORD
        long = tf.tensor_scatter_nd_update(long, where[:, tf.newaxis], too_long)
        replaced = tf.gather(long, word_of)
        keep = ids.with_values(tf.logical_or(is_start, tf.logical_not(replaced)))
        ids = ids.with_values(tf.where(replaced, self.vocabulary.unk_id, ids.values))
        ends = ends.with_values(tf.where(replaced, tf.gather(word_ends, word_of), ends.values))
        return tuple(tf.ragged.boolean_mask(ragged, keep) for ragged in (ids, starts, ends))

    def _split_special(self, text):
        """Cut out the special tokens written in `text` `[n]`.

        Returns:
            parts, begins, ends: ragged `[n, (parts)]`, special tokens emptied, and byte offsets.
            is_special: bool `[all parts, 5]`, which special token a part is.
        """
        # The op stops reading at a NUL; another control character vanishes just as well.
        text = tf.strings.regex_replace(text, r"\x00", "\x01")
        parts, begins, ends = tf_text.regex_split_with_offsets(
            text, _SPECIAL_PATTERN, _SPECIAL_PATTERN)
        is_special = parts.values[:, tf.newaxis] == tf.constant(SPECIAL_TOKENS)
        parts = parts.with_values(tf.where(tf.reduce_any(is_special, axis=1), "", parts.values))
        return parts, begins, ends, is_special

    @staticmethod
    def _special_rows(is_special, values):
        """Ragged `[parts, (0 or 1)]` of `values`, broadcast, where a part is a special token."""
        return tf.ragged.boolean_mask(tf.broadcast_to(values, tf.shape(is_special)), is_special)


def _read_config(path):
    """Options in a `tokenizer_config.json`: ours, or the one beside Hugging Face checkpoints."""
    checksums.check(os.path.dirname(path), (os.path.basename(path),))
    config = files.read_json(path)
    pretokenize = config.pop("pretokenize", None) if isinstance(config, dict) else None
    if pretokenize not in (None, MORPHEMES):
        raise UsageError(explain(f"{path}: pretokenize={pretokenize!r}", f"{MORPHEMES!r} or null"))
    if isinstance(config, dict) and "do_lower_case" in config:
        lower_case, strip_accents = config["do_lower_case"], config.get("strip_accents")
        # There, accents go with the case unless something else is said.
        config = {"lower_case": lower_case,
                  "strip_accents": lower_case if strip_accents is None else strip_accents}
    right = isinstance(config, dict) and set(config) == {"lower_case", "strip_accents"} and all(
        isinstance(value, bool) for value in config.values())
    if not right:
        raise UsageError(explain(f"{path} holds {config!r}",
                                 'true or false for "lower_case" and "strip_accents"'))
    return config | ({"pretokenize": pretokenize} if pretokenize else {})


def _join(parts, special, pieces):
    """Ragged `[n, (tokens)]` of what the parts of each text yield, in their order."""
    return parts.with_values(tf.concat([special, pieces], axis=1)).merge_dims(1, 2)
