"""On Apache Beam the same files, whatever happens to its workers; and models in other pipelines."""

import contextlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
from predicted import COUNT, bytes_of, parts, run
from pyarrow import parquet
from sentiment import examples

from bert_tf.predict.work import Work

beam_runner = pytest.importorskip("bert_tf.predict.beam_runner")

REPOSITORY = str(pathlib.Path(__file__).resolve().parents[2])
IN_PROCESS = ["--", "--runner=FnApiRunner"]  # one worker, which sees what a test changes


@pytest.fixture
def source(tmp_path):
    """Rows of which some are bad, some by their types."""
    rows = [{"text": each.text_a, "n": place} for place, each in enumerate(examples(COUNT))]
    lines = [json.dumps(row) for row in rows * 30]
    lines[1100:1100] = ["{", json.dumps({"text": "the", "n": "x"}), json.dumps({"text": None})]
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    return tmp_path / "data.jsonl"


@pytest.mark.long
@pytest.mark.usefixtures("same_predictor")
def test_the_files_are_the_local_ones(model, source, tmp_path, monkeypatch, capsys):
    words = ["--shard_size", "100"]
    assert run(model, source, tmp_path / "local", *words) == 0
    said = capsys.readouterr().out.replace("/local/", "/beam/")
    do, calls = Work.do, []

    def lost(self, block, *arguments):
        calls.append(block.number)
        if len(calls) == 5:
            raise ConnectionError("the worker was lost")
        do(self, block, *arguments)

    monkeypatch.setattr(Work, "do", lost)
    assert run(model, source, tmp_path / "beam", "--runner", "beam", "--num_processes", "1",
               *words) == 0
    captured = capsys.readouterr()
    assert captured.out == said and "the worker was lost" in captured.err
    assert len(calls) == len(set(calls)) + 1 == 14  # what was finished is not done again
    assert bytes_of(tmp_path / "beam") == bytes_of(tmp_path / "local")
    assert sorted(os.listdir(tmp_path / "beam")) == sorted(os.listdir(tmp_path / "local"))
    monkeypatch.setattr(Work, "do", do)
    assert run(model, source, tmp_path / "parts", "--runner", "beam", "--num_processes", "3",
               *words, *IN_PROCESS) == 0
    assert bytes_of(tmp_path / "parts") == bytes_of(tmp_path / "local")
    assert run(model, source, tmp_path / "strict", "--runner", "beam", "--strict", *words) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(
        f"error: {source} line 1101: invalid JSON")


@pytest.mark.long
def test_two_worker_processes(model, source, tmp_path):
    assert run(model, source, tmp_path / "local") == 0
    for runner in ("local", "beam"):
        output = tmp_path / f"{runner}_2"
        assert run(model, source, output, "--runner", runner, "--num_processes", "2") == 0
        assert bytes_of(output) == bytes_of(tmp_path / "local")


@contextlib.contextmanager
def job_service():
    """Beam's portable job service, a process; yields its address."""
    with subprocess.Popen(
            [sys.executable, "-m", "apache_beam.runners.portability.local_job_service_main"],
            env={**os.environ, "PYTHONPATH": REPOSITORY}, stderr=subprocess.PIPE, text=True) as one:
        try:
            port = next(filter(None, (re.search(r"Listening .* port (\d+)", line)
                                      for line in one.stderr)))[1]
            threading.Thread(target=one.stderr.read).start()  # a full pipe would stop it
            yield f"localhost:{port}"
        finally:
            one.terminate()


@pytest.mark.long
def test_the_portable_job_service_with_a_lost_worker(model, source, tmp_path, capsys):
    assert run(model, source, tmp_path / "local") == 0
    marker = tmp_path / "lost"
    worker = shlex.join(["exec", sys.executable,
                         os.path.join(os.path.dirname(__file__), "lossy_beam_worker.py"),
                         str(marker)])
    with job_service() as address:
        words = [model, source, tmp_path / "beam", "--runner", "beam", "--num_processes", "2", "--",
                 "--runner=PortableRunner", f"--job_endpoint={address}",
                 "--environment_type=beam:env:harness_subprocess_python:v1",
                 f"--environment_config={worker}"]
        assert run(*words) == 1
        assert "(finished shards are kept); try the same command again" in capsys.readouterr().err
        kept = {path: os.stat(path).st_mtime_ns for path in parts(tmp_path / "beam")}
        assert marker.exists() and kept
        assert run(*words) == 0
    assert bytes_of(tmp_path / "beam") == bytes_of(tmp_path / "local")
    assert kept.items() <= {path: os.stat(path).st_mtime_ns
                            for path in parts(tmp_path / "beam")}.items()


@pytest.mark.long
def test_a_model_in_a_pipeline_of_beam(loaded, tmp_path, monkeypatch):
    import apache_beam as beam
    from apache_beam.ml.inference.base import RunInference

    monkeypatch.setattr(beam_runner.Predictor, "shared", lambda model, task, dtype: loaded[task])
    texts = [each.text_a for each in examples(COUNT)]
    parquet.write_table(pa.table({"review": texts}), tmp_path / "data.parquet")
    handler = beam_runner.PredictorModelHandler("model", columns={"text": "review"})
    schema = pa.schema([("review", pa.string()), *loaded[None].schema()])
    with beam.Pipeline("FnApiRunner") as pipeline:
        _ = (pipeline | beam.io.ReadFromParquet(str(tmp_path / "data.parquet"))
             | RunInference(handler)
             | beam.Map(lambda result: {**result.example, **result.inference})
             | beam.io.WriteToParquet(str(tmp_path / "out"), schema))
    [path] = tmp_path.glob("out-*")
    found = {row["review"]: row["label"] for row in parquet.read_table(path).to_pylist()}
    assert found == dict(zip(texts, loaded[None](texts)["label"], strict=True))


def test_without_the_extra(model, source, tmp_path, monkeypatch, capsys):
    import bert_tf.predict

    monkeypatch.setitem(sys.modules, "bert_tf.predict.beam_runner", None)
    monkeypatch.delattr(bert_tf.predict, "beam_runner", raising=False)
    assert run(model, source, tmp_path / "out", "--runner", "beam") == 2
    assert "runner='beam' needs Apache Beam" in capsys.readouterr().err
    assert run(model, source, tmp_path / "out", *IN_PROCESS) == 2
    assert "unknown argument --runner=FnApiRunner" in capsys.readouterr().err
