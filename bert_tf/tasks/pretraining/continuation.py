"""Text around generation: what a continuation begins with, and the text that its tokens add."""

import tensorflow as tf

from bert_tf.tokenization.base import valid_text


def prompt_of(tokenizer, text, max_tokens):
    """Return `[CLS]` and the last tokens of each text, which has no `[SEP]` at its end.

    Args:
        tokenizer: as `load_tokenizer` gives it.
        text: string `[B]`.
        max_tokens: maximum of tokens of a prompt, at least 2.

    Returns: RaggedTensor int32 `[B, (tokens)]`.
    """
    pieces = tokenizer.tokenize(text)[:, 1 - max_tokens:]
    return tf.concat([tf.fill([tf.size(text), 1], tokenizer.vocabulary.cls_id), pieces], axis=1)


def added_text(tokenizer, prompt, new):
    """Return what the tokens `new` add to the text of `prompt`, both ragged `[B, (tokens)]`: string
    `[B]`.

    Whether a blank comes first is known with those before.
    """
    before = tokenizer.detokenize(prompt)
    both = tokenizer.detokenize(tf.concat([prompt, new], axis=1))
    start = tf.strings.length(before)
    return valid_text(tf.strings.substr(both, start, tf.strings.length(both) - start))
