import pytest

from bert_tf.errors import UsageError
from bert_tf.training.config import TrainConfig


def test_round_trip(tmp_path):
    config = TrainConfig(train_steps=7, dtype="bfloat16", learning_rate=1)
    path = str(tmp_path / "train_config.json")
    config.save(path)
    assert TrainConfig.load(path) == config
    assert config.policy == "mixed_bfloat16" and config.replace(dtype="float32").policy == "float32"


@pytest.mark.parametrize(("fields", "message"), [
    ({"learning_rat": 1e-3}, "unknown key 'learning_rat'; try 'learning_rate'"),
    ({"optimizer": "lam"}, "try optimizer='lamb'"),
    ({"train_steps": 10, "warmup_steps": 20}, "warmup_steps=20; expected 0 to train_steps=10"),
    ({"batch_size": 10, "accumulate_steps": 4}, "try batch_size=12"),
    ({"learning_rate": float("nan")}, "learning_rate=nan; expected above 0"),
    ({"train_steps": 1.5}, "train_steps=1.5; expected int"),
    ({"schedule": "trapezoid", "train_steps": 10, "warmup_steps": 9},
     "decay_ratio=0.2, 2 steps, exceeds train_steps=10; try fewer warmup_steps"),
    ({"beta_2": 1.0}, r"beta_2=1.0; expected in \[0, 1\)"),
])
def test_refusals(fields, message):
    with pytest.raises(UsageError, match=message):
        TrainConfig.from_dict(fields)
