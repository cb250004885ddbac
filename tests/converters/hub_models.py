"""Small copies of published folders: their models, and how far off ours are."""

import json

import keras
import numpy as np
import tensorflow as tf

from bert_tf.saved_model.save import export_saved_model
from bert_tf.storage import variables
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tasks.registry import model_classes

FOLDERS = (
    "albert_classification", "albert_questions", "bert_bin", "bert_cross_encoder",
    "bert_multilabel", "bert_ner_cased", "bert_st_cls", "bert_st_mean", "bert_unigram_st",
    "camembert_mlm", "deberta_v3_classification", "deberta_v3_encoder",
    "distilbert_classification", "distilbert_mlm", "distilbert_questions", "distilbert_tokens",
    "electra_classification", "electra_questions", "electra_tokens", "modernbert_classification",
    "modernbert_mlm", "modernbert_st", "modernbert_tokens", "mpnet_st", "roberta_classification",
    "roberta_questions", "roberta_st_korean", "roberta_tokens", "roberta_wordpiece",
    "xlm_roberta_classification", "xlm_roberta_mlm", "xlm_roberta_reranker", "xlm_roberta_st")
_INPUTS = {"input_word_ids": "input_ids", "input_mask": "attention_mask",
           "input_type_ids": "token_type_ids"}
# Its ids and states are of text in its case; its vectors, as its tokenizer_config.json has it, of
# lower case.
CASED_IDS = "roberta_st_korean"
_WINDOW = 48  # to which the references' single texts are truncated
_LABELLED = ("classifier", "tagger", "span")


def expected_of(source, part):
    """`({our name: inputs}, {their name: outputs})` of the `single` texts or the `pair`s."""
    with np.load(source / "expected.npz") as arrays:
        own = {key.removeprefix(f"{part}/"): array for key, array in arrays.items()
               if key.startswith(f"{part}/")}
    zeros = np.zeros_like(own["input_ids"])
    return {ours: own.pop(theirs, zeros).astype("int32")
            for ours, theirs in _INPUTS.items()}, own


def model_of(checkpoint, name):
    """The Keras model of a `Checkpoint`, with its weights."""
    task = {key: value for key, value in checkpoint.task.items() if key != "reading"}
    model = model_classes()[task.pop("task")](checkpoint.config, **task, dtype="float32")
    variables.assign_variables(model.weights, checkpoint.tensors, name)
    return model


def outputs_of(model, inputs):
    """`{their name: array}` of all that the model gives for token ids."""
    backbone = model.backbone(inputs, encoder_outputs=True)
    found = {f"hidden_states_{i}": state for i, state in enumerate(
        [backbone["embedding_output"], *backbone["encoder_outputs"]])}
    found["last_hidden_state"] = backbone["sequence_output"]
    if model.config.pooling == "dense":
        found["pooler_output"] = backbone["pooled_output"]
    if isinstance(model, Pretrainer):
        mask = inputs["input_mask"]
        positions = np.broadcast_to(np.arange(mask.shape[1], dtype="int32"), mask.shape)
        batch = {**inputs, "masked_lm_positions": positions}
        found["logits"] = model(batch)["masked_lm_logits"]
    elif model.saved_as != "encoder":
        logits = model(inputs)
        found |= logits if isinstance(logits, dict) else {"logits": logits}
    return found


def error_of(found, expected, mask):
    """The largest difference, but for that at padding."""
    if expected.shape[:2] == mask.shape:
        real = mask.reshape(mask.shape + (1,) * (expected.ndim - 2))
        found, expected = found * real, expected * real
    return float(np.abs(found - expected).max())


def errors_of(source, model):
    """`{(part, their name, padding_free): largest difference}` of states and logits."""
    errors = {}
    for part in ("single", "pair"):
        inputs, expected = expected_of(source, part)
        # Pairs have types and padding.
        for padding_free in (False, True)[:1 + (part == "pair")]:
            model.backbone.padding_free = padding_free
            found = outputs_of(model, inputs)
            for key, array in expected.items():
                errors[part, key, padding_free] = error_of(found[key], array,
                                                           inputs["input_mask"])
    return errors


def saved_model_error(source, folder, export_dir):
    """The largest difference of what a SavedModel answers for text; None if no graph reads it.

    Args:
        source: the reference folder.
        folder: our model folder of it.
        export_dir: where to.
    """
    served = tf.saved_model.load(export_saved_model(str(folder), str(export_dir),
                                                    seq_length=_WINDOW))
    if "embed" not in served.signatures:
        return None
    inputs, expected = expected_of(source, "single")
    mask = inputs["input_mask"]
    told = json.loads((source / "expected.json").read_text())
    of_ids = {tuple(ids if len(ids) <= _WINDOW else [*ids[:_WINDOW - 1], ids[-1]]): text
              for ids, text in zip(told["ids"], told["texts"], strict=True)}
    texts = [of_ids[tuple(row[kept > 0])] for row, kept in zip(
        inputs["input_word_ids"], mask, strict=True)]
    vectors = served.signatures["embed"](text=tf.constant(texts))["embedding"].numpy()
    if (source / "sentence_embeddings.npz").exists():
        with np.load(source / "sentence_embeddings.npz") as arrays:
            rows = [told["sentence_embeddings_of"].index(text) for text in texts]
            return float(np.abs(vectors - arrays["sentence_embeddings"][rows]).max())
    last = expected.get("last_hidden_state")
    if last is None:
        last = expected[max(key for key in expected if key.startswith("hidden_states_"))]
    means = (last * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    error = float(np.abs(vectors - means).max())
    if "predict" in served.signatures and "classification" in source.name:
        probabilities = tf.nn.softmax(expected["logits"]).numpy()
        answer = served.signatures["predict"](text=tf.constant(texts))["probabilities"]
        error = float(np.maximum(error, np.abs(answer - probabilities).max()))  # NaN stays
    return error


def two_steps(source, folder):
    """Losses of the single texts before and after two steps on them, dropout off.

    Of a model without labels it is a classifier on its encoder that learns.
    """
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    task = json.loads((folder / "task.json").read_text())["task"]
    options = () if task in _LABELLED else ("classifier",)
    further = {} if task in _LABELLED else {"labels": ["a", "b"]}
    model = from_pretrained(str(folder), *options, config=off, dtype="float32", **further)
    inputs, _ = expected_of(source, "single")
    rows, length = inputs["input_word_ids"].shape
    problem = getattr(model, "problem", "single_label")
    labels = {"tagger": np.zeros((rows, length), "int32"),
              "span": {"start_positions": np.ones(rows, "int32"),
                       "end_positions": np.ones(rows, "int32")}}.get(model.saved_as)
    if labels is None:
        labels = {"single_label": np.zeros(rows, "int32"), "regression": np.ones(rows, "float32"),
                  "multi_label": np.ones((rows, len(model.labels)), "int32")}[problem]
    model.compile(keras.optimizers.Adam(1e-3))
    losses = [model.evaluate(inputs, labels, verbose=0, return_dict=True)["loss"]]
    model.fit(inputs, labels, epochs=2, batch_size=rows, verbose=0)
    return [*losses, model.evaluate(inputs, labels, verbose=0, return_dict=True)["loss"]]
