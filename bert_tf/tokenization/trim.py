"""Leave out the pieces of a tokenizer that a text does not have, so that it splits it as before.

What a tokenizer tries on the way matters, too: which pieces have to stay beside those that occur
is different for each kind.
"""

import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.tokenization.byte_pair import BytePairTokenizer
from bert_tf.tokenization.character_pair import CharacterPairTokenizer
from bert_tf.tokenization.morphemes import pretokenize
from bert_tf.tokenization.new_pieces import longest_pieces
from bert_tf.tokenization.sentence_piece import WORD, SentencePieceTokenizer
from bert_tf.tokenization.sentence_piece_model import NORMAL, UNIGRAM, read_model
from bert_tf.tokenization.texts import in_batches
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import CONTINUATION_PREFIX
from bert_tf.tokenization.word_counts import WordPieceWords


def check_trims(tokenizer):
    """Refuse a tokenizer whose pieces cannot be left out, UsageError."""
    kind = type(tokenizer)
    if kind not in _TRIMS:
        raise UsageError(explain(f"the tokenizer is a {kind.__name__}: {tokenizer.python_only}",
                                 f"one of {', '.join(each.__name__ for each in _TRIMS)}"))
    if kind is SentencePieceTokenizer:
        proto = read_model(tokenizer.model, "the model")
        if proto.trainer_spec.model_type != UNIGRAM:
            raise UsageError(explain("the SentencePiece model joins pairs of pieces",
                                     "a Unigram model, or byte-level BPE"))


class PieceCounts:
    """How often texts have each piece of a tokenizer.

    Attributes:
        counts: int64 `[vocab_size]`.
        tried: ids of pieces that words which are unknown begin with, and which therefore decide
            that they are unknown: a set.
        texts: texts with a token.

    Args:
        tokenizer: any.
    """

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self._unk = tokenizer.vocabulary.unk_id
        self._words = None  # made when there is an unknown one
        self.counts = np.zeros(len(tokenizer.vocabulary), np.int64)
        self.tried = set()
        self.texts = 0

    @property
    def tokens(self):
        """Tokens of all texts."""
        return int(self.counts.sum())

    @property
    def unknown(self):
        """How many of them are the unknown token."""
        return int(self.counts[self._unk])

    def add_all(self, texts):
        """Count the texts of an iterable, some at a time; return self."""
        for batch in in_batches(texts):
            self.add(batch)
        return self

    def add(self, texts):
        """Count a list of str."""
        texts = pretokenize(self._tokenizer, texts)
        self._count(self._tokenizer.tokenize(tf.constant(texts, tf.string)), texts)

    def _count(self, ids, texts):
        self.counts += np.bincount(ids.values, minlength=len(self.counts))
        self.texts += int(np.count_nonzero(ids.row_lengths()))
        if isinstance(self._tokenizer, Tokenizer):
            unknown = np.unique(ids.value_rowids().numpy()[ids.values.numpy() == self._unk])
            if len(unknown):
                self._try([texts[row] for row in unknown])

    def _try(self, texts):
        self._words = self._words or WordPieceWords.of(self._tokenizer)
        words = [*self._words.words(texts)]
        ids = self._tokenizer.cut(tf.constant(words, tf.string))[0]
        for word, row in zip(words, ids.to_list(), strict=True):
            text = word.decode()
            if row == [self._unk] and len(text) <= self._tokenizer.max_characters_per_word:
                self.tried.update(longest_pieces(text, self._tokenizer.vocabulary)[0])


def trim(tokenizer, ids, keep_characters=False):
    """Leave out all pieces but some.

    Args:
        tokenizer: one that `check_trims` accepts.
        ids: of the pieces to keep: those that occur in a text, and `PieceCounts.tried`.
        keep_characters: keep all pieces of a single character as well, so that words of other texts
            are rarely unknown.

    Returns:
        tokenizer: one that splits that text into the same pieces.
        kept: int64 array of the ids that are left, in their order: all of `ids`, those of special
            and added tokens, and what the way in which this kind splits text needs.
    """
    vocabulary = tokenizer.vocabulary
    kept = {*map(int, ids), *map(vocabulary.id, vocabulary.kept_tokens)}
    if keep_characters:
        kept |= {number for number, token in enumerate(vocabulary.tokens)
                 if len(_characters(token)) == 1}
    return _TRIMS[type(tokenizer)](tokenizer, kept)


def _characters(token):
    for prefix in (CONTINUATION_PREFIX, WORD):
        if token.startswith(prefix) and len(token) > len(prefix):
            return token.removeprefix(prefix)
    return token


def _trim_word_piece(tokenizer, kept):
    """The longest piece stays the longest whatever is left out."""
    kept = sorted(kept)
    tokens = tokenizer.vocabulary.tokens
    return tokenizer.with_tokens([tokens[number] for number in kept]), np.array(kept)


def _trim_pairs(tokenizer, kept):
    """Keep the bytes, and every pair from which a kept piece is made, with its parts."""
    vocabulary = tokenizer.vocabulary
    kept |= {*map(vocabulary.id, tokenizer.alphabet)}
    tokens = {vocabulary.tokens[number] for number in kept}
    makes = {}
    for pair in tokenizer.merges:
        makes.setdefault("".join(pair), []).append(pair)
    # There is no tokenizer without any pair.
    waiting = [*tokens] if tokens & makes.keys() else [*tokens, "".join(tokenizer.merges[0])]
    while waiting:
        token = waiting.pop()
        tokens.add(token)
        waiting += [part for pair in makes.get(token, ()) for part in pair if part not in tokens]
    kept = [number for number, token in enumerate(vocabulary.tokens) if token in tokens]
    merges = [pair for pair in tokenizer.merges if "".join(pair) in tokens]
    rules = {"normalize_nfc": tokenizer.normalize_nfc, "pattern": tokenizer.pattern,
             "ignore_merges": tokenizer.ignore_merges} if (
                 type(tokenizer) is BytePairTokenizer) else {}
    return type(tokenizer)(
        [vocabulary.tokens[number] for number in kept], merges, tokenizer.add_prefix_space,
        **rules, **vocabulary.special), np.array(kept)


def _trim_sentence_piece(tokenizer, kept):
    """Keep the best way through a text, and the score from which that of unknown text follows.

    That is the lowest one of all pieces; of `albert` pieces that end in a comma do not count.
    """
    proto = read_model(tokenizer.model, "the model")
    pieces = list(proto.pieces)
    normal = [number for number, piece in enumerate(pieces) if piece.type == NORMAL]
    kept |= {number for number, piece in enumerate(pieces) if piece.type != NORMAL}
    for lowest in (normal, [number for number in normal if pieces[number].piece[-1:] != ","]):
        kept |= {min(lowest, key=lambda number: pieces[number].score)} if lowest else set()
    kept = sorted(kept)
    del proto.pieces[:]
    proto.pieces.extend(pieces[number] for number in kept)
    proto.trainer_spec.vocab_size = len(kept)
    for role in ("unk_id", "bos_id", "eos_id", "pad_id"):
        number = getattr(proto.trainer_spec, role)
        setattr(proto.trainer_spec, role, kept.index(number) if number in kept else -1)
    return SentencePieceTokenizer(
        proto.SerializeToString(), normalization=tokenizer.normalization,
        **tokenizer.vocabulary.special, **tokenizer.flags), np.array(kept)


_TRIMS = {Tokenizer: _trim_word_piece, BytePairTokenizer: _trim_pairs,
          CharacterPairTokenizer: _trim_pairs, SentencePieceTokenizer: _trim_sentence_piece}
