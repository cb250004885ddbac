"""A first training of masked tokens: its steps, what the second one takes from it, going on."""

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.pretrain import training
from bert_tf.pretrain.complete import complete
from bert_tf.pretrain.config import PretrainConfig
from bert_tf.pretrain.masked_lm import split_steps
from bert_tf.pretrain.run import PretrainingRun
from bert_tf.storage import files, variables
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.training.config import TrainConfig
from bert_tf.training.strategy import make_strategy

TEXT = "\n\n".join(f"the {a} {b} saw the {c}\nand the {c} ran" for a in ("big", "old", "red")
                   for b in ("cat", "dog", "fox") for c in ("cow", "hen", "pig"))


@given(st.integers(2, 10**6), st.floats(0, 1, exclude_min=True, exclude_max=True),
       st.floats(0, 1))
def test_the_steps_and_the_warm_up_are_divided(steps, fraction, warm_up):
    whole = TrainConfig(train_steps=steps, warmup_steps=int(warm_up * steps), learning_rate=1e-3)
    first, second = split_steps(whole, fraction)
    assert first.train_steps + second.train_steps == steps
    assert abs(first.train_steps - fraction * steps) <= 1
    assert (first.learning_rate, second.learning_rate) == (1e-3, 5e-4)
    for each in (first, second):
        assert abs(each.warmup_steps / each.train_steps
                   - whole.warmup_steps / steps) <= 1 / each.train_steps


@pytest.fixture
def make_run(tmp_path, monkeypatch):
    """Function that starts, or goes on with, a run of four steps, three of masked tokens."""
    monkeypatch.setattr("bert_tf.pretrain.run.export_saved_model", lambda run, export: export)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)
    ModelConfig.from_dict({
        "family": "electra", "vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "intermediate_size": 8, "embedding_size": 8,
        "max_position_embeddings": 16}).save("model.json")

    def make(**changes):
        options, config = complete(PretrainConfig(**{
            "input": "text.txt", "config": "model.json", "vocab_size": 50, "train_steps": 4,
            "masked_lm_first": 0.75, "batch_size": 4, "max_seq_length": 16, "holdout": 0.2,
            "format": "full_sentences", "eval_examples": 4, "num_processes": 1,
            "output_dir": "run", **changes}))
        return PretrainingRun(options, config, options.train_config(),
                              make_strategy("one_device", 1))

    return make


@pytest.fixture
def trainings(monkeypatch):
    """What is trained: `(folder, steps, first batch, weights of the encoder before it)` of each."""
    done, train = [], training.train

    def noted(model, optimizer, strategy, config, data, *more, **options):
        batch = next(iter(data.dataset()))
        done.append((more[1], config.train_steps, batch,
                     {each.path: each.numpy() for each in model.encoder.weights}))
        return train(model, optimizer, strategy, config, data, *more, **options)

    monkeypatch.setattr(training, "train", noted)
    return done


def test_a_discriminator_goes_on_from_the_masked_lm(make_run, trainings, eager):
    metrics, _ = make_run().finish()
    (first, steps, batch, _), (second, further, later, begin) = trainings
    assert (first, steps, second, further) == ("run/masked_lm", 3, "run", 1)
    assert "replaced_loss" in metrics
    learned = variables.read_variables("run/masked_lm/model/model")
    assert begin and all(learned[path].tobytes() == value.tobytes()
                         for path, value in begin.items())
    after = variables.read_variables("run/model/model")
    assert any((after[path] != value).any() for path, value in begin.items())
    assert (batch["first_example"], later["first_example"]) == (0, 12)
    with open("run/masked_lm/metrics.jsonl") as lines:
        assert "replaced_loss" not in lines.read()
    make_run().finish()  # is finished
    assert len(trainings) == 2


def test_a_stopped_run_keeps_its_masked_lm(make_run, trainings, monkeypatch, eager):
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(PretrainingRun, "build_model", _interrupt)
        make_run().finish()
    for changes, message in (({"finish_now": True}, "has no checkpoint with replaced tokens"),
                             ({"overwrite": True, "learning_rate": 0.1},
                              "run/masked_lm/checkpoints: 3 steps of training would be lost")):
        with pytest.raises(UsageError, match=message):
            make_run(**changes).finish()
    config = pathlib.Path("model.json")
    stated = config.read_text()
    config.write_text(json.dumps({**json.loads(stated), "hidden_dropout_prob": 0.5}))
    with pytest.raises(UsageError, match="hidden_dropout_prob was 0.1, now 0.5"):
        make_run().finish()
    config.write_text(stated)
    make_run().finish()
    assert [folder for folder, *_ in trainings] == ["run/masked_lm", "run"]


@pytest.mark.long
def test_a_run_that_was_killed_in_both_trainings_has_the_same_bytes(make_run, monkeypatch, eager):
    make_run(output_dir="whole").finish()
    train = training.train
    for stopped, step in (("run/masked_lm", 3), ("run", 1)):
        def killed(*given, stopped=stopped, step=step, **options):
            result = train(*given, **options)
            if given[6] != stopped:
                return result
            files.remove(f"{stopped}/checkpoints/step_{step:08}")
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(training, "train", killed)
            make_run(checkpoint_every=1).finish()
    make_run(checkpoint_every=1).finish()
    for model in ("masked_lm/model/model", "model/model"):
        whole, again = (variables.read_variables(f"{run}/{model}") for run in ("whole", "run"))
        assert whole.keys() == again.keys()
        assert all(again[path].tobytes() == value.tobytes() for path, value in whole.items())


def test_a_batch_in_tokens_stays_what_it_was_in_the_first_training(make_run, monkeypatch, eager):
    run = make_run(batch_size=None, batch_tokens=60)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(PretrainingRun, "build_model", _interrupt)
        run.finish()
    size = run.masked_lm.final_configs()[1].batch_size
    config = TrainConfig.load("run/masked_lm/train_config.json").replace(batch_size=size + 1)
    config.save("run/masked_lm/train_config.json")  # as of other replicas
    assert run.final_configs()[1].batch_size == size + 1


def test_the_fraction_of_masks_goes_its_way_once(make_run):
    run = make_run(final_masked_lm_prob=0.05, masked_lm_prob=0.5)
    options = [(each.options.train_steps, each.first_step) for each in (run.masked_lm, run)]
    assert options == [(4, 0), (4, 3)]


def test_a_generator_that_cannot_be_is_refused_before_any_step(make_run):
    odd = {**json.loads(pathlib.Path("model.json").read_text()), "hidden_size": 60,
           "relative_position": "rotary", "position_embedding": "none", "embedding_size": 60}
    pathlib.Path("odd.json").write_text(json.dumps(odd))
    with pytest.raises(UsageError, match="the generator, of .*: .*heads of 15"):
        make_run(config="odd.json")
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a"]))
    Pretrainer(ModelConfig.from_dict(odd), None).save_pretrained("start", tokenizer)
    with pytest.raises(UsageError, match="the generator, of .*: .*heads of 15"):
        make_run(config=None, vocab_size=None, init="start")


def _interrupt(*_):
    raise KeyboardInterrupt
