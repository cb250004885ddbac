"""Greedy and drawn continuations against the model's own logits, step by step."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.pretraining.generation import _pick, generate
from bert_tf.tasks.pretraining.language_model import LanguageModel
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

GPT = ModelConfig.from_dict({
    "family": "gpt", "vocab_size": 23, "hidden_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 8,
    "initializer_range": 0.6, "padding_id": 0})
ROTARY = {"position_embedding": "none", "relative_position": "rotary", "query_key_norm": True,
          "num_key_value_heads": 1, "attention_head_size": 6}
PROMPTS = [[5, 6, 7], [9], [3, 3, 4, 5, 8]]


@pytest.fixture(scope="module")
def model():
    return LanguageModel(GPT, seed=3)


def padded(prompts, width=None):
    width = width or max(map(len, prompts))
    ids = np.zeros((len(prompts), width), "int32")
    mask = np.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, :len(prompt)], mask[row, :len(prompt)] = prompt, 1
    return ids, mask


def test_half_precision_with_and_without_a_cache(model):
    half = LanguageModel(GPT, dtype="bfloat16")
    half.set_weights(model.get_weights())
    found, expected = (generate(half, *padded(PROMPTS), 5, use_cache=use_cache)[
        "output_word_ids"].numpy() for use_cache in (True, False))
    assert (found == expected).mean() > 0.8  # near ties may fall otherwise


def full_logits(model, tokens):
    """Logits after `tokens`, from the model's whole-sequence call on the last window."""
    tokens = tokens[-model.config.longest:]
    ids = np.array([tokens + [0]], "int32")  # a last position, which call does not decode
    if len(tokens) == model.config.longest:
        return model.next_token_logits({"input_word_ids": ids[:, :-1],
                                        "input_mask": np.ones_like(ids[:, :-1])})[0].numpy()
    batch = {"input_word_ids": ids, "input_mask": np.ones_like(ids)}
    return model(batch)["language_model_logits"][0, -1].numpy()


def by_hand(model, prompt, count):
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(full_logits(model, tokens).argmax()))
    return tokens[len(prompt):]


def test_greedy_is_the_argmax_step_by_step_and_slides_over_the_window(model):
    got = generate(model, *padded(PROMPTS, 7), 9)
    expected = [by_hand(model, prompt, 9) for prompt in PROMPTS]
    assert got["output_word_ids"].numpy().tolist() == expected
    assert got["output_mask"].numpy().all()
    # The longest prompt may itself be longer than the window.
    long = [list(range(1, 13))]
    assert generate(model, *padded(long), 3)["output_word_ids"].numpy().tolist() == [
        by_hand(model, long[0], 3)]


def test_a_row_ends_with_the_end_token(model):
    free = generate(model, *padded(PROMPTS), 6)["output_word_ids"].numpy()
    end = int(free[0, 2])
    got = generate(model, *padded(PROMPTS), 6, end_id=end)
    for row, ids, mask in zip(free.tolist(), *(got[name].numpy() for name in (
            "output_word_ids", "output_mask")), strict=True):
        count = row.index(end) + 1 if end in row else 6
        assert ids.tolist() == row[:count] + [0] * (6 - count)
        assert mask.tolist() == [1] * count + [0] * (6 - count)


def test_draws_follow_the_renormalised_top_k(model):
    prompt, count, k, temperature = [5, 6, 7], 800, 5, 1.7
    ids = generate(model, *padded([prompt] * count), 1, top_k=k, temperature=temperature,
                   seed=11)["output_word_ids"].numpy()[:, 0]
    logits = full_logits(model, prompt) / temperature
    best = np.argsort(-logits)[:k]
    weights = np.exp(logits[best] - logits[best].max())
    expected = count * weights / weights.sum()
    seen = np.array([(ids == token).sum() for token in best])
    assert seen.sum() == count
    # Chi-square with 4 degrees of freedom is above this once in a thousand.
    assert ((seen - expected)**2 / expected).sum() < 18.47
    assert len(set(generate(model, *padded([prompt] * 300), 1, top_k=99, temperature=9.0)[
        "output_word_ids"].numpy()[:, 0])) > 15


def test_the_least_probable_of_a_long_vocabulary_takes_no_more_than_its_own():
    """Float32 sums lose what is below 3e-8, so that they end at 0.999."""
    logits = -1.5 * np.log(np.arange(1.0, 150_001))
    draws = np.float32([0.9991, 0.9995, 0.9998])
    tiled = tf.constant(np.tile(logits, (3, 1)), tf.float32)
    found = _pick(tiled, 1.0, 150_000, 1.0, draws).numpy()
    below = np.cumsum(np.exp(logits) / np.exp(logits).sum())
    assert np.abs(below[found] - draws).max() < 2e-3 and found.max() < 149_999


@pytest.mark.parametrize(("top_k", "top_p", "expected"), [
    (9, 0.5, [1]), (9, 0.51, [1, 3]), (9, 0.8, [1, 3]), (9, 0.81, [1, 3, 0]),
    (9, 1.0, [1, 3, 0, 2]), (9, 1e-9, [1]), (1, 1.0, [1]),
    (2, 0.63, [1, 3])])  # of two, the first has 0.5 / 0.8
def test_the_nucleus_is_the_fewest_tokens_that_have_top_p(top_k, top_p, expected):
    probabilities = np.float32([0.15, 0.5, 0.05, 0.3])
    draws = np.arange(100, dtype="float32") / 100
    logits = tf.constant(np.tile(np.log(probabilities), (100, 1)))
    found = _pick(logits, 1.0, top_k, top_p, draws).numpy()
    kept = probabilities[expected]
    counts = [(found == token).sum() for token in expected]
    assert sum(counts) == 100
    np.testing.assert_allclose(counts, 100 * kept / kept.sum(), atol=1)


def test_top_p_draws_from_the_whole_vocabulary_without_top_k(model):
    options = {"temperature": 2.0, "seed": 3}
    batch = padded(PROMPTS)
    found, expected, greedy = (
        generate(model, *batch, 6, **options, **kept)["output_word_ids"].numpy()
        for kept in ({"top_p": 0.9}, {"top_k": 99, "top_p": 0.9}, {}))
    np.testing.assert_array_equal(found, expected)
    assert (found != greedy).any()


@pytest.mark.parametrize("temperature", [1e-3, 1e-38, 1e-50])
def test_a_low_temperature_takes_the_most_probable(model, temperature):
    for top_k in (1, 5):
        found = generate(model, *padded(PROMPTS), 4, top_k, temperature)["output_word_ids"]
        np.testing.assert_array_equal(found, generate(model, *padded(PROMPTS), 4)[
            "output_word_ids"])


def test_a_row_does_not_depend_on_its_batch(model):
    options = {"top_k": 6, "temperature": 2.0}
    whole = generate(model, *padded(PROMPTS, 9), 6, seed=4, **options)["output_word_ids"].numpy()
    np.testing.assert_array_equal(whole[:2], generate(
        model, *padded(PROMPTS[:2]), 6, seed=4, **options)["output_word_ids"])
    assert (whole != generate(model, *padded(PROMPTS), 6, seed=5, **options)[
        "output_word_ids"].numpy()).mean() > 0.2
    seeds = np.array([7, 8, 7], "int32")
    mixed = generate(model, *padded([PROMPTS[0], PROMPTS[0], PROMPTS[2]]), 6, seed=seeds,
                     **options)["output_word_ids"].numpy()
    for row, prompt in ((0, PROMPTS[0]), (2, PROMPTS[2])):
        np.testing.assert_array_equal(mixed[row], generate(
            model, *padded([prompt]), 6, seed=seeds[row:row + 1],
            **options)["output_word_ids"].numpy()[0])
    assert (mixed[0] != mixed[1]).any()


def test_inside_a_graph_with_everything_an_argument(model):
    free = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[free, free, tf.TensorSpec([], tf.int32),
                                  tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32),
                                  tf.TensorSpec([None], tf.int32)])
    def in_graph(ids, mask, count, top_k, temperature, seed):
        return generate(model, ids, mask, count, top_k, temperature, seed, end_id=2)

    seeds = np.array([1, 2, 3], "int32")
    got = in_graph(*padded(PROMPTS), 5, 4, 1.5, seeds)
    want = generate(model, *padded(PROMPTS), 5, 4, 1.5, seeds, end_id=2)
    for name in want:
        np.testing.assert_array_equal(got[name], want[name])


@pytest.mark.parametrize("changes", [
    *(pytest.param(changes, marks=pytest.mark.long) for changes in (
        {},  # test_greedy_is_the_argmax_step_by_step_and_slides_over_the_window
        {"family": "roberta", "attention": "causal", "type_vocab_size": 1,
         "max_position_embeddings": 9},
        {"family": "albert", "attention": "causal", "type_vocab_size": 2, "embedding_size": 8,
         "position_embedding": "sinusoidal", "num_hidden_groups": 1,
         "masked_lm_head": "transform"},
        {"family": "bert", "attention": "causal", "type_vocab_size": 2,
         "feed_forward": "conv"},
        {"family": "gemma3", **ROTARY, "local_attention": 4,
         "global_attention_every": 2})), {"family": "qwen3", **ROTARY}],
    ids=["gpt", "positions_from_padding", "shared_layers", "conv", "window", "rotary"])
def test_kept_keys_and_values_change_nothing(changes):
    """The same tokens as by runs over whole rows: within the window, into it and beyond it."""
    model = LanguageModel(ModelConfig.from_dict({
        **GPT.to_dict(), "pooling": "last", "num_hidden_layers": 2, **changes}), seed=3)
    # 0, which pads, is among what the prompts hold.
    ids, mask = padded([[5, 0, 7], [9], [3, 3, 4, 5, 8], [1] * 9], 10)
    for rows, count in ((slice(0, 3), 9), (slice(0, 4), 3)):
        for options in ({}, {"top_k": 5, "temperature": 1.5, "seed": 7}, {"end_id": 3}):
            found, expected = (generate(model, ids[rows], mask[rows], count, use_cache=use_cache,
                                        **options) for use_cache in (True, False))
            for name, values in expected.items():
                np.testing.assert_array_equal(found[name], values)
    within = generate(model, ids[:3], mask[:3], 3, may_slide=False)
    np.testing.assert_array_equal(within["output_word_ids"], generate(
        model, ids[:3], mask[:3], 3, use_cache=False)["output_word_ids"])


@pytest.mark.parametrize("use_cache", [True, False])
def test_a_row_that_may_not_slide_ends_none_but_itself(model, use_cache):
    prompts = [PROMPTS[0], [5] * 7, [5] * 9]  # of a window of 8
    found = generate(model, *padded(prompts), 4, use_cache=use_cache, may_slide=False)
    assert found["output_mask"].numpy().tolist() == [[1] * 4, [1, 1, 0, 0], [0] * 4]
    np.testing.assert_array_equal(found["output_word_ids"][0], generate(
        model, *padded(prompts[:1]), 4)["output_word_ids"][0])


@pytest.mark.long
def test_adapters_and_other_weights_are_seen_by_the_next_call(model):
    own = LanguageModel(GPT, seed=5)
    before = generate(own, *padded(PROMPTS), 4)["output_word_ids"].numpy()
    own.set_weights(model.get_weights())
    expected = generate(model, *padded(PROMPTS), 4)["output_word_ids"].numpy()
    np.testing.assert_array_equal(generate(own, *padded(PROMPTS), 4)["output_word_ids"], expected)
    own.backbone.enable_lora(2, ["query", "value", "dense"])
    for variable in own.trainable_variables:
        variable.assign(tf.random.stateless_normal(variable.shape, [1, 2]))
    adapted = generate(own, *padded(PROMPTS), 4)["output_word_ids"].numpy()
    assert (adapted != expected).any() and (before != expected).any()
    assert adapted[1].tolist() == by_hand(own, PROMPTS[1], 4)


@pytest.mark.parametrize(("options", "message"), [
    ({"top_k": 0}, "top_k=0"), ({"top_k": np.int64(0)}, "top_k=0"), ({"top_k": 1.5}, "top_k"),
    ({"temperature": 0.0}, "temperature"), ({"temperature": float("nan")}, "temperature"),
    ({"max_new_tokens": -1}, "max_new_tokens"),
    *(({"top_p": top_p}, "top_p=.*; expected above 0, at most 1")
      for top_p in (0.0, 1.01, float("nan"))),
    ({"max_new_tokens": None}, "max_new_tokens=None"),
    ({"max_new_tokens": "5"}, "'5'; expected an integer"),
    ({"temperature": "x"}, "temperature='x'"), ({"num_tokens": 0}, "num_tokens=0"),
    *(({"seed": seed}, "seed=.*; expected a whole number")
      for seed in (2**32 + 7, 0.9, None, -1, [7, 2**31])),
    *(({"input_word_ids": [[5, token], [5, 5]]}, f"with {token}; expected integers from 0 to 22")
      for token in (23, -1, 2**32 + 5, 2.5)),
    ({"seed": [7]}, r"seed \(1,\) with input_word_ids \(2, 2\)"),
    ({"input_mask": np.ones((2, 3))}, r"input_word_ids \(2, 2\) with input_mask \(2, 3\)"),
    ({"input_word_ids": [5, 5], "input_mask": [1, 1]}, r"both \[batch, seq_length\]"),
    ({"input_mask": np.array([[1, 1], [0, 0]])}, "row 1 of the prompts has no token")])
def test_out_of_range(model, options, message):
    arguments = {"input_word_ids": np.full((2, 2), 5), "input_mask": np.ones((2, 2)),
                 "max_new_tokens": 2}
    with pytest.raises(UsageError, match=message):
        generate(model, **{**arguments, **options})


def test_a_model_of_another_kind(model):
    with pytest.raises(UsageError, match="generate with a .*; expected a LanguageModel"):
        generate(model.encoder, [[5]], [[1]], 2)


def test_padding_on_the_left(model):
    ids, mask = padded(PROMPTS)
    expected = generate(model, ids, mask, 4)["output_word_ids"].numpy()
    left = [np.stack([np.roll(row, -len(prompt)) for row, prompt in zip(
        values, PROMPTS, strict=True)]) for values in (ids, mask)]
    assert left[1][0].tolist() == [0, 0, 1, 1, 1]
    np.testing.assert_array_equal(generate(model, *left, 4)["output_word_ids"], expected)


def test_prompts_of_every_size(model):
    """One token, more than the window, no rows, nothing to add."""
    longest = model.config.longest
    one, long = np.array([[5]]), 5 + np.arange(2 * longest)[np.newaxis] % 7
    for ids, rows, count in ((one, 1, 3), (long, 1, 3), (one[:0], 0, 3), (one, 1, 0),
                             (one[:0, :0], 0, 0)):
        ids = generate(model, ids, np.ones_like(ids), count)["output_word_ids"]
        assert ids.shape == (rows, count)
    cut = long[:, -longest:]
    np.testing.assert_array_equal(*(generate(model, ids, np.ones_like(ids), 2)["output_word_ids"]
                                    for ids in (long, cut)))


def test_text_is_continued_by_text(tmp_path, eager):
    words = ["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", ".", "a", "cat"]
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *words]), lower_case=True)
    config = GPT.replace(vocab_size=len(tokenizer.vocabulary), max_position_embeddings=9)
    LanguageModel(config, seed=3).save_pretrained(tmp_path / "gpt", tokenizer)
    model = from_pretrained(tmp_path / "gpt")
    texts = ["The quick brown fox", "", "the cat . " * 9]
    found = model.generate(texts, max_new_tokens=3)
    room = config.longest - 3
    for text, added in zip(texts, found, strict=True):
        prompt = tokenizer.encode(text)[:-1]
        prompt = prompt[:1] + prompt[1:][1 - room:]
        new = by_hand(model, prompt, 3)
        if tokenizer.vocabulary.sep_id in new:
            new = new[:new.index(tokenizer.vocabulary.sep_id)]
        assert tokenizer.decode(prompt) + added == tokenizer.decode(prompt + new)
    assert model.generate(texts[0], 3) == found[0] and model.generate([]) == []
    assert len({model.generate("the", 3, temperature=9.0, seed=seed) for seed in range(3)}) > 1
    drawn = {model.generate("the", 3, top_k=9, temperature=3.0, seed=seed) for seed in range(3)}
    assert len(drawn) > 2
    options = {"max_new_tokens": 2, "top_k": 9, "temperature": 3.0, "seed": 1}
    alike = ["the"] * 3
    assert model.generate(alike, **options, batch_size=2) == model.generate(alike, **options)
    assert len(set(model.generate(alike, **options))) > 1  # a row's draws are its own
    seeds = list(range(len(alike)))
    own = {**options, "seed": seeds}
    assert model.generate(alike, **own, batch_size=2) == model.generate(alike, **own)
    with pytest.raises(UsageError, match="2 seeds for 3 texts"):
        model.generate(alike, seed=[1, 2], batch_size=2)
    for some in (texts, "the", []):
        with pytest.raises(UsageError, match="batch_size=0"):
            model.generate(some, batch_size=0)
    # Longer than the window: it slides.
    prompt = tokenizer.encode("the fox")[:-1][-2:]
    prompt = [tokenizer.vocabulary.cls_id, *prompt[1:]]
    new = by_hand(model, prompt, 9)
    new = new[:[*new, tokenizer.vocabulary.sep_id].index(tokenizer.vocabulary.sep_id)]
    assert tokenizer.decode(prompt) + model.generate("the fox", 9) == tokenizer.decode(
        prompt + new)
    model.save_pretrained(tmp_path / "again")
    assert from_pretrained(tmp_path / "again").generate(texts, 3) == found
    with pytest.raises(UsageError, match="no tokenizer"):
        LanguageModel(GPT).generate("the")
    assert model.generate(texts, np.int64(3)) == found
    for wrong in (-1, 2.5, None):
        with pytest.raises(UsageError, match=f"max_new_tokens={wrong}"):
            model.generate("the", wrong)
    other = LanguageModel(config.replace(vocab_size=15))
    other.tokenizer = tokenizer
    with pytest.raises(UsageError, match="16 tokens.*vocab_size=15"):
        other.generate("the")
