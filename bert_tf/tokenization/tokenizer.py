"""Text to word pieces inside the graph: the same ops make data, train and serve.

    tokenizer = Tokenizer(Vocabulary.load("vocab.txt"), lower_case=True)
    ids = tokenizer.tokenize(["Any text."])

Three tensorflow-text ops do the work: `NormalizeUTF8`, `FastBertNormalize` over the character
table of `normalization.py`, and `FastWordpieceTokenizeWithOffsets` (the linear-time WordPiece of
Song et al. 2021, "Fast WordPiece Tokenization").
"""

import functools
import os

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.storage import files
from bert_tf.tokenization import hf_options
from bert_tf.tokenization import normalization as normalizing
from bert_tf.tokenization.base import BaseTokenizer, valid_text
from bert_tf.tokenization.morphemes import MORPHEMES
from bert_tf.tokenization.offsets import before_nfc, compose, ends_of_characters
from bert_tf.tokenization.tokenizer_config import NAME as CONFIG_NAME
from bert_tf.tokenization.tokenizer_config import (
    read_config,
    read_vocabulary_options,
    vocabulary_options,
)
from bert_tf.tokenization.vocabulary import CONTINUATION_PREFIX, SPECIAL_TOKENS, Vocabulary

VOCABULARY_NAME = "vocab.txt"
MAX_CHARACTERS_PER_WORD = 200
_MAX_BYTES_PER_CHARACTER, MOST_CHARACTERS = 4, 10_000
# Options of the class -> what they may be.
_OPTIONS = {"lower_case": "true or false", "strip_accents": "true or false",
            "pretokenize": f"{MORPHEMES!r} or null",
            "normalization": f"one of {', '.join(normalizing.NORMALIZATIONS)}",
            "tokenize_chinese_chars": "true or false",
            "max_characters_per_word": f"1 to {MOST_CHARACTERS}"}
_REMOVED = "\x01"  # which no normalized text has
_OF_VOCABULARY = ("special_tokens", "pair_separators", "pair_types", "added_tokens",
                  "final_separator", "initial_token", "initial_again")


class Tokenizer(BaseTokenizer):
    """WordPiece tokenizer of raw text.

    Control characters and U+FFFD vanish and white space becomes a blank; then, where requested,
    lower-casing and the removal of accents. Words end at white space; every punctuation mark and
    every Chinese character is a word. A word is split into the longest pieces there are from the
    left (google-research/bert `tokenization.py`); a word that cannot be split or is too long is
    `[UNK]`.

    Args:
        vocabulary: `Vocabulary`.
        lower_case: lower-case as `str.lower` does.
        strip_accents: remove combining marks, as uncased BERT does for Latin.
        pretokenize: `"morphemes"` where the text is to be split into morphemes before it comes here
            (`morphemes.pretokenize`, which no graph can do); else None.
        normalization: `nfc` composes all text first, and Hangul stays whole; `google` does as
            google-research/bert `tokenization.py`, whose removal of accents leaves jamo of Hangul;
            `huggingface` is that without the rule of the final sigma and without private-use
            characters (tokenizers `BertNormalizer`).
        tokenize_chinese_chars: whether every Chinese character is a word.
        max_characters_per_word: a longer word is `[UNK]`; google-research/bert has 200, Hugging
            Face 100.

    Raises:
        UsageError: an unknown option, or a vocabulary that cannot be used.
    """

    def __init__(self, vocabulary, lower_case=False, strip_accents=False, pretokenize=None,
                 normalization="nfc", tokenize_chinese_chars=True,
                 max_characters_per_word=MAX_CHARACTERS_PER_WORD):
        super().__init__(vocabulary)
        self.lower_case = lower_case
        self.strip_accents = strip_accents
        self.pretokenize = pretokenize and check_choice("pretokenize", pretokenize, [MORPHEMES])
        self.normalization = check_choice("normalization", normalization,
                                          normalizing.NORMALIZATIONS)
        self.composes = normalization == "nfc"
        self.tokenize_chinese_chars = tokenize_chinese_chars
        self.max_characters_per_word = max_characters_per_word
        self._characters = _normalizer(normalizing.character_rules, lower_case, strip_accents,
                                       normalization)
        self._hidden = None if tokenize_chinese_chars else _normalizer(normalizing.hidden_chinese)
        # Tokens that are found as they are written are no pieces of words.
        found = {added.token for added in vocabulary.added_tokens if not added.special}
        tokens = [_REMOVED + token if token in found else token for token in vocabulary.tokens]
        if not tokenize_chinese_chars:
            tokens = [*map(normalizing.hide_chinese, tokens)]
        self._wordpiece = _wordpiece(tuple(tokens), vocabulary.special_tokens[1],
                                     max_characters_per_word * _MAX_BYTES_PER_CHARACTER)
        self._continuation = tf.constant(vocabulary.continuation)
        special = {added.token for added in vocabulary.added_tokens if added.special}
        self._spelled = tf.constant([
            "" if token in special else
            token.removeprefix(CONTINUATION_PREFIX)
            if token.startswith(CONTINUATION_PREFIX) else f" {token}"
            for token in vocabulary.tokens])

    @property
    def options(self):
        """What `tokenizer_config.json` holds."""
        unusual = {"pretokenize": (self.pretokenize, None),
                   "tokenize_chinese_chars": (self.tokenize_chinese_chars, True),
                   "max_characters_per_word": (self.max_characters_per_word,
                                               MAX_CHARACTERS_PER_WORD)}
        return {"lower_case": self.lower_case, "strip_accents": self.strip_accents,
                "normalization": self.normalization,
                **{name: value for name, (value, usual) in unusual.items() if value != usual},
                **vocabulary_options(self.vocabulary, SPECIAL_TOKENS, 1)}

    def with_tokens(self, tokens):
        """The same rules with the pieces `tokens`, a list of str: a `Tokenizer`."""
        return type(self)(
            self.vocabulary.with_tokens(tokens), self.lower_case, self.strip_accents,
            self.pretokenize, self.normalization, self.tokenize_chinese_chars,
            self.max_characters_per_word)

    def normalize(self, text):
        """The text that is split into words: string `[n]` -> string `[n]`."""
        # What is not UTF-8 becomes U+FFFD, which vanishes.
        return self._characters.normalize(self._prepared(valid_text(text)))

    def _tokenize(self, text):
        return self.cut(self.normalize(text))[0]

    def _tokenize_with_offsets(self, text):
        prepared = self._prepared(text)
        normalized, sources = self._characters.normalize_with_offsets(prepared)
        ids, starts, ends = self.cut(normalized)
        starts, ends = (tf.gather(sources, offsets, batch_dims=1) for offsets in (starts, ends))
        if self.normalization == "nfc":
            starts, ends = (before_nfc(text, prepared, offsets) for offsets in (starts, ends))
        # Of two pieces of one character (İ is "i" and a dot) the first ends where the last does.
        return ids, starts, ends_of_characters(starts, ends)

    def cut(self, text):
        """Split text that is already normalized, string `[n]`.

        Returns:
            ids, starts, ends: RaggedTensors `[n, (tokens)]`, as of `tokenize_with_offsets`, with
            byte offsets into `text`.
        """
        if self._hidden is None:
            ids, starts, ends = self._wordpiece.tokenize_with_offsets(text)
        else:
            hidden, sources = self._hidden.normalize_with_offsets(text)
            ids, starts, ends = self._wordpiece.tokenize_with_offsets(hidden)
            starts, ends = (tf.gather(sources, offsets, batch_dims=1) for offsets in (starts, ends))
        is_start = tf.logical_not(tf.gather(self._continuation, ids.values))
        first = tf.where(is_start)[:, 0]
        last = tf.concat([first, ids.row_splits[-1:]], axis=0)[1:] - 1
        lengths = tf.gather(ends.values, last) - tf.gather(starts.values, first)
        return tf.cond(tf.reduce_any(lengths > self.max_characters_per_word),
                       lambda: _without_long_words(
                           text, ids, starts, ends, is_start, self.vocabulary.unk_id,
                           self.max_characters_per_word),
                       lambda: (ids, starts, ends))

    def detokenize(self, ids):
        """Words of pieces `[n, tokens]`, ragged or not, with blanks between them: string `[n]`.

        Special tokens vanish; a punctuation mark is a word.
        """
        text = tf.strings.reduce_join(tf.gather(self._spelled, ids), axis=-1)
        return tf.strings.regex_replace(text, "^ ", "")

    def save(self, folder):
        """Write `vocab.txt` and `tokenizer_config.json`."""
        self.vocabulary.save(os.path.join(folder, VOCABULARY_NAME))
        files.write_json(os.path.join(folder, CONFIG_NAME), self.options)

    @classmethod
    def load(cls, folder):
        """Read what `save` wrote, or the files of the same names beside other checkpoints.

        Where no `tokenizer_config.json` tells the casing, it is judged by the vocabulary.

        Raises: as `of_vocabulary`.
        """
        return cls._of_file(os.path.join(folder, VOCABULARY_NAME), {}, judge=True)

    @classmethod
    def of_vocabulary(cls, path, **casing):
        """The tokenizer of a vocabulary file.

        Args:
            path: of the file; a `tokenizer_config.json` beside it is heeded.
            casing: `lower_case`, `strip_accents`, `pretokenize`; what is not said is False.

        Raises:
            BertTfError: the file is missing or damaged.
            UsageError: `casing` contradicts the folder.
        """
        return cls._of_file(path, casing, judge=False)

    @classmethod
    def _of_file(cls, path, casing, judge):
        folder = os.path.dirname(path)
        config = os.path.join(folder, CONFIG_NAME)
        stated = read_options(config)
        check_stated(casing, stated, config)
        described = read_vocabulary_options(stated, config, rstrip=True)
        vocabulary = Vocabulary.load(path, trims=not files.exists(config), **described)
        if judge and "lower_case" not in stated:
            stated = judged_casing(vocabulary) | stated
        given = {name: value for name, value in casing.items() if value is not None}
        return cls(vocabulary, **{**stated, **given})

    def _prepared(self, text):
        """The text before the rules for single characters.

        Σ at the end of a word becomes ς, as `str.lower` has it, which has as many bytes.
        """
        if self.normalization == "nfc":
            text = compose(text)
        if not self.lower_case or self.normalization == "huggingface":
            return text
        return tf.strings.regex_replace(text, normalizing.final_sigma_pattern(), r"\1ς\2")


# As `offsets._composed_in_parts`: rarely entered, and traced once a process.
@tf.function(autograph=False, reduce_retracing=True)
def _without_long_words(text, ids, starts, ends, is_start, unk_id, most):
    """Each word of more than `most` characters becomes one `unk_id`."""
    word_of = tf.cumsum(tf.cast(is_start, tf.int64)) - 1
    word_starts = tf.boolean_mask(starts.values, is_start)
    word_ends = tf.math.segment_max(ends.values, word_of)
    rows = tf.boolean_mask(ids.value_rowids(), is_start)
    long = word_ends - word_starts > most
    where = tf.where(long)[:, 0]
    words = tf.strings.substr(tf.gather(text, tf.gather(rows, where)),
                              tf.gather(word_starts, where),
                              tf.gather(word_ends - word_starts, where))
    too_long = tf.strings.length(words, "UTF8_CHAR") > most
    long = tf.tensor_scatter_nd_update(long, where[:, tf.newaxis], too_long)
    replaced = tf.gather(long, word_of)
    keep = is_start | tf.logical_not(replaced)
    kept_before = tf.concat([[0], tf.cumsum(tf.cast(keep, tf.int64))], 0)
    row_splits, kept = tf.gather(kept_before, ids.row_splits), tf.where(keep)[:, 0]
    values = (tf.where(replaced, unk_id, ids.values), starts.values,
              tf.where(replaced, tf.gather(word_ends, word_of), ends.values))
    return tuple(tf.RaggedTensor.from_row_splits(tf.gather(each, kept), row_splits,
                                                 validate=False) for each in values)


def read_options(path):
    """The options in a `tokenizer_config.json`, ours or the one beside Hugging Face checkpoints.

    Returns: arguments of `Tokenizer`, and what `read_vocabulary_options` reads; `{}` where there
        is no file.

    Raises:
        BertTfError: the file is damaged.
        UsageError: a value of another form.
    """
    config = read_config(path)
    published = hf_options.is_published(config)
    if published:
        config = hf_options.word_piece(config, path)
    stated = {name: value for name, value in config.items() if name not in _OF_VOCABULARY}
    wrong = [name for name in stated if name not in _OPTIONS] or (
        bool(stated) and not published and not {"lower_case", "strip_accents"} <= stated.keys())
    if wrong:
        raise UsageError(explain(f"{path} holds {config!r}"[:400],
                                 'true or false for "lower_case" and "strip_accents"'))
    for name, value in stated.items():
        if name == "pretokenize":
            right = value in (None, MORPHEMES)
        elif name == "normalization":
            right = value in normalizing.NORMALIZATIONS
        elif name == "max_characters_per_word":
            right = type(value) is int and 0 < value <= MOST_CHARACTERS
        else:
            right = isinstance(value, bool)
        if not right:
            raise UsageError(explain(f"{path}: {name}={value!r}", _OPTIONS[name]))
    if not config.get("pretokenize", True):
        del config["pretokenize"]
    return config


def judged_casing(vocabulary):
    """Options of a vocabulary that comes without any, as the original releases do.

    Pieces without any capital letter can only have come from text in lower case; the original
    code then strips accents too.

    Returns: dict of `lower_case`, `strip_accents` and `normalization`.
    """
    special = vocabulary.special_tokens
    uncased = all(token == token.lower() for token in vocabulary.tokens
                  if token not in special and not (token[0] == "[" and token[-1] == "]"))
    return {"lower_case": uncased, "strip_accents": uncased, "normalization": "google"}


def lacks_capitals(tokenizer):
    """Return whether it is a `Tokenizer` that keeps capital letters, though no piece has any."""
    return (isinstance(tokenizer, Tokenizer) and not tokenizer.lower_case
            and any(token.isascii() and token.isalpha() for token in tokenizer.vocabulary.tokens)
            and judged_casing(tokenizer.vocabulary)["lower_case"])


def check_stated(given, stated, path):
    """Refuse flags that a `tokenizer_config.json` contradicts, if it tells the casing.

    Args:
        given: dict of options, None where not given.
        stated: what `read_options` gives of `path`.
    """
    for key, value in given.items():
        told = key in stated or "lower_case" in stated
        if told and value not in (None, stated.get(key)):
            raise UsageError(explain(f"{key}={value}, but {path} has {key}={stated.get(key)}",
                                     attempt=f"leaving --{key} away"))


@functools.lru_cache(maxsize=8)
def _wordpiece(tokens, unknown, max_bytes):
    """The compiled vocabulary, shared: compiling takes longer than many a text."""
    try:
        with tf.init_scope():
            return tf_text.FastWordpieceTokenizer(
                [*tokens], token_out_type=tf.int32, unknown_token=unknown,
                max_bytes_per_word=max_bytes)
    except RuntimeError as error:
        raise UsageError(f"the vocabulary cannot be used: {error}") from error


def _normalizer(rules, *options):
    """The tensorflow-text normalizer of character rules, a function of some options."""
    return tf_text.FastBertNormalizer(model_buffer=tf.constant(_normalizer_model(rules, *options)))


@functools.cache
def _normalizer_model(rules, *options):
    return np.frombuffer(normalizing.normalizer_model(rules(*options)), np.uint8)
