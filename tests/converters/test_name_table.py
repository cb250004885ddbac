"""Tables applied both ways: names, layouts, laziness, and what is left over."""

import numpy as np
import pytest

from bert_tf.config import ModelConfig
from bert_tf.converters.checkpoint import Tensors, parameter_shapes
from bert_tf.converters.name_table import (
    SAME,
    SIDE_BY_SIDE,
    TRANSPOSED,
    Row,
    split_first,
    split_last,
    to_ours,
    to_theirs,
)
from bert_tf.errors import UsageError

ROWS = (
    Row("{F}/layer_{i}/kernel", "{F}.{i}.weight", TRANSPOSED),
    Row("{F}/bias", "{F}.bias"),
    Row(("a/query", "a/key", "a/value"), "a.packed", SIDE_BY_SIDE),
    Row("heads/query", "heads.query", split_last(4)),
    Row("heads/output", "heads.output", split_first(4)),
)


def _ours():
    draw = np.random.default_rng(5).standard_normal
    arrays = {"bert/layer_0/kernel": (2, 3), "bert/layer_10/kernel": (3, 5), "bert/bias": (4,),
              "a/query": (2, 3), "a/key": (2, 3), "a/value": (2, 3), "heads/query": (8, 8),
              "heads/output": (8, 6)}
    return {name: draw(shape).astype(np.float32) for name, shape in arrays.items()}


def test_a_table_is_its_own_inverse():
    ours = _ours()
    theirs, dropped = to_theirs(ROWS, Tensors.of(ours), "their format")
    assert not dropped
    assert theirs.shapes == {
        "bert.0.weight": (3, 2), "bert.10.weight": (5, 3), "bert.bias": (4,), "a.packed": (2, 9),
        "heads.query": (8, 4, 2), "heads.output": (4, 2, 6)}
    assert {name: theirs[name].shape for name in theirs} == theirs.shapes
    np.testing.assert_array_equal(theirs["a.packed"][:, 3:6], ours["a/key"])
    np.testing.assert_array_equal(theirs["heads.query"][1, 2], ours["heads/query"][1, 4:6])
    np.testing.assert_array_equal(theirs["heads.output"][1, 1], ours["heads/output"][3])

    shapes = {name: array.shape for name, array in ours.items()}
    back, dropped = to_ours(ROWS, theirs, shapes, "a file")
    assert not dropped and list(back) == list(ours)
    for name, array in ours.items():
        assert back[name].tobytes() == array.tobytes()


def test_nothing_is_loaded_before_it_is_asked_for():
    loaded = []

    def load(name):
        loaded.append(name)
        return np.zeros((4,), np.float32)

    tensors, _ = to_ours(ROWS, Tensors({"bert.bias": (4,)}, load), {"bert/bias": (4,)}, "a file")
    assert not loaded
    assert tensors["bert/bias"].shape == (4,) and loaded == ["bert.bias"]


@pytest.mark.parametrize(("change", "message"), [
    (lambda theirs: theirs.pop("bert.bias"), "- bert.bias (4,)"),
    (lambda theirs: theirs.update(more=np.zeros((2, 2))), "+ more (2, 2)"),
    (lambda theirs: theirs.update({"a.packed": np.zeros((2, 8))}),
     "a.packed expected (2, 9), found (2, 8)"),
])
def test_leftovers_and_wrong_shapes_are_named(change, message):
    ours = _ours()
    lazily, _ = to_theirs(ROWS, Tensors.of(ours), "their format")
    theirs = dict(lazily)
    change(theirs)
    with pytest.raises(UsageError) as refused:
        to_ours(ROWS, Tensors.of(theirs), {name: a.shape for name, a in ours.items()}, "a file")
    assert message in str(refused.value) and "a file" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_a_format_cannot_hold_is_dropped_only_where_it_is_listed():
    tensors = Tensors.of({"bert/bias": np.zeros(4), "cls/bias": np.zeros(2)})
    with pytest.raises(UsageError, match="their format has no place for cls/bias"):
        to_theirs(ROWS[:1] + ROWS[2:] + (Row("bert/bias", "bias", SAME),), tensors, "their format")
    theirs, dropped = to_theirs(ROWS, tensors, "their format", not_held=("cls/*",))
    assert list(theirs) == ["bert.bias"] and dropped == ["cls/bias"]

    ours, left = to_ours(ROWS, Tensors.of({"bert.bias": np.zeros(4), "step": np.int64(3)}),
                         {"bert/bias": (4,)}, "a file", ignored=("step",))
    assert list(ours) == ["bert/bias"] and left == ("step",)


def test_more_layers_than_any_model_has():
    config = ModelConfig(vocab_size=9, num_hidden_layers=10**9)
    with pytest.raises(UsageError, match="num_hidden_layers=1000000000"):
        parameter_shapes(config, {"task": "encoder"})
