"""How fast a model is on this machine, and what measuring it leaves behind."""

import pytest
import tensorflow as tf
from harness import mirrored

from bert_tf.pretrain import step_rate
from bert_tf.pretrain.complete import complete
from bert_tf.pretrain.config import PretrainConfig
from bert_tf.pretrain.run import PretrainingRun


@pytest.mark.parametrize("fits", [True, False])
def test_a_measured_model_leaves_no_memory_taken(monkeypatch, eager, fits):
    """Graphs hold their variables until the process ends, and the run trains in it."""
    made, build, rate = [], PretrainingRun.build_model, step_rate._rate
    build_optimizer = step_rate.build_optimizer

    def noted(function):
        return lambda *arguments: made.append(function(*arguments)) or made[-1]

    def measured(*arguments):
        if not fits:
            raise tf.errors.ResourceExhaustedError(None, None, "out of memory")
        return rate(*arguments)

    monkeypatch.setattr(PretrainingRun, "build_model", noted(build))
    monkeypatch.setattr(step_rate, "build_optimizer", noted(build_optimizer))
    monkeypatch.setattr(step_rate, "WeightAverage", noted(step_rate.WeightAverage))
    monkeypatch.setattr(step_rate, "_rate", measured)
    options, config = complete(PretrainConfig(preset="tiny", batch_size=2, max_seq_length=8,
                                              objective="mlm", ema_decay=0.9))
    arguments = options, config, 50, mirrored(1), 0.0
    if fits:
        assert step_rate.steps_per_second(*arguments) > 0
    else:
        with pytest.raises(tf.errors.ResourceExhaustedError):
            step_rate.steps_per_second(*arguments)
    model, optimizer, average = made
    variables = [*model.weights, *optimizer.variables, *average.variables]
    assert len(variables) > 3 * len(model.trainable_variables)
    assert all(variable.value.read_value().shape == () for variable in variables)
