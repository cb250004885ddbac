"""Models of downstream tasks, with what fine-tuning stores beside them, in Hugging Face's form."""

import json

import numpy as np
import pytest

from bert_tf.config import ModelConfig
from bert_tf.converters import hf_safetensors, ours
from bert_tf.errors import UsageError
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.question_answering.model import QuestionAnswering
from bert_tf.tasks.question_answering.preprocessor import QuestionPreprocessor
from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, "a", "b"])
CONFIG = ModelConfig(vocab_size=7, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                     intermediate_size=16, max_position_embeddings=16, hidden_act="gelu")


def saved(folder, kind, preprocessor, *options, **named):
    """A model folder as fine-tuning leaves it."""
    model = kind(CONFIG, *options, seed=1, preprocessor=preprocessor(Tokenizer(VOCABULARY), 16),
                 **named)
    model.save_pretrained(str(folder))
    return model


@pytest.mark.parametrize(("kind", "preprocessor", "options", "problem_type"), [
    (Classifier, TextPreprocessor, (["x", "y", "z"],), None),
    (TokenClassifier, WordPreprocessor, (["O", "B-X"],), None),
    (QuestionAnswering, QuestionPreprocessor, (), None),
    *(pytest.param(Classifier, TextPreprocessor, *row, marks=pytest.mark.long) for row in (
        ((["x"], "multi_label"), "multi_label_classification"),
        ((["x", "y"], "multi_label"), "multi_label_classification"),
        ((["grade"], "regression"), "regression")))])
def test_there_and_back(tmp_path, kind, preprocessor, options, problem_type):
    model = saved(tmp_path / "model", kind, preprocessor, *options)
    hf_safetensors.write(ours.read(str(tmp_path / "model")), str(tmp_path / "hf"))
    told = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert told.get("problem_type") == problem_type
    ours.write(hf_safetensors.read(str(tmp_path / "hf")), str(tmp_path / "back"))
    back = from_pretrained(str(tmp_path / "back"))
    assert back.task_config() == model.task_config()
    for right, value in zip(model.weights, back.weights, strict=True):
        np.testing.assert_array_equal(right, value, right.path)


def test_features_of_a_frozen_encoder_have_no_place(tmp_path):
    saved(tmp_path / "model", Classifier, TextPreprocessor, ["x", "y"],
          features={"layers": [-1], "lstm_size": 4})
    with pytest.raises(UsageError, match="layers of a frozen encoder"):
        ours.read(str(tmp_path / "model"))
