"""Thirty steps of Hugging Face's BertForPreTraining and torch's AdamW, met by the whole loop."""

import json

import numpy as np
import pytest
import tensorflow as tf
from models.test_reference import from_hf
from safetensors.numpy import load_file

from bert_tf.config import ModelConfig
from bert_tf.training.config import TrainConfig
from bert_tf.training.loop import train
from bert_tf.training.optimizers import AdamW
from bert_tf.training.schedules import WarmupLinearDecay
from bert_tf.training.strategy import make_strategy

pytestmark = pytest.mark.graphs_improved


class Trajectory:
    """The `dataset` interface over the given batches of four."""

    def __init__(self, given):
        predicted = given["labels"] != -100
        order = np.argsort(~predicted, axis=-1, kind="stable")
        self.features = {
            "input_word_ids": given["input_ids"], "input_mask": given["attention_mask"],
            "input_type_ids": given["token_type_ids"],
            "masked_lm_positions": order.astype(np.int32),
            "masked_lm_ids": np.take_along_axis(np.where(predicted, given["labels"], 0), order, -1),
            "masked_lm_weights": np.take_along_axis(predicted, order, -1).astype(np.float32),
            "next_sentence_labels": given["next_sentence_label"]}

    def dataset(self, start_step, num_replicas, replicas):
        assert (start_step, list(replicas)) == (0, list(range(num_replicas)))
        size = 4 // num_replicas
        dataset = tf.data.Dataset.from_tensor_slices(
            {name: value.reshape(30 * num_replicas, size, *value.shape[2:])
             for name, value in self.features.items()})
        return dataset.enumerate().map(lambda i, batch: {**batch, "first_example": size * i})


@pytest.mark.parametrize("devices", [
    "one_device", pytest.param("mirrored", marks=pytest.mark.long)])
def test_trajectory(shared, tmp_path, devices):
    from bert_tf.tasks.pretraining.masked_lm import Pretrainer

    folder = shared / "reference/hf_bert"
    given = np.load(folder / "training.npz")
    hf = json.loads((folder / "config.json").read_text())
    names = {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "hidden_act",
             "intermediate_size", "max_position_embeddings", "type_vocab_size"}
    model_config = ModelConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                               **{name: hf[name] for name in names})
    config = TrainConfig(train_steps=30, batch_size=4, log_every=1)
    strategy = make_strategy(devices)
    with strategy.scope():
        model = Pretrainer(model_config)
        optimizer = AdamW(WarmupLinearDecay(2e-3, 5, 39))
    weights = from_hf(load_file(folder / "model.safetensors"))
    assert weights.keys() == {variable.path for variable in model.trainable_variables}
    for variable in model.trainable_variables:
        variable.assign(weights[variable.path])

    train(model, optimizer, strategy, config, Trajectory(given), None, str(tmp_path))

    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    for name, relative in (("loss", 1e-5), ("gradient_norm", 1e-4), ("learning_rate", 1e-6)):
        np.testing.assert_allclose([line[name] for line in lines], given[name], rtol=relative,
                                   err_msg=name)
    final = {variable.path: variable.numpy() for variable in model.trainable_variables}
    expected = from_hf({key.removeprefix("final:"): value for key, value in given.items()
                        if key.startswith("final:")})
    assert expected
    for name, value in expected.items():
        # 30 steps of Adam at 2e-3: rounding, which differs between processors, adds up to 3.1e-5.
        np.testing.assert_allclose(final[name], value, rtol=0, atol=5e-5, err_msg=name)
