"""The four input forms: which tokens of a chunk make an example.

SEGMENT-PAIR is the original BERT input (google-research/bert `create_pretraining_data.py`); the
names and the other three forms are those of the RoBERTa paper, section 4.2. An example is one or
more runs of the chunk's tokens; each run is followed by `[SEP]`.
"""

import dataclasses
import random
from bisect import bisect_left, bisect_right

import numpy as np

from bert_tf.config import NEXT_SENTENCE_FORMATS

MINIMUM_SEQ_LENGTH = 8
_GOLDEN_RATIO = (5**0.5 - 1) / 2  # its multiples, modulo 1, fill the unit interval evenly


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Tokenized documents that are worked on together.

    Sentence `i` is `tokens[sentences[i]:sentences[i + 1]]` and is not empty; document `i` is
    sentences `documents[i]:documents[i + 1]` and is not empty.
    """

    tokens: np.ndarray  # int32 [tokens]
    sentences: np.ndarray  # int64 [sentences + 1]
    documents: np.ndarray  # int64 [documents + 1]
    names: np.ndarray  # int64 [documents], the same for parts of one document
    own: int  # the first documents, of which examples are made; the others lend random segments


@dataclasses.dataclass(frozen=True)
class Examples:
    """Runs of tokens; those of one example stand together, in order."""

    example: np.ndarray  # int64 [runs], ascending from 0
    start: np.ndarray  # int64 [runs], in the chunk's tokens
    length: np.ndarray  # int64 [runs], at least 1
    type_id: np.ndarray  # int64 [runs]
    next_sentence_labels: np.ndarray  # int64 [examples], 1 = random; [0] for forms without

    @property
    def count(self):
        """Number of examples."""
        return int(self.example[-1]) + 1 if len(self.example) else 0


def make_examples(chunk, *, format, seq_length, short_seq_prob, seed):
    """Examples of one pass over `chunk`.

    Every sentence of the own documents lends at least one token to an example. Half of the second
    segments are random, from another document. The original makes them more where a lone sentence
    leaves no choice; here a surplus of either kind is made up for by the draws that follow.

    Args:
        chunk: a `Chunk`.
        format: `segment_pair`, `sentence_pair`, `full_sentences` or `doc_sentences`.
        seq_length: tokens of an example at most, `[CLS]` and `[SEP]` counted.
        short_seq_prob: share of documents (segment_pair) or examples (full_sentences,
            doc_sentences) that aim at a random shorter length; sentence pairs are short anyway.
        seed: text or integer; the same seed gives the same examples.
    """
    rng = random.Random(seed)
    if format in NEXT_SENTENCE_FORMATS:
        pairs = _segment_pairs if format == "segment_pair" else _sentence_pairs
        found = pairs(chunk, seq_length - 3, short_seq_prob, rng)
        return _pairs_to_examples(chunk, np.array(found, np.int64).reshape(-1, 5), seq_length - 3,
                                  np.random.Generator(np.random.Philox(rng.getrandbits(64))))
    return _packed(chunk, format == "full_sentences", seq_length, short_seq_prob, rng)


class _NextOrRandom:
    """Draws next or random, half and half, and random segments from other documents."""

    def __init__(self, chunk, rng):
        self.rng = rng
        self.documents = chunk.documents.tolist()
        self.names = chunk.names.tolist()
        self.surplus = 0  # random ones drawn so far less the others

    def draw(self, alone):
        """Whether the second segment is random; it must be where a sentence is `alone`."""
        is_random = alone or self.surplus < 0 or (self.surplus == 0 and self.rng.random() < 0.5)
        self.surplus += 1 if is_random else -1
        return is_random

    def elsewhere(self, document):
        """A random sentence of a random other document, and the end of that document."""
        other = document
        while self.names[other] == self.names[document]:
            other = int(self.rng.random() * len(self.names))
        start, end = self.documents[other:other + 2]
        return start + int(self.rng.random() * (end - start)), end


def _segment_pairs(chunk, room, short_seq_prob, rng):
    """Rows of sentence numbers (a_start, a_end, b_start, b_end) and the label."""
    draws = _NextOrRandom(chunk, rng)
    ends = chunk.sentences.tolist()
    targets = _target_lengths(chunk, room, short_seq_prob, rng)
    pairs = []
    for document in range(chunk.own):
        start, end = draws.documents[document:document + 2]
        target = targets[document]
        while start < end:
            # Sentences until the target length is reached or the document ends.
            stop = min(bisect_left(ends, ends[start] + target, start + 1), end)
            middle = start + 1
            if stop - start > 2:
                middle += int(rng.random() * (stop - start - 1))
            if draws.draw(alone=stop - start == 1):
                other, other_end = draws.elsewhere(document)
                wanted = target - (ends[middle] - ends[start])
                other_stop = min(bisect_left(ends, ends[other] + wanted, other + 1), other_end)
                pairs.append((start, middle, other, other_stop, 1))
                start = middle  # what was not used is put back
            else:
                pairs.append((start, middle, middle, stop, 0))
                start = stop
    return pairs


def _target_lengths(chunk, room, short_seq_prob, rng):
    """Tokens that the pairs of each document aim at: `room`, or between 2 and `room` in a share
    `short_seq_prob` of the documents, as the original.

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


def _sentence_pairs(chunk, room, short_seq_prob, rng):
    """As `_segment_pairs`, with one sentence a side."""
    draws = _NextOrRandom(chunk, rng)
    pairs = []
    for document in range(chunk.own):
        start, end = draws.documents[document:document + 2]
        while start < end:
            if draws.draw(alone=start + 1 == end):
                other, _ = draws.elsewhere(document)
                pairs.append((start, start + 1, other, other + 1, 1))
                start += 1
            else:
                pairs.append((start, start + 1, start + 1, start + 2, 0))
                start += 2
    return pairs


def _pairs_to_examples(chunk, pairs, room, rng):
    """Cut pairs of segments to `room` tokens, the longer one first, at random from its two ends.

    Unlike the original, a cut leaves something of every sentence.
    """
    first, last, labels = pairs[:, 0:4:2], pairs[:, 1:4:2], pairs[:, 4]  # [pairs, 2]
    start, end = chunk.sentences[first], chunk.sentences[last]
    length = end - start
    excess = np.maximum(length.sum(axis=1) - room, 0)
    difference = length - length[:, ::-1]
    cut = np.minimum(np.maximum(difference, 0), excess[:, None])  # of the longer one
    both = excess - cut.sum(axis=1)
    cut += np.stack([both // 2, (both + 1) // 2], axis=1)

    # How much the two ends can lose: of several sentences, the outer two keep a token.
    several = (last - first > 1)
    several[:, 1] &= labels == 0
    front = np.where(several, chunk.sentences[first + 1] - start, length) - 1
    back = np.where(several, end - chunk.sentences[last - 1], length) - 1
    # What the first segment cannot lose, the second can: its last sentence is the one too many.
    most = np.where(several[:, 0], front[:, 0] + back[:, 0], length[:, 0] - 1)
    moved = np.maximum(cut[:, 0] - most, 0)
    cut += np.stack([-moved, moved], axis=1)
    cut_front = np.clip(rng.binomial(cut, 0.5), cut - np.minimum(back, cut),
                        np.minimum(front, cut))
    count = len(pairs)
    return Examples(example=np.repeat(np.arange(count), 2), start=(start + cut_front).ravel(),
                    length=(length - cut).ravel(), type_id=np.tile([0, 1], count),
                    next_sentence_labels=labels)


def _packed(chunk, cross_documents, seq_length, short_seq_prob, rng):
    """Contiguous whole sentences, as many as fit; a sentence longer than the window is cut up."""
    ends = chunk.sentences.tolist()
    documents = chunk.documents.tolist()
    runs = []  # (example, start, length)
    example = -1
    room = 0  # tokens that the open example can still take, separators included
    empty = False  # whether the open example has no run yet
    for document in range(chunk.own):
        position, stop = ends[documents[document]], ends[documents[document + 1]]
        if not cross_documents:
            room = 0
        while position < stop:
            until = min(bisect_right(ends, position + max(room - 1, 0)) - 1,
                        documents[document + 1])
            taken = ends[until] - position
            if taken < 1 and empty:  # a sentence longer than the aim, or than the window
                taken = min(seq_length - 2, ends[until + 1] - position)
            if taken >= 1:
                runs.append((example, position, taken))
                position += taken
                room -= taken + 1
                empty = False
            if position < stop:
                example += 1
                room = seq_length - 1
                empty = True
                if rng.random() < short_seq_prob:
                    room = min(room, rng.randint(2, seq_length - 2) + 1)
    runs = np.array(runs, np.int64).reshape(-1, 3)
    return Examples(example=runs[:, 0], start=runs[:, 1], length=runs[:, 2],
                    type_id=np.zeros(len(runs), np.int64),
                    next_sentence_labels=np.zeros(0, np.int64))


def join(passes):
    """The `Examples` of several passes over a chunk as one."""
    first = np.cumsum([0, *(examples.count for examples in passes[:-1])])
    fields = {field.name: np.concatenate([getattr(examples, field.name) for examples in passes])
              for field in dataclasses.fields(Examples)}
    fields["example"] += np.repeat(first, [len(examples.example) for examples in passes])
    return Examples(**fields)


def assemble(chunk, examples, order, continuation, cls_id, sep_id):
    """Token sequences of the examples at `order`: `[CLS] run [SEP] run [SEP] …`.

    Args:
        continuation: bool `[vocab_size]`, true for pieces that continue a word.

    Returns:
        (word_ids, type_ids, word_starts), flat int64, and the length of each example. A word cut
        at its front starts anew.
    """
    runs = np.bincount(examples.example, minlength=examples.count)
    first = np.cumsum(runs) - runs
    runs = runs[order]
    run = np.arange(runs.sum()) + np.repeat(first[order] - (np.cumsum(runs) - runs), runs)
    opens = np.zeros(len(run), np.int64)  # 1 where a run is the first: [CLS] stands before it
    opens[np.cumsum(runs) - runs] = 1

    length = examples.length[run]
    size = length + 1 + opens
    begin = np.cumsum(size) - size
    text = begin + opens
    place = np.arange(length.sum()) + np.repeat(text - (np.cumsum(length) - length), length)
    source = place + np.repeat(examples.start[run] - text, length)
    word_ids = np.full(size.sum(), sep_id, np.int64)
    word_ids[begin[opens == 1]] = cls_id
    tokens = chunk.tokens[source]
    word_ids[place] = tokens
    word_starts = np.zeros(len(word_ids), np.int64)
    word_starts[place] = ~continuation[tokens]
    word_starts[text] = 1
    type_ids = np.repeat(examples.type_id[run], size)
    return (word_ids, type_ids, word_starts), np.add.reduceat(size, np.cumsum(runs) - runs)
