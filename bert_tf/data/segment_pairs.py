"""Pairs of segments: which sentences of a chunk make the two, and where they are truncated.

`pairs` names what the second segment is. `random`: half of them come from another document, label
1 (next sentence prediction, BERT paper, section 3.1). `swapped`: it follows the first in the text,
and half of the pairs stand in reverse order, label 1 (sentence order prediction, ALBERT paper,
section 3.1). `next`: it follows the first, no label.
"""

from bisect import bisect_left, bisect_right

import numpy as np

_GOLDEN_RATIO = (5**0.5 - 1) / 2  # its multiples, modulo 1, fill the unit interval evenly


def segment_pairs(chunk, *, format, pairs, room, short_seq_prob, rng):
    """Return the pairs of segments of one pass over a chunk.

    Every sentence of the own documents lends at least one token to a pair, except that under
    `swapped` a document (or its part in this chunk) of a single sentence, which has no order, is
    skipped. Where a sentence is alone, as the last of a document or as long as an example, its
    second segment is random (`random`), it makes a pair with the sentence before, used once more
    (`swapped`), or there is no second segment (`next`).

    Args:
        chunk: a `pairing.Chunk`.
        format: `segment_pair`, or `sentence_pair` with one sentence a side.
        pairs: `random`, `swapped` or `next`.
        room: maximum of tokens of both segments.
        short_seq_prob: fraction of documents that aim at a random shorter length.
        rng: a `random.Random`.

    Returns:
        `start` and `length`, int64 `[pairs, 2]`, in the chunk's tokens, length 0 for no second
        segment; labels, int64 `[pairs]`, `[0]` under `next`.
    """
    if format == "segment_pair":
        targets = _target_lengths(chunk, room, short_seq_prob, rng)
    else:
        targets = [1] * chunk.own  # a single sentence reaches it
    rows = np.array(_choose(chunk, targets, format, pairs, rng), np.int64).reshape(-1, 5)
    start, length = _truncate(chunk, rows, pairs, room,
                         np.random.Generator(np.random.Philox(rng.getrandbits(64))))
    return start, length, rows[:, 4] if pairs != "next" else rows[:0, 4]


def _choose(chunk, targets, format, pairs, rng):
    """Return rows of sentence numbers (first_start, first_end, second_start, second_end) and the
    label.

    Segments are exchanged here, before they are truncated: where an odd token goes must not depend
    on which one is the later.
    """
    draws = _Halves(rng)
    documents, names, ends = (array.tolist()
                              for array in (chunk.documents, chunk.names, chunk.sentences))
    least = 1 if format == "segment_pair" and pairs == "random" else 2  # sentences of a pair

    def stop_at(start, target, least, end):
        """Return where sentences from `start` on reach the target length, or the document ends.

        Under `swapped` they stay within it: the sentence too many, truncated in `_truncate`, would
        tell which segment is the later one.
        """
        length = ends[start] + target
        stop = (bisect_right(ends, length, start + 1) - 1 if pairs == "swapped"
                else bisect_left(ends, length, start + 1))
        return min(max(stop, start + least), end)

    def elsewhere(document, target):
        """Return sentences from a random one of a random other document on."""
        other = document
        while names[other] == names[document]:
            other = int(rng.random() * len(names))
        start, end = documents[other:other + 2]
        start += int(rng.random() * (end - start))
        return start, stop_at(start, target, 1, end)

    rows = []
    for document in range(chunk.own):
        start, end = documents[document:document + 2]
        target = targets[document]
        while start < end:
            stop = stop_at(start, target, least, end)
            if pairs == "swapped" and stop - start == 1:
                if start == documents[document]:
                    break
                start -= 1
            middle = start + 1
            if stop - start > 2:
                middle += int(rng.random() * (stop - start - 1))
            label = int(pairs != "next" and draws.draw(must=stop - start == 1))
            if label and pairs == "random":
                wanted = target - (ends[middle] - ends[start])
                rows.append((start, middle, *elsewhere(document, wanted), label))
                start = middle  # what was not used is put back
            else:
                segments = [(start, middle), (middle, stop)]
                rows.append((*segments[label], *segments[1 - label], label))
                start = stop
    return rows


class _Halves:
    """Draws labels, as many of one kind as of the other.

    The original gives more random segments where a lone sentence leaves no choice; here a surplus
    of either kind is made up for by the draws that follow.
    """

    def __init__(self, rng):
        self.rng = rng
        self.surplus = 0  # labels 1 drawn so far less labels 0

    def draw(self, must):
        """Draw whether the label is 1; it is where it `must` be."""
        label = must or self.surplus < 0 or (self.surplus == 0 and self.rng.random() < 0.5)
        self.surplus += 1 if label else -1
        return label


def _target_lengths(chunk, room, short_seq_prob, rng):
    """Draw the tokens that the pairs of each document aim at: `room`, or between 2 and `room` in a
    fraction `short_seq_prob` of the documents, as the original.

    The draws are spread evenly over documents by length and over lengths to aim at: a long
    document that aims at two tokens would give a great part of all examples.
    """
    lengths = np.diff(chunk.sentences[chunk.documents])[:chunk.own]
    count = np.floor(np.arange(len(lengths) + 1) * short_seq_prob + rng.random())
    short = np.argsort(lengths, kind="stable")[np.diff(count) > 0]
    even = (np.arange(len(short)) * _GOLDEN_RATIO + rng.random()) % 1
    targets = np.full(len(lengths), room)
    targets[short] = 2 + (even * (room - 1)).astype(np.int64)
    return targets.tolist()


def _truncate(chunk, rows, pairs, room, rng):
    """Return start and length of the segments, truncated to `room` tokens, the longer one first, at
    random from its two ends. Unlike the original, something is left of every sentence."""
    first, last = rows[:, 0:4:2], rows[:, 1:4:2]  # [pairs, 2]
    start, end = chunk.sentences[first], chunk.sentences[last]
    length = end - start
    excess = np.maximum(length.sum(axis=1) - room, 0)
    difference = length - length[:, ::-1]
    cut = np.minimum(np.maximum(difference, 0), excess[:, None])  # of the longer one
    both = excess - cut.sum(axis=1)
    cut += np.stack([both // 2, (both + 1) // 2], axis=1)

    # How much the two ends can lose: of several sentences, the outer two keep a token.
    several = (last - first > 1)
    if pairs == "random":
        several[:, 1] &= rows[:, 4] == 0
    front = chunk.sentences[np.where(several, first + 1, last)] - start - 1
    back = end - chunk.sentences[np.where(several, last - 1, first)] - 1
    # What the first segment cannot lose, the second can: its last sentence is the one too many.
    most = np.where(several[:, 0], front[:, 0] + back[:, 0], length[:, 0] - 1)
    moved = np.maximum(cut[:, 0] - most, 0)
    cut += np.stack([-moved, moved], axis=1)
    cut_front = np.clip(rng.binomial(cut, 0.5), cut - np.minimum(back, cut),
                        np.minimum(front, cut))
    return start + cut_front, length - cut
