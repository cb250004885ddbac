"""Continuations of text from a language model, one token after the other, inside the graph."""

import functools

import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.layers.cache import NextTokens
from bert_tf.randomness import example_bits, stream_key, uniform


def generate(model, input_word_ids, input_mask, max_new_tokens, top_k=None, temperature=1.0,
             seed=0, end_id=None, use_cache=True, may_slide=True, first_row=0,
             num_tokens=None, top_p=None):
    """Continue every row of a batch.

    The most probable token is taken, or one is drawn from the `top_k` most probable ones by their
    renormalised probabilities, or from the fewest of these that together have `top_p` of it, the
    nucleus (Holtzman et al. 2020, section 3.1). Where a row has grown longer than the
    model's window, the model sees its last `config.longest` tokens, at positions from 0 on. A draw
    is a function of the seed and of the token's position in its row, so that a row continues in
    any batch as it does alone.

    Each token costs one run of the encoder over itself: keys and values of those before it are
    kept. After that, where every token's position changes with each new one, it costs a run
    over the window.

    Args:
        model: a `LanguageModel`.
        input_word_ids: int32 `[batch, seq_length]`, of any length.
        input_mask: int32 `[batch, seq_length]`, 1 for real tokens, of which every row has one or
            more; padding may be on either side.
        max_new_tokens: maximum of new tokens a row; an integer or a scalar tensor.
        top_k: 1 takes the most probable token; an integer or a scalar tensor, at least 1. More
            than the vocabulary has is all of it, as is None with a `top_p` or a `temperature`
            other than 1; else None is 1.
        temperature: divides the logits before the draw; above 0, a number or a scalar tensor.
        seed: of the draws, below 2**31; an integer, from which every row gets its own seed, or
            int32 `[batch]`, the rows' seeds: rows of equal seeds and tokens continue equally.
        end_id: the token that ends a row; None lets all rows run to `max_new_tokens`.
        use_cache: keep keys and values; without, every token costs a run over its whole row.
        may_slide: False omits what rows longer than the window need; each ends there.
        first_row: of a part of a larger batch, the number of its first row there: of one seed
            the part draws what it draws in the whole.
        num_tokens: how many tokens there are to choose from; the table of a model may have further
            rows, which no token is of. None for all rows.
        top_p: above 0 and at most 1, a number or a scalar tensor; None is 1, all of the `top_k`.

    Returns: a dict of int32 `[batch, max_new_tokens]`: `output_word_ids`, the continuations, each
        from its first position on and with its `end_id`, and `output_mask`, 1 for what was
        generated; after that stands `config.padding_id`.

    Raises:
        UsageError: the model is no `LanguageModel`; a number is out of range, a row has no real
            token or one that the model has not, or ids, mask and seeds do not fit together, where
            that can be known: not of arguments inside a graph.
    """
    if not hasattr(model, "prompt_past"):
        raise UsageError(explain(f"generate with a {type(model).__name__}", "a LanguageModel"))
    check_options(max_new_tokens, top_k, temperature, seed, top_p)
    if num_tokens is not None:
        _check_number("num_tokens", num_tokens, "iu", lambda known: known >= 1,
                      "an integer, at least 1")
    ids, mask, seed = map(tf.convert_to_tensor, (input_word_ids, input_mask, seed))
    _check_rows(ids, mask, seed, model.config.vocab_size)
    ids, mask, seed = (tf.cast(value, tf.int32) for value in (ids, mask, seed))
    if top_k is None:
        greedy = top_p is None and tf.get_static_value(temperature) == 1
        top_k = 1 if greedy else model.config.vocab_size
    top_p = 1.0 if top_p is None else top_p
    use_cache = use_cache and _can_be_cached(model.config)
    run = functools.partial(_generate, model, use_cache, may_slide, num_tokens)
    run = _compiled(model, (use_cache, may_slide, num_tokens), run)
    rows = tf.shape(ids)[:1]
    own = seed.shape.rank == 1
    return run(ids, mask, tf.cast(max_new_tokens, tf.int32), tf.cast(top_k, tf.int32),
               tf.cast(top_p, tf.float32), tf.cast(temperature, tf.float32),
               tf.broadcast_to(seed, rows),
               tf.zeros(rows, tf.int32) if own else first_row + tf.range(rows[0]),
               tf.constant(-1 if end_id is None else end_id))


def _compiled(model, options, run):
    """Compile `run` as one graph for arguments of any size, once for the model as it is.

    Eager calls run it, and graphs that call it, such as a server's signatures, have it in common.
    """
    # Adapters are further variables, quantized kernels others.
    key = options, *((variable.path, variable.dtype) for variable in model.weights)
    made = vars(model).setdefault("_generating", {})  # past Keras, which would track it
    if key not in made:
        row, rows = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, None], tf.int32)
        number, real = tf.TensorSpec([], tf.int32), tf.TensorSpec([])
        made[key] = tf.function(run, [rows, rows, number, number, real, real, row, row, number],
                                autograph=False)
    return made[key]


def _can_be_cached(config):
    """Return whether a position depends on those before it through keys and values alone."""
    return (config.feed_forward != "conv" and not config.local_attention
            and config.relative_position in ("none", "rotary"))


def _generate(model, use_cache, may_slide, num_tokens, ids, mask, max_new_tokens, top_k,
              top_p, temperature, seeds, streams, end_id):
    longest, padding_id = model.config.longest, model.config.padding_id
    most = tf.int32.max if may_slide else longest  # tokens of a row that may go on
    rows = tf.ragged.boolean_mask(ids, mask > 0)
    batch, prompts = tf.shape(ids)[0], tf.cast(rows.row_lengths(), tf.int32)
    draws = _draws(seeds, streams, prompts, max_new_tokens)  # [B, new]
    every_row = tf.range(batch)
    # One cell more than may be filled: a row that has ended still points after itself.
    padding = tf.fill([batch, max_new_tokens + 1], padding_id)
    tokens = tf.concat([rows.to_tensor(padding_id), padding], 1)

    def grow(logits, step, tokens, lengths, open_):
        """Put a token after every row that is open."""
        new = _pick(logits[:, :num_tokens], temperature, top_k, top_p, draws[:, step])
        cells = tf.stack([every_row, lengths], 1)
        tokens = tf.tensor_scatter_nd_update(tokens, cells, tf.where(
            open_, new, tf.gather_nd(tokens, cells)))
        lengths += tf.cast(open_, tf.int32)
        return step + 1, tokens, lengths, open_ & (new != end_id) & (lengths <= most)

    def goes_on(step, tokens, lengths, open_):
        return (step < max_new_tokens) & tf.reduce_any(open_)

    def within_window(step, tokens, lengths, open_, past):
        longest_row = tf.reduce_max(tf.where(open_, lengths, 0))
        return goes_on(step, tokens, lengths, open_) & (longest_row <= longest)

    def cached_step(step, tokens, lengths, open_, past):
        layout = NextTokens(past, tf.minimum(lengths, width) - 1, model.compute_dtype)
        logits = model.token_logits({"input_word_ids": tokens[:, :width]}, layout)
        return *grow(logits, step, tokens, lengths, open_), layout.past

    def step_over_window(step, tokens, lengths, open_):
        logits = model.next_token_logits(_window(tokens, lengths, longest))
        return grow(logits, step, tokens, lengths, open_)

    state = (0, tokens, prompts, prompts <= most)
    if use_cache:
        width = tf.maximum(tf.minimum(tf.shape(tokens)[1] - 1, longest), 1)
        past = model.prompt_past(_window(tokens, prompts, longest)).padded_past(width)
        *state, _ = tf.while_loop(within_window, cached_step, (*state, past),
                                  parallel_iterations=1)
    if may_slide or not use_cache:
        state = tf.while_loop(goes_on, step_over_window, state, parallel_iterations=1)
    _, tokens, lengths, _ = state
    positions = prompts[:, tf.newaxis] + tf.range(max_new_tokens)
    return {"output_word_ids": tf.gather(tokens, positions, batch_dims=1),
            "output_mask": tf.cast(positions < lengths[:, tf.newaxis], tf.int32)}


def check_options(max_new_tokens, top_k, temperature, seed, top_p):
    """Refuse options of `generate` that are out of range: inside a graph, only constants are known.

    Raises:
        UsageError: which option, and what it may be.
    """
    for name, value, least in (("max_new_tokens", max_new_tokens, 0), ("top_k", top_k, 1)):
        if value is not None or name != "top_k":
            _check_number(name, value, "iu", lambda known, least=least: (known >= least) & (
                known < 2**31), f"an integer, at least {least}")
    _check_number("temperature", temperature, "iuf", lambda known: known > 0,
                  "above 0; top_k=1 takes the most probable token")
    if top_p is not None:
        _check_number("top_p", top_p, "iuf", lambda known: (known > 0) & (known <= 1),
                      "above 0, at most 1")
    _check_number("seed", seed, "iu", lambda known: (known >= 0) & (known < 2**31),
                  "a whole number of at least 0, below 2**31, or one for each row", rank=1)


def _check_number(name, value, kinds, fits, expected, rank=0):
    known = tf.get_static_value(value)
    if known is None and tf.is_tensor(value):
        return
    array = np.asarray(known)
    if array.ndim > rank or array.size and (  # an empty list is of floats
            array.dtype.kind not in kinds or not np.all(fits(array))):
        raise UsageError(explain(f"{name}={known!r}" if isinstance(known, str)
                                 else f"{name}={known}", expected))


def _check_rows(ids, mask, seed, vocab_size):
    """Refuse ids, masks and seeds that do not fit together, or ids that are none, where that is
    known."""
    if ids.shape.rank not in (None, 2) or not ids.shape.is_compatible_with(mask.shape):
        raise UsageError(explain(f"input_word_ids {ids.shape} with input_mask {mask.shape}",
                                 "both [batch, seq_length]"))
    if seed.shape.rank == 1 and not seed.shape.is_compatible_with(ids.shape[:1]):
        raise UsageError(explain(f"seed {seed.shape} with input_word_ids {ids.shape}",
                                 "one number, or one for each row"))
    real, known = tf.get_static_value(mask), tf.get_static_value(ids)
    if real is None:
        return
    empty = np.flatnonzero(~np.any(real > 0, axis=1))
    if len(empty):
        raise UsageError(explain(f"row {empty[0]} of the prompts has no token",
                                 "at least one, such as [CLS]"))
    if known is not None:
        for token in known[(real > 0) & ~((known >= 0) & (known < vocab_size)
                                          & (known == np.floor(known)))][:1]:
            raise UsageError(explain(f"input_word_ids with {token}",
                                     f"integers from 0 to {vocab_size - 1}, the vocabulary"))


def _window(tokens, lengths, longest):
    """Return the last `longest` tokens of every row, truncated to the longest row, and their
    mask."""
    # Of no rows one position.
    width = tf.minimum(tf.reduce_max(tf.pad(lengths, [[0, 1]], constant_values=1)), longest)
    starts = tf.maximum(lengths - width, 0)[:, tf.newaxis]
    positions = starts + tf.range(width)
    return {"input_word_ids": tf.gather(tokens, positions, batch_dims=1),
            "input_mask": tf.cast(positions < lengths[:, tf.newaxis], tf.int32)}


def _pick(logits, temperature, top_k, top_p, draw):
    """Pick one of the largest of `logits [B, V]`, by `draw` float32 `[B]` in [0, 1)."""
    values, ids = tf.math.top_k(logits, tf.minimum(top_k, logits.shape[-1]))
    # Of the distances to the largest, as logits over a tiny temperature are all infinite.
    cumulative = tf.cumsum(tf.nn.softmax((values - values[:, :1]) / temperature), axis=1)
    # Of the sum that there is: of a long vocabulary it ends below 1, and the last and least
    # probable one would take what is left.
    enough = cumulative >= top_p * cumulative[:, -1:]
    nucleus = tf.reduce_min(tf.where(enough, cumulative, np.inf), axis=1, keepdims=True)
    below = tf.cast(cumulative[:, :-1] <= draw[:, tf.newaxis] * nucleus, tf.int32)
    return tf.gather(ids, tf.reduce_sum(below, axis=1), batch_dims=1)


def _draws(seeds, streams, prompts, max_new_tokens):
    """Draw uniform float32 `[B, max_new_tokens]` in [0, 1) for the positions after the prompts."""
    def of_row(values):
        seed, stream, first = values
        key = stream_key(seed, "generate", stream)
        return tf.reshape(example_bits(key, first, [max_new_tokens, 1]), [-1])

    # One row more, as `map_fn` cannot stack none of a length that is not known.
    rows = [tf.pad(values, [[0, 1]]) for values in (seeds, streams, prompts)]
    return uniform(tf.map_fn(
        of_row, rows, fn_output_signature=tf.TensorSpec([None], tf.uint32))[:-1])
