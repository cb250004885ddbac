"""Folders of tf-models-official that are damaged or contradict themselves: one clear line."""

import json
import os
import re
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf
from harness import takes_at_most, unsealed
from official.nlp.modeling import networks
from tf_models_objects import BERT, LIVE, made, prefix_in, write_config

from bert_tf.config import ModelConfig
from bert_tf.converters import tf_models, tf_models_config
from bert_tf.errors import BertTfError, UsageError
from bert_tf.storage import variables


def other_checkpoint(folder, make=LIVE["BertEncoderV2"], **changes):
    """Write the checkpoint of another object than the configuration says."""
    for name in os.listdir(folder):
        os.remove(folder / name)
    live = make()
    live(live.inputs)
    tf.train.Checkpoint(encoder=live).write(str(folder / "ckpt"))
    write_config(folder, **changes)


def change_arguments(folder, **changes):
    values = json.loads((folder / "config.json").read_text())
    values["encoder_args"].update(changes)
    (folder / "config.json").write_text(json.dumps(values))


def claim_gigabytes(folder):
    """Let the object graph, a string, begin with a length of 16 GiB."""
    prefix = prefix_in(folder)
    graph = tf.train.load_checkpoint(prefix).get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
    path = f"{prefix}.data-00000-of-00001"
    with open(path, "rb") as stream:
        data = stream.read()
    length_bytes = -(-len(graph).bit_length() // 7)
    start = data.index(graph) - 4 - length_bytes
    with open(path, "wb") as stream:
        stream.write(data[:start] + b"\x80\x80\x80\x80\x40" + data[start + 5:])


def truncate(folder):
    path = f"{prefix_in(folder)}.data-00000-of-00001"
    os.truncate(path, os.path.getsize(path) // 2)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder to be copied and spoiled."""
    folder = tmp_path_factory.mktemp("written") / "folder"
    tf_models.write(made("bert"), str(folder))
    return unsealed(folder)


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda folder: other_checkpoint(folder, LIVE["AlbertEncoder"]),
     r"- transformer/layer_0/self_attention/query/kernel \(8, 2, 4\)"),
    (lambda folder: other_checkpoint(
        folder, lambda: networks.BertEncoderV2(**{**BERT, "num_layers": 1})),
     r"- transformer/layer_1/.*/kernel \(8, 2, 4\)"),
    (lambda folder: other_checkpoint(folder, LIVE["BertEncoderV2, factorised"]),
     r"\+ embedding_projection/kernel \(6, 8\).*word_embeddings/embeddings expected \(30, 8\), "
     r"found \(30, 6\)"),
    (lambda folder: change_arguments(folder, num_attention_heads=4),
     r"query/kernel expected \(8, 4, 2\), found \(8, 2, 4\)"),
    (lambda folder: change_arguments(folder, inner_activation="gelu"),
     r"activation 'gelu'; expected one of gelu \(tanh approximation\), gelu \(erf\)"),
    (lambda folder: change_arguments(folder, inner_activation={"class_name": "function"}),
     "activation {'class_name': 'function'}; expected one of"),
    (lambda folder: change_arguments(folder, norm_first=True), "norm_first=True; expected False"),
    (lambda folder: change_arguments(folder, inner_dim=None), "inner_dim is missing"),
    (lambda folder: write_config(folder, encoder="XLNetBase"), "encoder='XLNetBase' is unknown"),
    (lambda folder: write_config(folder, layer_norm_epsilon=1e-6), "layer_norm_epsilon=1e-06"),
    (lambda folder: write_config(folder, encoder_args=None), "no encoder_args"),
    (lambda folder: os.remove(folder / "config.json"), "without a configuration"),
    (lambda folder: variables.write_variables(prefix_in(folder), {"a": np.zeros(3)}),
     "no object graph.*try --from google"),
    (truncate, "is damaged: "),
    (claim_gigabytes, "is damaged: a string claims 17179869184 bytes, its entry has"),
])
def test_bad_folders_are_one_clear_line(spoil, message, written, tmp_path):
    folder = shutil.copytree(written, tmp_path / "folder")
    spoil(folder)
    with takes_at_most(100_000), pytest.raises(BertTfError) as raised:
        tf_models.read(str(folder))
    line = str(raised.value)
    assert re.search(message, line) and "\n" not in line


@pytest.mark.parametrize("fields", [{"hidden_act": "silu"}, {"head_act": "silu"}])
def test_an_activation_that_has_no_name_there(fields):
    config = ModelConfig.from_dict({"vocab_size": 30, **fields})
    task = {"task": "pretraining", "sentence_task": "next_sentence"}
    with pytest.raises(UsageError, match="the activation 'silu' is not in tf_models; expected one"):
        tf_models_config.config_values(types.SimpleNamespace(config=config, task=task))
