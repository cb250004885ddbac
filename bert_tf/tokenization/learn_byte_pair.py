"""Learn the merges of byte-level byte-pair encoding, as RoBERTa's vocabulary was made.

The words are counted in bounded memory and joined by the code that learns WordPiece; the trainer
of the package tokenizers would hold every different word.
"""

import numpy as np

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.tokenization.byte_pair import BytePairTokenizer, byte_alphabet
from bert_tf.tokenization.pair_counts import PairCounts, learn_merges
from bert_tf.tokenization.word_counts import ByteWords, count_words

_FRONT, _MASK = ("<s>", "<pad>", "</s>", "<unk>"), "<mask>"
MIN_VOCAB_SIZE = len(_FRONT) + 256 + 2  # a merge at least


def learn_byte_pair(paths, vocab_size, min_frequency=2, progress=True):
    """Learn a tokenizer from files.

    `<s> <pad> </s> <unk>` come first, as RoBERTa has them, then the 256 bytes and pieces in the
    order they were learned, `<mask>` last. The result depends on nothing but the arguments.

    Args:
        paths: files of plain text or `.jsonl`, either also `.gz`.
        vocab_size: entries to learn; fewer come out where the text has no more pieces.
        min_frequency: a pair that occurs less often is not joined.
        progress: show progress bars.

    Returns:
        BytePairTokenizer, which composes text (NFC).

    Raises:
        UsageError: `vocab_size` is too small.
        BertTfError: a file is missing, unreadable, not UTF-8, or holds no text, or all files
            together hold too little.
    """
    if vocab_size < MIN_VOCAB_SIZE:
        raise UsageError(explain(f"vocab_size={vocab_size}", f"at least {MIN_VOCAB_SIZE}"))
    counts = count_words(paths, ByteWords(), progress)
    pieces, merges = _merges(counts, vocab_size - len(_FRONT) - 1, min_frequency, progress)
    if not merges:
        raise BertTfError(explain(f"no pair of bytes occurs {min_frequency} times",
                                  attempt="more text"))
    return BytePairTokenizer([*_FRONT, *pieces, _MASK], merges, normalize_nfc=True)


def _merges(counts, size, min_frequency, progress):
    """The pieces, list of str, and the pairs that make them, list of pairs of str."""
    words = list(counts)
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    symbols = np.frombuffer(b"".join(words), np.uint8).astype(np.int32)
    weights = np.fromiter(counts.values(), np.int64, len(words))
    pieces = byte_alphabet()
    pairs = PairCounts(symbols, lengths, weights, min_frequency)
    return pieces, learn_merges(pairs, pieces, size, progress=progress)
