"""What a run keeps when it goes on somewhere else."""

import io
import json
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from folders import files_of
from harness import mirrored

from bert_tf.config import ModelConfig
from bert_tf.data.create import create_examples
from bert_tf.errors import BertTfError, UsageError
from bert_tf.pretrain import run, training
from bert_tf.pretrain.config import PretrainConfig
from bert_tf.pretrain.run import PretrainingRun
from bert_tf.pretrain.same_command import check_same_command
from bert_tf.storage import manifest
from bert_tf.tokenization.base import BaseTokenizer
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.training import strategy
from bert_tf.training.config import TrainConfig

MADE = {"vocabulary": {"size": 50, "pad_id": 0}, "splits": {"train": {"mean_tokens": 10.0}}}


def start(folder, replicas, **changes):
    """A run of 90 tokens a batch on so many replicas, whose examples are there."""
    options = PretrainConfig(**{
        "output_dir": str(folder), "input": "a.txt", "batch_tokens": 90, "max_seq_length": 16,
        "learning_rate": 1e-3, **changes})
    config = ModelConfig.from_dict({
        "family": "bert", "vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "intermediate_size": 8, "max_position_embeddings": 16})
    return PretrainingRun(options, config, TrainConfig(batch_size=1),
                          mirrored(replicas))


def test_a_batch_keeps_its_size_on_other_replicas(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/manifest.json").write_text(json.dumps(MADE))
    assert start(tmp_path, 2).final_configs()[1].batch_size == 8
    assert start(tmp_path, 1).final_configs()[1].batch_size == 9  # nothing is trained yet
    (tmp_path / "checkpoints/step_00000004").mkdir(parents=True)
    with pytest.raises(UsageError, match="batches of 9 examples, which do not divide among 2"):
        start(tmp_path, 2).final_configs()
    start(tmp_path, 1).train_config.replace(batch_size=8).save(str(tmp_path / "train_config.json"))
    assert start(tmp_path, 1).final_configs()[1].batch_size == 8


@pytest.fixture
def without_steps(tmp_path, monkeypatch):
    """A run that is about to train, and makes no step."""
    (tmp_path / "data").mkdir()
    splits = {**MADE["splits"], "eval": {"num_examples": 0}}
    (tmp_path / "data/manifest.json").write_text(json.dumps({**MADE, "splits": splits}))
    monkeypatch.setattr(training, "train", lambda *arguments, **options: {"evaluation": None})
    started = start(tmp_path, 1, objective="mlm")
    started.input_data = lambda *arguments: None
    return started


def test_what_a_run_has_trained_takes_no_memory_after_it(without_steps):
    """Several runs of one process would add up."""
    saved = []
    without_steps.save = lambda model: saved.append(model) or model.weights[0].numpy()
    assert without_steps.train() == {}
    assert all(variable.value.read_value().shape == () for variable in saved[0].weights)


def test_a_model_that_does_not_fit_is_told(without_steps):
    def build_model(*arguments):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

    without_steps.build_model = build_model
    with pytest.raises(BertTfError, match="out of memory: the model .*; try a smaller model or"):
        without_steps.train()


def test_a_table_has_the_rows_that_it_begins_with(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/manifest.json").write_text(json.dumps(MADE))
    run = start(tmp_path, 1)
    run.config = run.config.replace(vocab_size=30522)
    assert run.final_configs()[0].vocab_size == MADE["vocabulary"]["size"]
    (tmp_path / "model").mkdir()
    run.config.save(str(tmp_path / "model/model_config.json"))
    run = start(tmp_path, 1, init=str(tmp_path / "model"))
    assert run.final_configs()[0].vocab_size == 30522


def test_the_casing_of_a_model_of_another_format_is_as_it_was_judged(tmp_path, monkeypatch, capsys):
    """A bare vocab.txt says nothing; what was made of the model does."""
    made, folder = tmp_path / "init", tmp_path / "run"
    made.mkdir()
    folder.mkdir()
    vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])
    Tokenizer(vocabulary, lower_case=True).save(str(made))
    monkeypatch.setattr(run, "own_folder", lambda path, converted, stack: str(made))
    started = start(folder, 1, init=str(tmp_path / "google"))
    started.make_vocabulary([], resumes=False)
    assert load_tokenizer(str(folder)).lower_case
    os.remove(made / "vocab.txt")  # a run that resumes needs it no more
    started.make_vocabulary([], resumes=True)
    assert f"that in {folder} is reused" in capsys.readouterr().out


def test_casing_that_a_vocabulary_contradicts_is_refused_at_once(tmp_path, monkeypatch):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "A"]))
    monkeypatch.setattr(run, "read_model", lambda path: SimpleNamespace(tokenizer=str(tmp_path)))
    start(tmp_path / "run", 1, init="google").check()
    with pytest.raises(UsageError, match="lower_case=True with the tokenizer in"):
        start(tmp_path / "run", 1, init="google", lower_case=True).check()


def test_an_evaluation_needs_no_more_memory_than_a_micro_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "PretrainingInput",
                        lambda folder, split, *, batch_size, **more: batch_size)
    started = start(tmp_path, 1, objective="mlm")
    config = TrainConfig(batch_size=64, accumulate_steps=8)
    assert [started.input_data(split, config) for split in ("train", "eval")] == [64, 8]


def test_overwriting_checkpoints_takes_a_second_word(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("some text")
    options = {"objective": "mlm", "eval_every": 5}
    folder = tmp_path / "run"
    folder.mkdir()
    start(folder, 1, **options).claim([str(text)])
    (folder / "vocab.json").touch()
    checkpoint = folder / "checkpoints/step_00001200"
    checkpoint.mkdir(parents=True)
    start(folder, 1, **{**options, "eval_every": 7, "checkpoint_every": 1,
                        "export_dir": "elsewhere", "accumulate_steps": 2}).claim([str(text)])
    start(folder, 1, **{**options, "overwrite": True}).claim([str(text)])  # the same run
    moved = tmp_path / "moved.txt"
    moved.write_text("some text")
    start(folder, 1, **{**options, "input": str(moved)}).claim([str(moved)])
    other = {**options, "learning_rate": 0.1}
    with pytest.raises(UsageError, match="another run .learning_rate was 0.001, now 0.1"):
        start(folder, 1, **other).claim([str(text)])
    with pytest.raises(UsageError, match="1,200 steps of training would be lost; try another "
                                         "output folder, or --overwrite --discard_checkpoints"):
        start(folder, 1, **{**other, "overwrite": True}).claim([str(text)])
    assert checkpoint.exists()
    start(folder, 1, **{**other, "overwrite": True, "discard_checkpoints": True}).claim([str(text)])
    assert not checkpoint.exists()


def test_overwriting_examples_is_overwriting_what_was_learned_from_them(shared, tmp_path,
                                                                        monkeypatch):
    """`--overwrite` makes those of an earlier version anew, which are other examples."""
    text, folder = tmp_path / "a.txt", tmp_path / "run"
    text.write_text("some text\nand more of it\n\nsome other text\n")
    checkpoint = folder / "checkpoints/step_00001200"

    options = {"vocab": str(shared / "reference/hub/roberta_tokens"), "format": "full_sentences",
               "max_ngram": 1, "masked_lm_prob": 0.15, "holdout": 0.0, "num_processes": 1}

    def make(**more):
        started = start(folder, 1, **options, **more)
        started.claim([str(text)])
        started.make_vocabulary([], resumes=True)
        started.make_examples([str(text)])

    def make_earlier():
        with monkeypatch.context() as earlier:
            earlier.setattr(BaseTokenizer, "blanks_in_pieces", lambda self: False)
            earlier.setattr(run, "BLANKS", "unknown")
            make()
        return files_of(folder / "data")

    def refused():
        return pytest.raises(UsageError, match="1,200 steps .*; try the examples that they learned "
                                               "from in .*, without --overwrite, or --overwrite ")

    made = make_earlier()
    checkpoint.mkdir(parents=True)
    with refused():
        make(overwrite=True)
    make()
    assert files_of(folder / "data") == made and checkpoint.exists()
    (folder / "data/manifest.json").write_text("{")
    with refused():
        make(overwrite=True)
    shutil.rmtree(folder / "data")
    with refused():
        make()
    make(overwrite=True, discard_checkpoints=True)
    assert files_of(folder / "data") != made and not checkpoint.exists()

    def check_same():
        checkpoint.mkdir(parents=True)
        made = files_of(folder / "data")
        (folder / "data/manifest.json").write_text("{")
        make(overwrite=True)
        assert files_of(folder / "data") == made and checkpoint.exists()

    check_same()
    shutil.rmtree(folder)
    make()
    record = manifest.read(str(folder / "run.json"))
    del record[run.BLANKS]  # as if killed before it was noted
    (folder / "run.json").write_text(json.dumps(record))
    make()
    check_same()


def test_other_text_from_standard_input_is_refused_before_it_replaces_any(tmp_path, monkeypatch):
    (tmp_path / "checkpoints/step_00000012").mkdir(parents=True)
    (tmp_path / "stdin.txt").write_text("some text\n")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"other text\n")))
    with pytest.raises(UsageError, match="12 steps of training would be lost"):
        start(tmp_path, 1, input="-", overwrite=True).read_inputs()
    assert (tmp_path / "stdin.txt").read_text() == "some text\n"


def test_a_refused_run_leaves_no_text_from_standard_input(tmp_path, monkeypatch):
    (tmp_path / "checkpoints/step_00000012").mkdir(parents=True)
    manifest.write(str(tmp_path / "run.json"), {"objective": None})
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"other text\n")))
    with pytest.raises(UsageError, match="12 steps of training would be lost"):
        start(tmp_path, 1, input="-", overwrite=True).finish()
    assert not (tmp_path / "stdin.txt").exists()


def test_other_flags_than_those_of_other_workers_are_refused(tmp_path, monkeypatch):
    (tmp_path / "run.json").write_text(json.dumps({"options": start(tmp_path, 1).stated()}))
    monkeypatch.setattr(strategy, "has_workers", lambda _: True)
    def add_chiefs(_, own):  # its defaults in two parts, and their squares
        if own[0]:  # a checksum
            return np.multiply(own, 2)
        default = {0: 0, 1: 1, 3: 1}.get(int(own[1]), 1000)
        return np.add(own, [0, default, 0, default ** 2])

    monkeypatch.setattr(strategy, "sum_over_workers", add_chiefs)

    def check(**options):
        run = start(tmp_path, 2, strategy="multi_worker", **options)
        run.is_chief = False
        check_same_command(run)

    check(num_processes=2)
    stated = start(tmp_path, 1).stated()
    del stated["causal_fraction"]  # an option that there was not yet when the run began
    (tmp_path / "run.json").write_text(json.dumps({"options": stated}))
    check()
    with pytest.raises(UsageError, match="learning_rate is 0.1 here, 0.001 on worker 0; expected"):
        check(learning_rate=0.1)
    for name, value in (("eval_every", 999), ("eval_examples", 999), ("accumulate_steps", 3)):
        with pytest.raises(UsageError, match=f"{name} is {value} here but differs in other "
                                             "workers; expected the same command on every worker"):
            check(**{name: value})


def test_other_files_of_the_model_than_those_of_other_workers_are_refused(tmp_path, monkeypatch):
    model = tmp_path / "model"
    model.mkdir()
    (model / "model_config.json").write_text("{}")
    (model / "model.index").write_text("of the chief")
    text = tmp_path / "a.txt"
    text.write_text("some text")
    folder = tmp_path / "run"
    folder.mkdir()
    run = start(folder, 1, init=str(model))
    run.claim([str(text)])
    run.is_chief = False
    check_same_command(run)
    (model / "model.index").write_text("another copy")
    with pytest.raises(UsageError, match="model has other files here than on worker 0"):
        check_same_command(run)
    (model / "model.index").write_text("of the chief")
    monkeypatch.setattr(strategy, "has_workers", lambda _: True)
    monkeypatch.setattr(strategy, "sum_over_workers", lambda _, own: np.multiply(
        own, 2) + (own[0] > 0))  # of a checksum, the only large number
    run.strategy = mirrored(2)
    with pytest.raises(UsageError, match="checksum of the model's configuration is .* differs in"):
        check_same_command(run)


def test_examples_of_the_given_tokenizer_are_reused(tmp_path):
    """Whether `create_data` made them of its folder, or the run of its own copy."""
    text, vocab, folder = tmp_path / "a.txt", tmp_path / "vocab", tmp_path / "run"
    text.write_text("a b\nb a\n\nb b\na a\n\n" * 9)
    vocab.mkdir()
    Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a", "b"]), lower_case=True).save(str(vocab))
    options = {"input": (str(text),), "vocab": str(vocab), "max_seq_length": 16, "holdout": 0.1,
               "split": "lines", "format": "full_sentences", "num_processes": 1, "max_ngram": 1,
               "masked_lm_prob": 0.15, "short_seq_prob": 0.1}
    run = start(folder, 1, **options)
    inputs = run.read_inputs()
    create_examples(**options, output_dir=str(folder / "data"), progress=False)
    made = files_of(folder / "data")
    run.make_vocabulary(inputs, run.claim(inputs))
    run.make_examples(inputs)
    assert files_of(folder / "data") == made
    shutil.rmtree(folder / "data")
    for _ in range(2):
        run.make_examples(inputs)
        assert manifest.read(str(folder / "data/manifest.json"))["inputs"] == [
            str(text), str(folder / "vocab.txt")]


def test_vocabulary_and_excluded_texts_are_no_input(tmp_path):
    for name in ("a.txt", "dev.txt", "vocab.txt"):
        (tmp_path / name).write_text("some text\n")
    run = start(tmp_path / "run", 1, input=str(tmp_path / "*.txt"),
                exclude=str(tmp_path / "dev.txt"), vocab=str(tmp_path / "vocab.txt"))
    assert run.read_inputs() == [str(tmp_path / "a.txt")]


def test_another_configuration_is_another_run(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("some text")
    folder = tmp_path / "run"
    folder.mkdir()
    start(folder, 1).claim([str(text)])
    (folder / "vocab.json").touch()
    run = start(folder, 1)
    run.config.replace(vocab_size=40, padding_id=3).save(str(folder / "model_config.json"))
    run.claim([str(text)])  # those two are the vocabulary's
    run.config = run.config.replace(hidden_dropout_prob=0.5)
    with pytest.raises(UsageError, match="hidden_dropout_prob was 0.1, now 0.5"):
        run.claim([str(text)])
    run.options = run.options.replace(overwrite=True)
    run.claim([str(text)])
    assert not (folder / "model_config.json").exists()


@pytest.mark.parametrize(("option", "name"), [
    ("init", "model/model.index"), ("vocab", "vocab.txt"), ("exclude", "dev.txt")])
def test_other_sources_are_another_run(tmp_path, option, name):
    text, source, folder = tmp_path / "a.txt", tmp_path / name, tmp_path / "run"
    (tmp_path / "model").mkdir()
    (tmp_path / "model/model_config.json").write_text("{}")
    text.write_text("some text")
    source.write_text("before")
    options = {option: str(tmp_path / "model" if option == "init" else source)}
    folder.mkdir()
    start(folder, 1, **options).claim([str(text)])
    (folder / "vocab.json").touch()
    start(folder, 1, **options).claim([str(text)])
    source.write_text("other content")
    with pytest.raises(UsageError, match="another run .the files of --init, --vocab or --exclude"):
        start(folder, 1, **options).claim([str(text)])
    stated = json.loads((folder / "run.json").read_text())
    del stated["sources"], stated["blake2b"]  # as before they were noted
    (folder / "run.json").write_text(json.dumps(stated))
    start(folder, 1, **options).claim([str(text)])
