"""Names are as short as they can be, and all different."""

from bert_tf.visualization.names import short_names


def test_short_names():
    assert short_names(["runs/a", "runs/b/"]) == ["a", "b"]
    assert short_names(["old/bert/model", "new/bert", "x"]) == ["old/bert", "new/bert", "x"]
    assert short_names(["/a", "/b/a", "c/metrics.jsonl"]) == ["/a", "b/a", "c"]
    assert short_names(["runs/a", "./runs/a", "runs/a"]) == ["a", "a (2)", "a (3)"]
    assert short_names(["/"]) == ["/"]
    assert short_names(["hf://o/m@v1", "hf://o/m@v2", "hf://o/m"]) == ["m@v1", "m@v2", "m"]
    assert short_names(["hf://o/m@refs/pr/1", "runs/b"]) == ["m@refs/pr/1", "b"]
