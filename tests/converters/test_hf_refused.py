"""Hugging Face folders: what one side cannot compute is refused by name."""

import hf_models
import numpy as np
import pytest

from bert_tf.config import ModelConfig
from bert_tf.converters import hf_safetensors
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.errors import UsageError


@pytest.mark.parametrize(("name", "config", "message"), [
    ("hf_albert", {"inner_group_num": 2}, "inner_group_num=2; expected 1"),
    ("hf_bert", {"position_embedding_type": "relative_key"},
     "position_embedding_type='relative_key'; expected 'absolute'"),
    ("hf_bert", {"is_decoder": True}, "is_decoder=True; expected False"),
    ("hf_bert", {"add_cross_attention": True}, "add_cross_attention=True"),
    ("hf_bert", {"model_type": "bart"}, "model_type='bart' is unknown; expected one of bert,"),
    ("hf_bert", {"model_type": None}, "model_type=None"),
    ("hf_bert", {"model_type": ["bert"]}, "model_type=['bert'] is unknown; expected one of bert,"),
    ("hf_bert", {"architectures": ["BertForMultipleChoice"]},
     "architectures=['BertForMultipleChoice']; expected one of BertForPreTraining,"),
    ("hf_bert", {"hidden_act": "mish"}, "hidden_act='mish' is unknown; expected one of gelu,"),
    ("hf_bert", {"hidden_act": {}}, "hidden_act={} is unknown; expected one of gelu,"),
    ("hf_gpt", {"afn": "gelu_new"}, "afn='gelu_new' is unknown; expected one of gelu, relu"),
    ("hf_gpt", {"embd_pdrop": 0.2}, "embd_pdrop=0.2; expected that of resid_pdrop, 0.1"),
    ("hf_bert", {"hidden_size": "64"}, "config.json: hidden_size='64'; expected int"),
    ("hf_bert", {"num_hidden_layers": 10**9}, "num_hidden_layers=1000000000; expected at most"),
    ("hf_bert_tasks/sequence_classification", {"problem_type": "regression"},
     "problem_type='regression' of 3 labels; expected one"),
    ("hf_bert_tasks/sequence_classification", {"problem_type": "ranking"},
     "problem_type='ranking'; expected 'single_label_classification' or"),
    ("hf_bert_tasks/token_classification", {"problem_type": "multi_label_classification"},
     "problem_type='multi_label_classification'; expected 'single_label_classification'"),
    ("hf_bert_tasks/sequence_classification", {"id2label": {"0": "a", "2": "b"}}, "id2label="),
    ("hf_bert_tasks/sequence_classification",
     {"id2label": {"0": "a"}, "problem_type": "single_label_classification"},
     "labels ['a']; expected"),
    ("hf_bert_tasks/sequence_classification", {"id2label": None, "num_labels": 10**12},
     "num_labels=1000000000000"),
])
def test_what_we_cannot_compute_is_refused_by_name(shared, tmp_path, name, config, message):
    folder = hf_models.changed(shared, name, tmp_path / "in", config)
    with pytest.raises(UsageError) as refused:
        hf_safetensors.read(folder)
    assert message in str(refused.value)


@pytest.mark.parametrize(("family", "fields", "task", "message"), [
    ("bert", {"attention": "causal"}, {"task": "language_model"}, "attention='causal'"),
    ("bert", {"position_embedding": "sinusoidal"}, {"task": "encoder"}, "position_embedding="),
    ("bert", {"feed_forward": "conv"}, {"task": "encoder"}, "feed_forward='conv'"),
    ("bert", {"bilstm": True}, {"task": "encoder"}, "bilstm=True"),
    ("roberta", {"embedding_size": 4}, {"task": "encoder"}, "embedding_size=4"),
    ("bert", {"num_hidden_groups": 1}, {"task": "encoder"}, "num_hidden_groups=1"),
    ("bert", {"pooling": "last"}, {"task": "encoder"}, "pooling='last'"),
    ("bert", {"head_act": "relu"}, {"task": "pretraining", "sentence_task": None},
     "head_act='relu'"),
    ("albert", {"embedding_size": 8}, {"task": "encoder"}, "embedding_size=8"),
    ("roberta", {}, {"task": "pretraining", "sentence_task": "next_sentence"},
     "no class for {'task': 'pretrain"),
    ("bert", {"pooling": "first"}, {"task": "pretraining", "sentence_task": "next_sentence"},
     "a pretraining of pooling='first' cannot be written as BertForPreTraining; expected 'dense'"),
    ("roberta", {"pooling": "dense"}, {"task": "classifier", "labels": ["a", "b"]},
     "a classifier of pooling='dense' cannot be written as RobertaForSequenceClassification"),
    ("roberta", {"label_head": "linear"}, {"task": "classifier", "labels": ["a", "b"]},
     "label_head='linear' cannot be written"),
    ("mpnet", {"padding_id": 0}, {"task": "encoder"}, "padding_id=0 cannot be written"),
    ("gpt", {"hidden_act": "gelu"}, {"task": "language_model"}, "hidden_act='gelu'"),
    ("gpt", {"intermediate_size": 8}, {"task": "language_model"}, "intermediate_size=8"),
])
def test_what_they_cannot_compute_is_refused_by_name(tmp_path, family, fields, task, message):
    config = ModelConfig.from_dict({
        "family": family, "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 32, **fields})
    shapes = parameter_shapes(config, task)
    tensors = Tensors(shapes, lambda name: np.zeros(shapes[name], np.float32))
    with pytest.raises(UsageError) as refused:
        hf_safetensors.write(Checkpoint(config, task, tensors), str(tmp_path / "out"))
    assert message in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_the_library_is_asked_for_where_it_is_needed(shared, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    with pytest.raises(UsageError, match=r"the packages safetensors and ml_dtypes \(.*\); try pip"):
        hf_models.read(shared, "hf_gpt")
