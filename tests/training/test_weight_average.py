"""The average of weights against NumPy's of the checkpoints of every step."""

import numpy as np
import pytest

from bert_tf.training.checkpoint import Checkpoints

pytestmark = pytest.mark.usefixtures("eager")


def test_averages_are_evaluated_and_returned(tiny):
    """On two replicas; the run goes on with the weights themselves."""
    options = {"train_steps": 3, "checkpoint_every": 1, "keep_checkpoints": 9,
               "learning_rate": 0.01}
    weights, result = tiny.train("run", ema_decay=0.5, eval_examples=20, eval_every=3, **options)
    checkpoints = Checkpoints(str(tiny.root / "run/checkpoints"))
    model = tiny.model()
    average = {variable.path: variable.numpy() for variable in model.trainable_variables}
    for number in range(1, 4):
        tensors, _ = checkpoints.load(number)
        keep = min(0.5, (1 + number) / (10 + number))
        for path in average:
            average[path] = keep * average[path] + (1 - keep) * tensors[path]
            np.testing.assert_allclose(tensors[f"average/{path.replace('/', '_')}"], average[path],
                                       rtol=1e-5, atol=1e-6)
    far = 0.0
    for path, value in average.items():
        np.testing.assert_allclose(weights[path], value, rtol=1e-5, atol=1e-6)
        far = max(far, np.abs(tensors[path] - value).max())
    assert far > 1e-3
    for variable in model.weights:
        variable.assign(weights[variable.path])
    (batch, last) = tiny.input(20).dataset()
    sums, counts = zip(*((model.loss_sums(model(each), each), model.loss_weights(each))
                         for each in (batch, last)), strict=True)
    assert result["evaluation"]["masked_lm_loss"] == pytest.approx(float(
        sum(each["masked_lm"] for each in sums) / sum(each["masked_lm"] for each in counts)),
        abs=1e-5)
    plain, _ = tiny.train("plain", **options)
    for path, value in plain.items():
        np.testing.assert_array_equal(tensors[path], value)
