"""Counts of the words in any amount of text: what a vocabulary is learned from."""

import collections
import itertools
import re
import sys

import numpy as np
import tensorflow as tf
import tqdm

from bert_tf.errors import BertTfError, explain
from bert_tf.storage.json_texts import is_json_lines, read_text_blocks
from bert_tf.tokenization import byte_pair
from bert_tf.tokenization.morphemes import pretokenize as pretokenized
from bert_tf.tokenization.piece_normalizer import PieceNormalizer
from bert_tf.tokenization.texts import after_blanks
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

_TOLD = 20  # a 20th of the text and more that was left out is told of


class WordCounter:
    """Counts words; a subclass says what a word is (`split`).

    Args:
        max_words, max_bytes: different words held, and their bytes; above either the rarest are
            evicted, of equally rare ones those that came first.
    """

    batch_characters = 1 << 22  # of texts that are counted at once
    longest_text = batch_characters  # a longer one is cut at blanks, between words

    def __init__(self, max_words=2_000_000, max_bytes=1 << 26):
        self._max_words, self._max_bytes = max_words, max_bytes
        self.counts = collections.Counter()
        self.seen = self.evicted = 0  # bytes of words, each as often as it occurs

    def add(self, texts):
        """Count the words of a list of str; return how many different ones there are in it."""
        found = self.split(texts)
        self.seen += _weight(found)
        self.counts.update(found)
        if (len(self.counts) > self._max_words
                or sum(map(len, self.counts)) > self._max_bytes):
            self._evict()
        return len(found)

    def split(self, texts):
        """`Counter` of the words, UTF-8 bytes, of a list of str."""
        raise NotImplementedError

    def _evict(self):
        """Evict the rarest words, so that at most half of what may be held is left."""
        values = np.fromiter(self.counts.values(), np.int64, len(self.counts))
        sizes = np.fromiter(map(len, self.counts), np.int64, len(self.counts))
        order = np.lexsort([-np.arange(len(values)), -values])
        fits = np.cumsum(sizes[order]) <= self._max_bytes // 2
        kept = np.zeros(len(values), bool)
        kept[order[:min(np.count_nonzero(fits), self._max_words // 2)]] = True
        self.counts = collections.Counter(dict(itertools.compress(self.counts.items(), kept)))
        self.evicted += int(values[~kept] @ sizes[~kept])


class WordPieceWords(WordCounter):
    """The words that a `Tokenizer` of the same options splits into pieces.

    Args:
        lower_case, strip_accents, pretokenize: as for `Tokenizer`.
        max_words: as for `WordCounter`.
    """

    def __init__(self, lower_case=False, strip_accents=False, pretokenize=None, **options):
        super().__init__(**options)
        self._set_rules(Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a"]), lower_case, strip_accents,
                                  pretokenize))

    @classmethod
    def of(cls, tokenizer, **options):
        """A counter of the words that a `Tokenizer` splits into pieces, whatever its rules."""
        counter = cls(**options)
        counter._set_rules(tokenizer)
        return counter

    def _set_rules(self, tokenizer):
        # Where no piece continues a word, each word is one token, whose offsets tell it.
        self._tokenizer = tokenizer.with_tokens(
            list(dict.fromkeys([*tokenizer.vocabulary.kept_tokens, "a"])))
        if tokenizer.pretokenize:  # takes long: a bar is to tell of it
            self.batch_characters = 1 << 18
            self.longest_text = sys.maxsize  # which morphemes there are depends on what is around

    def split(self, texts):
        return self.words(pretokenized(self._tokenizer, texts))

    def words(self, texts):
        """The same of texts that are split into morphemes already, where they are to be."""
        # Blanks first: each different stretch between two is then split into words only once.
        stretches = _between_blanks(self._tokenizer.normalize(tf.constant(texts, tf.string)))
        keys = list(stretches)
        counts = collections.Counter()
        if not keys:
            return counts
        _, starts, ends = self._tokenizer.cut(tf.constant(keys))
        for row, start, end in zip(starts.value_rowids().numpy().tolist(),
                                   starts.values.numpy().tolist(),
                                   ends.values.numpy().tolist(), strict=True):
            key = keys[row]
            counts[key[start:end]] += stretches[key]
        return counts


class ByteWords(WordCounter):
    """The words that byte-level BPE splits into pieces, of composed text, with the blanks before
    them, for which a line end stands, too."""

    def __init__(self, **options):
        super().__init__(**options)
        special = byte_pair.SPECIAL_TOKENS
        self._tokenizer = byte_pair.BytePairTokenizer(
            [*special, *byte_pair.byte_alphabet(), "Ġa"], [("Ġ", "a")], normalize_nfc=True)

    def split(self, texts):
        words = self._tokenizer.words(tf.constant(after_blanks(texts), tf.string))
        words, _, counts = tf.unique_with_counts(words, tf.int64)
        return collections.Counter(dict(zip(words.numpy().tolist(), counts.numpy().tolist(),
                                            strict=True)))


class BlankWords(WordCounter):
    """The words between blanks in text as ALBERT prepares it for SentencePiece.

    Args:
        lower_case, strip_accents: whether it does.
        max_words: as for `WordCounter`.
    """

    def __init__(self, lower_case=False, strip_accents=False, **options):
        super().__init__(**options)
        self._normalizer = PieceNormalizer("albert", True, lower_case, not strip_accents)

    def split(self, texts):
        return _between_blanks(self._normalizer.normalize(tf.constant(texts, tf.string)))


def _weight(counts):
    """Return the bytes of all words, each as often as it occurs."""
    return sum(len(word) * count for word, count in counts.items())


def _between_blanks(texts):
    return collections.Counter(b" ".join(texts.numpy().tolist()).split())


def count_words(paths, counter, progress=False):
    """Count the words of files (plain text or `.jsonl`, either also `.gz`).

    How the text is split into sentences makes no difference to its words.

    Args:
        paths: of the files.
        counter: a `WordCounter`.
        progress: show a bar.

    Returns:
        dict of UTF-8 bytes -> int.

    Raises:
        BertTfError: a file is missing, unreadable, not UTF-8, or holds no text.
    """
    with tqdm.tqdm(desc="counting words", unit=" characters", unit_scale=True,
                   disable=not progress) as bar:
        for path in paths:
            words = 0
            for texts in _batches(path, counter.batch_characters, counter.longest_text):
                words += counter.add(texts)
                bar.update(sum(map(len, texts)))
            if not words:
                raise BertTfError(explain(f"{path} holds no text", "UTF-8 text",
                                          "omitting the file"))
    if counter.evicted * _TOLD > counter.seen:
        print(f"{counter.evicted / counter.seen:.0%} of the text was left out: words so rare that "
              "they were evicted to bound memory; less text, or text of one kind, leaves out less",
              file=sys.stderr)
    return counter.counts


def _batches(path, characters, longest):
    """Yield lists of str of about so many characters from a file, of texts of at most `longest`
    characters where they have blanks; after a document of JSON comes a blank line."""
    batch, size = [], 0
    apart = [""] * is_json_lines(path)
    for block in read_text_blocks(path):
        for texts in [block] if max(map(len, block), default=0) <= longest else (
                [part] for text in block for part in _parts(text, longest)):
            batch += [*texts, *apart]
            size += sum(map(len, texts))
            if size > characters:
                yield batch
                batch, size = [], 0
    yield batch


def _parts(text, longest):
    """Yield the parts of a text, str, which but the first begin with the blank before a word."""
    end = r"(?= \S|\Z)"
    for part in re.finditer(rf".{{1,{longest}}}{end}|.+?{end}", text, re.S):
        yield part[0]
