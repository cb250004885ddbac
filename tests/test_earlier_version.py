"""Folders that version 0.1 wrote: finished work is reused, what was stopped resumes.

`earlier/version_0_1.tar.xz` holds, of models with random weights and made-up words: a vocabulary,
examples, two pre-training runs and two fine-tuning runs, one of each stopped after a checkpoint,
SavedModels and an evaluation.
"""

import json
import pathlib
import tarfile

import pytest
import tensorflow as tf
from folders import files_of

from bert_tf import cli, create_data, evaluate, finetune, learn_vocab, pretrain
from bert_tf.storage import files
from bert_tf.tasks.pretrained import from_pretrained

ARCHIVE = pathlib.Path(__file__).parent / "earlier" / "version_0_1.tar.xz"
VOCAB = "--input text.txt --output vocabulary/vocab.txt --vocab_size 60 --lower_case"
DATA = ("--input text.txt --vocab vocabulary/vocab.txt --output_dir data --seq_length 16 "
        "--num_processes 1 --holdout 0.2 --masked_share 0.2")
PRETRAIN = ("--input text.txt --config sizes.json --vocab vocabulary/vocab.txt --train_steps 4 "
            "--batch_size 8 --seq_length 16 --checkpoint_every 2 --log_every 1 --eval_every 2 "
            "--num_processes 1 --holdout 0.2 --output_dir runs/{0} --export_dir saved_models/{0}")
FINETUNE = ("--task classify --init runs/finished --train table.tsv --dev 0.25 --epochs 2 "
            "--seeds 2 --batch_size 8 --seq_length 16 --output_dir runs/{0} "
            "--export_dir saved_models/{0}")
EVALUATE = "--model runs/tuned --data table.tsv --output_dir evaluations/tuned"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Function that runs a command where the folders are: what it printed."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)

    def run(main, flags):
        code = cli.run(main, flags.split())
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return printed.out + printed.err
    return run


def _results(run):
    return files.read_json(f"runs/{run}/results.json")


def test_finished_work_is_reused(run):
    before = files_of(".")
    assert "is there already" in run(learn_vocab.main, VOCAB)
    assert "reusing" in run(create_data.main, DATA)
    assert "this run is finished already" in run(pretrain.main, PRETRAIN.format("finished"))
    assert "this run is finished already" in run(finetune.main, FINETUNE.format("tuned"))
    assert "this is measured already" in run(evaluate.main, EVALUATE)
    assert files_of(".") == before


@pytest.mark.long
def test_models_are_read(run):
    text = tf.constant(["the cat sat by the door"])
    tuned = from_pretrained("runs/tuned")
    assert tuned.labels == ["busy", "still"]
    served = tf.saved_model.load("saved_models/tuned/1").signatures["serving_default"](text=text)
    expected = tf.nn.softmax(tuned(text))
    tf.debugging.assert_near(served["probabilities"], expected, atol=1e-5)
    assert from_pretrained("runs/finished").task_config() == {
        "task": "pretraining", "sentence_task": "next_sentence"}


@pytest.mark.long
def test_a_stopped_pretraining_resumes(run):
    run(pretrain.main, PRETRAIN.format("stopped"))
    steps = [json.loads(line) for line in files.read_lines("runs/stopped/metrics.jsonl")]
    assert {line["step"] for line in steps if "loss" in line} == {1, 2, 3, 4}
    stopped, finished = _results("stopped")["metrics"], _results("finished")["metrics"]
    assert stopped.pop("next_sentence_accuracy_interval") == pytest.approx(
        finished.pop("next_sentence_accuracy_interval"))
    assert stopped.pop("next_sentence_majority") >= 0.5  # later than that version
    assert stopped == pytest.approx(finished, rel=1e-3)


@pytest.mark.long
def test_a_stopped_fine_tuning_resumes(run):
    run(finetune.main, FINETUNE.format("tuning"))
    assert _results("tuning")["metrics"] == pytest.approx(_results("tuned")["metrics"])
    assert [one["seed"] for one in _results("tuning")["seeds"]] == [12345, 12346]
