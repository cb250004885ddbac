"""Our model folders as a format: what `save_pretrained` writes, and what is wrong with some."""

import json

import numpy as np
import pytest
from harness import unsealed

from bert_tf.config import ModelConfig
from bert_tf.converters import ours
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.errors import BertTfError, UsageError
from bert_tf.models.families import build_encoder
from bert_tf.tasks.pretraining.masked_lm import Pretrainer

SIZES = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 16, "max_position_embeddings": 12}
OPTIONS = (
    {"family": "bert"},
    {"family": "bert", "attention": "causal", "bilstm": True, "pooling": "last"},
    {"family": "bert", "feed_forward": "conv", "conv_kernel_size": 3},
    {"family": "bert", "position_embedding": "sinusoidal", "pooling": "first"},
    {"family": "roberta"},
    {"family": "albert", "embedding_size": 4},
    {"family": "albert", "embedding_size": 4, "num_hidden_groups": 2},
    {"family": "electra", "embedding_size": 4},
    {"family": "gpt"},
)


@pytest.mark.parametrize("options", [
    *OPTIONS[:2], *(pytest.param(options, marks=pytest.mark.long) for options in OPTIONS[2:])])
def test_expected_shapes_are_those_of_the_models(options):
    config = ModelConfig.from_dict({**SIZES, **options})
    model = build_encoder(config)
    assert parameter_shapes(config, model.task_config()) == {
        variable.path: tuple(variable.shape) for variable in model.trainable_variables}


@pytest.fixture
def folder(tmp_path):
    model = Pretrainer(ModelConfig(**SIZES), seed=3)
    model.save_pretrained(str(tmp_path / "model"))
    return tmp_path / "model"


def test_there_and_back_changes_no_byte(folder, tmp_path):
    checkpoint = ours.read(str(folder))
    assert checkpoint.task == {"task": "pretraining", "sentence_task": "next_sentence"}
    assert ours.write(checkpoint, str(tmp_path / "again")) == []
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_a_run_folder_is_its_model(folder, tmp_path):
    assert ours.read(str(tmp_path)).config == ModelConfig(**SIZES)


def _change(folder, name, **changes):
    path = folder / name
    values = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**values, **changes}))


@pytest.mark.parametrize(("damage", "kind", "message"), [
    (lambda folder: (folder / "model.index").unlink(), BertTfError, "model.index is missing"),
    (lambda folder: (folder / "model_config.json").unlink(), UsageError, "holds no model"),
    (lambda folder: _change(folder, "model_config.json", hidden_size=16), UsageError,
     "bert/embeddings/word_embeddings expected (20, 16), found (20, 8)"),
    (lambda folder: _change(folder, "model_config.json", num_hidden_layers=3), UsageError,
     "- bert/encoder/layer_2/attention/self/query/kernel (8, 8)"),
    (lambda folder: (folder / "task.json").write_text('{"task": "encoder"}'), UsageError,
     "+ cls/predictions/output_bias (20,)"),
    (lambda folder: _change(folder, "task.json", task="answering"), UsageError, "task.json"),
])
def test_files_that_do_not_fit_each_other(folder, damage, kind, message):
    damage(unsealed(folder))
    with pytest.raises(kind) as refused:
        ours.read(str(folder))
    assert message in str(refused.value)


def test_a_failing_tensor_leaves_nothing_behind(tmp_path):
    config = ModelConfig(**SIZES)
    shapes = parameter_shapes(config, {"task": "encoder"})

    def load(name):
        if "layer_1" in name:
            raise BertTfError("a damaged tensor")
        return np.zeros(shapes[name], np.float32)

    checkpoint = Checkpoint(config, {"task": "encoder"}, Tensors(shapes, load))
    with pytest.raises(BertTfError, match="a damaged tensor"):
        ours.write(checkpoint, str(tmp_path / "out"))
    assert not list(tmp_path.iterdir())
