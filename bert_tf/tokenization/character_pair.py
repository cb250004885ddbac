"""Byte-pair encoding of characters, the tokenizer of Gemma and Llama 2, inside the graph.

    tokenizer = CharacterPairTokenizer.load("folder")  # vocab.json and merges.json
    ids = tokenizer.tokenize(["Any text."])

Only core TensorFlow ops are used, and no state: no lookup table and no cache that grows.
"""

import itertools
import math
import os

import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.storage import files
from bert_tf.tokenization.offsets import among_characters
from bert_tf.tokenization.pair_files import (
    JSON_MERGES_NAME,
    VOCABULARY_NAME,
    read_pairs,
    read_tokens,
)
from bert_tf.tokenization.pair_merges import PairMerges, characters_first
from bert_tf.tokenization.pair_tokenizer import PairTokenizer
from bert_tf.tokenization.tokenizer_config import NAME as CONFIG_NAME
from bert_tf.tokenization.tokenizer_config import (
    check_boolean,
    read_config,
    read_vocabulary_options,
    vocabulary_options,
)
from bert_tf.tokenization.vocabulary import Vocabulary

SPECIAL_TOKENS = ("<pad>", "<unk>", "<bos>", "<eos>", "<mask>")
BLANK = "\u2581"  # stands for a blank
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
_POINT_BITS = 21  # of a code point


class CharacterPairTokenizer(PairTokenizer):
    """BPE as SentencePiece has it (Kudo and Richardson 2018, "SentencePiece", section 3), its
    pieces those of `tokenizers`' model with `byte_fallback`.

    Blanks become `▁`. The characters of a text are joined pair by pair, the pair that comes first
    in `merges` first; a character without a piece is the pieces of its UTF-8 bytes, so that nothing
    is unknown and nothing is lost. All of a text is one word; it is split where two characters
    stand together in no piece that is joined, which changes nothing.

    Args:
        tokens: the pieces in the order of their ids, `<0x00>` to `<0xFF>` and the special tokens
            among them.
        merges: pairs of pieces, the first to be joined first.
        add_prefix_space: put a blank before every text that is not empty, as Llama 2 does.
        source: what an error names, for example the file's path.
        special_tokens, pair_separators, …: as of `Vocabulary`.

    Raises:
        UsageError: a special token or the piece of a byte is missing, or a merge uses or makes a
            piece that is no entry.
    """

    def __init__(self, tokens, merges, add_prefix_space=False, source="the vocabulary",
                 special_tokens=SPECIAL_TOKENS, **vocabulary):
        super().__init__(Vocabulary(
            tokens, source, special_tokens,
            continues=lambda token: token[:1] != BLANK and token not in special_tokens,
            **vocabulary))
        self.add_prefix_space = add_prefix_space
        ids = {token: index for index, token in enumerate(tokens)}
        missing = missing_bytes(ids)
        if missing:
            raise UsageError(explain(f"{source} has no {' '.join(missing[:4])}",
                                     "a piece of each byte that begins a character"))
        joined = PairMerges(characters_first(
            {ord(token): number for token, number in ids.items() if len(token) == 1},
            [ids.get(piece, self.vocabulary.unk_id) for piece in BYTES]), ids,
            [*map(tuple, merges)], source)
        self._neighbours = tf.constant(_neighbours([left + right for left, right in joined.merges]))
        self._run = _run_length(joined.merges)
        byte_of = {piece: bytes([byte]) for byte, piece in enumerate(BYTES)}
        special = {each.token for each in self.vocabulary.added_tokens if each.special}
        self._use(joined, joined.pieces, [
            b"" if token in special else byte_of.get(token) or token.replace(BLANK, " ").encode()
            for token in tokens],
            [1 if token in byte_of else len(token.encode()) for token in tokens],
            len(BLANK.encode()))

    @property
    def options(self):
        """What `tokenizer_config.json` holds."""
        return {"add_prefix_space": self.add_prefix_space,
                **vocabulary_options(self.vocabulary, SPECIAL_TOKENS, 1)}

    @property
    def alphabet(self):
        """See `PairTokenizer.alphabet`: the bytes, and characters in place of those not there."""
        tokens = {*self.vocabulary.tokens}
        return [piece if piece in tokens else chr(byte) for byte, piece in enumerate(BYTES)]

    def detokenize(self, ids):
        """See `PairTokenizer.detokenize`; without the blank that was put before the text."""
        text = super().detokenize(ids)
        return tf.strings.regex_replace(text, "^ ", "") if self.add_prefix_space else text

    def save(self, folder):
        """Write `vocab.json`, `merges.json` and `tokenizer_config.json`."""
        files.write_json(os.path.join(folder, VOCABULARY_NAME), {
            token: index for index, token in enumerate(self.vocabulary.tokens)})
        files.write_json(os.path.join(folder, JSON_MERGES_NAME), self.merges)
        files.write_json(os.path.join(folder, CONFIG_NAME), self.options)

    @classmethod
    def load(cls, folder):
        """Read what `save` wrote.

        Raises:
            BertTfError: a file is missing or damaged.
            UsageError: one contradicts itself.
        """
        path = os.path.join(folder, CONFIG_NAME)
        config = read_config(path)
        spaced = config.get("add_prefix_space", False)
        check_boolean(spaced, "add_prefix_space", path)
        merges_path = os.path.join(folder, JSON_MERGES_NAME)
        path = os.path.join(folder, VOCABULARY_NAME)
        return cls(read_tokens(path), read_pairs(files.read_json(merges_path), merges_path), spaced,
                   path, **read_vocabulary_options(config, os.path.join(folder, CONFIG_NAME)))

    def _words(self, text):
        text = self._normalized(text)
        if self.add_prefix_space:
            text = tf.where(text == "", text, tf.strings.join([BLANK, text]))
        characters = tf.strings.unicode_decode(text, "UTF-8")
        points, rows = characters.values, characters.value_rowids()
        left, right = tf.cast(points[:-1], tf.int64), tf.cast(points[1:], tf.int64)
        key = left * (1 << _POINT_BITS) + right
        place = tf.minimum(tf.searchsorted(self._neighbours, key), tf.size(self._neighbours) - 1)
        together = (tf.gather(self._neighbours, place) == key) & (rows[1:] == rows[:-1])
        begins = tf.concat([tf.ones_like(rows[:1], tf.bool), ~together], axis=0)
        if self._run:
            begins |= self._within_run(points, rows)
        places = tf.where(begins)[:, 0]
        words = tf.RaggedTensor.from_row_starts(points, places, validate=False)
        return tf.strings.unicode_encode(words, "UTF-8"), tf.gather(rows, places)

    def _within_run(self, points, rows):
        """Whether that many blanks, or a multiple, are right before one in its run: bool `[k]`."""
        blank, place = points == ord(BLANK), tf.range(tf.size(points))
        begun = blank & tf.concat([tf.ones_like(blank[:1]),
                                   ~blank[:-1] | (rows[1:] != rows[:-1])], axis=0)
        inside = place - tf.gather(tf.concat([[0], tf.boolean_mask(place, begun)], axis=0),
                                   tf.cumsum(tf.cast(begun, tf.int32)))
        return blank & ~begun & (inside % self._run == 0)

    def _normalized(self, text):
        return tf.strings.regex_replace(text, " ", BLANK)

    def _original(self, text, normalized, offsets):
        return among_characters(text, normalized, offsets)


def missing_bytes(pieces):
    """The pieces of bytes that are not there, list of str; a character of one byte that is a piece
    needs none."""
    return [piece for byte, piece in enumerate(BYTES)
            if piece not in pieces and not (byte < 0x80 and chr(byte) in pieces)]


def _run_length(merges):
    """After how many blanks, from the beginning of a run, each run of them may be split; else 0.

    So many as the longest piece of blanks has, where it stands before whatever other blanks there
    are, nothing is joined to it, and no blank to something else before all blanks are joined. Gemma
    joins blanks one by one, in which no part of a run is like another.
    """
    numbers = [number for number, (left, right) in enumerate(merges)
               if BLANK in left or BLANK in right]
    ranks = {tuple(map(len, merges[number])): number for number in numbers
             if not "".join(merges[number]).strip(BLANK)}
    if not ranks or max(ranks.values()) > numbers[len(ranks) - 1]:
        return 0
    longest = max(map(sum, ranks))
    if any(BLANK * longest in merges[number] for number in numbers):
        return 0
    return longest * all(_joined_run(longest + more, ranks) == [longest, more]
                         for more in range(1, longest + 1))


def _joined_run(length, ranks):
    """Return the lengths of the pieces of a run of blanks; `ranks` are those of pairs of lengths.
    """
    run = [1] * length
    while True:
        pairs = [*itertools.pairwise(run)]
        best = min(pairs, key=lambda pair: ranks.get(pair, math.inf), default=None)
        if best not in ranks:
            return run
        place = pairs.index(best)
        run[place:place + 2] = [sum(best)]


def _neighbours(pieces):
    """The pairs of characters that stand together in pieces, sorted, int64 `[k]`."""
    points = np.frombuffer("".join(pieces).encode("utf-32-le"), np.uint32).astype(np.int64)
    inside = np.ones(len(points), bool)
    inside[np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces))) - 1] = False
    return np.unique((points[:-1] << _POINT_BITS | points[1:])[inside[:-1]])
