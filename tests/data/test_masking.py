"""Masking against the papers' rules: budget, whole words, spans, replacements, purity."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.data.masking import ELECTRA_REPLACEMENT_PROBS, REPLACEMENT_PROBS, Masking
from bert_tf.randomness import stream_key

PAD, UNK, CLS, SEP, MASK = SPECIAL = (0, 3, 1, 2, 4)
VOCAB = 50
SEQ = 24


def _masking(whole_word, predictions=5, vocab_size=VOCAB, **options):
    return Masking(vocab_size=vocab_size, special_ids=SPECIAL, mask_id=MASK,
                   max_predictions_per_seq=predictions, whole_word=whole_word, **options)


def _batch(rows, starts, seq_length=SEQ):
    """Padded ids, lengths and word starts of `[CLS] row [SEP]`."""
    ids = np.full((len(rows), seq_length), PAD, np.int32)
    flags = np.zeros_like(ids)
    for number, (row, start) in enumerate(zip(rows, starts, strict=True)):
        ids[number, :len(row) + 2] = [CLS, *row, SEP]
        flags[number, 1:len(row) + 1] = start
    return ids, np.array([len(row) + 2 for row in rows], np.int32), flags


def _call(masking, batch, first=0, seed=1):
    output = masking(stream_key(seed, "test"), first, *map(tf.constant, batch))
    return {name: value.numpy() for name, value in output.items()}


def _words(ids, flags, length):
    """Words of an example as lists of positions, found piece by piece."""
    words, open_word = [], False
    for position in range(length):
        if ids[position] in SPECIAL:
            open_word = False
        elif open_word and not flags[position]:
            words[-1].append(position)
        else:
            words.append([position])
            open_word = True
    return words


rows = st.lists(st.lists(st.tuples(st.sampled_from([UNK, SEP, *range(5, VOCAB)]), st.booleans()),
                         min_size=1, max_size=SEQ - 2), min_size=1, max_size=4)


@settings(max_examples=15, deadline=None)
@given(rows, st.booleans(), st.integers(1, 6), st.integers(0, 2**40), st.integers(1, 4),
       st.sampled_from([0.15, 0.25, 0.6]))
def test_rules(rows, whole_word, predictions, first, max_ngram, share):
    batch = ids, lengths, flags = _batch([[token for token, _ in row] for row in rows],
                                         [[start for _, start in row] for row in rows])
    masked = _call(_masking(whole_word, predictions, max_ngram=max_ngram, masked_lm_prob=share),
                   batch, first)
    for number, length in enumerate(lengths):
        weights = masked["masked_lm_weights"][number]
        count = int(weights.sum())
        positions = masked["masked_lm_positions"][number][:count]
        labels = masked["masked_lm_ids"][number]
        np.testing.assert_array_equal(weights, np.arange(predictions) < count)
        assert (np.diff(positions) > 0).all()
        assert not labels[count:].any() and not masked["masked_lm_positions"][number][count:].any()
        np.testing.assert_array_equal(labels[:count], ids[number][positions])
        assert not np.isin(labels[:count], SPECIAL).any()

        output = masked["input_word_ids"][number]
        kept = np.setdiff1d(np.arange(SEQ), positions)
        np.testing.assert_array_equal(output[kept], ids[number][kept])
        assert not np.isin(output[positions], [PAD, UNK, CLS, SEP]).any()

        budget = min(predictions, max(1, round(int(length) * share)))
        words = _words(ids[number], flags[number] if whole_word else np.ones(SEQ), length)
        chosen = [word for word in words if word[0] in positions]
        assert sorted(sum(chosen, [])) == positions.tolist()  # words are chosen whole
        # The budget is spent as far as a word that still fits is there; spans spend some.
        assert count <= budget
        left = budget - count if max_ngram == 1 or not count else 0
        assert all(len(word) > left for word in words if word not in chosen)


@pytest.mark.parametrize("max_ngram, probs, masked_lm_prob", [
    (1, REPLACEMENT_PROBS, 0.15), (3, REPLACEMENT_PROBS, 0.15),
    (3, ELECTRA_REPLACEMENT_PROBS, 0.25)])
@pytest.mark.parametrize("whole_word", [False, True])
def test_shares_and_replacements(whole_word, max_ngram, probs, masked_lm_prob):
    vocab_size, seq_length, rows = 1000, 102, 4000
    rng = np.random.default_rng(0)
    words = rng.integers(5, vocab_size, (rows, 98))
    batch = _batch(words, rng.random((rows, 98)) < 0.7, seq_length)
    masked = _call(_masking(whole_word, 40, vocab_size, max_ngram=max_ngram,
                            replacement_probs=probs, masked_lm_prob=masked_lm_prob), batch)
    ids, lengths, flags = batch
    count = masked["masked_lm_weights"].sum()
    assert abs(count / lengths.sum() - masked_lm_prob) < 0.002
    real = masked["masked_lm_weights"] > 0
    labels = masked["masked_lm_ids"][real]
    seen = np.take_along_axis(masked["input_word_ids"], masked["masked_lm_positions"], 1)[real]
    random = (seen != MASK) & (seen != labels)
    kept = 1 - sum(probs)
    for share, expected in zip((seen == MASK, random, seen == labels), (*probs, kept),
                               strict=True):
        assert abs(share.mean() - expected) < 0.005 * max_ngram
    if probs is REPLACEMENT_PROBS:
        drawn = np.bincount(seen[random], minlength=vocab_size)
        assert drawn[list(SPECIAL)].sum() == 0
        assert (drawn[5:] > 0).mean() > 0.98  # any other entry may be drawn
    else:
        assert not random.any()
    # Every position is as likely as any other.
    chosen = np.bincount(masked["masked_lm_positions"][real], minlength=seq_length)[1:99]
    assert abs(chosen - chosen.mean()).max() < 6 * np.sqrt(chosen.mean())
    if whole_word:
        _check_one_fate(masked, flags)


def _check_one_fate(masked, flags):
    for number in range(200):
        count = int(masked["masked_lm_weights"][number].sum())
        positions = masked["masked_lm_positions"][number][:count]
        word = np.cumsum(flags[number])[positions]
        is_mask = masked["input_word_ids"][number][positions] == MASK
        for same in np.unique(word):
            assert len(set(is_mask[word == same])) == 1


@pytest.fixture(scope="module", params=[False, True], ids=["tokens", "words"])
def spans(request):
    """Spans of up to 3 among so many unmasked tokens that hardly two of them touch: tuples of
    the unit (token or word) each begins with, its units and whether each became [MASK]."""
    rng = np.random.default_rng(0)
    rows, size = 200, 4000
    flags = rng.random((rows, size)) < (0.7 if request.param else 1)
    flags[:, 0] = True
    batch = _batch(rng.integers(5, VOCAB, (rows, size)), flags, size + 2)
    masked = _call(_masking(request.param, 100, max_ngram=3, masked_lm_prob=0.02,
                            replacement_probs=(0.5, 0)), batch)
    found = []
    for number in range(rows):
        positions = masked["masked_lm_positions"][number][masked["masked_lm_weights"][number] > 0]
        units, first = np.unique(np.cumsum(batch[2][number])[positions], return_index=True)
        is_mask = masked["input_word_ids"][number][positions[first]] == MASK
        edges = np.flatnonzero(np.diff(units) > 1) + 1
        found += [(run[0], len(run), fate.tolist()) for run, fate in
                  zip(np.split(units, edges), np.split(is_mask, edges), strict=True)]
    return found


def test_lengths_of_spans_follow_the_formula(spans):
    """p(n) = (1/n) / (1 + 1/2 + 1/3): ALBERT paper, section 4.1."""
    lengths = np.array([length for _, length, _ in spans])
    assert (lengths > 3).mean() < 0.03  # two that touch
    shares = np.bincount(lengths, minlength=4)[1:4] / len(lengths)
    np.testing.assert_allclose(shares, np.array([6, 3, 2]) / 11, atol=0.02)


def test_a_span_has_one_fate(spans):
    fates = [fate for _, length, fate in spans if 1 < length < 4]
    assert len(fates) > 3000
    assert np.mean([len(set(fate)) == 1 for fate in fates]) > 0.97
    assert abs(np.mean([fate[0] for fate in fates]) - 0.5) < 0.03


def test_spans_begin_anywhere(spans):
    places = np.array([place for place, _, _ in spans])
    assert abs(np.mean(places) / places.max() - 0.5) < 0.02


def test_no_span_crosses_a_special_token():
    rows = np.random.default_rng(0).integers(5, VOCAB, (200, 3000))
    rows[:, 2::3] = SEP
    masked = _call(_masking(False, 100, max_ngram=3, masked_lm_prob=0.02),
                   _batch(rows, np.ones_like(rows), 3002))
    chosen = np.zeros((200, 3002), bool)
    np.put_along_axis(chosen, masked["masked_lm_positions"], True, axis=1)
    within = (chosen[:, 1:-1:3] & chosen[:, 2:-1:3]).mean()
    across = (chosen[:, 2:-3:3] & chosen[:, 4:-1:3]).mean()
    assert across < 2 * 0.03**2 < within / 4


@pytest.mark.parametrize("max_ngram", [1, 3])
def test_an_example_depends_on_its_index_only(max_ngram):
    masking = _masking(True, max_ngram=max_ngram)
    batch = _batch(np.random.default_rng(0).integers(5, VOCAB, (8, 20)), [[1] * 20] * 8)
    whole = _call(masking, batch, first=2**33)
    part = _call(masking, [array[3:5] for array in batch], first=2**33 + 3)
    for name, value in part.items():
        np.testing.assert_array_equal(value, whole[name][3:5])
    other = _call(masking, batch, first=2**33 + 8)
    assert (other["masked_lm_positions"] != whole["masked_lm_positions"]).any()
