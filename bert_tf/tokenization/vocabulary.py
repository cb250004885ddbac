"""The list of pieces that a model knows; a piece's position is its id."""

import os
from typing import NamedTuple

import numpy as np

from bert_tf.errors import UsageError, explain
from bert_tf.storage import checksums, files, manifest

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION_PREFIX = "##"
MANIFEST = ".manifest.json"  # after the name of a vocabulary: what it was made of


def joined(left, right):
    """Return the piece that two neighbouring pieces of a word make."""
    return left + right.removeprefix(CONTINUATION_PREFIX)


def fits_line(token):
    """Return whether a token in a line of its own is read as it was written."""
    return "\n" not in token and not token.endswith("\r")


class AddedToken(NamedTuple):
    """A token that is found in a text as it is written, before the text is tokenized."""

    token: str
    lstrip: bool = False  # the white space before it goes away
    rstrip: bool = False  # the white space after it goes away
    special: bool = True  # means itself only where the caller allows it; else always


class Vocabulary:
    """Word pieces in the order of their ids, as in google-research/bert's `vocab.txt`.

    A piece that continues a word begins with `##`.

    Args:
        tokens: the pieces, distinct, with the special ones anywhere among them.
        source: what an error names, for example the file's path.
        special_tokens: what padding, an unknown word, a sequence's first token, a segment's end
            and a masked token are called, in this order.
        continues: whether a piece continues a word, `continues(token)`.
        pair_separators: how many separators stand between the segments of a pair; 0 where no
            special token stands around a text, as with Qwen's language models.
        pair_types: whether the second segment has type 1; None where it has if there is one
            separator.
        added_tokens: `AddedToken`s; None for the special ones, white space before a mask token of
            its own going away.
        final_separator: whether a text ends with a separator; where it does not, the second segment
            of a pair begins as the first does: `<bos> a <bos> b`.
        initial_token: whether a text begins with the token that is said to; where it does not, the
            separator alone marks it: `a <eos> b <eos>`.
        initial_again: whether the second of two `pair_separators` is that token:
            `<bos> a <eos> <bos> b <eos>`.

    Raises:
        UsageError: a special or an added token is missing, or an entry is empty or there twice.
    """

    def __init__(self, tokens, source="the vocabulary", special_tokens=SPECIAL_TOKENS,
                 continues=lambda token: token.startswith(CONTINUATION_PREFIX), pair_separators=1,
                 pair_types=None, added_tokens=None, final_separator=True, initial_token=True,
                 initial_again=False):
        self.tokens = list(tokens)
        self.special_tokens = tuple(special_tokens)
        self.pair_separators = pair_separators
        self.final_separator = final_separator
        self.initial_token, self.initial_again = initial_token, initial_again
        if (initial_token or final_separator) != (pair_separators > 0) or initial_again and not (
                initial_token and final_separator and pair_separators == 2):
            raise UsageError(explain(
                f"{source}: initial_token={initial_token}, final_separator={final_separator}, "
                f"initial_again={initial_again}, pair_separators={pair_separators}",
                "a token before a text or after it, or none and 0 separators; both, and 2 "
                "separators, for initial_again"))
        self.pair_types = pair_separators == 1 if pair_types is None else pair_types
        self.added_tokens = default_added_tokens(self.special_tokens) if (
            added_tokens is None) else tuple(added_tokens)
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        if "" in self._ids:
            raise UsageError(explain(f"{source} line {self._ids[''] + 1} is empty",
                                     "one token a line"))
        if len(self._ids) < len(self.tokens):
            line, token = next((index + 1, token) for index, token in enumerate(self.tokens)
                               if self._ids[token] != index)
            raise UsageError(f"{source} line {line}: {token!r} is there again "
                             f"in line {self._ids[token] + 1}")
        missing = [token for token in dict.fromkeys([
            *special_tokens, *(added.token for added in self.added_tokens)])
            if token not in self._ids]
        if missing:
            learned = self.special_tokens == SPECIAL_TOKENS
            raise UsageError(explain(
                f"{source} has no {' '.join(missing)}",
                f"{' '.join(dict.fromkeys(special_tokens))} among the tokens",
                "a vocabulary made by python -m bert_tf.learn_vocab" if learned else ""))
        self.special_ids = tuple(self._ids[token] for token in special_tokens)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = self.special_ids
        self.continuation = np.array([continues(token) for token in self.tokens])

    def __len__(self):
        return len(self.tokens)

    def id(self, token):
        """Id of a piece; that of `[UNK]` where the piece is not an entry."""
        return self._ids.get(token, self.unk_id)

    @property
    def num_rows(self):
        """How many rows of a model's table texts need: special tokens without a role after all
        others need none, such as that of images in Gemma 3, whose models of text have no row."""
        roles = {*self.special_tokens}
        unused = {added.token for added in self.added_tokens
                  if added.special and added.token not in roles}
        return max(number for number, token in enumerate(self.tokens) if token not in unused) + 1

    @property
    def kept_tokens(self):
        """The special and the added tokens, without which there is no such vocabulary."""
        return list(dict.fromkeys([*self.special_tokens,
                                   *(added.token for added in self.added_tokens)]))

    @property
    def special(self):
        """What is special here: arguments of the class, and of those of tokenizers."""
        return {"special_tokens": self.special_tokens, "pair_separators": self.pair_separators,
                "pair_types": self.pair_types, "added_tokens": self.added_tokens,
                "final_separator": self.final_separator, "initial_token": self.initial_token,
                "initial_again": self.initial_again}

    def num_special(self, segments=1):
        """How many special tokens there are with one or two segments."""
        return self.initial_token + self.final_separator + (
            self.pair_separators if segments == 2 else 0)

    @property
    def as_if_alone(self):
        """Whether each segment of a pair has the special tokens that it has alone, as models have
        it that read from left to right."""
        return not (self.final_separator and self.initial_token) or self.initial_again

    @property
    def between_ids(self):
        """Ids of what stands between two segments, as many as `pair_separators`."""
        if self.initial_again:
            return [self.sep_id, self.cls_id]
        return [self.sep_id if self.final_separator else self.cls_id] * self.pair_separators

    def with_tokens(self, tokens):
        """Return a vocabulary of other pieces, `tokens`, among them what is special here."""
        return type(self)(tokens, **self.special)

    @classmethod
    def load(cls, path, trims=False, **options):
        """Read a file of one token a line, which is as it was written where anything tells.

        Args:
            path: of the file.
            trims: whether blanks and tabs around a token go away, as in google-research/bert: no
                word has any, so that no text would give it. Not where nothing else is in the line,
                or the token is there already.
            options: arguments of the class.
        """
        checksums.check(os.path.dirname(path), (os.path.basename(path),))
        record = f"{path}{MANIFEST}"
        manifest.check_made(
            record, f"learning it again; or, if the change is meant, deleting {record}")
        tokens = list(files.read_lines(path))
        while tokens and not tokens[-1]:
            tokens.pop()
        known = {"", *tokens}
        for number, token in enumerate(tokens) if trims else ():
            bare = token.strip(" \t")
            if bare not in known:
                tokens[number] = bare
                known.add(bare)
        return cls(tokens, path, **options)

    def save(self, path):
        """Write a file of one token a line.

        Raises:
            UsageError: a token has a line break.
        """
        for token in self.tokens:
            if not fits_line(token):
                raise UsageError(explain(f"{path}: the token {token!r}", "one without line breaks"))
        files.write_text(path, "".join(f"{token}\n" for token in self.tokens))


def default_added_tokens(special_tokens):
    """The special tokens as `AddedToken`s; white space before the last, the mask, goes away, unless
    it is another one, too."""
    *others, mask = special_tokens
    return tuple(AddedToken(token, lstrip=token == mask and mask not in others)
                 for token in dict.fromkeys(special_tokens))
