"""The options of `python -m bert_tf.pretrain`: defaults, and pairings that make no sense."""

import json
import pathlib

import pytest

from bert_tf import cli, pretrain
from bert_tf.presets import PRESETS
from bert_tf.pretrain.complete import FAMILY_OBJECTIVES, complete
from bert_tf.pretrain.config import PretrainConfig
from bert_tf.storage import manifest


def completed(flags):
    """The options that flags ask for, complete, and the model's configuration."""
    return complete(PretrainConfig(**vars(pretrain._parser().parse_args(flags))))


def test_every_family_has_an_objective():
    assert {*FAMILY_OBJECTIVES} == {*PRESETS}


@pytest.mark.parametrize(("path", "name"), [
    ("../corpus/en_mixed.txt.gz", "en_mixed"), ("글 모음/*.txt", "글 모음"), ("texts/a*.txt", "a"),
    ("*.txt", "text"), ("-", "stdin"),
])
def test_a_run_is_named_after_its_text(path, name):
    options, _ = completed(["--input", path])
    assert options.output_dir == f"runs/bert_tiny_{name}"
    assert options.export_dir == f"saved_models/bert_tiny_{name}"


@pytest.mark.parametrize(("flags", "expected"), [
    ("", ("bert", "mlm+nsp", "segment_pair", "random", 1)),
    ("--format doc_sentences", ("bert", "mlm", "doc_sentences", None, 1)),
    ("--objective mlm", ("bert", "mlm", "segment_pair", "next", 1)),
    ("--objective mlm+sop --format sentence_pair",
     ("bert", "mlm+sop", "sentence_pair", "swapped", 1)),
    ("--objective lm", ("bert", "lm", "full_sentences", None, 1)),
    ("--family roberta", ("roberta", "mlm", "full_sentences", None, 1)),
    ("--family albert", ("albert", "mlm+sop", "segment_pair", "swapped", 3)),
    ("--family albert --format full_sentences --max_ngram 1",
     ("albert", "mlm", "full_sentences", None, 1)),
    ("--family electra", ("electra", "rtd", "segment_pair", "next", 1)),
    ("--family electra --objective mlm --masking static --whole_word",
     ("electra", "mlm", "segment_pair", "next", 1)),
    ("--family gpt --format doc_sentences", ("gpt", "lm", "doc_sentences", None, 1)),
    ("--family gpt2", ("gpt2", "lm", "full_sentences", None, 1)),
])
def test_defaults_of_a_family(flags, expected):
    options, config = completed(flags.split())
    assert (options.family, options.objective, options.format, options.pairs,
            options.max_ngram) == expected
    assert config.family == options.family
    causal = ("causal", "last") if options.objective == "lm" else ("bidirectional",)
    assert (config.attention, config.pooling)[:len(causal)] == causal


@pytest.mark.parametrize(("flags", "rate"), [
    ("", 3e-3), ("--family electra --objective mlm", 3e-3), ("--family electra", 1e-3),
    ("--family deberta", 1e-3), ("--family electra --preset small", 5e-4),
    ("--family modernbert --masked_lm_first 0.7", 1e-3),
    ("--input a.txt", 1e-3)])
def test_learning_rates(flags, rate):
    """High ones for masked tokens of little text, under which no discriminator learns."""
    assert completed(flags.split())[0].learning_rate == rate


@pytest.mark.parametrize(("flags", "reason"), [
    ("--objective lm --masking static", "--masking static stores it masked; try --masking dyn"),
    ("--family gpt --format packed", "learns where a text ends, and --format packed ends it with "
                                     "every row; try --format full_sentences"),
    ("--family gpt --whole_word", "--whole_word has no meaning; try leaving --whole_word out"),
    ("--family gpt --max_ngram 2", "--max_ngram has no meaning"),
    ("--family gpt --masked_share 0.2", "--masked_lm_prob has no meaning"),
    ("--objective lm --max_predictions_per_seq 9", "--max_predictions_per_seq has no meaning"),
    ("--objective mlm+nsp --format full_sentences", "needs pairs of segments"),
    ("--objective mlm+sop --format doc_sentences",
     "needs pairs of segments, which --format doc_sentences does not make; try --objective mlm"),
    ("--family roberta --objective mlm+nsp",
     "--objective mlm+nsp with --family roberta: the family has no sentence task; try --objective "
     "mlm, or --family bert or albert"),
    ("--family roberta --format segment_pair", "needs 2 segments, the model has type_vocab_size=1"),
    ("--family electra --objective mlm+sop", "no sentence task; try --objective rtd or mlm"),
    ("--objective rtd", "only electra, deberta and modernbert have a generator; try --objective "
                        "mlm+nsp or mlm or mlm+sop or lm, or --family electra or deberta or "
                        "modernbert"),
    ("--objective mlm --masked_lm_first 0.7",
     "finds no replaced tokens, before which --masked_lm_first has the encoder predict masked "),
    ("--family electra --masked_lm_first 0.7 --train_steps 1", "needs two --train_steps"),
    ("--masked_lm_first 0.7", "try --objective rtd --family modernbert"),
    ("--family gpt --objective mlm",
     "gpt, gpt2 and qwen3 see the text before a token only; try --objective lm"),
    ("--family gpt --format segment_pair", "type_vocab_size=0; try --format full_sentences"),
    ("--family albert --objective lm",
     "only bert, gpt, gpt2, qwen3 and gemma3 have a left-to-right form"),
    ("--family electra --preset mini", "preset='mini' is unknown; expected one of tiny, small"),
    ("--family roberta --seq_length 512 --config roberta.json",
     "more than the model's 98 positions"),
    ("--config causal.json --objective mlm", "attention='causal' hides what follows it; try "
                                             "--objective lm"),
    ("--config bert.json --objective lm", "shows it; a model keeps the attention it was trained "
                                          "with; try --preset"),
    ("--config bilstm.json --objective lm", "bilstm=true shows it; try bilstm=false"),
    ("--config bert.json --family albert", "bert.json is a model of the family bert; expected "
                                           "--family albert; try --family bert"),
    ("--family gpt --final_masked_lm_prob 0.1", "--final_masked_lm_prob has no meaning"),
    ("--masking static --final_masked_lm_prob 0.1", "which stores masks once; try --masking dyn"),
    ("--causal_fraction 0.5 --family electra", "with --objective rtd: it is of masked tokens "
                                               "alone; try --objective mlm"),
    ("--causal_fraction 0.5 --objective mlm --padding_free", "no rectangle of its own; try leaving "
                                                             "one out"),
    ("--causal_fraction 0.5 --objective mlm --masking static", "stores rows masked; try --masking "
                                                               "dynamic"),
    ("--causal_fraction 0.5 --objective mlm --config conv.json",
     "with a BiLSTM, a convolution or trigrams, which show what follows; try leaving it out"),
    ("--causal_fraction 1.0 --objective mlm", "1.0; expected a fraction in [0, 1)"),
    ("--stack 2", "--stack repeats the layers of a trained model; name it with --init"),
    ("--decay_ratio 0.1", "--decay_ratio has no meaning without --schedule trapezoid; leave it"),
    ("--optimizer lion --epsilon 1e-8", "no meaning without --optimizer adamw or lamb or muon"),
    ("--split none", "Python's prose is split into sentences; leave --split out"),
    ("--split none --input a.txt", "needs a second sentence, and with --split none a document has "
                                   "one; try --objective mlm, with --format full"),
    ("--discard_checkpoints", "without --overwrite; try --overwrite --discard_checkpoints"),
    ("--init folder", "has no tokenizer, with which examples are made"),
])
def test_pairings_without_sense_are_refused(flags, reason, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # What is not refused is not trained.
    monkeypatch.setattr("bert_tf.pretrain.run.PretrainingRun.train", None)
    configs = {"bert": {"family": "bert"}, "causal": {"family": "bert", "attention": "causal"},
               "bilstm": {"family": "bert", "attention": "causal", "bilstm": True},
               "conv": {"family": "bert", "feed_forward": "conv", "conv_kernel_size": 3},
               "roberta": {"family": "roberta", "max_position_embeddings": 100, "padding_id": 1},
               "folder/model_config": {"family": "roberta"}}
    (tmp_path / "folder").mkdir()
    for name, values in configs.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"vocab_size": 500, **values}))
    assert cli.run(pretrain.main, flags.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
    assert reason in error
    assert not (tmp_path / "runs").exists()


def save_run(run):
    """The model of a run in the folder `run`; its path."""
    folder = run / "model"
    folder.mkdir(parents=True)
    (folder / "model_config.json").write_text(json.dumps({"family": "bert", "vocab_size": 6}))
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    return folder


def test_a_run_is_named_after_the_run_that_it_starts_from(tmp_path, monkeypatch):
    """So that a third one, which starts from that, has a folder of its own."""
    monkeypatch.chdir(tmp_path)
    save_run(tmp_path / "first")
    for init in ("first", "first/", "first/model"):
        assert completed(["--init", init])[0].output_dir == "runs/bert_first"
    save_run(tmp_path / "runs/bert_first")
    assert completed(["--init", "runs/bert_first"])[0].output_dir == "runs/bert_bert_first"


def test_a_model_of_masked_tokens_alone_gets_a_pooler_for_pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = save_run(tmp_path / "run") / "model_config.json"
    config.write_text(json.dumps({"family": "bert", "vocab_size": 6, "pooling": "first"}))
    for flags, pooling in (([], "dense"), (["--objective", "mlm"], "first")):
        assert completed(["--init", "run", *flags])[1].pooling == pooling
    (tmp_path / "begun").mkdir()  # without one, by a version that gave none
    (tmp_path / "begun/model_config.json").write_text(config.read_text())
    assert completed(["--init", "run", "--output_dir", "begun"])[1].pooling == "first"
    assert completed(["--config", str(config), "--vocab_size", "6"])[1].pooling == "first"
    config.write_text(json.dumps({"family": "mobilebert", "vocab_size": 6}))  # which needs none
    assert completed(["--init", "run"])[1].pooling == "first"


def test_a_budget_run_that_began_with_the_first_token_goes_on_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    budget = ["--recipe", "budget", "--hours", "1", "--preset", "tiny", "--output_dir", "run"]
    assert completed(budget)[1].pooling == "mean"
    (tmp_path / "run").mkdir()
    completed(["--family", "modernbert"])[1].save(tmp_path / "run/model_config.json")
    assert completed(budget)[1].pooling == "first"


@pytest.mark.parametrize("output_dir", ["run", "run/model"])
def test_the_model_to_start_from_is_not_cleared_away(output_dir, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = save_run(tmp_path / "run")
    assert cli.run(pretrain.main, ["--init", "run", "--output_dir", output_dir, "--overwrite",
                                   "--discard_checkpoints"]) == 2
    assert f"--output_dir {output_dir} holds the model of --init" in capsys.readouterr().err
    assert {path.name for path in folder.iterdir()} == {"model_config.json", "vocab.txt"}


def test_a_causal_configuration_is_a_language_model(tmp_path):
    path = tmp_path / "causal.json"
    path.write_text('{"vocab_size": 500, "family": "bert", "attention": "causal"}')
    options, _ = completed(["--config", str(path)])
    assert (options.objective, options.format) == ("lm", "full_sentences")


RUNS = json.loads(pathlib.Path(__file__).with_name("stored_options.json").read_text())


@pytest.mark.parametrize("run", RUNS, ids=lambda run: " ".join(run["arguments"]))
def test_runs_of_version_0_1_go_on(run, tmp_path):
    """What their run.json holds is what the same command asks for now."""
    options, _ = completed(run["arguments"])
    record = str(tmp_path / "run.json")
    manifest.write(record, run["options"])
    stated = {**options.stored(), "pairs": options.pairs}
    assert manifest.finished(record, stated)
    # An option that came later is off.
    now = {name: value for name, value in manifest.result_options(
        json.loads(json.dumps(stated))).items() if value or name in run["options"]}
    assert now == manifest.result_options(run["options"])


def test_predictions_of_a_fraction_that_changes():
    """As many as the larger fraction wants; `create_data` counts those of the first."""
    flags = ["--max_seq_length", "100", "--masked_lm_prob", "0.1", "--final_masked_lm_prob"]
    assert completed([*flags, "0.3"])[0].max_predictions_per_seq == 30
    assert completed([*flags, "0.05"])[0].max_predictions_per_seq is None


def test_updates_of_the_weights():
    """What is given reaches training, what is not keeps the defaults."""
    given = ("--schedule trapezoid --decay_ratio 0.3 --beta_2 0.98 --epsilon 1e-8 --weight_decay 0 "
             "--clip_norm 0.5")
    options, _ = completed(given.split())
    config = options.train_config()
    assert (config.schedule, config.decay_steps, config.beta_1, config.beta_2, config.epsilon,
            config.weight_decay, config.clip_norm) == ("trapezoid", 750, 0.9, 0.98, 1e-8, 0, 0.5)
    given = ["--preset", "mini", "--optimizer", "lion", "--weight_decay", "0.3"]
    lion, usual = (completed(flags)[0].train_config() for flags in (given, given[:2]))
    assert (lion.beta_2, lion.weight_decay) == (0.99, 0.3)
    assert lion.learning_rate == pytest.approx(usual.learning_rate / 10)
    defaults = completed([])[0].train_config()
    assert (defaults.schedule, defaults.beta_2, defaults.clip_norm) == ("linear", 0.999, 1.0)
