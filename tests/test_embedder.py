"""Vectors by the model at a path: of an exported version those of its Keras model."""

import os
from unittest import mock

import numpy as np
import pytest
from tiny_model import LABELS, SEQ_LENGTH, TEXTS, config_of, only_signatures, word_piece

from bert_tf.embedder import Embedder
from bert_tf.errors import UsageError
from bert_tf.saved_model import save as save_module
from bert_tf.saved_model.save import export_saved_model
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.model import SentenceEmbedder


def exported(folder, make_model, *names):
    """Return a model and the path of its version with these signatures."""
    tokenizer = word_piece()
    model = make_model(config_of(tokenizer), seed=7,
                       preprocessor=TextPreprocessor(tokenizer, SEQ_LENGTH))
    model.save_pretrained(str(folder / "model"), tokenizer)
    with only_signatures("serving_default", "describe", "embed", *names), mock.patch.object(
            save_module, "verify"):
        export_saved_model(str(folder / "model"), str(folder / "served"))
    return model, os.path.join(folder, "served", "1")


def test_an_exported_embedder_gives_the_vectors_of_its_model(tmp_path):
    model, version = exported(tmp_path, lambda *args, **options: SentenceEmbedder(
        *args, prompts={"query": "the fox "}, **options))
    embedder = Embedder(version)
    for role, prompt in (("passage", None), ("query", "query")):
        np.testing.assert_allclose(embedder.vectors(TEXTS, role), model.embed(TEXTS, prompt=prompt),
                                   atol=1e-5)


def test_an_exported_classifier_is_refused(tmp_path):
    _, version = exported(tmp_path, lambda config, **options: Classifier(
        config, LABELS, **options), "predict")
    with pytest.raises(UsageError, match="which predicts a label or a number"):
        Embedder(version)
