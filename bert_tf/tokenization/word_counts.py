"""How often each word occurs in any amount of text: what a vocabulary is learned from."""

import collections
import os

import numpy as np
import tensorflow as tf
import tqdm

from bert_tf.errors import BertTfError, explain
from bert_tf.storage import files
from bert_tf.storage.json_texts import read_json_texts
from bert_tf.tokenization.morphemes import MORPHEMES
from bert_tf.tokenization.morphemes import pretokenize as pretokenized
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

# Read and counted at once; fewer where it takes long, so that a bar tells of it.
_BATCH_CHARACTERS = {None: 1 << 22, MORPHEMES: 1 << 18}


class WordCounter:
    """Counts the words that a `Tokenizer` of the same options cuts into pieces.

    Args:
        lower_case, strip_accents, pretokenize: as for `Tokenizer`.
        max_words: different words held; beyond that the rarest are forgotten, all of a count alike.
    """

    def __init__(self, lower_case=False, strip_accents=False, pretokenize=None,
                 max_words=2_000_000):
        # Where no piece continues a word, each word is one token, whose offsets tell it.
        vocabulary = Vocabulary([*SPECIAL_TOKENS, "a"])
        self._tokenizer = Tokenizer(vocabulary, lower_case, strip_accents, pretokenize)
        self._max_words = max_words
        self.counts = collections.Counter()

    def add(self, texts):
        """Count the words of a list of str; return how many different ones there are in it."""
        texts = pretokenized(self._tokenizer, texts)
        normalized = self._tokenizer.normalize(tf.constant(texts, tf.string)).numpy()
        # Blanks first: each different stretch between two is then cut into words only once.
        stretches = collections.Counter(b" ".join(normalized.tolist()).split())
        keys = list(stretches)
        if not keys:
            return 0
        _, starts, ends = self._tokenizer.cut(tf.constant(keys))
        counts = self.counts
        for row, start, end in zip(starts.value_rowids().numpy().tolist(),
                                   starts.values.numpy().tolist(),
                                   ends.values.numpy().tolist(), strict=True):
            key = keys[row]
            counts[key[start:end]] += stretches[key]
        if len(counts) > self._max_words:
            self._forget()
        return len(starts.values)

    def _forget(self):
        values = np.fromiter(self.counts.values(), np.int64, len(self.counts))
        floor = np.partition(values, -self._max_words // 2)[-self._max_words // 2]
        self.counts = collections.Counter(
            {word: count for word, count in self.counts.items() if count > floor})


def count_words(paths, lower_case=False, strip_accents=False, pretokenize=None, progress=False):
    """Count the words of files (plain text or `.jsonl`, either also `.gz`).

    How the text is cut into lines, sentences or documents makes no difference to its words.

    Returns:
        dict of UTF-8 bytes -> int.

    Raises:
        BertTfError: a file is missing, unreadable, not UTF-8, or holds no text.
    """
    counter = WordCounter(lower_case, strip_accents, pretokenize)
    with tqdm.tqdm(desc="counting words", unit=" characters", unit_scale=True,
                   disable=not progress) as bar:
        for path in paths:
            words = 0
            for texts in _batches(path, _BATCH_CHARACTERS[pretokenize]):
                words += counter.add(texts)
                bar.update(sum(map(len, texts)))
            if not words:
                raise BertTfError(explain(f"{path} holds no text", "UTF-8 text",
                                          "leaving the file out"))
    return counter.counts


def _batches(path, characters):
    """Yield lists of str of about so many characters from a file."""
    if os.fspath(path).removesuffix(".gz").endswith(".jsonl"):
        blocks = ([text] for text in read_json_texts(path))
    else:
        blocks = files.read_line_blocks(path)
    batch, size = [], 0
    for block in blocks:
        batch += block
        size += sum(map(len, block))
        if size > characters:
            yield batch
            batch, size = [], 0
    yield batch
