"""Fixtures: model folders and their exports, each made once for all processes of the tests."""

import functools
import os
from typing import NamedTuple

import keras
import pytest
from tiny_model import MODELS, Caller, export_once, save_model

from bert_tf.tasks.pretrained import from_pretrained


class Export(NamedTuple):
    """A model of `MODELS` and its export."""

    name: str
    folder: str  # of the model
    version: str  # path of the export
    model: keras.Model  # the same in float32
    tokenizer: object
    call: Caller


@pytest.fixture(scope="session")
def exported(made_once):
    """`exported(name, dtype="float32")` -> `Export`."""
    @functools.cache
    def export(name, dtype="float32"):
        folder, version = export_once(str(made_once), name, dtype)
        return Export(name, folder, version, from_pretrained(folder, dtype="float32"),
                      MODELS[name][0](), Caller(version))

    return export


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """Of a small BERT with a next-sentence head, lower-casing."""
    return save_model(os.path.join(tmp_path_factory.mktemp("saved_model"), "model"))


@pytest.fixture(scope="session", params=[
    "bert", "albert", "gpt",
    *(pytest.param(name, marks=pytest.mark.long) for name in ("electra", "encoder", "roberta"))])
def each(request, exported):
    """An export of each family, with all signatures."""
    return exported(request.param)


# Exports like another one: of its tokenizer's kind, or with a head of a kind whose answers
# tests/tasks and tests/serving look at.
LONG = ("characters", "electra", "encoder", "left_to_right", "ranker", "regressor", "roberta",
        "several", "span", "tagger")


@pytest.fixture(scope="session", params=[
    pytest.param(name, marks=[pytest.mark.long] * (name in (*LONG, "albert")))
    for name in sorted(set(MODELS) - {"cased"})])
def any_export(request, exported):
    """The float32 export of every model but one, which is exported in bfloat16 only."""
    return exported(request.param)
