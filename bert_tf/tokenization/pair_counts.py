"""Pairs of pieces and how often they stand together: what byte-pair encoding learns from."""

import heapq

import numpy as np
import tqdm


def learn_merges(pairs, pieces, size, joined=str.__add__, progress=False):
    """Join the most frequent pairs until there are `size` pieces or no pair is left.

    Args:
        pairs: `PairCounts` of words whose symbols are indices into `pieces`.
        pieces: list of str; each new piece is appended.
        size: pieces that are wanted.
        joined: function of the two pieces of a pair: the piece they make.
        progress: show a progress bar.

    Returns:
        list of the pairs that were joined, pairs of str, in their order.
    """
    ids = {piece: number for number, piece in enumerate(pieces)}
    merges = []
    with tqdm.tqdm(desc="learning pieces", initial=len(pieces), total=size, unit="piece",
                   disable=not progress) as bar:
        while len(pieces) < size and (best := pairs.most_frequent()):
            left, right = best
            merges.append((pieces[left], pieces[right]))
            piece = joined(*merges[-1])
            if piece not in ids:
                ids[piece] = len(pieces)
                pieces.append(piece)
                bar.update()
            pairs.join(left, right, ids[piece])
    return merges


class PairCounts:
    """Which pieces stand beside each other, how often and where, kept up to date by `join`.

    Positions are indices into the characters of all words; a piece stands at its first character.
    One position after the last stands for "no neighbour".

    Args:
        symbols: int32 `[positions]`, the pieces of all words, one after the other.
        lengths: int64 `[words]`, pieces of each word.
        counts: int64 `[words]`, how often it occurs.
        min_frequency: a pair that occurs less often is not joined.
    """

    def __init__(self, symbols, lengths, counts, min_frequency):
        size = len(symbols)
        self._none = size
        self._symbols = np.append(symbols, np.int32(-1))
        self._weights = np.repeat(counts, lengths)
        positions = np.arange(size + 1, dtype=np.int32)
        starts = np.zeros(size + 1, bool)
        starts[np.append(np.cumsum(lengths) - lengths, size)] = True
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
