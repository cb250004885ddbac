"""Special tokens written out in a text, such as the `<mask>` of "A <mask> returns a value."."""

import re

import tensorflow as tf

# Characters of the Unicode property White_Space, as the body of a regular expression's class.
WHITE_SPACE = (r"\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
               r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}")
_BREAK = b"\xff"  # no byte of UTF-8


def tokenize_around(vocabulary, text, tokenize):
    """Token ids of texts in which special tokens stand for what they name.

    White space before the mask token goes away, as in Hugging Face's tokenizers.

    Args:
        vocabulary: `Vocabulary`.
        text: string `[n]`, UTF-8.
        tokenize: string `[m]` -> RaggedTensor int32 `[m, (tokens)]`, for the text in between.

    Returns:
        RaggedTensor int32 `[n, (tokens)]`.
    """
    *others, mask = map(re.escape, vocabulary.special_tokens)
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
    marked = tf.strings.regex_replace(text, f"[{WHITE_SPACE}]*({mask})|({'|'.join(others)})",
                                      _BREAK + rb"\1\2" + _BREAK)
    parts = tf.strings.split(marked, _BREAK)
    is_special = parts.values[:, tf.newaxis] == tf.constant(vocabulary.special_tokens)
    special = tf.ragged.boolean_mask(
        tf.broadcast_to(tf.constant(vocabulary.special_ids), tf.shape(is_special)), is_special)
    plain = tokenize(tf.where(tf.reduce_any(is_special, axis=1), "", parts.values))
    return parts.with_values(tf.concat([special, plain], axis=1)).merge_dims(1, 2)
