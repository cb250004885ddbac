"""Byte-level byte-pair encoding, the tokenizer of GPT-2, RoBERTa and ModernBERT, in the graph.

    tokenizer = BytePairTokenizer.load("folder")  # vocab.json and merges.txt
    ids = tokenizer.tokenize(["Any text."])

Only core TensorFlow ops are used (and `NormalizeUTF8` where text is composed), and no state: no
lookup table and no cache that grows.
"""

import os

import numpy as np
import tensorflow as tf

from bert_tf.errors import NoTextError, check_choice, explain
from bert_tf.storage import files
from bert_tf.tokenization import hf_options
from bert_tf.tokenization.base import valid_text
from bert_tf.tokenization.offsets import before_nfc, compose
from bert_tf.tokenization.pair_files import (
    MERGES_NAME,
    VERSION,
    VOCABULARY_NAME,
    read_merges,
    read_tokens,
)
from bert_tf.tokenization.pair_merges import PairMerges, WholeWords, bytes_first
from bert_tf.tokenization.pair_tokenizer import PairTokenizer
from bert_tf.tokenization.tokenizer_config import NAME as CONFIG_NAME
from bert_tf.tokenization.tokenizer_config import (
    check_boolean,
    read_config,
    read_vocabulary_options,
    vocabulary_options,
)
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS as OF_BERT
from bert_tf.tokenization.vocabulary import Vocabulary
from bert_tf.tokenization.word_patterns import EXPRESSIONS, WordPattern

SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
END_OF_WORD = "</w>"  # in the vocabulary of GPT-1
_PAIR_SEPARATORS = 2  # <s> a </s></s> b </s>


class BytePairTokenizer(PairTokenizer):
    """Byte-level BPE (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners",
    section 2.2; rules of openai/gpt-2 `src/encoder.py`).

    Text is cut into words: letters, numbers or other characters, each with the blank before it;
    white space; the English endings 's 't 're 've 'm 'll 'd. (Or as another of
    `word_patterns.EXPRESSIONS` has it.) A word's UTF-8 bytes are joined pair by pair, the pair that
    comes first in `merges` first. Nothing is unknown and nothing is lost: the bytes of the pieces,
    joined, are the text.

    Args:
        tokens: the pieces in the order of their ids, bytes written in GPT-2's printable alphabet,
            with the special tokens among them.
        merges: pairs of pieces, the first to be joined first.
        add_prefix_space: put a blank before a text that has none.
        source: what an error names, for example the file's path.
        normalize_nfc: compose the text first (NFC), as ModernBERT does.
        pattern: what words are, a name in `word_patterns.EXPRESSIONS`.
        ignore_merges: whether a word that is a piece is that piece, whatever its bytes are joined
            to, as in Llama 3.
        special_tokens, pair_separators, …: as of `Vocabulary`.

    Raises:
        UsageError: a special token is missing, or a merge uses or makes a piece that is no entry.
    """

    def __init__(self, tokens, merges, add_prefix_space=False, source="the vocabulary",
                 normalize_nfc=False, pattern="gpt2", ignore_merges=False,
                 special_tokens=SPECIAL_TOKENS, pair_separators=_PAIR_SEPARATORS, **vocabulary):
        super().__init__(Vocabulary(
            tokens, source, special_tokens, pair_separators=pair_separators,
            continues=lambda token: token[:1] != "Ġ" and token not in special_tokens,
            **vocabulary))
        self.composes = self.normalize_nfc = normalize_nfc
        self.add_prefix_space = add_prefix_space
        self.pattern, self._pattern = pattern, WordPattern(pattern)
        self.ignore_merges = ignore_merges
        ids = {token: index for index, token in enumerate(tokens)}
        added = {each.token: each.special for each in self.vocabulary.added_tokens}
        written = [(b"" if added[token] else token.encode()) if token in added else
                   _bytes_of(token) for token in tokens]
        joined = PairMerges(bytes_first(
            [ids.get(character, self.vocabulary.unk_id) for character in byte_alphabet()]), ids,
            [*map(tuple, merges)], source)
        split = joined.pieces
        if ignore_merges:
            words = np.flatnonzero([token not in added and _ALPHABET.issuperset(token)
                                    for token in tokens])
            split = WholeWords(tf.constant(written), words, joined).pieces
        # A byte that no piece stands for is one unknown piece.
        self._use(joined, split, written, [len(piece) or int(number == self.vocabulary.unk_id)
                                           for number, piece in enumerate(written)], 1)

    @property
    def options(self):
        """What `tokenizer_config.json` holds."""
        return {"add_prefix_space": self.add_prefix_space,
                **({"normalize_nfc": True} if self.normalize_nfc else {}),
                **({"pattern": self.pattern} if self.pattern != "gpt2" else {}),
                **({"ignore_merges": True} if self.ignore_merges else {}),
                **vocabulary_options(self.vocabulary, SPECIAL_TOKENS, _PAIR_SEPARATORS)}

    @property
    def alphabet(self):
        """See `PairTokenizer.alphabet`: the bytes."""
        return byte_alphabet()

    def save(self, folder):
        """Write `vocab.json`, `merges.txt` and `tokenizer_config.json`."""
        tokens = self.vocabulary.tokens
        files.write_json(os.path.join(folder, VOCABULARY_NAME),
                         {token: index for index, token in enumerate(tokens)})
        files.write_text(os.path.join(folder, MERGES_NAME), f"{VERSION}: 0.2\n" + "".join(
            f"{left} {right}\n" for left, right in self.merges))
        files.write_json(os.path.join(folder, CONFIG_NAME), self.options)

    @classmethod
    def load(cls, folder):
        """Read what `save` wrote, or the files of the same names beside Hugging Face checkpoints.

        Raises:
            BertTfError: a file is missing or damaged.
            NoTextError: a vocabulary with other rules (GPT-1's).
            UsageError: one that contradicts itself.
        """
        path = os.path.join(folder, VOCABULARY_NAME)
        tokens = read_tokens(path)
        if any(token.endswith(END_OF_WORD) for token in tokens):
            raise NoTextError(explain(
                f"{path} is not of bytes: its pieces end in {END_OF_WORD}, as GPT-1's do",
                "the byte-level vocabulary of RoBERTa",
                "token ids made by that model's own tokenizer"))
        return cls(tokens, read_merges(os.path.join(folder, MERGES_NAME)), source=path,
                   **read_options(os.path.join(folder, CONFIG_NAME), tokens))

    def _words(self, text):
        return self._pattern.words(self._prepared(text))

    def _normalized(self, text):
        return compose(text) if self.normalize_nfc else text

    def _original(self, text, normalized, offsets):
        return before_nfc(text, normalized, offsets) if self.normalize_nfc else offsets

    def _prepared(self, text):
        """The text that is split into words: string `[n]`."""
        if self.normalize_nfc or self.add_prefix_space:  # no pattern finds a byte alone
            text = valid_text(text)
        if self.normalize_nfc:
            text = compose(text)
        if self.add_prefix_space:
            text = tf.strings.regex_replace(text, r"^([^ ])", r" \1")
        return text


def byte_alphabet():
    """The printable character that stands for each of the 256 bytes (GPT-2 `bytes_to_unicode`).

    A printable Latin-1 character stands for itself, the others for those from U+0100 on.
    """
    hidden = iter(range(0x100, 0x200))
    return [chr(byte) if 0x21 <= byte < 0x7F or 0xA1 <= byte != 0xAD else chr(next(hidden))
            for byte in range(256)]


_ALPHABET = frozenset(byte_alphabet())
_BYTE_OF = {ord(character): byte for byte, character in enumerate(byte_alphabet())}


def _bytes_of(token):
    """The bytes that a piece stands for; a character of no byte stands for itself."""
    if _ALPHABET.issuperset(token):
        return token.translate(_BYTE_OF).encode("latin-1")
    return b"".join(bytes([_BYTE_OF[ord(character)]]) if character in _ALPHABET else
                    character.encode() for character in token)


def read_options(path, tokens):
    """Arguments of the class in a `tokenizer_config.json`, ours or Hugging Face's.

    Args:
        path: of the file, which may be missing.
        tokens: the pieces beside it, by which GPT-2's and DeBERTa's are known.

    Raises:
        UsageError: a value of another form.
    """
    config = read_config(path)
    options = {name: config.get(name, False) for name in ("add_prefix_space", "normalize_nfc",
                                                          "ignore_merges")}
    for name, value in options.items():
        check_boolean(value, name, path)
    options["pattern"] = check_choice(f"{path}: pattern", config.get("pattern", "gpt2"),
                                      EXPRESSIONS)
    return {**options, **_described(config, path, tokens), **read_vocabulary_options(config, path)}


def _described(config, path, tokens):
    """What a class of Hugging Face has of special tokens: arguments of `Vocabulary`."""
    other = SPECIAL_TOKENS[2] not in tokens  # than RoBERTa's
    name = hf_options.plain_name(hf_options.model_name(path, config))
    if "special_tokens" not in config:
        if name == "deberta" or not name and other and {*OF_BERT} <= {*tokens}:
            return hf_options.of_deberta(config, path)
        if str(config.get("tokenizer_class")).startswith("GPT2") or (
                other and hf_options.END_OF_TEXT in tokens):
            return hf_options.of_gpt2(config, path)
    return hf_options.special_names(config, path)
