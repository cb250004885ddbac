"""What a run tells of its train examples, and of the model before training."""

import json
import shutil
import types

import numpy as np
import pytest
from sentiment import MARKS, config, examples, options, tokenizer, write_table

from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.family_defaults import FAMILY_DEFAULTS
from bert_tf.finetune.init import find_start
from bert_tf.finetune.run import FinetuningRun
from bert_tf.load import from_pretrained
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.registry import find_task, make_type
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary


@pytest.mark.parametrize("begun", ["", "results.json", "trials/a/checkpoints/f"])
def test_only_what_was_trained_on_another_split_is_refused(tmp_path, begun):
    write_table(tmp_path / "train.tsv", examples(20))
    run = FinetuningRun(options(train=str(tmp_path / "train.tsv"), dev="0.25",
                                output_dir=str(tmp_path / "run")), find_task("classify"), None)
    split = tmp_path / "run" / "dev_ids.json"
    made = tmp_path / "run" / (begun or "trials/a/logs/f")
    made.parent.mkdir(parents=True)
    made.touch()
    split.write_text('{"dev_ids": ["0"]}')
    if begun:
        with pytest.raises(UsageError, match=f"or deleting {tmp_path / 'run'} to train again"):
            run.examples()
        shutil.rmtree(tmp_path / "run")
        split.parent.mkdir()
    _, dev, _ = run.examples()
    assert json.loads(split.read_text())["dev_ids"] == [each.id for each in dev]


def test_a_vocabulary_that_does_not_know_the_text_is_told(capsys):
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "a"])
    for ids, told in (([2, 1, 5, 5, 5, 3], "note: 25 % of the train tokens are unknown"),
                      ([2, 1, *[5] * 9, 3], "")):
        features = types.SimpleNamespace(
            rows={"input_word_ids": types.SimpleNamespace(values=np.array(ids))}, truncated=0)
        run = FinetuningRun(None, None, None)
        run.train, run.train_features, run.dev, run.test = [], None, [], None
        run.start = types.SimpleNamespace(tokenizer=types.SimpleNamespace(vocabulary=vocabulary))
        run.type = types.SimpleNamespace(
            features=lambda *_, made=features, **options: made, truncation=lambda _: None,
            features_to_predict=lambda *_, made=features: made)
        run.features(types.SimpleNamespace(preprocessor=None, task_config=lambda: {"task": ""}))
        out = capsys.readouterr().out
        assert told in out and ("unknown" in out) == bool(told)


def test_an_encoder_that_is_not_trained_is_told(tmp_path, capsys):
    old = str(tmp_path / "old")
    Classifier(config(), [*MARKS], features={"layers": [-1], "lstm_size": 4}).save_pretrained(
        old, tokenizer())
    asked = options(init=old)
    model = find_start(asked, str(tmp_path), None).build("classifier", {}, labels=["x", "y", "z"])
    assert not any("/encoder/" in variable.path for variable in model.trainable_variables)
    FinetuningRun(asked, None, None).tell_of(model)
    assert f"note: {old} was made with --features: its encoder is not trained; try --init" in (
        capsys.readouterr().out)
    for name, value in (("freeze", "embeddings"), ("layer_decay", 0.9)):
        with pytest.raises(UsageError, match=f"--{name} beside --init {old}, which was made with"):
            FinetuningRun(asked.replace(**{name: value}), None, None).tell_of(model)
    FinetuningRun(asked.replace(features=(-1,)), None, None).tell_of(model)
    assert "its encoder is not trained" not in capsys.readouterr().out


@pytest.mark.parametrize("task", ["classify", "rank"])
@pytest.mark.parametrize(("pooling", "vector"), [
    ("mean", lambda tokens, real: (tokens * real).sum(axis=1) / real.sum(axis=1)),
    ("cls", lambda tokens, real: tokens[:, 0]),
    ("cls_pooled", None),
    ("sep", lambda tokens, real: tokens[[0, 1], real[:, :, 0].sum(axis=1) - 1])])
def test_the_vector_that_a_head_reads(task, pooling, vector, tmp_path):
    old = str(tmp_path / "old")
    Classifier(config(), [*MARKS]).save_pretrained(old, tokenizer())
    run = FinetuningRun(options(task=task, init=old, pooling=pooling), find_task(task), None)
    run.start = find_start(run.options, str(tmp_path), None)
    run.type = make_type(run.task, run.options.replace(max_seq_length=8))
    run.model_task, run.model_options = run.type.model_options([*MARKS], run.start.tokenizer)
    model = run.build(seed=1)
    inputs = {"input_word_ids": np.array([[2, 5, 6, 3, 0], [2, 7, 3, 0, 0]]),
              "input_mask": np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]]),
              "input_type_ids": np.zeros((2, 5), int)}
    output = model.encoder(inputs)
    tokens = output["sequence_output"].numpy()
    if vector is None:  # what the saved pooler makes of it
        dense = {weight.name: weight.numpy()
                 for weight in from_pretrained(old).encoder.backbone.pooler.weights}
        expected = np.tanh(tokens[:, 0] @ dense["kernel"] + dense["bias"])
    else:
        expected = vector(tokens, inputs["input_mask"][:, :, None])
    np.testing.assert_allclose(output["pooled_output"], expected, atol=1e-6)
    head = {weight.name: weight.numpy() for weight in model.head.weights}
    np.testing.assert_allclose(
        model(inputs), expected @ head["output_weights"].T + head["output_bias"], atol=1e-5)


@pytest.mark.parametrize(("pooling", "told"), [
    ("dense", ""), *((name, "note: convert --to hf will refuse this model: a classifier of "
                      f"pooling={name!r} cannot be written as BertForSequenceClassification; "
                      "expected 'dense'") for name in ("first", "mean")),
    (None, "family='static' cannot be written in the hf format")])
def test_a_model_that_hf_cannot_hold_is_told(pooling, told, capsys):
    made = config(pooling=pooling) if pooling else ModelConfig(
        vocab_size=20, hidden_size=8, family="static", **FAMILY_DEFAULTS["static"])
    FinetuningRun(options(), None, None).tell_of(Classifier(made, [*MARKS]))
    out = capsys.readouterr().out
    assert told in out and bool(out) == bool(told)
