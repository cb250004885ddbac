"""Learn a WordPiece vocabulary: the pieces that come from joining the most frequent pairs.

Byte-pair encoding (Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword
Units", section 3.2) over pieces of which the second and later of a word begin with `##`, which is
how the public trainers of BERT vocabularies work; google-research/bert has none.
"""

import numpy as np

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.tokenization.pair_counts import PairCounts, learn_merges
from bert_tf.tokenization.tokenizer import MAX_CHARACTERS_PER_WORD
from bert_tf.tokenization.vocabulary import (
    CONTINUATION_PREFIX,
    SPECIAL_TOKENS,
    Vocabulary,
    joined,
)
from bert_tf.tokenization.word_counts import WordPieceWords, count_words

MAX_ALPHABET = 6000
MIN_VOCAB_SIZE = 16


def learn_wordpiece(paths, vocab_size, *, lower_case=False, strip_accents=False, pretokenize=None,
                    min_frequency=2, progress=True):
    """Learn a vocabulary from files.

    The special tokens come first, then single characters (the most frequent ones, at most 6,000
    and a third of `vocab_size`), then pieces in the order they were learned. The result depends
    on nothing but the arguments.

    Args:
        paths: files of plain text or `.jsonl`, either also `.gz`.
        vocab_size: requested entries; fewer come out where the text has no more pieces.
        lower_case, strip_accents, pretokenize: as for the `Tokenizer` that will use the
            vocabulary.
        min_frequency: a character or piece that occurs less often does not become an entry.
        progress: show progress bars.

    Returns:
        Vocabulary.

    Raises:
        UsageError: `vocab_size` is too small.
        BertTfError: a file is missing, unreadable, not UTF-8, or holds no text, or all files
            together hold too little.
    """
    if vocab_size < MIN_VOCAB_SIZE:
        raise UsageError(explain(f"vocab_size={vocab_size}", f"at least {MIN_VOCAB_SIZE}"))
    counts = count_words(paths, WordPieceWords(lower_case, strip_accents, pretokenize), progress)
    entries = learn_pieces(counts, vocab_size, min_frequency, progress)
    if len(entries) == len(SPECIAL_TOKENS):
        raise BertTfError(explain(f"no character of the text occurs {min_frequency} times",
                                  attempt="more text"))
    return Vocabulary(entries)


def learn_pieces(counts, vocab_size, min_frequency=2, progress=False):
    """Learn the entries of a vocabulary from word counts.

    Args:
        counts: dict of word (UTF-8 bytes) -> int.
        vocab_size, min_frequency, progress: as for `learn_wordpiece`.

    Returns:
        list of str, the special tokens first.
    """
    *words, pieces = _characters(counts, min(MAX_ALPHABET, vocab_size // 3), min_frequency)
    learn_merges(PairCounts(*words, min_frequency), pieces, vocab_size - len(SPECIAL_TOKENS),
                 joined, progress)
    return [*SPECIAL_TOKENS, *pieces]


def _characters(counts, max_alphabet, min_frequency):
    """Return words as rows of single-character pieces.

    Words with a character outside the alphabet (they will be `[UNK]`) and overlong ones are left
    out.

    Returns:
        symbols: int32 `[positions]`, piece of each character of all words.
        lengths, counts: int64 `[words]`, characters of each word and how often it occurs.
        pieces: list of str, the single-character pieces, sorted.
    """
    words = list(counts)
    written = np.frombuffer(b"".join(words), np.uint8)
    characters = np.frombuffer(written.tobytes().decode().encode("utf-32-le"), np.uint32)
    byte_ends = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))
    ends = np.cumsum((written & 0xC0) != 0x80)[byte_ends - 1]
    lengths = np.diff(ends, prepend=0)
    word_counts = np.fromiter(counts.values(), np.int64, len(words))
    word_of = np.repeat(np.arange(len(words), dtype=np.int32), lengths)

    alphabet, characters = np.unique(characters, return_inverse=True)
    frequency = np.bincount(characters, word_counts[word_of])
    kept = np.zeros(len(alphabet), bool)
    # Of equally frequent characters those of the lower code points stay.
    kept[np.argsort(-frequency, kind="stable")[:max_alphabet]] = True
    kept &= frequency >= min_frequency
    usable = lengths <= MAX_CHARACTERS_PER_WORD
    usable[word_of[~kept[characters]]] = False

    keep = usable[word_of]
    first = np.diff(word_of, prepend=-1)[keep] > 0
    # Codes of pieces: a character at a word's start (each gets one), then those after it.
    codes = characters[keep] + np.where(first, 0, len(alphabet))
    entries = np.union1d(codes, np.flatnonzero(kept))
    pieces = [CONTINUATION_PREFIX * int(code >= len(alphabet)) + chr(alphabet[code % len(alphabet)])
              for code in entries]
    symbols = np.searchsorted(entries, codes).astype(np.int32)
    return symbols, lengths[usable], word_counts[usable], pieces
