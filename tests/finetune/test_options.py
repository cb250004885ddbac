"""Options of finetune: what follows from them, and contradictions refused before any work."""

import json
import os
import pathlib
import shlex

import pytest

from bert_tf import cli, evaluate, finetune
from bert_tf.errors import UsageError
from bert_tf.evaluate.config import EvaluateConfig
from bert_tf.finetune.complete import complete
from bert_tf.finetune.config import FinetuneConfig
from bert_tf.storage import manifest

NEEDED = ["--task", "cola", "--train", "t.tsv", "--dev", "0.1", "--output_dir", "runs/x"]


def parse(*words):
    return FinetuneConfig(**vars(finetune._parser().parse_args([*NEEDED, *words])))


def test_defaults_are_those_of_the_paper():
    # BERT, appendix A.3: batch 32, Adam 5e-5, 3 epochs, dropout kept at 0.1 (the model's own).
    options, task = complete(parse())
    assert (options.batch_size, options.learning_rate, options.epochs) == (32, (5e-5,), (3,))
    assert (options.warmup_ratio, options.weight_decay, options.dropout) == (0.1, 0.01, None)
    assert task.name == "cola"
    assert options.export_dir == os.path.join("saved_models", "x")


def test_the_learning_rate_of_additions_is_that_of_their_paper():
    # Hu et al. 2021, table 9: 4e-4 or 5e-4 of RoBERTa base.
    assert complete(parse("--init", "m", "--lora_rank", "8"))[0].learning_rate == (5e-4,)
    assert complete(parse("--init", "m", "--lora_rank", "8", "--learning_rate", "1e-3"))[
        0].learning_rate == (1e-3,)


def test_dev_is_a_file_or_a_share(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse("--dev", "0.1").dev_share() == 0.1
    assert parse("--dev", "dev.tsv").dev_share() is None
    (tmp_path / "0.5").write_text("a file of that name")
    assert parse("--dev", "0.5").dev_share() is None
    for wrong in ("0", "1", "1.5", "nan"):
        with pytest.raises(UsageError, match="a fraction between 0 and 1"):
            parse("--dev", wrong).dev_share()


def test_columns_are_those_that_are_named():
    assert parse().columns() == {}
    assert parse("--text_column", "3", "--label_column", "mark").columns() == {
        "text": "3", "label": "mark"}


@pytest.mark.parametrize(("task", "loss"), [
    ("rank", "binary"), ("embed", "triplet"), ("embed", "cosent")])
def test_ranking_and_embedding_both_have_a_loss(task, loss):
    options, _ = complete(parse("--task", task, "--loss", loss, "--negatives", "2"))
    assert (options.loss, options.negatives) == (loss, 2)


@pytest.mark.parametrize(("words", "message"), [
    (["--task", "colla"], "task='colla' is unknown.*try task='cola'"),
    (["--init", "m", "--config", "c.json"], "--config beside --init m, which brings its own"),
    (["--init", "m", "--lower_case"], "--lower_case beside --init m"),
    (["--freeze", "all"], "--freeze with --init scratch"),
    (["--lora_rank", "8"], "--lora_rank with --init scratch: nothing of the encoder was learned"),
    (["--lora_rank", "8", "--init", "m", "--freeze", "1"], "--freeze 1 with --lora_rank 8"),
    (["--lora_rank", "8", "--init", "m", "--features", "-1"], "--lora_rank beside --features: the "
     "whole encoder stays"),
    (["--pooling", "mean", "--init", "m", "--features", "-1"], "--pooling beside --features: the "
     "whole encoder stays as it is, and a BiLSTM"),
    (["--pooling", "max"], "--pooling max with --task cola; expected mean, cls, cls_pooled or sep"),
    (["--task", "conll", "--pooling", "mean"], "--pooling mean is for embedding, "),
    (["--n_best", "5"], "--n_best 5 is for question answering, not for --task cola"),
    (["--unit", "word"], "--unit word is for token classification, not for --task cola"),
    (["--lstm_size", "8"], "--lstm_size 8 is for --features, which are not asked for"),
    (["--init", "runs/x"], "--output_dir runs/x holds the model of --init"),
    (["--init", "runs/x/model"], "--output_dir runs/x holds the model of --init"),
    (["--task", "conll", "--long", "windows"], "--long windows is for classification"),
    (["--stride", "9"], "--stride 9 with --long head; try --long windows"),
    (["--export_dir", "runs/y[1]"], r"--export_dir runs/y\[1\]; expected no \*, \? or \["),
    (["--output_dir", "saved_models/x"], "saved_models/x is the run folder; try another --output"),
    (["--export_dir", "./runs/x/"], "is the run folder; try --export_dir saved_models/x"),
    (["--seed", "2147483647", "--seeds", "2"], "--seeds 2 from --seed 2147483647 on; expected "
     r"seeds below 2\*\*31; try --seed 2147483646"),
    (["--dev", "2"], "--dev 2; expected a file, or a fraction between 0 and 1"),
    (["--task", "cola", "--multi_label"], "several labels a text with task='cola'"),
])
def test_contradictions(words, message):
    with pytest.raises(UsageError, match=message):
        complete(parse(*words))


@pytest.mark.parametrize(("words", "message"), [
    (["--learning_rate", "0"], "0; expected a number above 0"),
    (["--learning_rate", "1e-5", "nan"], "nan; expected a number above 0"),
    (["--layer_decay", "1.5"], "1.5; expected a number above 0, at most 1"),
    (["--freeze", "half"], "half; expected embeddings, a number of layers, or all"),
    (["--weight_decay", "-1"], "-1; expected a number of at least 0"),
    (["--seeds", "0"], "0; expected a whole number of at least 1"),
    (["--null_threshold", "inf"], "inf; expected a number"),
    (["--long", "tail"], "invalid choice: 'tail'"),
    (["--freez", "1"], "unknown argument --freez; try --freeze"),
])
def test_wrong_values_are_one_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.run(finetune.main, [*NEEDED, *words]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ") and printed.count("\n") == 1 and message in printed
    assert not list(tmp_path.iterdir())


def test_what_is_needed_is_said(capsys):
    assert cli.run(finetune.main, []) == 2
    assert "required: --task, --train, --dev, --output_dir" in capsys.readouterr().err
    assert cli.run(evaluate.main, []) == 2
    assert "required: --model, --data" in capsys.readouterr().err


STORED = json.loads(pathlib.Path(__file__).with_name("stored_options.json").read_text())


def _as_then(stored, run):
    """The options without those that came later and are not given."""
    return {name: value for name, value in stored.items()
            if name in run["options"] or value not in (None, False)}


@pytest.mark.parametrize("run", STORED["finetune"], ids=lambda run: run["options"]["task"])
def test_runs_of_version_0_1_go_on(run, tmp_path):
    """What their run.json holds is what the same command asks for now."""
    flags = finetune._parser().parse_args(run["arguments"])
    options, _ = complete(FinetuneConfig(**vars(flags)))
    record = str(tmp_path / "run.json")
    manifest.write(record, run["options"])
    assert manifest.finished(record, options.stored())
    stored = manifest.result_options(json.loads(json.dumps(options.stored())))
    assert _as_then(stored, run) == run["options"]
    assert FinetuneConfig.from_dict({**options.to_dict(), **run["options"]}) == options


@pytest.mark.parametrize("run", STORED["evaluate"], ids=lambda run: len(run["arguments"]))
def test_evaluations_of_version_0_1_are_known(run):
    flags = evaluate._parser().parse_args(run["arguments"])
    assert _as_then(EvaluateConfig(**vars(flags)).stored(), run) == run["options"]


def test_a_command_is_written_as_it_can_be_typed():
    given = parse("--init", "a folder", "--no-bucket", "--epochs", "2", "3", "--lower_case")
    line = cli.command_line("finetune", given)
    assert line.startswith("python -m bert_tf.finetune --task cola --train t.tsv --dev 0.1")
    assert FinetuneConfig(**vars(finetune._parser().parse_args(shlex.split(line)[3:]))) == given
    assert FinetuneConfig(task="cola", train="t", dev=0.1, output_dir="x").dev_share() == 0.1
