"""A WordPiece and a BPE tokenizer for questions, and texts that are hard for them."""

from hypothesis import strategies as st

from bert_tf.tokenization.byte_pair import BytePairTokenizer, byte_alphabet
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

LETTERS = "abcdeé한국어까지ㅋ가각שלום😀i\u0307\u0301"
TEXT = st.text(st.sampled_from(LETTERS + "  \n.,!\u200bİÉ\u1100\u1161\u11a8"), max_size=40)
MERGES = [("Ġ", "a"), ("b", "c"), ("Ġ", "b"), ("í", "ķ")]
KINDS = ("word_piece", "byte_pair")


def word_piece(lower_case=True):
    return Tokenizer(Vocabulary([*SPECIAL_TOKENS, *".,!", *LETTERS, *("##" + c for c in LETTERS),
                                 "the", "cab", "##bed"]), lower_case=lower_case)


def byte_pair(add_prefix_space=False):
    return BytePairTokenizer(["<s>", "<pad>", "</s>", "<unk>", *byte_alphabet(),
                              *map("".join, MERGES), "<mask>"], MERGES, add_prefix_space)
