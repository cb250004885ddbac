"""The input forms: which tokens of a chunk make an example.

SEGMENT-PAIR is the original BERT input (google-research/bert `create_pretraining_data.py`); its
name and three forms more are those of the RoBERTa paper, section 4.2; `packed` fills every row. An
example is one or more runs of the chunk's tokens; each run is followed by `[SEP]`.
"""

import dataclasses
import random
from bisect import bisect_right

import numpy as np

from bert_tf.config import NEXT_SENTENCE_FORMATS
from bert_tf.data.segment_pairs import segment_pairs

MINIMUM_SEQ_LENGTH = 8


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
    pair_labels: np.ndarray  # int64 [examples], 1 = random or swapped; [0] where there are none

    @property
    def count(self):
        """Number of examples."""
        return int(self.example[-1]) + 1 if len(self.example) else 0


def make_examples(chunk, *, format, pairs, seq_length, short_seq_prob, seed):
    """Make the examples of one pass over `chunk`.

    Every sentence of the own documents lends at least one token to an example, but for the
    exception that `segment_pairs` names.

    Args:
        chunk: a `Chunk`.
        format: one of `config.FORMATS`.
        pairs: `random`, `swapped` or `next` for the first two, see `segment_pairs`; else None.
        seq_length: maximum of tokens of an example, `[CLS]` and `[SEP]` counted.
        short_seq_prob: fraction of documents (segment_pair) or examples (full_sentences,
            doc_sentences) that aim at a random shorter length; sentence pairs are short anyway,
            packed rows are full but for the first.
        seed: text or integer; the same seed gives the same examples.
    """
    rng = random.Random(seed)
    if format not in NEXT_SENTENCE_FORMATS:
        return _packed(chunk, format, seq_length, short_seq_prob, rng)
    start, length, labels = segment_pairs(chunk, format=format, pairs=pairs, room=seq_length - 3,
                                          short_seq_prob=short_seq_prob, rng=rng)
    example, type_id = np.indices(start.shape).reshape(2, -1)
    there = length.ravel() > 0
    return Examples(example=example[there], start=start.ravel()[there],
                    length=length.ravel()[there], type_id=type_id[there], pair_labels=labels)


def _packed(chunk, format, seq_length, short_seq_prob, rng):
    """Pack contiguous sentences: whole ones, as many as fit, of which one longer than the window is
    split; or, `packed`, what fits, so that the next example goes on within a sentence."""
    ends = chunk.sentences.tolist()
    documents = chunk.documents.tolist()
    runs = []  # (example, start, length)
    example = -1
    room = 0  # tokens that the open example can still take, separators included
    empty = False  # whether the open example has no run yet
    for document in range(chunk.own):
        position, stop = ends[documents[document]], ends[documents[document + 1]]
        if format == "doc_sentences":
            room = 0
        while position < stop:
            if format == "packed":
                taken = min(room - 1, stop - position)
            else:
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
                # Of packed ones the first, so that another pass cuts elsewhere.
                is_short = example == 0 if format == "packed" else rng.random() < short_seq_prob
                if is_short:
                    room = min(room, rng.randint(2, seq_length - 2) + 1)
    runs = np.array(runs, np.int64).reshape(-1, 3)
    return Examples(example=runs[:, 0], start=runs[:, 1], length=runs[:, 2],
                    type_id=np.zeros(len(runs), np.int64), pair_labels=np.zeros(0, np.int64))


def join(passes):
    """Join the `Examples` of several passes over a chunk."""
    first = np.cumsum([0, *(examples.count for examples in passes[:-1])])
    fields = {field.name: np.concatenate([getattr(examples, field.name) for examples in passes])
              for field in dataclasses.fields(Examples)}
    fields["example"] += np.repeat(first, [len(examples.example) for examples in passes])
    return Examples(**fields)


def used_tokens(chunk, examples):
    """Count the tokens of the own documents that are in an example, and all of them: two ints."""
    own, size = chunk.sentences[chunk.documents[chunk.own]], len(chunk.tokens) + 1
    begins, ends = (np.bincount(place, minlength=size)
                    for place in (examples.start, examples.start + examples.length))
    return np.count_nonzero(np.cumsum(begins - ends)[:own]), own


def assemble(chunk, examples, order, vocabulary):
    """Build the token sequences of the examples at `order`: `[CLS] run [SEP] run [SEP] …`.

    Without `[CLS]` where the vocabulary has no token before a text; what ends one stands after
    every run in any case, so that runs stay apart and a language model learns to stop.

    Returns:
        (word_ids, type_ids, word_starts), flat int64, and the length of each example. A word cut
        at its front starts anew.
    """
    runs = np.bincount(examples.example, minlength=examples.count)
    first = np.cumsum(runs) - runs
    runs = runs[order]
    run = np.arange(runs.sum()) + np.repeat(first[order] - (np.cumsum(runs) - runs), runs)
    opens = np.zeros(len(run), np.int64)  # 1 where a run is the first: [CLS] stands before it
    opens[np.cumsum(runs) - runs] = vocabulary.initial_token

    length = examples.length[run]
    size = length + 1 + opens
    begin = np.cumsum(size) - size
    text = begin + opens
    place = np.arange(length.sum()) + np.repeat(text - (np.cumsum(length) - length), length)
    source = place + np.repeat(examples.start[run] - text, length)
    word_ids = np.full(size.sum(), vocabulary.sep_id, np.int64)
    word_ids[begin[opens == 1]] = vocabulary.cls_id
    tokens = chunk.tokens[source]
    word_ids[place] = tokens
    word_starts = np.zeros(len(word_ids), np.int64)
    # A sentence begins with a word, also where the vocabulary tells words by the blank before.
    begins = np.zeros(len(chunk.tokens), bool)
    begins[chunk.sentences[:-1]] = True
    word_starts[place] = ~vocabulary.continuation[tokens] | begins[source]
    word_starts[text] = 1
    type_ids = np.repeat(examples.type_id[run], size) * vocabulary.pair_types
    return (word_ids, type_ids, word_starts), np.add.reduceat(size, np.cumsum(runs) - runs)
