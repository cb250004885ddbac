"""Masking against the paper's rules: budget, whole words, 80/10/10, purity."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.data.masking import Masking
from bert_tf.randomness import stream_key

PAD, UNK, CLS, SEP, MASK = SPECIAL = (0, 3, 1, 2, 4)
VOCAB = 50
SEQ = 24


def _masking(whole_word, predictions=5, vocab_size=VOCAB):
    return Masking(vocab_size=vocab_size, special_ids=SPECIAL, mask_id=MASK,
                   max_predictions_per_seq=predictions, whole_word=whole_word)


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


@settings(max_examples=100, deadline=None)
@given(rows, st.booleans(), st.integers(1, 6), st.integers(0, 2**40))
def test_rules(rows, whole_word, predictions, first):
    batch = ids, lengths, flags = _batch([[token for token, _ in row] for row in rows],
                                         [[start for _, start in row] for row in rows])
    masked = _call(_masking(whole_word, predictions), batch, first)
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

        budget = min(predictions, max(1, round(int(length) * 0.15)))
        words = _words(ids[number], flags[number] if whole_word else np.ones(SEQ), length)
        chosen = [word for word in words if word[0] in positions]
        assert sorted(sum(chosen, [])) == positions.tolist()  # words are chosen whole
        # The budget is spent as far as a word that still fits is there.
        assert count <= budget
        assert all(len(word) > budget - count for word in words if word not in chosen)


@pytest.mark.parametrize("whole_word", [False, True])
def test_shares_and_replacements(whole_word):
    vocab_size, seq_length, rows = 1000, 102, 4000
    rng = np.random.default_rng(0)
    words = rng.integers(5, vocab_size, (rows, 98))
    batch = _batch(words, rng.random((rows, 98)) < 0.7, seq_length)
    masked = _call(_masking(whole_word, 40, vocab_size), batch)
    ids, lengths, flags = batch
    count = masked["masked_lm_weights"].sum()
    assert abs(count / lengths.sum() - 0.15) < 0.002
    real = masked["masked_lm_weights"] > 0
    labels = masked["masked_lm_ids"][real]
    seen = np.take_along_axis(masked["input_word_ids"], masked["masked_lm_positions"], 1)[real]
    random = (seen != MASK) & (seen != labels)
    for share, expected in (((seen == MASK), 0.8), (random, 0.1), (seen == labels, 0.1)):
        assert abs(share.mean() - expected) < 0.005
    drawn = np.bincount(seen[random], minlength=vocab_size)
    assert drawn[list(SPECIAL)].sum() == 0
    assert (drawn[5:] > 0).mean() > 0.98  # any other entry may be drawn
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


def test_an_example_depends_on_its_index_only():
    batch = _batch(np.random.default_rng(0).integers(5, VOCAB, (8, 20)), [[1] * 20] * 8)
    whole = _call(_masking(True), batch, first=2**33)
    part = _call(_masking(True), [array[3:5] for array in batch], first=2**33 + 3)
    for name, value in part.items():
        np.testing.assert_array_equal(value, whole[name][3:5])
    other = _call(_masking(True), batch, first=2**33 + 8)
    assert (other["masked_lm_positions"] != whole["masked_lm_positions"]).any()
