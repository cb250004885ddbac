"""finetune from its command line: what it leaves, what is served, going on, refusing."""

import collections
import json
import os
import re
import shlex
import shutil

import numpy as np
import pytest
import tensorflow as tf
from sentiment import TINY, config, examples, tokenizer, write_table
from sklearn import metrics
from tiny_model import only_signatures

from bert_tf import cli, evaluate, finetune, query
from bert_tf.finetune import trial
from bert_tf.finetune.known import known_options
from bert_tf.models.find import find_model
from bert_tf.serving.server import config as serving_config
from bert_tf.storage import files, variables
from bert_tf.tasks.classification.task import Classification
from bert_tf.tasks.pretraining.masked_lm import Pretrainer


def arguments(folder, *words, name="run"):
    """The command line of a small run in `folder`; of a flag given again the later counts."""
    return ["--task", "classify", "--train", str(folder / "train.tsv"), "--dev", "0.25",
            "--test", str(folder / "test.tsv"), "--output_dir", str(folder / name),
            "--export_dir", str(folder / "saved" / name), "--config", str(folder / "config.json"),
            "--lower_case", "--seq_length", "16", "--batch_size", "8", "--encoding", "utf-8",
            "--epochs", "3", "--learning_rate", "1e-2", "--strategy", "one_device", *words]


def prepare(folder):
    (folder / "config.json").write_text(json.dumps(
        {**TINY, "vocab_size": 80, "num_hidden_layers": 1, "initializer_range": 0.3}))
    write_table(folder / "train.tsv", examples(120))
    write_table(folder / "test.tsv", examples(40, seed=1))
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Folder of a finished run of two seeds."""
    folder = prepare(tmp_path_factory.mktemp("finetune"))
    predict, predicted = Classification.predict, []

    def counted(self, model, examples):
        predicted.append(len(examples))
        return predict(self, model, examples)

    with only_signatures("serving_default", "describe", "predict"), (
            pytest.MonkeyPatch.context()) as patched:
        patched.setattr(Classification, "predict", counted)
        assert finetune.main(arguments(folder, "--seeds", "2")) is None
    # Twice three epochs, and the test examples; what is published is not predicted anew.
    assert predicted == [*[30] * 6, 40]
    return folder


def lines_of(run):
    return [json.loads(line) for line in files.read_lines(str(run / "predictions.jsonl"))]


def gold_of(folder, ids):
    labels = {each.id: each.label for each in examples(120)}
    return [labels[each] for each in ids]


def weights_of(run):
    return variables.read_variables(str(run / "model" / "model"))


def test_results_are_of_the_examples_held_out(finished):
    run = finished / "run"
    results, lines = files.read_json(str(run / "results.json")), lines_of(run)
    held_out = files.read_json(str(run / "dev_ids.json"))["dev_ids"]
    assert [line["id"] for line in lines] == held_out and len(held_out) == 30
    gold, told = gold_of(finished, held_out), [line["label"] for line in lines]
    assert results["metrics"]["accuracy"] == metrics.accuracy_score(gold, told)
    assert results["metrics"]["mcc"] == pytest.approx(metrics.matthews_corrcoef(gold, told))
    assert results["metrics"]["accuracy"] > 0.8  # the label is one word
    assert (results["task"], results["search"]) == ("classify", [])
    assert results["split"] == {"train": 90, "dev": 30, "share": 0.25, "asked_share": 0.25,
                                "seed": 12345, "test": 40}
    assert results["left_out"] == {"train": 0, "test": 0}
    counts = {"train": collections.Counter(gold_of(finished, set(map(str, range(120))) - set(
        held_out))), "dev": collections.Counter(gold), "test": collections.Counter(
        each.label for each in examples(40, seed=1))}
    assert results["labels"] == counts
    assert results["cut"]["tokens"] == 16 and set(results["cut"]) == {"tokens", *counts}
    scores = [record["metrics"]["accuracy"] for record in results["seeds"]]
    assert [record["seed"] for record in results["seeds"]] == [12345, 12346]
    assert results["metrics"]["accuracy"] == max(scores)
    assert results["mean"]["accuracy"] == pytest.approx(np.mean(scores))
    assert results["deviation"]["accuracy"] == pytest.approx(np.std(scores, ddof=1))
    assert results["command"].startswith("python -m bert_tf.finetune --task classify")
    assert results["seconds"] > 0


def test_the_best_model_is_tested_once_by_examples_of_their_own(finished):
    run = finished / "run"
    lines = lines_of(run / "test")
    gold = [each.label for each in examples(40, seed=1)]
    accuracy = metrics.accuracy_score(gold, [line["label"] for line in lines])
    assert files.read_json(str(run / "results.json"))["test_metrics"]["accuracy"] == accuracy
    assert sorted(os.listdir(run / "test")) == ["predictions.jsonl", "report"]


def test_what_is_left(finished):
    run = finished / "run"
    assert sorted(os.listdir(run)) == sorted([
        "run.json", "results.json", "predictions.jsonl", "report", "model", "trials", "tokenizer",
        "dev_ids.json", "trained_on.npy", "train_config.json", "metrics.jsonl", "test"])
    assert sorted(os.listdir(run / "report")) == ["confusion.json", "confusion.png"]
    for name in os.listdir(run / "trials"):
        assert sorted(os.listdir(run / "trials" / name)) == [
            "logs", "metrics.jsonl", "train_config.json", "trial.json"]


def test_what_is_served_is_what_was_measured(finished):
    lines = lines_of(finished / "run")
    texts = {each.id: each.text_a for each in examples(120)}
    assert [(line["text"], line["gold"]) for line in lines] == [
        (texts[line["id"]], gold) for line, gold in zip(
            lines, gold_of(finished, [line["id"] for line in lines]), strict=True)]
    version = finished / "saved" / "run" / "1"
    predict = tf.saved_model.load(str(version)).signatures["predict"]
    answer = predict(text=tf.constant([texts[line["id"]] for line in lines]))
    np.testing.assert_allclose(answer["probabilities"],
                               [list(line["scores"].values()) for line in lines], atol=2e-6)
    assert [label.decode() for label in answer["label"].numpy()] == [
        line["label"] for line in lines]
    assert answer["labels"].numpy()[0].tolist() == [b"bad", b"good"]
    extra = version / "assets.extra"
    assert files.read_json(str(extra / "results.json")) == files.read_json(
        str(finished / "run" / "results.json"))
    assert files.read_json(str(extra / "export.json"))["seq_length"] == 16


def test_a_saved_model_knows_what_its_run_does(finished):
    version = finished / "saved" / "run" / "1"
    run, saved = (known_options(find_model(str(path)))[1] for path in (finished / "run", version))
    assert run == saved and saved["encoding"] == "utf-8"
    assert not list(version.rglob("*.npy"))  # digests of its texts stay with the run


def test_a_finished_run_says_so_and_another_is_refused(finished, capsys, monkeypatch):
    monkeypatch.setattr(trial, "train", None)  # nothing is trained
    before = files.read_json(str(finished / "run" / "results.json"))
    assert cli.run(finetune.main, arguments(finished, "--seeds", "2")) == 0
    assert "this run is finished already" in capsys.readouterr().out
    assert files.read_json(str(finished / "run" / "results.json")) == before
    assert cli.run(finetune.main, arguments(finished, "--seeds", "3")) == 2
    assert "seeds was 2, now 3" in capsys.readouterr().err
    assert not (finished / "saved" / "run" / "2").exists()


@pytest.mark.parametrize("words", [["--text_column", "txt"],
                                   ["--strategy", "mirrored", "--batch_size", "7"]])
def test_what_overwrite_would_replace_stays_where_the_new_run_is_refused(words, finished):
    def content():
        return {path: path.is_file() and path.read_bytes() for path in finished.rglob("*")}

    before = content()
    assert cli.run(finetune.main, arguments(finished, "--overwrite", *words)) == 2
    assert content() == before


def test_a_run_says_how_it_was_measured_and_what_to_do_next(finished, capsys):
    assert cli.run(finetune.main, arguments(finished, "--seeds", "2")) == 0
    run, printed = finished / "run", capsys.readouterr().out
    results = files.read_json(str(run / "results.json"))
    assert (results["monitor"], results["positive_label"]) == ("accuracy", "good")
    assert results["columns"] == {} and results["notes"] == []
    commands = {words[2]: words[3:] for words in map(shlex.split, re.findall(
        "^    (python .*)$", printed, flags=re.M))}
    assert list(commands) == ["bert_tf.evaluate", "bert_tf.serve", "bert_tf.query"]
    flags = serving_config.parser("").parse_args(commands["bert_tf.serve"])
    assert flags.model_base_path == str(finished / "saved" / "run") and flags.model_name == "run"
    asked = query._parser().parse_args(commands["bert_tf.query"])
    assert (asked.model, asked.texts) == ("run", [lines_of(run)[0]["text"]])
    *words, last = commands["bert_tf.evaluate"]
    assert last == "NEW_FILE"
    assert cli.run(evaluate.main, [*words, str(finished / "train.tsv"), "--output_dir",
                                   str(finished / "measured")]) == 0
    assert "learned from 90 of these 120 examples" in capsys.readouterr().out
    shutil.rmtree(finished / "measured")


@pytest.mark.long
def test_a_saved_model_that_is_gone_is_exported_again(finished, monkeypatch):
    monkeypatch.setattr(trial, "train", None)
    version = finished / "saved" / "run" / "1"
    before = files.read_json(str(finished / "run" / "results.json"))
    shutil.rmtree(version)
    assert cli.run(finetune.main, arguments(finished, "--seeds", "2")) == 0
    assert files.read_json(str(version / "assets.extra" / "results.json")) == before


def test_what_is_taken_from_a_finished_run_is_made_again_or_named(finished, capsys, monkeypatch):
    run, words = finished / "run", arguments(finished, "--seeds", "2")
    kept = {name: (run / name).read_bytes() for name in (
        "predictions.jsonl", "report/confusion.png", "report/confusion.json",
        "test/predictions.jsonl", "test/report/confusion.json")}
    with monkeypatch.context() as patch:
        patch.setattr(trial, "train", None)
        (run / "metrics.jsonl").rename(finished / "kept")
        assert cli.run(finetune.main, words) == 1
        assert f"{run / 'metrics.jsonl'} is missing" in capsys.readouterr().err
        (finished / "kept").rename(run / "metrics.jsonl")
        for names in (["predictions.jsonl", "test/report/confusion.json"],
                      ["report/confusion.png", "report/confusion.json", "test/predictions.jsonl"]):
            for name in names:
                (run / name).unlink()
            assert cli.run(finetune.main, words) == 0
            assert {name: (run / name).read_bytes() for name in kept} == kept


def test_a_run_in_half_precision_is_measured_again_in_it(finished):
    words = arguments(finished, "--dtype", "bfloat16", "--epochs", "1", name="half")
    told = finished / "half" / "predictions.jsonl"
    with only_signatures("serving_default", "describe", "predict"):
        assert cli.run(finetune.main, words) == 0
        before = told.read_bytes()
        told.unlink()
        assert cli.run(finetune.main, words) == 0
    assert told.read_bytes() == before


def test_a_run_on_another_split_is_not_measured(finished, capsys, monkeypatch):
    path, told = finished / "run" / "dev_ids.json", finished / "run" / "predictions.jsonl"
    split, lines = path.read_text(), told.read_text()
    monkeypatch.setattr(trial, "train", None)
    path.write_text(json.dumps({**json.loads(split), "dev_ids": ["0", "1"]}))
    told.unlink()
    assert cli.run(finetune.main, arguments(finished, "--seeds", "2")) == 2
    error = capsys.readouterr().err
    assert f"{path} names other dev examples than --dev 0.25" in error
    assert f"or deleting {finished / 'run'} to train again" in error
    assert not told.exists()
    path.write_text(split)
    told.write_text(lines)


@pytest.mark.long
def test_results_that_are_gone_are_learned_again(finished):
    run = finished / "run"
    before = files.read_json(str(run / "results.json"))
    told = (run / "predictions.jsonl").read_bytes()
    (run / "results.json").unlink()  # its best weights are gone, too
    assert cli.run(finetune.main, arguments(finished, "--seeds", "2")) == 0
    after = files.read_json(str(run / "results.json"))
    assert (after["metrics"], after["files"]) == (before["metrics"], before["files"])
    assert (run / "predictions.jsonl").read_bytes() == told


@pytest.mark.long
def test_a_run_that_is_stopped_ends_with_the_same_weights(finished, tmp_path, monkeypatch):
    prepare(tmp_path)
    calls = []

    def stop(self):
        calls.append(self.step)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return evaluate(self)

    from bert_tf.training import loop
    evaluate = loop._Run.evaluate
    monkeypatch.setattr(loop._Run, "evaluate", stop)
    command = arguments(tmp_path, "--seeds", "2")
    assert cli.run(finetune.main, command) == 130
    assert not (tmp_path / "run" / "results.json").exists()
    assert cli.run(finetune.main, command) == 0
    # 12 steps an epoch: the second evaluation is made again, the first is not.
    assert calls == [12, 24, 24, 36, 12, 24, 36]
    expected = weights_of(finished / "run")
    for name, values in weights_of(tmp_path / "run").items():
        np.testing.assert_array_equal(values, expected[name], name)


@pytest.mark.long
def test_overwrite_from_a_model_folder_with_pairs(tmp_path, capsys):
    prepare(tmp_path)
    write_table(tmp_path / "train.tsv", examples(60, pairs=True))
    write_table(tmp_path / "dev.tsv", examples(20, seed=1, pairs=True))
    Pretrainer(config(num_hidden_layers=1), None, seed=2).save_pretrained(
        str(tmp_path / "bert" / "model"), tokenizer())
    run = tmp_path / "run"
    (run / "trials").mkdir(parents=True)
    (run / "run.json").write_text('{"fingerprint": "another"}')
    command = ["--task", "pair", "--train", str(tmp_path / "train.tsv"), "--dev",
               str(tmp_path / "dev.tsv"), "--init", str(tmp_path / "bert"), "--epochs", "1",
               "--output_dir", str(run), "--export_dir", str(tmp_path / "saved")]
    assert cli.run(finetune.main, command) == 2
    assert "holds the result of another run" in capsys.readouterr().err
    assert cli.run(finetune.main, [*command, "--overwrite"]) == 0
    assert not (run / "dev_ids.json").exists()
    predict = tf.saved_model.load(str(tmp_path / "saved" / "1")).signatures["predict"]
    made = examples(20, seed=1, pairs=True)
    answer = predict(text_a=tf.constant([each.text_a for each in made]),
                     text_b=tf.constant([each.text_b for each in made]))
    np.testing.assert_allclose(answer["probabilities"], [list(line["scores"].values())
                                                         for line in lines_of(run)], atol=2e-6)


def test_a_folder_of_something_else_is_left_alone(tmp_path, capsys):
    prepare(tmp_path)
    (tmp_path / "run" / "model").mkdir(parents=True)
    assert cli.run(finetune.main, arguments(tmp_path, "--overwrite")) == 2
    assert ("holds model, not written by this command; try another output folder"
            in capsys.readouterr().err)
    assert (tmp_path / "run" / "model").exists()


@pytest.mark.parametrize(("words", "code", "message"), [
    (["--seq_length", "40"], 2, "--max_seq_length 40 is more than the model's 32 positions; try "
                                "--max_seq_length 32"),
    (["--seq_length", "4"], 2, "--max_seq_length 4; expected 5 to 32"),
    (["--test", "nowhere.tsv"], 1, "cannot read nowhere.tsv: no such file"),
    (["--delimiter", "coma"], 2, "--delimiter: delimiter='coma' is unknown; expected one of tab, "
                                 "comma, semicolon; try delimiter='comma', or one character"),
    (["--encoding", "korean1"], 2, "no encoding is called korean1; expected such as UTF-8"),
    (["--train", "nowhere.tsv"], 1, "cannot read nowhere.tsv: no such file"),
    (["--text_column", "txt"], 2, "txt"),
    (["--init", "nowhere", "--config", "c.json"], 2, "leave --config out"),
    (["--freeze", "7"], 2, "--freeze with --init scratch"),
    (["--strategy", "mirrored", "--batch_size", "7"], 2,
     "batch_size=7 over 2 replicas"),  # as late as it can be
])
def test_what_cannot_be_done_is_said_in_one_line(words, code, message, tmp_path, capsys):
    prepare(tmp_path)
    before = sorted(os.listdir(tmp_path))
    assert cli.run(finetune.main, arguments(tmp_path, *words)) == code
    printed = capsys.readouterr().err
    assert message in printed and printed.startswith("error: ") and printed.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before
