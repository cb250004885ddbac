"""Next-token loss against numpy, what may be a language model, and fit."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import mirrored

from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.tasks.pretraining.language_model import LanguageModel

SIZES = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 32, "max_position_embeddings": 12, "initializer_range": 0.2,
         "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
GPT = ModelConfig.from_dict({"family": "gpt", **SIZES})
LTR = ModelConfig.from_dict({"family": "bert", "attention": "causal", **SIZES})
ALBERT = ModelConfig.from_dict({"family": "albert", "attention": "causal", **SIZES,
                                "embedding_size": 8})


def make_batch(size=6, length=9, seed=0):
    """Rows that count upwards from a random token: the next one is easy to tell."""
    random = np.random.default_rng(seed)
    ids = 1 + (random.integers(0, 20, (size, 1)) + np.arange(length)) % 20
    mask = (np.arange(length) < random.integers(2, length + 1, (size, 1))).astype("int32")
    return {"input_word_ids": (ids * mask).astype("int32"), "input_mask": mask,
            "input_type_ids": np.zeros_like(mask)}


@pytest.mark.parametrize("config", [GPT, LTR, ALBERT], ids=lambda config: config.family)
def test_accounting_against_numpy(config):
    model, batch = LanguageModel(config, seed=1), make_batch()
    batch["example_weights"] = np.array([1, 0, 1, 1, 1, 1], "float32")
    outputs = model(batch)
    logits = outputs["language_model_logits"].numpy().astype("float64")
    assert logits.shape == (6, 8, 30)
    labels, mask = batch["input_word_ids"][:, 1:], batch["input_mask"]
    weights = mask[:, 1:] * batch["example_weights"][:, None]
    losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(
        logits, labels[..., None], -1)[..., 0]
    np.testing.assert_allclose(model.loss_sums(outputs, batch)["language_model"],
                               (losses * weights).sum(), rtol=1e-5)
    assert float(model.loss_weights(batch)["language_model"]) == weights.sum()
    right, total = model.metric_sums(outputs, batch)["language_model_accuracy"]
    assert float(right) == ((logits.argmax(-1) == labels) * weights).sum()
    assert float(total) == weights.sum()
    # The segments of a single text need not be given.
    del batch["input_type_ids"]
    np.testing.assert_array_equal(model(batch)["language_model_logits"],
                                  outputs["language_model_logits"])


def test_heads_are_those_of_the_papers():
    """GPT decodes with its table alone; BERT through the masked-token head."""
    gpt, batch = LanguageModel(GPT, seed=1), make_batch()
    assert not any(variable.path.startswith("cls") for variable in gpt.variables)
    hidden = gpt.encoder(batch)["sequence_output"].numpy()
    table = gpt.encoder.backbone.embeddings.word_embeddings.numpy()
    np.testing.assert_allclose(gpt(batch)["language_model_logits"], (hidden @ table.T)[:, :-1],
                               atol=1e-5)
    ltr = LanguageModel(LTR, seed=1)
    hidden = ltr.encoder(batch)["sequence_output"]
    expected = (ltr.head.transform(hidden).numpy()
                @ ltr.encoder.backbone.embeddings.word_embeddings.numpy().T)
    np.testing.assert_allclose(ltr(batch)["language_model_logits"], expected[:, :-1], atol=1e-5)
    last = batch["input_mask"].sum(1) - 1
    np.testing.assert_allclose(ltr.next_token_logits(batch), expected[np.arange(6), last],
                               atol=1e-5)


@pytest.mark.parametrize(("config", "message"), [
    (LTR.replace(attention="bidirectional"), "would see the tokens.*try|expected attention="),
    (LTR.replace(bilstm=True), "bilstm=True would see"),
    (GPT.replace(embedding_size=8), "embedding_size=8 with masked_lm_head='tied'")])
def test_what_would_see_its_own_answer_is_refused(config, message):
    with pytest.raises(UsageError, match=message):
        LanguageModel(config)


@pytest.mark.long
@pytest.mark.parametrize(("config", "policy", "replicas"),
                         [(GPT, "float32", 1), (LTR, "mixed_bfloat16", 2)])
def test_fit_learns_and_keras_files_keep_everything(config, policy, replicas, tmp_path):
    with mirrored(replicas).scope():
        model = LanguageModel(config, dtype=policy, seed=2)
        model.compile(keras.optimizers.Adam(0.01))
    data = tf.data.Dataset.from_tensor_slices(make_batch(128)).batch(8)
    history = model.fit(data, epochs=6, verbose=0).history
    assert history["loss"][-1] < 0.6 * history["loss"][0]
    assert history["language_model_accuracy"][-1] > 0.5
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded, batch = keras.saving.load_model(path), make_batch()
    assert loaded(batch)["language_model_logits"].dtype == "float32"
    np.testing.assert_array_equal(loaded(batch)["language_model_logits"],
                                  model(batch)["language_model_logits"])


@pytest.mark.parametrize(("objective", "tasks"), [(None, ("language_model",)), ("lm", ())])
def test_examples_for_another_objective_are_refused(objective, tasks):
    """Tokens that are masked would be read and predicted as text."""
    model = LanguageModel(GPT, seed=1)
    model.tasks = tasks
    examples = types.SimpleNamespace(for_fit=None, split="eval", objective=objective,
                                     vocab_size=GPT.vocab_size, steps_per_epoch=1)
    with pytest.raises(UsageError, match=f"examples of objective={objective!r} for language_model"):
        model.evaluate(examples)
