"""Training of the rows that occur beside training of the whole table."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.data.task_input import Features, Ragged, TaskInput
from bert_tf.models.trained_rows import occurring_rows, rows_alone
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.training import loop
from bert_tf.training.config import TrainConfig
from bert_tf.training.loop import train
from bert_tf.training.optimizers import build_optimizer
from bert_tf.training.strategy import make_strategy

VOCAB, OCCURRING, STEPS = 60, [0, 2, 3, 11, 12, 13, 40, 41, 59], 7
RATE, DECAY = 0.01, 0.3
CONFIG = ModelConfig.from_dict({
    "family": "bert", "vocab_size": VOCAB, "hidden_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 12,
    "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "initializer_range": 0.2})


def features():
    random = np.random.default_rng(1)
    ids = [random.choice(OCCURRING[1:], random.integers(2, 10)) for _ in range(20)]
    return Features({"input_word_ids": Ragged.of_rows(ids),
                     "input_type_ids": Ragged.of_rows([np.zeros(len(row)) for row in ids]),
                     "label_ids": random.integers(0, 2, 20).astype(np.int32)}, np.arange(20))


def trained(folder, of_rows, strategy="one_device", **fields):
    """Weights by path before and after a training, what its evaluations saw of the table, sizes of
    the optimizer's variables."""
    data = TaskInput(features(), 8, seed=1)
    config = TrainConfig(**{
        "train_steps": STEPS, "batch_size": 8, "learning_rate": RATE, "weight_decay": DECAY,
        "warmup_steps": 0, "strategy": strategy, "eval_every": 3, "checkpoint_every": 3,
        "log_every": 1, **fields})
    strategy = make_strategy(config.strategy)
    seen = []
    with strategy.scope():
        model = Classifier(CONFIG, ["bad", "good"], seed=1, dtype=config.policy)
        before = {variable.path: variable.numpy() for variable in model.weights}
        optimizer = build_optimizer(config)
        rows = occurring_rows(model, data.token_ids()) if of_rows else None
    table = model.encoder.backbone.embeddings.word_embeddings

    def evaluator():
        seen.append(table.numpy())
        return {"loss": 1.0}

    train(model, optimizer, strategy, config, data, None, str(folder), evaluator=evaluator,
          rows=rows)
    sizes = {variable.path: tuple(variable.shape) for variable in optimizer.variables}
    return before, {variable.path: variable.numpy() for variable in model.weights}, seen, sizes


@pytest.mark.parametrize(("strategy", "fields"), [
    ("one_device", {}), *(pytest.param(strategy, fields, marks=pytest.mark.long)
                          for strategy, fields in (("mirrored", {}),
                                                   ("one_device", {"accumulate_steps": 2}),
                                                   ("mirrored", {"dtype": "bfloat16"}),
                                                   ("one_device", {"dtype": "float16"})))])
def test_what_occurs_learns_as_in_the_whole_table(tmp_path, strategy, fields):
    """Up to the order in which a norm is summed; float16 with scaled losses."""
    before, whole, seen_whole, _ = trained(tmp_path / "whole", False, strategy, **fields)
    _, rows, seen, sizes = trained(tmp_path / "rows", True, strategy, **fields)
    path = "bert/embeddings/word_embeddings"
    absent = np.setdiff1d(np.arange(VOCAB), OCCURRING)
    for name, value in whole.items():
        chosen = OCCURRING if name == path else slice(None)
        np.testing.assert_allclose(rows[name][chosen], value[chosen], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(rows[path][absent], before[path][absent])
    # What the whole table's other rows lose is their decay alone.
    logged = map(json.loads, (tmp_path / "whole/metrics.jsonl").read_text().splitlines())
    kept = np.prod([1 - DECAY * line["learning_rate"] for line in logged
                    if line.get("split") == "train"])
    assert kept < 0.99
    np.testing.assert_allclose(whole[path][absent], before[path][absent] * kept, rtol=1e-5)
    assert np.abs(rows[path][OCCURRING] - before[path][OCCURRING]).max() > 0.02
    # Evaluations find the table as it is at that step, and the moments are those of the rows.
    assert len(seen) == len(seen_whole) == 3
    for own, other in zip(seen, seen_whole, strict=True):
        np.testing.assert_allclose(own[OCCURRING], other[OCCURRING], rtol=1e-4, atol=1e-5)
    moments = [size for name, size in sizes.items() if "word_embeddings" in name]
    assert moments == [(len(OCCURRING), 16)] * 2


def stop(folder, of_rows, monkeypatch):
    """Begin a training that is stopped after some steps."""
    def write(self, *arguments):
        written.append(write_metrics(self, *arguments))
        if len(written) == 5:
            raise KeyboardInterrupt

    written, write_metrics = [], loop._Run.write_metrics
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop._Run, "write_metrics", write)
        trained(folder, of_rows)


@pytest.mark.long
def test_a_stopped_run_goes_on_bit_by_bit(tmp_path, monkeypatch):
    _, whole, _, _ = trained(tmp_path / "whole", True)
    stop(tmp_path / "stopped", True, monkeypatch)
    _, resumed, _, _ = trained(tmp_path / "stopped", True)
    for name, value in whole.items():
        np.testing.assert_array_equal(resumed[name], value, err_msg=name)


def test_a_run_that_trained_the_whole_table_goes_on_by_rows(tmp_path, monkeypatch):
    """As versions before trained it: the moments of the rows are cut out of those of the table."""
    _, whole, _, _ = trained(tmp_path / "whole", False)
    stop(tmp_path / "stopped", False, monkeypatch)
    _, resumed, _, _ = trained(tmp_path / "stopped", True)
    for name, value in whole.items():
        chosen = OCCURRING if name == "bert/embeddings/word_embeddings" else slice(None)
        np.testing.assert_allclose(resumed[name][chosen], value[chosen], rtol=1e-4, atol=1e-5,
                                   err_msg=name)


def test_rows_alone_have_the_gradients_of_the_whole_table():
    """Looked up beside other rows, and in the product with the whole table of a masked-LM head."""
    model = Pretrainer(CONFIG, sentence_task=None, seed=1)
    batch = {"input_word_ids": tf.constant([[2, 11, 59, 58], [3, 59, 40, 0]]),
             "input_mask": tf.constant([[1, 1, 1, 1], [1, 1, 1, 0]]),
             "input_type_ids": tf.zeros([2, 4], tf.int32),
             "masked_lm_positions": tf.constant([[1], [2]]),
             "masked_lm_ids": tf.constant([[57], [11]]),
             "masked_lm_weights": tf.ones([2, 1])}

    def loss_and_gradient(variable):
        with tf.GradientTape() as tape:
            loss = model.loss_sums(model(batch), batch)["masked_lm"]
        return loss, tf.convert_to_tensor(tape.gradient(loss, variable.value)).numpy()

    loss, whole = loss_and_gradient(model.encoder.backbone.embeddings.word_embeddings)
    rows = rows_alone(model, [57, 58, 59])
    assert {each.path.split("/")[0] for each in model.trainable_variables} == {"cls"}
    variables = rows.trained(model.trainable_variables)
    assert variables == [*model.trainable_variables, rows.variable]
    with rows.in_place():
        again, own = loss_and_gradient(rows.variable)
        assert rows.table(model) is None
    assert again == loss and own.shape == (3, 16)
    np.testing.assert_allclose(own, whole[57:], rtol=1e-5, atol=1e-7)
    assert np.abs(own).max(axis=1).min() > 1e-3


def test_what_is_not_trained_or_does_not_occur():
    model = Classifier(CONFIG, ["bad", "good"], seed=1)
    rows = occurring_rows(model, OCCURRING)
    embeddings = model.encoder.backbone.embeddings
    assert rows.rows(model, [2]) is None
    np.testing.assert_array_equal(rows.rows(embeddings, tf.constant([[59, 2]])),
                                  embeddings.word_embeddings.numpy()[[[59, 2]]])
    with pytest.raises(tf.errors.InvalidArgumentError):
        rows.rows(embeddings, tf.constant([[2, 4]]))
    with pytest.raises(ValueError, match="as a whole"):
        rows.table(embeddings)
    with pytest.raises(ValueError, match="ema_decay=0.9 with rows"):
        trained("unused", True, ema_decay=0.9)
    embeddings.trainable = False
    assert occurring_rows(model, OCCURRING) is None
