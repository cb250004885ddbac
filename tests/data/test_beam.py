"""On Apache Beam the same command makes the same folder, whatever happens to its workers."""

import concurrent.futures
import json
import logging
import os
import pathlib
import signal
import sys

import numpy as np
import pytest
from folders import files_of

from bert_tf import cli, create_data
from bert_tf.data import chunks, plan
from bert_tf.data.create import create_examples
from bert_tf.data.example_maker import ExampleMaker
from bert_tf.data.tables import NoColumn
from bert_tf.errors import BertTfError, UsageError
from bert_tf.storage import files
from bert_tf.storage.staging import CacheFullError

beam_runner = pytest.importorskip("bert_tf.data.beam_runner")
beam_pipelines = pytest.importorskip("bert_tf.data.beam_pipelines")

IN_PROCESS = ["--runner=FnApiRunner"]  # one worker, which sees what a test changes


@pytest.fixture
def small(monkeypatch):
    """Sizes under which a small text has several sections and chunks."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 500)
    monkeypatch.setattr(chunks, "_WINDOW_BYTES", 1500)
    monkeypatch.setattr(plan, "SECTION_BYTES", 2500)


@pytest.fixture
def parts(text, tmp_path):
    """The corpus as six files."""
    documents = pathlib.Path(text).read_text().split("\n\n")
    paths = [tmp_path / f"part-{number}.txt" for number in range(6)]
    for number, path in enumerate(paths):
        path.write_text("\n\n".join(documents[number::6]) + "\n")
    return [str(path) for path in paths]


@pytest.mark.parametrize("changes", [
    {"holdout": 0.2},
    pytest.param({"format": "full_sentences", "max_ngram": 3, "split": "sentences"},
                 marks=pytest.mark.long),
    pytest.param({"masking": "static", "dupe_factor": 2, "pairs": "swapped"},
                 marks=pytest.mark.long)])
def test_the_folder_is_the_local_one(make, parts, small, changes):
    local, made = make(inputs=parts, **changes)
    names = {shard["name"] for split in made["splits"].values() for shard in split["shards"]}
    assert len(names) > 6 and any(name.count("-") == 2 for name in names), names
    for num_processes, options in ((1, ()), (7, IN_PROCESS)):
        folder, again = make(inputs=parts, runner="beam", num_processes=num_processes,
                             beam_options=options, **changes)
        assert files_of(folder) == files_of(local)
        assert again == made


def test_skipped_documents(parts, small, make, write_file):
    """What is skipped is found before the work is handed out."""
    again = write_file("again.txt", pathlib.Path(parts[1]).read_text())
    options = {"inputs": [*parts, again], "dedupe": "exact"}
    local, made = make(**options)
    assert made["skipped"]["exact_duplicates"] > 3
    assert made["splits"]["train"]["num_documents"] == 30
    assert files_of(make(runner="beam", **options)[0]) == files_of(local)


@pytest.mark.long
def test_two_worker_processes(make, vocab, write_file):
    draw = np.random.default_rng(1)
    words = ["".join(draw.choice(list("abcdefgh"), 4)) for _ in range(2000)]
    lines = (" ".join(draw.choice(words, 80)) + ("\n" if number % 5 else "\n\n")
             for number in range(11_000))
    text = write_file("text.txt", "".join(lines))
    assert os.path.getsize(text) > 2 * chunks.CHUNK_BYTES
    options = {"inputs": [text], "format": "full_sentences", "seq_length": 128}
    local, made = make(**options)
    assert len(made["splits"]["train"]["shards"]) == 3
    assert files_of(make(runner="beam", num_processes=2, **options)[0]) == files_of(local)


@pytest.mark.long
def test_korean_by_morphemes(make, tmp_path, write_file):
    pytest.importorskip("kiwipiepy")
    text = "영화를 재밌게 봤다\n배우들의 연기가 좋았어요\n\n다시 보고 싶은 영화였다\n음악이 좋다\n"
    syllables = sorted(set(text) - set(" \n"))
    vocab = write_file("vocab.txt", "\n".join(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *syllables,
         *(f"##{syllable}" for syllable in syllables)]) + "\n")
    options = {"inputs": [write_file("ko.txt", text * 5)], "vocab": vocab,
               "pretokenize": "morphemes"}
    local, plain = (make(**{**options, **change})[0] for change in ({}, {"pretokenize": None}))
    made = files_of(make(runner="beam", **options)[0])
    assert made == files_of(local)
    assert made["train-00000.tfrecord"] != files_of(plain)["train-00000.tfrecord"]


def test_in_an_object_store(parts, vocab, options, small, make, tmp_path, monkeypatch):
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    stored = [f"memory://beam/{os.path.basename(path)}" for path in [*parts, vocab]]
    for path, copy in zip([*parts, vocab], stored, strict=True):
        files.copy(path, copy)
    local = files_of(make(inputs=parts)[0])
    made = create_examples(input=stored[:-1], vocab=stored[-1], output_dir="memory://beam/data",
                           **options, runner="beam")
    assert made["splits"] == json.loads(local.pop("manifest.json"))["splits"]
    found = {}
    for name in local:
        with files.open_binary(f"memory://beam/data/{name}") as stream:
            found[name] = stream.read()
    assert found == local
    assert files.list_folder("memory://beam/data") == sorted({*local, "manifest.json"})


@pytest.fixture
def make_part(parts, vocab, tmp_path, small, make):
    """A `MakeShards` that is set up, a part, and the shards that it should give."""
    local, made = make(inputs=parts)
    folder = tmp_path / "data"
    folder.mkdir()
    stated = {name: value for name, value in made["options"].items()
              if name not in ("split", "holdout", "lower_case", "strip_accents", "pretokenize")}
    worker = beam_runner.MakeShards(plan.Plan(
        plan.make_sections(parts)[0], 0, "lines", 0.0, plan.ExampleOptions(**stated),
        plan.TokenizerSource(vocab, made["options"]["lower_case"]), str(folder)))
    worker.setup()
    return worker, folder, files_of(local)


def test_a_part_done_again_changes_nothing(make_part):
    worker, folder, local = make_part
    half = files.temporary_name(str(folder / "train-00000.tfrecord"))
    pathlib.Path(half).write_bytes(local["train-00000.tfrecord"][:100])
    first = list(worker.process((0, 0, 1)))
    made = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    assert list(worker.process((0, 0, 1))) == first
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns)
            for path in folder.iterdir()} == made
    assert {name: made[name][0] for name in made if not name.startswith(".tmp-")}.items() < (
        local.items())
    assert len(first) == sum(name.endswith(".tfrecord") for name in made) > 1


def test_a_part_done_twice_at_once(make_part):
    worker, folder, local = make_part
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: list(worker.process((0, 0, 1))), range(2))
    assert one == other
    assert files_of(folder).items() < local.items()


@pytest.mark.long
def test_lost_work_is_done_again_without_duplicates(make, parts, small, monkeypatch, capsys):
    local = files_of(make(inputs=parts)[0])
    right, calls = ExampleMaker.__call__, []

    def lost(self, chunk, path):
        calls.append(path)
        if len(calls) == 3:
            pathlib.Path(files.temporary_name(path)).write_bytes(b"half")
            raise ConnectionError("the worker was lost")
        right(self, chunk, path)

    monkeypatch.setattr(ExampleMaker, "__call__", lost)
    folder, _ = make(inputs=parts, runner="beam", progress=True)
    assert "the worker was lost" in capsys.readouterr().err
    assert len(calls) == len(set(calls)) + 1  # nothing that was finished is made again
    assert files_of(folder) == local

    calls[:] = range(-20, 0)
    monkeypatch.setattr(ExampleMaker, "__call__", lambda *_: 1 / 0)
    with pytest.raises(BertTfError, match="Beam failed: .*ZeroDivision.*the same command again"):
        make(inputs=parts, runner="beam")


def test_errors_of_workers_are_ours(parts, vocab, options, tmp_path, capfd):
    # Beyond what is looked at before there are workers.
    pathlib.Path(parts[3]).write_bytes(b"fine\n" * 300_000 + b"\xff\n")
    folder = tmp_path / "data"
    with pytest.raises(BertTfError, match=r"part-3\.txt line 300001: byte 0xff .* -t UTF-8$"):
        create_examples(input=parts, vocab=vocab, output_dir=str(folder), **options,
                        runner="beam")
    assert "Traceback" not in capfd.readouterr().err
    assert not (folder / "manifest.json").exists()


@pytest.mark.parametrize("raised, arguments, kind", [
    (CacheFullError, ["the cache is full: 3 bytes"], CacheFullError),
    (NoColumn, ["a.tsv", "text", ["id"]], UsageError)])
def test_no_kind_of_errors_of_ours_is_taken_for_a_lost_worker(raised, arguments, kind):
    built = []

    def work(_):
        raise raised(*arguments)

    def build(pipeline):
        built.append(pipeline)
        _ = pipeline | beam_pipelines.beam.Create([0]) | beam_pipelines.beam.Map(work)

    with pytest.raises(kind) as error:
        beam_pipelines.runner_of([])(build, 1, False)
    assert str(error.value) == str(raised(*arguments)) and len(built) == 1


def test_without_the_extra(parts, vocab, options, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    import bert_tf.data

    for name in ("beam_runner", "beam_pipelines"):
        monkeypatch.delitem(sys.modules, f"bert_tf.data.{name}")
        monkeypatch.delattr(bert_tf.data, name)
    handlers = list(logging.root.handlers)
    with pytest.raises(UsageError, match=r"needs Apache Beam.*pip install 'bert_tf\[beam\]'"):
        create_examples(input=parts, vocab=vocab, output_dir=str(tmp_path / "data"), **options,
                        runner="beam")
    logging.root.handlers[:] = handlers


@pytest.mark.parametrize("flags, message", [
    (["--", "--runner=FlinkRunner"], "unknown argument --runner=FlinkRunner"),
    (["--runner", "beam", "--", "--foo=3"], "Beam has no flag --foo"),
    (["--runner", "beam", "--", "--runner=Flick"], "Unexpected pipeline runner: Flick"),
    (["--runner", "beam", "--", "--parallelism=x"], "argument --parallelism: invalid int value"),
    (["--runner", "beam", "--foo=3"], "unknown argument --foo=3"),
    (["--runner", "beam", "--", "--help"], "Beam's flags: --help; expected flags of a pipeline")])
def test_flags(parts, vocab, make, capsys, flags, message):
    before = signal.getsignal(signal.SIGTERM)
    folder, _ = make(inputs=parts)
    made = files_of(folder)
    try:
        code = cli.run(create_data.main, ["--input", *parts, "--vocab", vocab, "--output_dir",
                                          folder, "--overwrite", *flags])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert code == 2 and message in capsys.readouterr().err
    assert files_of(folder) == made
