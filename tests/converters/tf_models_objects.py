"""Small objects of tf-models-official and folders of them, for tests."""

import json

import numpy as np
import tensorflow as tf
from official.modeling import activations
from official.nlp.modeling import layers, models, networks

from bert_tf.config import ModelConfig
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.storage import variables

SIZES = {"vocab_size": 30, "hidden_size": 8, "num_layers": 2, "num_attention_heads": 2,
         "max_sequence_length": 12, "type_vocab_size": 2}
BERT, ALBERT = {**SIZES, "inner_dim": 16}, {**SIZES, "intermediate_size": 16, "embedding_width": 6}
# Another function than the library's own, computing the same.
ERF_GELU = lambda x: 0.5 * x * (1 + tf.math.erf(x / np.sqrt(2)))  # noqa: E731


def sentence_head(**changes):
    options = {"inner_dim": 8, "num_classes": 2, "dropout_rate": 0.1, "name": "next_sentence"}
    return layers.ClassificationHead(**{**options, **changes})


def pretrainer(encoder, heads=(), activation=activations.gelu):
    return models.BertPretrainerV2(encoder, mlm_activation=activation,
                                   classification_heads=list(heads))


LIVE = {
    "BertEncoderV2": lambda: networks.BertEncoderV2(**BERT, name="any_name"),
    "BertEncoderV2, erf": lambda: networks.BertEncoderV2(**BERT, inner_activation=ERF_GELU),
    "BertEncoderV2, factorised": lambda: networks.BertEncoderV2(
        **BERT, embedding_width=6, inner_activation="relu"),
    "BertEncoder": lambda: networks.BertEncoder(**BERT),
    "AlbertEncoder": lambda: networks.AlbertEncoder(**ALBERT, dict_outputs=True),
    "AlbertEncoder, erf": lambda: networks.AlbertEncoder(
        **{**ALBERT, "embedding_width": 8}, activation="gelu", dict_outputs=True),
    "BertPretrainerV2": lambda: pretrainer(networks.BertEncoderV2(**BERT)),
    "BertPretrainerV2, NSP": lambda: pretrainer(
        networks.BertEncoderV2(**BERT), [sentence_head()], tf.nn.relu),
}


def prefix_in(folder):
    return variables.find_checkpoint(str(folder))


def write_config(folder, **changes):
    """The `config.json` of the tiny BERT beside a checkpoint that a test wrote."""
    values = {"encoder": "BertEncoderV2", "encoder_args": {
        **BERT, "inner_activation": "gelu (tanh approximation)", "output_dropout": 0.1,
        "attention_dropout": 0.1}, **changes}
    (folder / "config.json").write_text(json.dumps(values))


def made(family, task=None, **changes):
    """A tiny `Checkpoint` of zeros."""
    config = ModelConfig.from_dict({
        "vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 12, "family": family, **changes})
    task = task or {"task": "encoder"}
    return Checkpoint(config, task, Tensors.of({
        name: np.zeros(shape, np.float32)
        for name, shape in parameter_shapes(config, task).items()}))
