"""Rarity of every token in a corpus, for weighted means of token vectors."""

import dataclasses

import numpy as np
import tqdm

from bert_tf.data.documents import read_documents
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.tokenization.morphemes import pretokenize
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.texts import in_batches


@dataclasses.dataclass(frozen=True)
class TermWeights:
    """Statistics of a corpus, as `layers.term_weighting.TermWeighting` takes them."""

    idf: np.ndarray  # float32 [vocab_size]: ln(1 + (N - n + 0.5) / (n + 0.5))
    average_length: float  # tokens of a text, special ones counted
    num_texts: int  # N

    def of_rows(self, rows):
        """Return `idf` for a table with so many rows, 0 in those of no token: float32 `[rows]`."""
        return np.pad(self.idf[:rows], (0, max(0, rows - len(self.idf))))


class TermCounter:
    """Counts in how many texts each token is, and how long texts are.

    Args:
        vocab_size: number of ids, which is what memory depends on.
    """

    def __init__(self, vocab_size):
        self.counts = np.zeros(vocab_size, np.int64)  # texts that hold the token
        self.num_texts = 0
        self.num_tokens = 0

    def add(self, input_word_ids, input_mask):
        """Count a batch of texts: ids and mask int `[b, seq_length]`."""
        ids, real = np.asarray(input_word_ids, np.int64), np.asarray(input_mask) > 0
        rows, _ = np.nonzero(real)
        in_texts = np.unique(rows * len(self.counts) + ids[real])
        self.counts += np.bincount(in_texts % len(self.counts), minlength=len(self.counts))
        self.num_texts += len(ids)
        self.num_tokens += len(rows)

    def weights(self):
        """Return the `TermWeights` of what was counted."""
        idf = np.log1p((self.num_texts - self.counts + 0.5) / (self.counts + 0.5))
        return TermWeights(idf.astype(np.float32), self.num_tokens / self.num_texts,
                           self.num_texts)


def learn_term_weights(texts, tokenizer, seq_length=128, progress=False):
    """Count statistics of texts as a model reads them: `[CLS]`, at most so many tokens, `[SEP]`.

    Memory is bounded whatever the number of texts.

    Args:
        texts: iterable of str; `read_texts` gives those of files. Of a tokenizer of morphemes they
            are split into these here.
        tokenizer: as `load_tokenizer` gives it.
        seq_length: the model's window in tokens, to which longer texts are truncated.
        progress: show a bar.

    Returns: `TermWeights`.

    Raises:
        UsageError: `texts` is a single text.
        BertTfError: there are none.
    """
    if isinstance(texts, (str, bytes)):
        raise UsageError(explain("one text as a corpus", "an iterable of texts"))
    counter = TermCounter(len(tokenizer.vocabulary))
    with tqdm.tqdm(desc="counting tokens", unit=" texts", unit_scale=True,
                   disable=not progress) as bar:
        for batch in in_batches(texts):
            pieces = tokenizer.tokenize(pretokenize(tokenizer, batch))
            packed = pack(tokenizer.vocabulary, [pieces], seq_length, fixed=False)
            counter.add(packed["input_word_ids"], packed["input_mask"])
            bar.update(len(batch))
    if not counter.num_texts:
        raise BertTfError(explain("a corpus without a text", "one or more"))
    return counter.weights()


def read_texts(paths):
    """Yield the texts of files, plain (one a line) or `.jsonl` (field `text`), either also `.gz`.

    Raises:
        BertTfError: see `read_documents`.
    """
    for document in read_documents(paths, split="none"):
        yield from document.sentences
