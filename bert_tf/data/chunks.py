"""Documents, split into training and held-out ones and cut into chunks of bounded size.

A chunk is the unit of work: what it becomes depends on the seed and on the chunk alone. `source`
is a function that reads the documents from the start each time it is called: an iterable of
`documents.Piece`.
"""

import collections
import dataclasses
import hashlib
import itertools

from bert_tf.errors import BertTfError, explain

CHUNK_BYTES = 2_000_000
_FEW = 4  # a chunk of fewer documents borrows others for its random segments
_RECENT = 8
_HEAD_BYTES = 50_000


@dataclasses.dataclass(frozen=True)
class TextChunk:
    """Part of a split: documents as lists of sentences."""

    split: str  # "train" or "eval"
    number: int  # in its split, from 0
    own: list  # the documents of which examples are made
    lent: list  # parts of other documents of the split, for random segments
    size: int  # bytes of text
    new_documents: int  # documents that begin in this chunk


def holds_out(source, holdout, seed):
    """Which documents are held out: a function of a document's number.

    About the share `holdout`, chosen by a hash of the seed and the number; at least two, unless
    there are fewer than four documents, of which none is held out.
    """
    if not holdout:
        return lambda number: False

    def draw(number):
        digest = hashlib.blake2b(f"holdout {seed} {number}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") / 2**64

    size, documents = 0, 0
    for piece in source():
        documents = piece.document + 1
        size += sum(map(len, piece.sentences))
        if size >= CHUNK_BYTES and documents >= _FEW:
            break
    if documents < _FEW:
        return lambda number: False
    always = sorted(range(documents), key=draw)[:2]
    return lambda number: number in always or draw(number) < holdout


def cut_into_chunks(source, *, next_sentence, holdout, seed):
    """Yield the `TextChunk`s of both splits.

    Raises:
        BertTfError: with `next_sentence`, a split has a single document.
    """
    held_out = holds_out(source, holdout, seed)

    def pieces_of(split):
        return (piece for piece in source() if held_out(piece.document) == (split == "eval"))

    cutters = {split: _Cutter(split, pieces_of, next_sentence) for split in ("train", "eval")}
    for piece in source():
        yield from cutters["eval" if held_out(piece.document) else "train"].add(piece)
    for cutter in cutters.values():
        yield from cutter.finish()


class _Cutter:
    """Cuts one split; a document longer than a chunk goes into several."""

    def __init__(self, split, pieces_of, next_sentence):
        self.split = split
        self.pieces_of = pieces_of
        self.next_sentence = next_sentence
        self.count = 0
        self.own = {}  # number of the document -> sentences
        self.size = 0
        self.recent = collections.OrderedDict()  # number of the document -> first sentences
        self.new = 0
        self.latest = None  # number of the document that came last

    def add(self, piece):
        """Take in a piece; yield the chunks that are full."""
        self.recent.setdefault(piece.document, piece.sentences)
        if len(self.recent) > _RECENT:
            self.recent.popitem(last=False)
        sentences = piece.sentences
        size = _size(sentences)
        while self.size + size >= CHUNK_BYTES:
            count = _count_until(sentences, CHUNK_BYTES - self.size)
            full, sentences = sentences[:count], sentences[count:]
            self._take(piece.document, full, _size(full))
            yield self._chunk()
            size = _size(sentences)
        self._take(piece.document, sentences, size)

    def _take(self, document, sentences, size):
        if sentences:
            self.own.setdefault(document, []).extend(sentences)
            self.size += size
            self.new += document != self.latest
            self.latest = document

    def finish(self):
        """Yield the last chunk."""
        if self.own:
            yield self._chunk()

    def _chunk(self):
        lent = []
        if self.next_sentence and len(self.own) < _FEW:
            lent = [_head(sentences) for document, sentences in self.recent.items()
                    if document not in self.own]
            if not lent and len(self.own) == 1:
                lent = [self._look_ahead(*self.own)]
        chunk = TextChunk(self.split, self.count, list(self.own.values()), lent, self.size,
                          self.new)
        self.count += 1
        self.own, self.size, self.new = {}, 0, 0
        return chunk

    def _look_ahead(self, own):
        """The first sentences of the document behind `own` in this split."""
        for piece in self.pieces_of(self.split):
            if piece.document > own:
                self.recent[piece.document] = piece.sentences
                return _head(piece.sentences)
        raise BertTfError(explain(
            "the text is a single document, so that next-sentence prediction has no other to draw "
            "from", attempt="blank lines between documents, --format full_sentences or "
                            "--format doc_sentences"))


def _size(sentences):
    return len("".join(sentences).encode())


def _count_until(sentences, size):
    """How many sentences it takes to reach `size` bytes; all where they do not."""
    ends = itertools.accumulate(len(sentence.encode()) for sentence in sentences)
    return next((count for count, end in enumerate(ends, 1) if end >= size), len(sentences))


def _head(sentences):
    return sentences[:_count_until(sentences, _HEAD_BYTES)]
