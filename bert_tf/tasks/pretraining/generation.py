"""Continuations of text from a language model, one token after the other, inside the graph."""

import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.randomness import example_bits, stream_key

_BITS = 24  # of a draw: as many as a float32 in [0, 1) holds


def generate(model, input_word_ids, input_mask, max_new_tokens, top_k=1, temperature=1.0,
             seed=0, end_id=None):
    """Continue every row of a batch.

    The most probable token is taken, or one is drawn from the `top_k` most probable ones by their
    renormalised probabilities. Where a row has grown beyond the model's window, the model sees
    its last `config.longest` tokens, at positions from 0 on. A draw is a function of the seed and
    of the token's position in its row, so that a row continues in any batch as it does alone.

    Each token costs one run of the encoder over the batch's longest row so far.

    Args:
        model: a `LanguageModel`.
        input_word_ids: int32 `[batch, seq_length]`, of any length.
        input_mask: int32 `[batch, seq_length]`, 1 for real tokens; padding is on the right and
            every row has a real token.
        max_new_tokens: at most so many tokens a row; an integer or a scalar tensor.
        top_k: 1 takes the most probable token; an integer or a scalar tensor, at least 1. More
            than the vocabulary has is all of it.
        temperature: divides the logits before the draw; above 0, a number or a scalar tensor.
        seed: of the draws; an integer, from which every row gets a seed of its own, or int32
            `[batch]`, the rows' seeds: rows of equal seeds and tokens continue equally.
        end_id: the token that ends a row; None lets all rows run to `max_new_tokens`.

    Returns: a dict of int32 `[batch, max_new_tokens]`: `output_word_ids`, the continuations, each
        from its first position on and with its `end_id`, and `output_mask`, 1 for what was
        generated; after that stands `config.padding_id`.

    Raises:
        UsageError: `top_k`, `temperature` or `max_new_tokens` is out of range, or a row has no
            real token, where that can be known: not of arguments inside a graph.
    """
    _check(input_mask, max_new_tokens, top_k, temperature)
    ids, mask = (tf.cast(value, tf.int32) for value in (input_word_ids, input_mask))
    batch, prompts = tf.shape(ids)[0], tf.reduce_sum(mask, axis=1)
    draws = _draws(seed, prompts, max_new_tokens)  # [B, new]
    every_row = tf.range(batch)

    def grow(step, tokens, lengths, open_):
        logits = model.next_token_logits(_window(tokens, lengths, model.config.longest))
        new = _pick(logits / temperature, top_k, draws[:, step])
        cells = tf.stack([every_row, lengths], 1)
        tokens = tf.tensor_scatter_nd_update(tokens, cells, tf.where(
            open_, new, tf.gather_nd(tokens, cells)))
        lengths += tf.cast(open_, tf.int32)
        return step + 1, tokens, lengths, open_ if end_id is None else open_ & (new != end_id)

    # One cell more than may be filled: a row that has ended still points after itself.
    room = tf.fill([batch, max_new_tokens + 1], model.config.padding_id)
    tokens = tf.concat([tf.where(mask > 0, ids, model.config.padding_id), room], 1)
    _, tokens, lengths, _ = tf.while_loop(
        lambda step, tokens, lengths, open_: (step < max_new_tokens) & tf.reduce_any(open_),
        grow, (0, tokens, prompts, tf.ones([batch], tf.bool)), parallel_iterations=1)
    places = prompts[:, tf.newaxis] + tf.range(max_new_tokens)
    return {"output_word_ids": tf.gather(tokens, places, batch_dims=1),
            "output_mask": tf.cast(places < lengths[:, tf.newaxis], tf.int32)}


def _check(input_mask, max_new_tokens, top_k, temperature):
    """Refuse what is out of range, as far as it is known: inside a graph, only constants are."""
    for name, value, least in (("top_k", top_k, 1), ("max_new_tokens", max_new_tokens, 0)):
        known = tf.get_static_value(value)
        if known is not None and (known != int(known) or known < least):
            raise UsageError(explain(f"{name}={known}", f"an integer, at least {least}"))
    known = tf.get_static_value(temperature)
    if known is not None and not known > 0:
        raise UsageError(explain(f"temperature={known}",
                                 "above 0; top_k=1 takes the most probable token"))
    known = tf.get_static_value(input_mask)
    empty = [] if known is None else np.flatnonzero(~np.any(known, axis=1))
    if len(empty):
        raise UsageError(explain(f"row {empty[0]} of the prompts has no token",
                                 "at least one, such as that which begins every text"))


def _window(tokens, lengths, longest):
    """The last `longest` tokens of every row, cut to the longest row, and their mask."""
    width = tf.minimum(tf.reduce_max(lengths), longest)
    starts = tf.maximum(lengths - width, 0)[:, tf.newaxis]
    places = starts + tf.range(width)
    return {"input_word_ids": tf.gather(tokens, places, batch_dims=1),
            "input_mask": tf.cast(places < lengths[:, tf.newaxis], tf.int32)}


def _pick(logits, top_k, draw):
    """Of `logits [B, V]` one of the `top_k` largest, by `draw` float32 `[B]` in [0, 1)."""
    values, ids = tf.math.top_k(logits, tf.minimum(top_k, logits.shape[-1]))
    cumulative = tf.cumsum(tf.nn.softmax(values), axis=1)
    # The sum may end a little below 1: the last one takes what is left.
    below = tf.cast(cumulative[:, :-1] <= draw[:, tf.newaxis], tf.int32)
    return tf.gather(ids, tf.reduce_sum(below, axis=1), batch_dims=1)


def _draws(seed, prompts, max_new_tokens):
    """Uniform float32 `[B, max_new_tokens]` in [0, 1) for the positions after the prompts."""
    rows = tf.shape(prompts)[0]
    seed = tf.cast(seed, tf.int32)
    own = len(seed.shape) == 1
    seeds = seed if own else tf.fill([rows], seed)
    streams = tf.zeros([rows], tf.int32) if own else tf.range(rows)

    def of_row(values):
        seed, stream, first = values
        key = stream_key(seed, "generate", stream)
        return tf.reshape(example_bits(key, first, [max_new_tokens, 1]), [-1])

    bits = tf.map_fn(of_row, (seeds, streams, prompts), fn_output_signature=tf.TensorSpec(
        [max_new_tokens if isinstance(max_new_tokens, int) else None], tf.uint32))
    bits = tf.bitwise.right_shift(bits, tf.constant(32 - _BITS, tf.uint32))
    return tf.cast(tf.cast(bits, tf.int32), tf.float32) * 2.0**-_BITS
