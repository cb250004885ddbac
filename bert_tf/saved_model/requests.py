"""Requests for every signature of a served model."""

import tensorflow as tf

from bert_tf.saved_model.signatures import signatures


def make_requests(served, texts, lengths):
    """Make `{signature: {input: tensor}}`, a row for each text.

    Args:
        served: the `ServedModel`.
        texts: list of str, where the model takes text; `[MASK]` in them stands for its mask
            token. The second texts of pairs are the same in reverse order.
        lengths: tokens of each row, where it does not; they are truncated to the window.
    """
    if served.tokenizer is None:
        mask = tf.sequence_mask(tf.minimum(lengths, served.seq_length), dtype=tf.int32)
        ids = tf.reshape(tf.range(tf.size(mask)), tf.shape(mask)) % served.model.config.vocab_size
        tensors = {"input_word_ids": ids * mask, "input_mask": mask,
                   "input_type_ids": tf.zeros_like(mask)}
        texts = tf.fill([len(lengths)], "")  # of `describe`, which reads none
    else:
        mask_token = served.tokenizer.vocabulary.special_tokens[-1]
        texts = tf.constant([text.replace("[MASK]", mask_token) for text in texts])
        tensors = served.read({"text": texts})
    tensors |= {"text": texts, "text_a": texts, "text_b": texts[::-1], "question": texts,
                "context": texts[::-1], "query": texts, "passage": texts[::-1],
                "seed": tf.range(tf.size(texts))}
    tensors["inputs"] = make_examples({name: tensors[name] for name in served.text_names})
    return {name: {key: tensors[key] for key in signature.inputs}
            for name, signature in signatures(served).items()}


def make_examples(columns):
    """Serialize `tf.Example`s, string `[B]`, whose features are the rows of string columns."""
    return tf.constant([
        tf.train.Example(features=tf.train.Features(feature={
            name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
            for name, value in zip(columns, row, strict=True)})).SerializeToString()
        for row in zip(*(column.numpy() for column in columns.values()), strict=True)], tf.string)
