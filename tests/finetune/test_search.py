"""Which trials a run makes, and which of them it keeps."""

import types

import keras
import pytest

from bert_tf.errors import DivergedError
from bert_tf.finetune.config import FinetuneConfig
from bert_tf.finetune.results import spread
from bert_tf.finetune.run import FinetuningRun
from bert_tf.finetune.search import Search
from bert_tf.finetune.trial import Trial


class Monitored:
    """Of a kind all that a search asks for."""

    def __init__(self, better):
        self.monitor = ("score", better)


def search(score, better=max, epochs=(3,), learning_rate=(1e-5,), seeds=1):
    """Search where `score(learning_rate, epochs, seed)` is how a trial ends; None: it diverges."""
    options = FinetuneConfig(task="cola", train="t.tsv", dev=0.1, output_dir="unused",
                             epochs=epochs, learning_rate=learning_rate, seeds=seeds, seed=7)
    run = FinetuningRun(options, None, None)
    run.type = Monitored(better)
    made = []

    def finish_trial(trial):
        settings = trial.settings
        made.append((settings.learning_rate, settings.epochs, settings.seed))
        value = score(*made[-1])
        outcome = {"diverged": "train loss is NaN"} if value is None else {
            "metrics": {"score": value}}
        return {"seed": settings.seed, **outcome}

    found = Search(run)
    found.finish_trial = finish_trial
    return found.finish(), list(dict.fromkeys(made))


def test_the_grid_with_one_seed_then_all_seeds_at_the_best():
    (found, best, records), made = search(
        lambda rate, epochs, seed: rate * 1e5 + epochs / 10 - (seed - 8) ** 2,
        learning_rate=(1e-5, 5e-5, 2e-5), epochs=(2, 4), seeds=3)
    grid = [(rate, epochs, 7) for rate in (1e-5, 5e-5, 2e-5) for epochs in (2, 4)]
    assert made == [*grid, (5e-5, 4, 8), (5e-5, 4, 9)]
    assert len(found) == 6 and [record["seed"] for record in records] == [7, 8, 9]
    settings = best.settings
    assert (settings.learning_rate, settings.epochs, settings.seed) == (5e-5, 4, 8)


def test_of_equals_the_first_and_a_metric_may_be_better_when_smaller():
    (found, best, _), _ = search(lambda *settings: 0.5, epochs=(2, 3))
    assert best.settings.epochs == 2 and len(found) == 2
    (_, best, _), _ = search(lambda rate, epochs, seed: epochs, min, epochs=(5, 2, 3))
    assert best.settings.epochs == 2


def test_a_single_setting_is_no_search():
    (found, best, records), made = search(lambda rate, epochs, seed: seed, seeds=2)
    assert found == [] and made == [(1e-5, 3, 7), (1e-5, 3, 8)] and best.settings.seed == 8
    assert len(records) == 2


def test_a_trial_that_diverged_is_never_the_best():
    (found, best, _), _ = search(lambda rate, *_: None if rate > 1e-3 else -1.0,
                                 learning_rate=(1.0, 1e-4))
    assert "diverged" in found[0] and best.settings.learning_rate == 1e-4
    with pytest.raises(DivergedError, match="every training diverged: train loss is NaN; try a "
                                            "smaller --learning_rate"):
        search(lambda *settings: None)


@pytest.mark.parametrize("better", [min, max])
def test_a_trial_without_the_metric_is_never_the_best(better):
    """One of an earlier version may lack it, and of another it may be nan."""
    run = types.SimpleNamespace(type=Monitored(better))
    records = [{"metrics": {"f1": 1.0}}, {"diverged": "train loss is NaN"},
               {"metrics": {"f1": 1.0, "score": float("nan")}},
               {"metrics": {"f1": 0.5, "score": 0.5}}, {"metrics": {"f1": 0.5, "score": 0.5}}]
    assert Search(run).best_of(records) == 3
    assert Search(run).best_of(records[:2]) == 0
    assert spread([records[0], records[3]])[0] == {"f1": 0.75}


def test_the_weights_of_the_best_trial_alone_are_kept(monkeypatch):
    """Which is not the last one, and neither the one that diverged."""
    scores, held, most = {1e-5: 1, 2e-5: 4, 3e-5: None, 4e-5: 2, 5e-5: 3}, set(), 0

    def score(rate, epochs, seed):
        nonlocal most
        held.add(rate)
        most = max(most, len(held))
        return scores[rate]

    monkeypatch.setattr(Trial, "drop_weights",
                        lambda trial: held.discard(trial.settings.learning_rate))
    search(score, learning_rate=(*scores, 2e-5))
    assert held == {2e-5} and most == 2


def test_mean_and_sample_deviation():
    mean, deviation = spread([{"metrics": {"mcc": value}} for value in (0.1, 0.2, 0.6)])
    assert mean["mcc"] == pytest.approx(0.3)
    assert deviation["mcc"] == pytest.approx((0.14 / 2) ** 0.5)
    assert spread([{"metrics": {"mcc": 0.1}}]) == ({"mcc": 0.1}, {"mcc": 0.0})


def test_predictions_of_the_best_epoch_are_kept():
    """Of a trial's epochs with equal metrics it is the last, of trials the first."""
    scores, model = iter([0.5, 0.75, 0.75, 0.75, 1.0]), types.SimpleNamespace(weights=[])
    made = iter("abcde")
    run = types.SimpleNamespace(dev=None, type=types.SimpleNamespace(
        monitor=("score", max), predict_dev=lambda model, dev: next(made),
        metrics=lambda dev, predictions: {"score": next(scores)},
        tuned=lambda model, dev, predictions: predictions))
    first, second = (types.SimpleNamespace(folder=name) for name in ("first", "second"))
    found = Search(run)
    records = [{"metrics": {"score": found.evaluate(model, first)["score"]}} for _ in range(2)][1:]
    found.evaluate(model, first)
    assert found.dev_predictions(model, first, records) == "c"
    found.evaluate(model, second)
    assert found.dev_predictions(model, first, records) == "c"
    records.append({"metrics": found.evaluate(model, second)})
    assert found.dev_predictions(model, second, records) == "e"


def test_weights_that_the_last_update_overflowed_are_no_result():
    model = types.SimpleNamespace(weights=[keras.Variable([1.0, float("inf")], name="kernel")])
    with pytest.raises(DivergedError, match="weights are not finite after the last update"):
        Search(types.SimpleNamespace()).evaluate(model, None)
