"""What a finished fine-tuning tells of its seeds."""

import types

import pytest

from bert_tf.finetune.report import report

OPTIONS = types.SimpleNamespace(output_dir="run")


@pytest.mark.parametrize(("seeds", "told"), [
    (["metrics", "metrics"], "mean of 2 seeds: f1 0.5000 ± 0.1000"),
    (["metrics", "diverged", "metrics"], "mean of 2 of 3 seeds: f1 0.5000 ± 0.1000"),
    (["diverged", "metrics"], "mean of 1 of 2 seeds: f1 0.5000"),
    (["metrics"], "best: f1 0.6000")])
def test_seeds_that_diverged_are_in_no_mean(seeds, told, capsys):
    report(OPTIONS, {"seeds": [{name: {}} for name in seeds], "mean": {"f1": 0.5},
                     "deviation": {"f1": 0.1}, "metrics": {"f1": 0.6}}, None)
    assert capsys.readouterr().out.splitlines()[0] == told
