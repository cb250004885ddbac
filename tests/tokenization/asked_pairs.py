"""A byte-level tokenizer with special tokens of a chat, and a template around pairs."""

from bert_tf.tokenization.byte_pair import BytePairTokenizer, byte_alphabet
from bert_tf.tokenization.vocabulary import AddedToken

TEMPLATE = ("<|start|>system\nAnswer yes or no.<|end|>\n<|start|>user\n<Query>: ",
            "\n<Document>: ", "<|end|>\n<|start|>assistant\n<think>\n\n</think>\n\n")
_SPECIAL = ("<|pad|>", "<|start|>", "<|end|>")
_FOUND = ("<think>", "</think>")  # written in any text
# So that a text's first and last pieces depend on what is beside it.
_MERGES = [("Ġ", "a"), ("?", "Ċ"), (".", "Ċ"), ("Ċ", "Ċ"), (">", ":"), ("Ġ", "Ġ"), ("n", "o"),
           ("y", "e"), ("ye", "s"), ("Ċ", "ĊĊ"), ("Ġ", "no")]


def chat_tokenizer():
    """Return a tokenizer with Qwen's rules."""
    return BytePairTokenizer(
        [*_SPECIAL, *_FOUND, *byte_alphabet(), *map("".join, _MERGES)], _MERGES,
        normalize_nfc=True, pattern="qwen2", special_tokens=("<|pad|>", "<|start|>", "<|end|>",
                                                             "<|end|>", "<|start|>"),
        pair_separators=0, pair_types=False, initial_token=False, final_separator=False,
        added_tokens=[*map(AddedToken, _SPECIAL),
                      *(AddedToken(token, special=False) for token in _FOUND)])
