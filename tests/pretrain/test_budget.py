"""A recipe fills in what is not given, once for a run folder."""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from bert_tf import pretrain
from bert_tf.config import ModelConfig
from bert_tf.data import plan, python_prose
from bert_tf.errors import BertTfError, UsageError
from bert_tf.pretrain import budget, step_rate
from bert_tf.pretrain.complete import complete
from bert_tf.pretrain.config import PretrainConfig
from bert_tf.storage import manifest
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tokenization import morphemes
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.training.strategy import make_strategy


@pytest.fixture
def measured(monkeypatch):
    """Rates as of a machine that is known; the configurations that were measured."""
    seen = []

    def steps_per_second(options, config, vocab_size, strategy, seconds):
        seen.append((options, config, vocab_size))
        return 1.9e7 / (3e5 + 12 * config.num_hidden_layers * config.hidden_size**2)

    monkeypatch.setattr(step_rate, "steps_per_second", steps_per_second)
    monkeypatch.setattr(step_rate, "computes_bfloat16", lambda: True)
    return seen


@pytest.fixture
def choose(tmp_path, write_file, measured, monkeypatch):
    text = write_file("text.txt", "a sentence of some words\n")
    monkeypatch.setattr(plan, "make_sections", lambda paths: ((paths,), 15e6))

    def chosen(ready=lambda: None, chief=True, **given):
        run = budget.budget_run(PretrainConfig(**{
            "input": text, "recipe": "budget", "hours": 1.5, "num_processes": 2,
            "output_dir": str(tmp_path / "run"), **given}))
        return complete(run.chosen(None, chief, ready)), run
    return chosen


def test_an_analyser_that_is_missing_is_told_before_anything_is_measured(choose, measured,
                                                                         monkeypatch):
    def missing(_):
        raise UsageError("kiwipiepy is not installed")

    monkeypatch.setattr(morphemes, "_analyser", missing)
    with pytest.raises(UsageError, match="kiwipiepy"):
        choose(pretokenize="morphemes")
    assert not measured


def test_what_is_chosen(choose, measured, capsys):
    (options, config), _ = choose()
    assert (options.preset, options.objective, options.format, options.dtype) == (
        "mini", "mlm", "packed", "bfloat16")
    assert (options.batch_size, options.max_seq_length, options.masked_lm_prob,
            options.learning_rate, options.vocab_size) == (32, 64, 0.2, 1e-3, 8000)
    assert 20_000 < options.train_steps < 32_000 and options.warmup_steps == (
        options.train_steps // 10)
    assert (config.family, config.pooling, config.hidden_dropout_prob) == ("modernbert", "mean", 0)
    assert [each.preset for each, _, _ in measured] == ["tiny", "mini", "small"]
    assert all(each.hidden_dropout_prob == 0 for _, each, _ in measured)
    printed = capsys.readouterr().out
    assert "4 x 256" in printed and f"--train_steps {options.train_steps}" in printed


def test_steps_are_of_both_trainings(choose, monkeypatch):
    rates = {"mlm": 4.0, "rtd": 1.0}
    monkeypatch.setattr(step_rate, "steps_per_second",
                        lambda options, *rest: rates[options.objective])

    def steps(**given):
        return choose(preset="mini", **given)[0][0].train_steps

    masked, replaced = steps(objective="mlm"), steps(objective="rtd")
    assert masked == pytest.approx(4 * replaced, rel=0.01)
    assert steps(masked_lm_first=0.75) == pytest.approx(replaced / (0.75 / 4 + 0.25), rel=0.01)


def test_a_size_without_memory_is_not_chosen(choose, measured, monkeypatch, capsys):
    rate_of = step_rate.steps_per_second

    def full(largest):
        def steps_per_second(options, config, *rest):
            if config.hidden_size > largest:
                raise tf.errors.ResourceExhaustedError(None, None, "out of memory")
            return rate_of(options, config, *rest)
        return steps_per_second

    monkeypatch.setattr(step_rate, "steps_per_second", full(128))
    assert choose()[0][0].preset == "tiny"
    assert "no memory for a step of 4 x 256" in capsys.readouterr().out
    monkeypatch.setattr(step_rate, "steps_per_second", full(0))
    with pytest.raises(UsageError, match="smallest model, 2 x 128; try --batch_size"):
        choose(overwrite=True, seed=3)


@pytest.mark.parametrize("given", [
    {"learning_rate": 5e-4, "dtype": "float32", "masked_lm_prob": 0.15},
    {"preset": "small", "max_seq_length": 32, "objective": "mlm+sop"},
    {"batch_tokens": 1000, "train_steps": 77, "warmup_steps": 3}, {"family": "gpt"},
    {"family": "electra", "objective": "rtd"}, {"causal_fraction": 0.25},
    {"objective": "rtd", "masked_lm_first": 0.75},
    {"family": "bert", "split": "none"}, {"vocab_size": 300, "format": "doc_sentences"}])
def test_what_is_given_wins(choose, given):
    (options, _), _ = choose(**given)
    for name, value in given.items():
        assert getattr(options, name) == value
    expected = {"gpt": ("lm", "full_sentences")}.get(given.get("family"), (
        given.get("objective", "mlm"), given.get("format", "segment_pair" if given.get(
            "objective") == "mlm+sop" else "packed")))
    assert (options.objective, options.format) == expected


def test_a_model_that_is_given_is_measured_alone(choose, measured, write_file):
    sizes = {"vocab_size": 99, "hidden_size": 64, "num_hidden_layers": 3,
             "num_attention_heads": 2, "intermediate_size": 128}
    (options, config), run = choose(config=write_file("sizes.json", json.dumps(sizes)))
    assert len(measured) == 1 and config.hidden_act == "gelu_approximate"
    assert options.vocab_size == 99 and config.hidden_dropout_prob == 0.1
    assert "chosen: the model given" in run.facts["recipe"]["told"][-1]


def test_a_model_to_start_from_brings_its_vocabulary(choose, measured, tmp_path):
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "a", "b"])
    model = Pretrainer(ModelConfig.from_dict({
        "family": "bert", "vocab_size": 7, "hidden_size": 8, "num_hidden_layers": 2,
        "num_attention_heads": 1, "intermediate_size": 8, "max_position_embeddings": 64}), None)
    model.save_pretrained(str(tmp_path / "start"), Tokenizer(vocabulary))
    (options, config), _ = choose(init=str(tmp_path / "start"), stack=2)
    assert [size for _, _, size in measured] == [7]
    assert config.num_hidden_layers == 4 and options.objective == "mlm"
    assert options.max_seq_length == 64


def test_the_same_command_takes_what_was_chosen(choose, measured, tmp_path, capsys):
    (options, config), run = choose()
    manifest.write(str(tmp_path / "run/run.json"), options.stored(), [], **run.facts)
    measured.clear()
    again, other = choose(num_processes=1)
    assert again[0].replace(num_processes=2) == options and again[1] == config
    assert not measured and other.facts == run.facts
    assert "as it was chosen for" in capsys.readouterr().out
    del run.facts["recipe"]["given"]["causal_fraction"]  # an option that there was not yet
    manifest.write(str(tmp_path / "run/run.json"), options.stored(), [], **run.facts)
    assert choose()[1].facts == run.facts and not measured
    assert choose(strategy="multi_worker")[0][0].train_steps == options.train_steps
    capsys.readouterr()  # another worker, which has no text: it takes and says nothing else
    of_worker = choose(strategy="multi_worker", chief=False, input=str(tmp_path / "nowhere.txt"))
    assert of_worker[0][0].train_steps == options.train_steps and not capsys.readouterr().out
    with pytest.raises(UsageError, match="with --strategy multi_worker"):
        choose(strategy="multi_worker", seed=3)
    for changed in ({"learning_rate": 1e-4}, {"preset": "tiny"}):  # may be worth other steps
        assert choose(**changed)[1].facts != run.facts and measured
        measured.clear()
    assert choose(hours=3.0)[0][0].train_steps > options.train_steps and measured


def test_another_text_is_measured_anew(choose, measured, tmp_path, monkeypatch):
    _, run = choose()
    manifest.write(str(tmp_path / "run/run.json"), {}, [], **run.facts)
    monkeypatch.setattr(plan, "make_sections", lambda paths: ((paths,), 16e6))
    measured.clear()
    assert choose()[1].facts["recipe"]["given"]["bytes"] == 16e6 and measured


def test_a_pattern_that_matches_what_the_run_writes_is_the_same_text(choose, measured, tmp_path,
                                                                     monkeypatch):
    monkeypatch.setattr(plan, "make_sections", lambda paths: ((paths,), 15e6 * len(paths)))
    (tmp_path / "run").mkdir()
    (tmp_path / "run/text.txt").write_text("a sentence of some words\n")
    _, run = choose(input=str(tmp_path / "run/*.txt"))
    manifest.write(str(tmp_path / "run/run.json"), {}, [], **run.facts)
    (tmp_path / "run/vocab.txt").write_text("a\nb\n")
    measured.clear()
    assert choose(input=str(tmp_path / "run/*.txt"))[1].facts == run.facts and not measured


@pytest.mark.parametrize("option", ["config", "vocab"])
def test_other_files_beside_the_text_are_another_choice(choose, measured, tmp_path, option):
    sizes = {"family": "bert", "vocab_size": 7, "hidden_size": 8, "num_hidden_layers": 1,
             "num_attention_heads": 1, "intermediate_size": 8}
    before, formatted, after = {
        "config": [json.dumps(sizes), json.dumps(sizes, indent=2),
                   json.dumps({**sizes, "num_hidden_layers": 2})],
        "vocab": ["\n".join([*SPECIAL_TOKENS, *words]) for words in ("ab", "ab", "abc")]}[option]
    path, record = tmp_path / "file", str(tmp_path / "run/run.json")
    path.write_text(before)
    given = {option: str(path), "preset": None if option == "config" else "tiny"}
    _, run = choose(**given)
    manifest.write(record, {}, [], **run.facts)
    path.write_text(formatted)
    measured.clear()
    assert choose(**given)[1].facts == run.facts and not measured
    path.write_text(after)
    (tmp_path / "run/vocab.json").touch()
    with pytest.raises(UsageError, match="another run .the files of --init, --vocab, --exclude or"):
        choose(**given)
    assert choose(**given, overwrite=True)[1].facts != run.facts and measured
    del run.facts["recipe"]["given"]["sources"]  # as before they were noted
    manifest.write(record, {}, [], **run.facts)
    assert choose(**given)[1].facts == run.facts


def test_what_cannot_be_is_refused_before_anything_is_measured(choose, measured, tmp_path):
    def refuse():
        raise UsageError("12 steps of training would be lost")

    with pytest.raises(UsageError, match="12 steps"):
        choose(refuse)
    manifest.write(str(tmp_path / "run/run.json"), {"recipe": None}, [])
    (tmp_path / "run/vocab.json").touch()
    with pytest.raises(UsageError, match="another run .recipe was None, now 'budget'.; try"):
        choose()
    assert not measured


def test_the_command_looks_at_the_folder_before_it_measures(tmp_path, write_file, monkeypatch):
    def steps_per_second(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(step_rate, "steps_per_second", steps_per_second)
    given = {"input": write_file("text.txt", "some text\n"), "recipe": "budget", "hours": 1.0,
             "output_dir": str(tmp_path / "run"), "strategy": "one_device"}
    with pytest.raises(UsageError, match="--finish_now, but .* has no checkpoint"):
        pretrain.pretrain(**given, finish_now=True)
    with pytest.raises(KeyboardInterrupt):
        pretrain.pretrain(**given)
    manifest.write(str(tmp_path / "run/run.json"), {"objective": "mlm"}, [])
    (tmp_path / "run/vocab.json").touch()
    (tmp_path / "run/checkpoints/step_00000007").mkdir(parents=True)
    with pytest.raises(UsageError, match="discard_checkpoints"):
        pretrain.pretrain(**given, overwrite=True)
    with pytest.raises(KeyboardInterrupt):  # whatever the batch that is not chosen yet
        pretrain.pretrain(**given, overwrite=True, discard_checkpoints=True, accumulate_steps=64)


def test_where_the_model_goes_is_told_once(choose, monkeypatch):
    """`export_dir_beside` does so where nothing is given."""
    asked = []
    monkeypatch.setattr("bert_tf.pretrain.complete.export_dir_beside",
                        lambda run, given: asked.append(given) or "exported")
    choose()
    assert asked.count(None) == 1


def test_what_is_measured_is_what_will_be_trained(choose, measured, write_file):
    """Rows of the tables, the rate of the optimizer, the steps of a long warm-up, the objective."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    choose(vocab=write_file("vocab.txt", "\n".join(pieces) + "\n"))
    assert {vocab_size for _, _, vocab_size in measured} == {7}
    measured.clear()
    (options, _), _ = choose(family="modernbert", optimizer="lion", warmup_steps=20_000,
                             preset="tiny")
    assert (options.learning_rate, options.objective) == (1e-4, "mlm")
    assert measured[0][0].train_steps > 20_000 and measured[0][2] == 8000
    assert choose(family="electra")[0][0].objective == "rtd"


@pytest.mark.long
def test_a_padding_id_beyond_the_vocabulary_is_measured(write_file):
    """ModernBERT's presets have that of the published vocabulary."""
    options, config = complete(PretrainConfig(
        input=write_file("text.txt", "a"), family="modernbert", preset="tiny", max_seq_length=16,
        batch_size=2, train_steps=20, ema_decay=0.9, format="full_sentences"))
    assert config.padding_id > 100
    assert step_rate.steps_per_second(options, config, 100, make_strategy("one_device", 1), 0) > 0


@pytest.mark.parametrize("given, message", [
    ({"recipe": None}, "--hours 1.5 without --recipe; try --recipe budget"),
    ({"hours": None}, "--recipe budget; expected the time that it may take"),
    ({"strategy": "multi_worker"}, "with --strategy multi_worker"),
    ({"input": "-"}, "with --input -, whose size is not known"),
    ({"objective": "rtd", "family": "bert"}, "only electra, deberta and modernbert have"),
    ({"hours": 0.01}, "takes all of them; expected more")])
def test_what_is_refused(choose, given, message):
    with pytest.raises(UsageError, match=message):
        choose(**given)


def test_a_file_without_text_is_refused_before_anything_is_measured(choose, measured, write_file):
    with pytest.raises(BertTfError, match="empty.txt"):
        choose(input=write_file("empty.txt", "\n"))
    assert not measured


@pytest.mark.long
def test_a_run_of_minutes(tmp_path):
    """Measured, trained as many steps as chosen, exported; again it is finished."""
    (tmp_path / "prose.txt").write_text(python_prose.text())
    command = [sys.executable, "-m", "bert_tf.pretrain", "--input", "prose.txt", "--recipe",
               "budget", "--hours", "0.06", "--num_processes", "1", "--log_every", "1"]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    lines = []
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True,
                              env=environment)
        lines.append(done.stdout)
    run = tmp_path / "runs/modernbert_budget_prose"
    steps = manifest.read(str(run / "run.json"))["options"]["train_steps"]
    logged = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert steps > 10 and logged[-1]["step"] == steps
    assert "chosen: tiny" in lines[0] and "chosen: tiny" in lines[1]
    assert "finished already" in lines[1]
    assert (tmp_path / "saved_models/modernbert_budget_prose/1/saved_model.pb").exists()


@pytest.mark.parametrize("capabilities, expected", [
    ([(8, 0)], True), ([(7, 5)], False), ([(9, 0), (7, 0)], False)])
def test_older_gpus_do_not_multiply_bfloat16(monkeypatch, capabilities, expected):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: capabilities)
    monkeypatch.setattr(tf.config.experimental, "get_device_details",
                        lambda gpu: {"compute_capability": gpu})
    assert step_rate.computes_bfloat16() == expected
