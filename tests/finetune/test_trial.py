"""What a trial's settings mean: steps, frozen parts, rates by layer."""

import numpy as np
import pytest
import tensorflow as tf
from sentiment import config, examples, tokenizer

from bert_tf.config import ModelConfig
from bert_tf.errors import DivergedError, UsageError
from bert_tf.finetune.config import FinetuneConfig
from bert_tf.finetune.trial import Settings, Trial, freeze, layer_rates, train_config
from bert_tf.tasks.base.text_features import text_features
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.training.best import best_weights
from bert_tf.training.optimizers import AdamW

LABELS = ["bad", "good"]
pytestmark = pytest.mark.usefixtures("eager")


def options(**values):
    return FinetuneConfig(task="cola", train="t.tsv", dev=0.1, output_dir="run", **{
        "batch_size": 8, "strategy": "one_device", **values})


def build(seed=1, **values):
    return Classifier(config(**{"num_hidden_layers": 2, **values}), LABELS, seed=seed,
                      preprocessor=TextPreprocessor(tokenizer(), 32))


def finish(folder, settings, evaluator=lambda model: {"accuracy": 0.5}, **values):
    """Train on 8 examples, a step an epoch; returns the record and the trained models."""
    models = []

    def build_one(seed):
        models.append(build(seed))
        return models[-1]

    record = Trial(settings, str(folder), options(**values)).finish(
        build_one, lambda model: text_features(examples(8), model.preprocessor, LABELS,
                                               "single_label"),
        evaluator, ("accuracy", max), tf.distribute.OneDeviceStrategy("/cpu:0"))
    return record, models


def test_steps_warm_up_and_how_often_is_evaluated():
    made = train_config(options(warmup_ratio=0.25), Settings(3e-5, 4, 7), 10)
    assert (made.train_steps, made.warmup_steps, made.eval_every, made.checkpoint_every) == (
        40, 10, 10, 10)
    assert (made.learning_rate, made.seed, made.batch_size) == (3e-5, 7, 8)


def trainable(model, what):
    """What is left of a model of which less was frozen before."""
    freeze(model, what)
    return {variable.path.split("/LayerNorm")[0] for variable in model.trainable_variables}


def test_freezing_takes_parts_from_the_bottom():
    model = build()
    everything = trainable(model, None)
    upper = trainable(model, "embeddings")
    assert not any("embeddings" in path for path in upper)
    assert trainable(model, 0) == upper < everything
    top = trainable(model, 1)
    assert not any("layer_0" in path for path in top) and any("layer_1" in path for path in top)
    head = {"cls/classifier/output_bias", "cls/classifier/output_weights"}
    assert trainable(model, 2) == head | {"bert/pooler/dense/bias", "bert/pooler/dense/kernel"}
    assert trainable(model, "all") == head
    for count in (3, -1):
        with pytest.raises(UsageError, match=f"--freeze {count}; expected 0 to 2"):
            trainable(model, count)
    with pytest.raises(UsageError, match="share their weights"):
        trainable(build(family="albert", num_hidden_groups=1), 1)


def test_freezing_all_of_an_embedder_is_refused():
    static = ModelConfig.from_dict({"family": "static", "vocab_size": 9, "padding_id": 0,
                                    "hidden_size": 4, "max_position_embeddings": 8})
    for what, encoder in (("all", config()), ("embeddings", static)):
        with pytest.raises(UsageError, match=f"--freeze {what} leaves nothing to train"):
            freeze(SentenceEmbedder(encoder), what)


@pytest.mark.parametrize(("family", "values"), [
    pytest.param("mpnet", {"relative_position": "bias", "position_buckets": 8,
                           "max_relative_position": 6}, marks=pytest.mark.long),
    ("deberta", {"relative_position": "disentangled", "position_buckets": 4,
                 "max_relative_position": 6, "first_conv_kernel_size": 3}),
    pytest.param("modernbert", {"norm_position": "pre"}, marks=pytest.mark.long)])
def test_what_layers_share_is_frozen_with_them(family, values):
    """Else frozen layers would compute something else after every step."""
    model = build(family=family, **values)

    def shared(what):
        return {path for path in trainable(model, what)
                if path.startswith(f"{family}/encoder") and "/layer_" not in path}

    assert shared(None) == shared("embeddings") != set()
    # The LayerNorm after the last layer of a ModernBERT is above them.
    assert shared(1) == ({"modernbert/encoder"} if family == "modernbert" else set())
    assert shared("all") == set()


def test_what_is_frozen_does_not_change_and_the_rest_does(tmp_path):
    trained = {}

    def evaluator(model):
        trained.update({variable.path: variable.numpy() for variable in model.weights})
        return {"accuracy": 0.5}

    finish(tmp_path, Settings(1e-2, 1, 3), evaluator, freeze=1)
    for before in build(3).weights:
        frozen = "embeddings" in before.path or "layer_0" in before.path
        assert np.array_equal(before.numpy(), trained[before.path]) == frozen, before.path


def test_a_finished_trial_holds_no_weights(tmp_path):
    _, (model,) = finish(tmp_path, Settings(1e-2, 1, 3))
    assert {np.size(variable.numpy()) for variable in model.weights} == {1}


def test_rates_are_those_of_the_paper():
    # ELECTRA: a factor of decay for every layer below the head.
    rates = layer_rates(config(num_hidden_layers=2), 0.5)
    model = build()
    optimizer = AdamW(rates=rates)
    optimizer.build(model.trainable_variables)
    expected = {"bert/embeddings": 1 / 8, "bert/encoder/layer_0/": 1 / 4,
                "bert/encoder/layer_1/": 1 / 2, "bert/pooler": 1, "cls/": 1}
    for variable, rate in zip(model.trainable_variables, optimizer._rates, strict=True):
        assert rate == next(value for start, value in expected.items()
                            if variable.path.startswith(start)), variable.path
    with pytest.raises(UsageError, match="share their weights"):
        layer_rates(config(family="albert", num_hidden_layers=2, num_hidden_groups=1), 0.5)


def test_a_record_names_the_best_epoch_and_is_not_made_twice(tmp_path):
    scores = iter([0.25, 0.75, 0.5])
    record, _ = finish(tmp_path, Settings(1e-3, 3, 3), lambda model: {"accuracy": next(scores)})
    assert record["epoch"] == 2 and record["metrics"] == {"accuracy": 0.75}
    assert (record["learning_rate"], record["epochs"], record["seed"]) == (1e-3, 3, 3)
    again, models = finish(tmp_path, Settings(1e-3, 3, 3))
    assert again == record and not models
    assert not (tmp_path / "checkpoints").exists()


def test_a_trial_that_was_interrupted_makes_the_evaluation_under_way_again(tmp_path):
    told = iter([0.25, KeyboardInterrupt, 0.75, 0.5])

    def evaluator(model):
        score = next(told)
        if score is KeyboardInterrupt:
            raise score
        return {"accuracy": score}

    with pytest.raises(KeyboardInterrupt):
        finish(tmp_path, Settings(1e-3, 3, 3), evaluator)
    record, _ = finish(tmp_path, Settings(1e-3, 3, 3), evaluator)
    assert record["epoch"] == 2 and list(told) == []


def test_patience_ends_a_trial(tmp_path):
    scores = iter([0.5, 0.25, 0.25, 0.75])
    record, _ = finish(tmp_path, Settings(1e-3, 4, 3), lambda model: {"accuracy": next(scores)},
                       patience=2)
    assert record["epoch"] == 1 and list(scores) == [0.75]


def test_a_trial_that_diverges_says_so(tmp_path):
    with np.errstate(all="ignore"):
        record, _ = finish(tmp_path, Settings(1e30, 2, 3), batch_size=4)  # two steps an epoch
    assert "metrics" not in record
    assert record["diverged"] == "train loss is NaN at step 2, gradient norm NaN"


def test_what_was_good_before_a_trial_diverged_is_kept(tmp_path):
    epochs = iter([0.5, 0.75])

    def evaluator(model):
        score = next(epochs, None)
        if score is None:
            raise DivergedError("the third epoch overflowed")
        return {"accuracy": score}

    record, _ = finish(tmp_path, Settings(1e-3, 4, 3), evaluator)
    assert (record["epoch"], record["metrics"]) == (2, {"accuracy": 0.75})
    assert record["diverged_later"] == "the third epoch overflowed"
    assert best_weights(str(tmp_path)) and not (tmp_path / "checkpoints").exists()
