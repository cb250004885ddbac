"""Documents, split into training and held-out ones and into chunks of bounded size.

A chunk is the unit of work: what it becomes depends on the seed and on the chunk alone. `source`
is a function that reads the documents from the start each time it is called: an iterable of
`documents.Piece`.
"""

import collections
import dataclasses
import hashlib
import itertools
import random

from bert_tf.errors import BertTfError, explain

CHUNK_BYTES = 2_000_000
_WINDOW_BYTES = 16_000_000  # text that is shuffled at a time
_PART_BYTES_PER_TOKEN = 80  # a part of a document holds some twenty windows
_FEW = 4  # a chunk of fewer documents borrows others for its random segments
_RECENT = 8
_HEAD_BYTES = 50_000


@dataclasses.dataclass(frozen=True)
class TextChunk:
    """Part of a split: documents as lists of sentences."""

    split: str  # "train" or "eval"
    number: int  # in its split and section, from 0
    own: list  # (number of the document, sentences): parts of which examples are made
    lent: list  # likewise, of other documents of the split, for random segments only
    size: int  # bytes of text
    new_documents: int  # documents that begin in this chunk
    section: int = 0  # number of the section of the text, see `plan.Plan`

    @property
    def place(self):
        """Its position in its split, as a name; draws are seeded with it."""
        return f"{self.section}.{self.number}" if self.section else str(self.number)

    @property
    def file_name(self):
        """Name of its shard."""
        section = f"{self.section:05d}-" if self.section else ""
        return f"{self.split}-{section}{self.number:05d}.tfrecord"


def assign_splits(source, holdout, seed, beginning=None):
    """Return a function that reads `source` as `(split, piece)`, the split being "train" or "eval".

    `beginning` reads the whole text where `source` is a section of it.

    About the fraction `holdout` of the documents is held out, chosen by a hash of the seed and of
    the document's text (of its first piece), so that copies of a document go the same way. At least
    two different ones are, and at least two are not, unless the text begins with fewer than four,
    of which none is.
    """
    key = str(seed).encode()

    def draw(piece):
        text = "\n".join(piece.sentences).encode()
        digest = hashlib.blake2b(text, digest_size=8, key=key).digest()
        return int.from_bytes(digest, "little") / 2**64

    always, never = _outer_draws(beginning or source, draw) if holdout else ([], [])

    def read():
        document = split = None
        for piece in source():
            if piece.document != document:
                document = piece.document
                is_held_out = always and ((drawn := draw(piece)) in always
                                          or (drawn < holdout and drawn not in never))
                split = "eval" if is_held_out else "train"
            yield split, piece

    return read


def _outer_draws(source, draw):
    """Return the two least and the two greatest draws of the first documents; none of too few."""
    draws, size, document = set(), 0, None
    for piece in source():
        if piece.document != document:
            document = piece.document
            draws.add(draw(piece))
        size += sum(map(len, piece.sentences))
        if size >= CHUNK_BYTES and len(draws) >= _FEW:
            break
    draws = sorted(draws) if len(draws) >= _FEW else []
    return draws[:2], draws[-2:]


def cut_into_chunks(source, *, next_sentence, seq_length, holdout, seed, section=0,
                    beginning=None, onward=None):
    """Yield the `TextChunk`s of both splits.

    With `next_sentence`, documents are split into parts of some twenty windows and shuffled, 16 MB
    at a time, so that random segments come from all over the text; else they stay in order.

    Args:
        source: the text, or one section of it.
        next_sentence, seq_length, holdout, seed: options of the examples.
        section: its number.
        beginning, onward: sources of the whole text, from its start and from this section on
            (numbering documents as `source` does); None where `source` is the whole text.

    Raises:
        BertTfError: with `next_sentence`, a split has a single document.
    """
    read = assign_splits(source, holdout, seed, beginning)
    look = assign_splits(onward, holdout, seed, beginning) if onward else read

    def pieces_of(split):
        return (piece for its_split, piece in look() if its_split == split)

    kind = _ShuffledCutter if next_sentence else _Cutter
    cutters = {split: kind(split, section, pieces_of, seq_length, seed)
               for split in ("train", "eval")}
    for split, piece in read():
        yield from cutters[split].add(piece)
    for cutter in cutters.values():
        yield from cutter.finish()


class _Cutter:
    """Makes the chunks of one split; a document longer than a chunk goes into several."""

    def __init__(self, split, section, pieces_of, seq_length, seed):
        self.part_bytes = CHUNK_BYTES
        self.split = split
        self.section = section
        self.pieces_of = pieces_of
        self.count = 0
        self.own = []
        self.size = 0
        self.new = 0
        self.latest = None  # number of the document that came last

    def add(self, piece):
        """Take in a piece; yield the chunks that are full."""
        self.new += piece.document != self.latest
        self.latest = piece.document
        for sentences, size in _parts(piece.sentences, self.part_bytes):
            yield from self.add_part(piece.document, sentences, size)

    def add_part(self, document, sentences, size):
        """Take in a part of a document; yield the chunk if it is full."""
        self.own.append((document, sentences))
        self.size += size
        if self.size >= CHUNK_BYTES:
            yield self.chunk()

    def finish(self):
        """Yield what is left."""
        if self.own:
            yield self.chunk()

    def lenders(self):
        """Return parts of other documents, for random segments."""
        return []

    def chunk(self):
        """Return the finished chunk."""
        chunk = TextChunk(self.split, self.count, self.own, self.lenders(), self.size, self.new,
                          self.section)
        self.count += 1
        self.own, self.size, self.new = [], 0, 0
        return chunk


class _ShuffledCutter(_Cutter):
    """Makes the chunks of one split for next-sentence prediction, shuffled, with other
    documents."""

    def __init__(self, split, section, pieces_of, seq_length, seed):
        super().__init__(split, section, pieces_of, seq_length, seed)
        self.part_bytes = _PART_BYTES_PER_TOKEN * seq_length
        self.rng = random.Random(f"shuffle {seed} {split}" + (f" {section}" if section else ""))
        self.window = []
        self.window_size = 0
        self.recent = collections.OrderedDict()  # number of the document -> first sentences

    def add(self, piece):
        self.recent.setdefault(piece.document, piece.sentences)
        if len(self.recent) > _RECENT:
            self.recent.popitem(last=False)
        yield from super().add(piece)

    def add_part(self, document, sentences, size):
        self.window.append((document, sentences, size))
        self.window_size += size
        while self.window_size > _WINDOW_BYTES:
            yield from self._draw()

    def _draw(self):
        picked = int(self.rng.random() * len(self.window))
        self.window[picked], self.window[-1] = self.window[-1], self.window[picked]
        part = self.window.pop()
        self.window_size -= part[2]
        yield from super().add_part(*part)

    def finish(self):
        while self.window:
            yield from self._draw()
        yield from super().finish()

    def lenders(self):
        documents = {document for document, _ in self.own}
        if len(documents) >= _FEW:
            return []
        lent = [(document, _head(sentences)) for document, sentences in self.recent.items()
                if document not in documents]
        return lent if lent or len(documents) > 1 else [self._look_ahead(*documents)]

    def _look_ahead(self, own):
        """Return the first sentences of the document after `own` in this split, in the section or
        not."""
        for piece in self.pieces_of(self.split):
            if piece.document > own:
                self.recent[piece.document] = piece.sentences
                return piece.document, _head(piece.sentences)
        raise BertTfError(explain(
            "the text is a single document, so next-sentence prediction has no other to draw "
            "from", attempt="blank lines between documents, --format full_sentences or "
                            "--format doc_sentences"))


def _parts(sentences, part_bytes):
    """Yield runs of sentences of about `part_bytes` at most, and their sizes in bytes."""
    part, size = [], 0
    for sentence in sentences:
        part.append(sentence)
        size += len(sentence.encode())
        if size >= part_bytes:
            yield part, size
            part, size = [], 0
    if part:
        yield part, size


def _head(sentences):
    """Return the first sentences, as many as it takes to reach `_HEAD_BYTES`."""
    ends = itertools.accumulate(len(sentence.encode()) for sentence in sentences)
    short = itertools.takewhile(lambda end: end < _HEAD_BYTES, ends)
    return sentences[:1 + sum(1 for _ in short)]
