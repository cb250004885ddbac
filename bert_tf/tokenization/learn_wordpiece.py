"""Learn a WordPiece vocabulary: the pieces that come from joining the most frequent pairs.

Byte-pair encoding (Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword
Units", section 3.2) over pieces of which the second and later of a word begin with `##`, which is
how the public trainers of BERT vocabularies work; google-research/bert has none.
"""

import heapq

import numpy as np
import tqdm

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.tokenization.tokenizer import MAX_CHARACTERS_PER_WORD
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, SUFFIX, Vocabulary
from bert_tf.tokenization.word_counts import count_words

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
        vocab_size: entries wanted; fewer come out where the text has no more pieces.
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
    counts = count_words(paths, lower_case, strip_accents, pretokenize, progress)
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
    symbols, first, weights, pieces = _characters(
        counts, min(MAX_ALPHABET, vocab_size // 3), min_frequency)
    pairs = _Pairs(symbols, first, weights, min_frequency)
    entries = {piece: index for index, piece in enumerate(pieces)}
    wanted = vocab_size - len(SPECIAL_TOKENS)
    with tqdm.tqdm(desc="learning pieces", initial=len(entries), total=wanted, unit="piece",
                   disable=not progress) as bar:
        while len(entries) < wanted and (best := pairs.most_frequent()):
            left, right = best
            piece = pieces[left] + pieces[right].removeprefix(SUFFIX)
            if piece not in entries:
                entries[piece] = len(pieces)
                pieces.append(piece)
                bar.update()
            pairs.join(left, right, entries[piece])
    return [*SPECIAL_TOKENS, *pieces]


def _characters(counts, max_alphabet, min_frequency):
    """Return words as rows of single-character pieces.

    Words with a character outside the alphabet (they will be `[UNK]`) and overlong ones are left
    out.

    Returns:
        symbols: int32 `[positions]`, piece of each character of all words.
        first: bool `[positions]`, whether a word begins there.
        weights: int64 `[positions]`, how often the word occurs.
        pieces: list of str, the single-character pieces, sorted.
    """
    words = list(counts)
    joined = np.frombuffer(b"".join(words), np.uint8)
    characters = np.frombuffer(joined.tobytes().decode().encode("utf-32-le"), np.uint32)
    byte_ends = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))
    ends = np.cumsum((joined & 0xC0) != 0x80)[byte_ends - 1]
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
    pieces = [SUFFIX * int(code >= len(alphabet)) + chr(alphabet[code % len(alphabet)])
              for code in entries]
    symbols = np.searchsorted(entries, codes).astype(np.int32)
    return symbols, first, word_counts[word_of[keep]], pieces


class _Pairs:
    """Which pieces stand beside each other, how often and where, kept up to date by `join`.

    Positions are indices into the characters of all words; a piece stands at its first character.
    One position after the last stands for "no neighbour".
    """

    def __init__(self, symbols, first, weights, min_frequency):
        size = len(symbols)
        self._none = size
        self._symbols = np.append(symbols, np.int32(-1))
        self._weights = weights
        positions = np.arange(size + 1, dtype=np.int32)
        starts = np.append(first, True)
        self._next = np.append(np.where(starts[1:], size, positions[1:]), size).astype(np.int32)
        self._previous = np.where(starts, size, positions - 1).astype(np.int32)
        self._marked = np.zeros(size + 1, bool)
        self._min_frequency = min_frequency
        self._counts = {}
        self._places = {}
        self._heap = []
        self._add(positions[:-1][self._next[:-1] != size])

    def most_frequent(self):
        """Return the pair of pieces that occurs most often, lower ids first among equals; None at
        the end.
        """
        while self._heap:
            count, pair = heapq.heappop(self._heap)
            now = self._counts.get(pair, 0)
            if now == -count:
                return divmod(pair, 1 << 32)
            # Outdated: the pair has become rarer since.
            if now >= self._min_frequency:
                heapq.heappush(self._heap, (-now, pair))
        return None

    def join(self, left, right, piece):
        """Replace each `left`, `right` by `piece`."""
        pair = left << 32 | right
        at = np.concatenate(self._places.pop(pair))
        at = at[(self._symbols[at] == left) & (self._symbols[self._next[at]] == right)]
        if left == right:
            at = self._without_overlaps(np.sort(at))
        seconds = self._next[at]
        after = self._next[seconds]
        self._remove(self._starts(self._previous[at], at, seconds, after, taken=seconds))
        self._counts.pop(pair)
        self._symbols[at] = piece
        self._symbols[seconds] = -1
        self._next[at] = after
        self._previous[after] = at
        self._add(self._starts(self._previous[at], at, None, after, taken=at))

    def _without_overlaps(self, at):
        """Return the pairs that do not overlap: of `aaa` only the first two characters are one."""
        chained = np.zeros(len(at), bool)
        chained[1:] = self._next[at[:-1]] == at[1:]
        index = np.arange(len(at))
        start = np.maximum.accumulate(np.where(chained, 0, index))
        return at[(index - start) % 2 == 0]

    def _starts(self, before, at, seconds, after, taken):
        """Return the positions where the pairs around `at` start, each once.

        A piece before `at` may itself be part of a pair that is joined (`taken`).
        """
        self._marked[taken] = True
        before = before[~self._marked[before] & (before != self._none)]
        self._marked[taken] = False
        followed = after != self._none
        if seconds is None:
            return np.concatenate([before, at[followed]])
        return np.concatenate([before, at, seconds[followed]])

    def _tally(self, at):
        """Return the distinct pairs that start at positions, how often each occurs, and which
        starts where."""
        codes = self._symbols[at].astype(np.int64) << 32 | self._symbols[self._next[at]]
        pairs, inverse = np.unique(codes, return_inverse=True)
        return pairs.tolist(), np.bincount(inverse, self._weights[at]), inverse

    def _remove(self, at):
        pairs, totals, _ = self._tally(at)
        for pair, total in zip(pairs, totals.tolist(), strict=True):
            if pair in self._counts:
                self._counts[pair] -= int(total)

    def _add(self, at):
        pairs, totals, inverse = self._tally(at)
        ordered = at[np.argsort(inverse, kind="stable")]
        ends = np.cumsum(np.bincount(inverse, minlength=len(pairs)))
        begin = 0
        for pair, total, end in zip(pairs, totals.astype(np.int64).tolist(), ends.tolist(),
                                    strict=True):
            count = self._counts.get(pair, 0) + total
            if count >= self._min_frequency:
                self._counts[pair] = count
                self._places.setdefault(pair, []).append(ordered[begin:end])
                heapq.heappush(self._heap, (-count, pair))
            begin = end
