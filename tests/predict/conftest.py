"""A tiny model, one `Predictor` of it for all tests, and a table for it."""

import pytest
from predicted import COUNT, LABELS
from sentiment import config, examples, tokenizer, write_table

import bert_tf
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("predict") / "model")
    Classifier(config(num_hidden_layers=1), LABELS, seed=4,
               preprocessor=TextPreprocessor(tokenizer(), 8)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def loaded(model):
    return {task: bert_tf.Predictor(model, task) for task in (None, "embed")}


@pytest.fixture
def same_predictor(monkeypatch, loaded):
    """Tracing takes longer than the tests."""
    import bert_tf.predict.work

    monkeypatch.setattr(bert_tf.predict.work, "Predictor", lambda model, task, *others:
                        loaded["embed" if task == "embed" else None])


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "data.tsv", examples(COUNT, seed=3))
