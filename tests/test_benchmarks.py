"""Programs of benchmarks/: what they are held to, and what is left of those that were stopped."""

import os
import pathlib
import queue
import sys
import types

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


def test_a_training_that_was_stopped_is_measured_from_its_beginning(tmp_path, monkeypatch):
    import finetune

    settings = ("cola/minilm", "ours", 0.1, 2, 1)
    start = tmp_path / "start"
    start.mkdir()
    for name in ("vocab.txt", "config.json"):
        (start / name).write_text("{}")
    monkeypatch.setattr(finetune.minilm, "weights", lambda: str(start))
    bench = finetune.Bench(types.SimpleNamespace(limit=None, shared="shared"), str(tmp_path))
    left = tmp_path / "cola/minilm/ours" / bench.mark(finetune.ROWS["cola/minilm"])
    (left / "learning_rate_0.1_epochs_2_seed_1/run/checkpoints").mkdir(parents=True)

    def ours(self, row, folder, *_):
        assert os.listdir(folder) == []
        metrics = dict.fromkeys(finetune.find_task(row.task).metrics, 0.5)
        return {"epoch": 1, "metrics": metrics, "seconds": 2.0, "wall": 3.0}

    monkeypatch.setattr(finetune.Bench, "ours", ours)
    made = bench.trained(*settings)
    monkeypatch.setattr(finetune.Bench, "ours", None)
    assert bench.trained(*settings) == made
    bench = finetune.Bench(types.SimpleNamespace(limit=None, shared="other"), str(tmp_path))
    with pytest.raises(TypeError):  # of other data it is no measurement
        bench.trained(*settings)


def test_an_attacker_that_dies_is_told(monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(BENCHMARKS, "load"))
    import attack

    died = types.SimpleNamespace(is_alive=lambda: False, exitcode=-9)
    results = queue.Queue()
    results.put(3)
    assert attack._told(results, died) == 3
    monkeypatch.setattr(results, "get", lambda timeout: queue.Queue().get_nowait())
    with pytest.raises(SystemExit, match="the attacker died, exit code -9"):
        attack._told(results, died)


def test_a_soak_too_short_to_compare_memory_is_refused(capsys):
    import serving_load

    with pytest.raises(SystemExit):
        serving_load._parser().parse_args(["--soak_seconds", "5"])
    assert "5; expected at least 10" in capsys.readouterr().err


def test_a_failure_is_no_refusal(monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(BENCHMARKS, "load"))
    from soak import is_no_refusal

    assert all(map(is_no_refusal, (
        "grpc a: OK", "rest a: 200", "rest a: 500", "grpc a: INTERNAL", "rest a: ReadTimeout",
        "grpc a: DEADLINE_EXCEEDED")))
    assert not any(map(is_no_refusal, (
        "grpc a: INVALID_ARGUMENT", "rest a: 400", "rest unknown path: 404")))


@pytest.mark.parametrize("flags, message", [
    (("--model", "m", "--peer_python", "p"), "--model with --peer_python"),
    (("--shared", "nowhere"), "cannot read nowhere/data")])
def test_load_that_cannot_be_measured_is_refused_in_one_line(flags, message, monkeypatch, capsys):
    import serving_load

    monkeypatch.setattr(sys, "argv", ["serving_load.py", *flags])
    with pytest.raises(SystemExit) as stopped:
        serving_load.main()
    assert message in f"{stopped.value}{capsys.readouterr().err}"


def test_all_threads_are_limited():
    from speed.workers import thread_limits

    assert thread_limits(3)["RAYON_NUM_THREADS"] == thread_limits(3)["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize("without", [[], ["sentence-transformers"]])
def test_a_corpus_is_predicted_without_a_peer_that_is_left_out(without, monkeypatch):
    import predict_corpus

    bench = object.__new__(predict_corpus.Bench)
    bench.arguments = types.SimpleNamespace(threads=1, hf_python="python", without=without)
    bench.counts = {"short": 100}
    monkeypatch.setattr(bench, "own_rate", lambda *_: {}, raising=False)
    monkeypatch.setattr(bench, "run", lambda *_: (1.0, 1), raising=False)
    assert ("sentence-transformers" in bench.measure()["rates"]["short"]["float32"]) == (
        not without)
