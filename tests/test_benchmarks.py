"""What programs of benchmarks/ have in common."""

import pathlib
import sys

import numpy as np
import pytest

BENCHMARKS = str(pathlib.Path(__file__).resolve().parents[1] / "benchmarks")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield
    for name in [name for name, module in sys.modules.items()
                 if str(getattr(module, "__file__", "")).startswith(BENCHMARKS)]:
        del sys.modules[name]


@pytest.mark.parametrize("value, missed", [(1.0, False), (0.9, True), (2.1, True),
                                           (float("nan"), True)])
def test_a_target_is_missed_outside_its_bounds(value, missed, capsys):
    from speed.report import Targets

    targets = Targets()
    targets.check("without bounds", value)
    targets.check("with bounds", value, least=1.0, most=2.0)
    assert [each["missed"] for each in targets.held] == [False, missed]
    assert len(targets.lines()) == missed == capsys.readouterr().out.count("FAILED")


def test_mixtures_that_a_killed_process_left_are_made_again(tmp_path, monkeypatch):
    import vector_search

    vectors = np.random.default_rng(1).standard_normal((9, 4)).astype("float32")
    expected = vector_search.mixtures(vectors, 5, str(tmp_path / "whole.npy"))

    def stop(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped, pytest.raises(KeyboardInterrupt):
        stopped.setattr(vector_search, "of_length_1", stop)
        vector_search.mixtures(vectors, 5, str(tmp_path / "again.npy"))
    found = vector_search.mixtures(vectors, 5, str(tmp_path / "again.npy"))
    np.testing.assert_array_equal(found, expected)
