"""evaluate from its command line: runs, model folders and SavedModels give the same answers."""

import json
import shutil
import types

import numpy as np
import pytest
from sentiment import config, examples, options, tokenizer, write_table
from sklearn import metrics
from tiny_model import only_signatures

from bert_tf import cli, evaluate, finetune
from bert_tf.evaluate.config import EvaluateConfig
from bert_tf.evaluate.run import Evaluation
from bert_tf.finetune.trained_on import write_trained_on
from bert_tf.saved_model.save import export_saved_model
from bert_tf.storage import checksums, files, manifest
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier

LABELS = ["bad", "good"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a model folder, an exported version of it, the folder of a run, and examples."""
    folder = tmp_path_factory.mktemp("evaluate")
    model = Classifier(config(num_hidden_layers=1), LABELS, seed=4,
                       preprocessor=TextPreprocessor(tokenizer(), 8))
    model.save_pretrained(str(folder / "model"))
    model.save_pretrained(str(folder / "run" / "model"))
    (folder / "run" / "run.json").write_text(json.dumps({"options": {"seq_length": 8}}))
    with only_signatures("serving_default", "describe", "predict"):
        export_saved_model(str(folder / "model"), str(folder / "saved"))
    write_table(folder / "data.tsv", examples(40, seed=3))
    return folder


def measure(folder, model, output, *words):
    return cli.run(evaluate.main, [
        "--task", "classify", "--model", str(folder / model), "--data", str(folder / "data.tsv"),
        "--output_dir", str(output), *words])


def lines_of(output):
    return [json.loads(line) for line in files.read_lines(str(output / "predictions.jsonl"))]


def test_a_model_in_any_folder_says_the_same(folder, tmp_path):
    told = {}
    for model in ("model", "run", "saved/1"):
        output = tmp_path / model
        assert measure(folder, model, output) == 0
        told[model] = lines_of(output)
        results = files.read_json(str(output / "results.json"))
        expected = metrics.accuracy_score([each.label for each in examples(40, seed=3)],
                                          [line["label"] for line in told[model]])
        assert results["metrics"]["accuracy"] == expected
        assert (results["task"], results["examples"]) == ("classify", 40)
        assert results["command"].startswith("python -m bert_tf.evaluate --task classify")
        assert (output / "report" / "confusion.png").exists()
    assert told["model"] == told["run"]
    for one, other in zip(told["model"], told["saved/1"], strict=True):
        assert one["id"] == other["id"] and one["label"] == other["label"]
        assert one["scores"] == pytest.approx(other["scores"], abs=3e-6)


def test_what_is_measured_during_training_is_what_evaluate_measures(folder, tmp_path, eager):
    from bert_tf.tasks.pretrained import from_pretrained
    from bert_tf.tasks.registry import find_task, make_type, read_task

    assert measure(folder, "model", tmp_path / "out") == 0
    kind = make_type(find_task("classify"), options())
    read = read_task("classify", str(folder / "data.tsv"))
    told = kind.predict(from_pretrained(str(folder / "model")), read)
    assert [{"text": example.text_a, "gold": example.label, **line}
            for example, line in zip(read, told, strict=True)] == lines_of(tmp_path / "out")


def test_a_run_knows_task_and_columns_and_what_it_learned_from(folder, tmp_path, capsys, eager):
    run = tmp_path / "run"
    shutil.copytree(folder / "run", run)
    checksums.write_sealed(str(run / "results.json"), {
        "task": "classify", "columns": {"text": "review", "label": "stars"}})
    made = examples(40, seed=3)
    write_trained_on(str(run), made[:30])
    table = tmp_path / "data.tsv"
    table.write_text("review\tstars\n" + "".join(f"{one.text_a}\t{one.label}\n" for one in made))
    own = ["--model", str(run), "--data", str(table), "--output_dir"]
    assert cli.run(evaluate.main, [*own, str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    count = sum(one.text_a in {one.text_a for one in made[:30]} for one in made)
    assert f"note: {run} learned from {count} of these 40 examples" in printed
    assert "f1 is of the label 'good'" in printed
    results = files.read_json(str(tmp_path / "out" / "results.json"))
    assert (results["task"], results["positive_label"], results["monitor"]) == (
        "classify", "good", "accuracy")
    assert f"{count} of these" in results["notes"][-1]
    # A delimiter that no file tells is the run's.
    bars = tmp_path / "bars.csv"
    bars.write_text(table.read_text().replace("\t", "|"))
    manifest.write(str(run / "run.json"), {
        **vars(finetune._parser().parse_args([
            "--task", "classify", "--train", "a", "--dev", "b", "--output_dir", "c"])),
        "delimiter": "|"}, [])
    assert cli.run(evaluate.main, [*own[:2], "--data", str(bars), "--output_dir",
                                   str(tmp_path / "bars")]) == 0
    assert files.read_json(str(tmp_path / "bars" / "results.json"))["examples"] == 40
    (run / "run.json").unlink()
    # Where flags say it, they count; what the run's task calls a column another one does not.
    assert cli.run(evaluate.main, [*own, str(tmp_path / "2"), "--text_column", "stars"]) == 0
    capsys.readouterr()
    assert cli.run(evaluate.main, [*own, str(tmp_path / "3"), "--task", "conll"]) == 2
    assert "whose task is classifier" in capsys.readouterr().err
    assert cli.run(evaluate.main, [*own, str(tmp_path / "3"), "--task", "polarity"]) == 2
    assert cli.run(evaluate.main, ["--model", str(folder / "model"), "--data", str(table),
                                   "--output_dir", str(tmp_path / "3")]) == 2
    assert "does not say what it was fine-tuned for; expected --task" in capsys.readouterr().err
    assert not (tmp_path / "3").exists()


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_ids_that_a_run_had_need_not_be_there(folder, tmp_path, name, capsys, eager):
    run = tmp_path / "run"
    shutil.copytree(folder / "run", run)
    checksums.write_sealed(str(run / "results.json"), {"task": "classify",
                                                       "columns": {"id": "number"}})
    rows = [{"number": f"n{number}", "text": each.text_a, "label": each.label}
            for number, each in enumerate(examples(4))]

    def measured(output, columns, *words):
        lines = [json.dumps({key: row[key] for key in columns}) for row in rows] if (
            name == "a.jsonl") else ["\t".join(columns), *(
                "\t".join(row[key] for key in columns) for row in rows)]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        code = cli.run(evaluate.main, ["--model", str(run), "--data", str(tmp_path / name),
                                       "--output_dir", str(tmp_path / output), *words])
        return code or [line["id"] for line in lines_of(tmp_path / output)]

    assert measured("with", ["number", "text", "label"]) == ["n0", "n1", "n2", "n3"]
    assert measured("without", ["text", "label"]) == ["0", "1", "2", "3"]
    assert measured("asked", ["text", "label"], "--id_column", "number") in (1, 2)
    assert "'number' among text, label" in capsys.readouterr().err


@pytest.mark.parametrize(("task", "given", "used"), [
    ("squad_v2", None, 1.5), ("korquad", None, None), ("squad_v2", 2.0, 2.0)])
def test_a_threshold_of_a_run_is_for_questions_without_an_answer(tmp_path, task, given, used):
    (tmp_path / "run.json").write_text(json.dumps({"options": {"null_threshold": 1.5}}))
    evaluation = Evaluation(EvaluateConfig(
        task=task, model=str(tmp_path), data="", null_threshold=given), None)
    evaluation.found = types.SimpleNamespace(path=str(tmp_path))
    assert evaluation.type_options().null_threshold == used


def test_once_is_enough(folder, tmp_path, capsys, monkeypatch, eager):
    assert measure(folder, "model", tmp_path) == 0
    monkeypatch.setattr("bert_tf.evaluate.run.from_pretrained", None)
    assert measure(folder, "model", tmp_path) == 0
    assert "this is measured already" in capsys.readouterr().out
    assert measure(folder, "run", tmp_path) == 2
    assert "holds the result of another run (model was" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["report/confusion.png", *(
    pytest.param(name, marks=pytest.mark.long) for name in ("predictions.jsonl", "results.json"))])
def test_what_is_taken_away_is_measured_again(folder, tmp_path, name, eager):
    assert measure(folder, "model", tmp_path) == 0
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
            and path.name != "results.json"}
    (tmp_path / name).unlink()
    assert measure(folder, "model", tmp_path) == 0
    assert {path: path.read_bytes() for path in kept} == kept and (tmp_path / name).exists()


@pytest.mark.parametrize("model", ["model", "saved/1"])
def test_unknown_labels_are_counted_and_told_with_the_first_line(folder, model, tmp_path, capsys):
    table = tmp_path / "data.tsv"
    table.write_text("text\tlabel\nthe film\tgood\nthe end\tbest\na end\tbest\n")
    assert measure(folder, model, tmp_path / "out", "--data", str(table)) == 1
    assert ("labels that the model does not know: 'best' (2); the first: "
            f"{table} line 3; expected bad, good; try removing") in capsys.readouterr().err


def test_what_a_graph_has_of_its_own_cannot_be_changed(folder, tmp_path, capsys):
    assert measure(folder, "saved/1", tmp_path, "--n_best", "3") == 2
    assert "--n_best with the SavedModel" in capsys.readouterr().err


def test_the_results_of_a_run_are_not_replaced(folder, tmp_path, capsys):
    (tmp_path / "results.json").write_text("{}")
    assert measure(folder, "model", tmp_path, "--overwrite") == 2
    assert "holds results.json, not written by this command" in capsys.readouterr().err
    assert (tmp_path / "results.json").read_text() == "{}"


def test_a_model_folder_without_a_reader_gets_one(folder, tmp_path, eager):
    Classifier(config(num_hidden_layers=1), LABELS, seed=4).save_pretrained(
        str(tmp_path / "plain"), tokenizer())
    assert measure(tmp_path, "plain", tmp_path / "out", "--data", str(folder / "data.tsv")) == 0
    assert len(lines_of(tmp_path / "out")) == 40


def test_a_model_whose_training_diverged_is_refused(folder, tmp_path, capsys, eager):
    """The metrics would be those of a model that has learned nothing."""
    model = Classifier(config(num_hidden_layers=1), LABELS, seed=4,
                       preprocessor=TextPreprocessor(tokenizer(), 8))
    weight = model.encoder.weights[0]
    weight.assign(np.full(weight.shape, np.nan))
    model.save_pretrained(str(tmp_path / "nan"))
    assert measure(tmp_path, "nan", tmp_path / "out", "--data", str(folder / "data.tsv")) == 1
    assert f"nan: {weight.path} holds numbers that are not finite" in capsys.readouterr().err


def test_pairs_are_measured_on_pairs(folder, tmp_path, capsys, eager):
    model = Classifier(config(num_hidden_layers=1), LABELS, seed=4,
                       preprocessor=TextPreprocessor(tokenizer(), 8, pair=True))
    model.save_pretrained(str(tmp_path / "pairs"))
    write_table(tmp_path / "pairs.tsv", examples(4, pairs=True))
    assert measure(tmp_path, "pairs", tmp_path / "out",
                   "--data", str(folder / "data.tsv")) == 2
    assert "data.tsv line 2: single texts; expected pairs of texts; try --text_b_column" in \
        capsys.readouterr().err
    words = ["--task", "pair", "--data", str(tmp_path / "pairs.tsv")]
    assert measure(folder, "saved/1", tmp_path / "out", *words) == 2
    assert "pairs of texts; expected single texts" in capsys.readouterr().err
    assert measure(tmp_path, "pairs", tmp_path / "out", *words) == 0


@pytest.mark.parametrize(("model", "data", "name"), [
    ("runs/a", "korquad/KorQuAD_v1.0_dev.json", "a_KorQuAD_v1.0_dev"),
    ("runs/a", "b/new.tsv.gz", "a_new"), ("runs/a", "new.2024.CSV.GZ", "a_new.2024"),
    ("runs/a", "new.v2", "a_new.v2"), ("saved/a/1", "new.ndjson", "a_1_new"),
    ("runs/a/model", "new", "a_model_new")])
def test_results_are_named_after_the_whole_name_of_the_data(model, data, name):
    assert EvaluateConfig(model=model, data=data).named().output_dir == f"evaluations/{name}"


@pytest.mark.parametrize(("words", "code", "message"), [
    (["--task", "conll"], 2, "whose task is classifier; expected a model for tagger"),
    (["--task", "cola"], 2, "predicts the labels bad, good; expected those of --task cola: 0, 1; "
                          "try these as id2label in config.json of a published model's copy"),
    (["--n_best", "3"], 2, "--n_best 3 is for question answering, not for --task classify"),
    (["--task", "retrieval", "--null_threshold", "1"], 2, "--null_threshold 1.0 is for question"),
    (["--task", "regress"], 2, "--task regress has the problem regression"),
    (["--model", "nowhere"], 2, "nowhere does not exist; expected a model folder"),
    (["--data", "nowhere.tsv"], 1, "nowhere.tsv: no such file"),
])
def test_what_does_not_fit_is_said_in_one_line(folder, words, code, message, tmp_path, capsys):
    assert measure(folder, "model", tmp_path / "out", *words) == code
    printed = capsys.readouterr().err
    assert message in printed and printed.startswith("error: ") and printed.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_model_that_takes_token_ids_alone(folder, tmp_path, capsys):
    """As conversion leaves one whose folder reads text otherwise than ours."""
    shutil.copytree(folder / "model", tmp_path / "ids")
    (tmp_path / "ids" / "checksums.json").unlink()
    task = tmp_path / "ids" / "task.json"
    task.write_text(json.dumps(json.loads(task.read_text()) | {"reading": None}))
    words = ["--model", str(tmp_path / "ids")]
    assert measure(folder, "model", tmp_path / "out", *words) == 2
    assert "ids takes no text, token ids alone: text was read otherwise" in capsys.readouterr().err
