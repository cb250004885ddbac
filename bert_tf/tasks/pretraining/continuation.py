"""Text around generation: what a continuation begins with, and the text that its tokens add."""

import tensorflow as tf

from bert_tf.tokenization.base import valid_text


def prompt_of(tokenizer, text, max_tokens):
    """Return the last tokens of each text, after `[CLS]` where the tokenizer has one there, or
    where there are none; without a `[SEP]` at the end.

    Args:
        tokenizer: as `load_tokenizer` gives it.
        text: string `[B]`.
        max_tokens: maximum of tokens of a prompt, at least 2.

    Returns: RaggedTensor int32 `[B, (tokens)]`.
    """
    pieces = tokenizer.tokenize(text)[:, 1 - max_tokens:]
    begins = tokenizer.vocabulary.initial_token | (pieces.row_lengths() == 0)
    first = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.math.count_nonzero(begins)], tokenizer.vocabulary.cls_id),
        tf.cast(begins, tf.int64))
    return tf.concat([first, pieces], axis=1)


def added_text(tokenizer, prompt, new):
    """Return what the tokens `new` add to the text of `prompt`, both ragged `[B, (tokens)]`: string
    `[B]`.

    Whether a blank comes first is known with those before.
    """
    before = tokenizer.detokenize(prompt)
    both = tokenizer.detokenize(tf.concat([prompt, new], axis=1))
    start = tf.strings.length(before)
    return valid_text(tf.strings.substr(both, start, tf.strings.length(both) - start))
