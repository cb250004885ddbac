"""Model folders: what is written is read back, what is new starts fresh, what is wrong is said."""

import json
import pathlib
import shutil
import unicodedata

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import unsealed
from test_families import TINY as TWO_LAYERS
from test_families import batch

from bert_tf.config import ModelConfig
from bert_tf.data.term_weights import read_texts
from bert_tf.errors import BertTfError, UsageError
from bert_tf.models.families import build_encoder
from bert_tf.models.pretrained import save_pretrained
from bert_tf.presets import generator_config
from bert_tf.saved_model.save import export_saved_model
from bert_tf.storage import files, variables
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.pretraining.language_model import LanguageModel
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens
from bert_tf.tasks.question_answering.model import QuestionAnswering
from bert_tf.tasks.ranking.model import Ranker
from bert_tf.tasks.registry import model_classes
from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

TINY = TWO_LAYERS.replace(num_hidden_layers=1)
SIZES = {key: value for key, value in TINY.to_dict().items() if key in (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "max_position_embeddings")}


def tiny(family, **changes):
    return ModelConfig.from_dict({**SIZES, "family": family, **changes})


ELECTRA = tiny("electra", embedding_size=8)
MODELS = {
    "encoder": lambda: build_encoder(tiny("albert", embedding_size=8, bilstm=True), seed=4),
    "pretraining": lambda: Pretrainer(tiny("albert"), "sentence_order", seed=4),
    "masked_lm_alone": lambda: Pretrainer(tiny("roberta"), None, seed=4),
    "language_model": lambda: LanguageModel(tiny("gpt"), seed=4),
    "left_to_right": lambda: LanguageModel(tiny("bert", attention="causal"), seed=4),
    "replaced_tokens": lambda: ReplacedTokens(ELECTRA, generator_config(ELECTRA), seed=4),
    "discriminator": lambda: ReplacedTokens(ELECTRA, seed=4),
    "classifier": lambda: Classifier(TINY, ["no", "yes", "maybe"], seed=4),
    "ranker": lambda: Ranker(TINY, seed=4),
    "span": lambda: QuestionAnswering(tiny("bert", feed_forward="conv", conv_kernel_size=3),
                                      seed=4),
    "tagger": lambda: TokenClassifier(tiny("bert", position_embedding="sinusoidal"), ["B", "I"],
                                      seed=4),
    "embedder": lambda: SentenceEmbedder(tiny("bert"), layers=[1], weighting="idf", seed=4,
                                         special_ids=[2, 3]),
    "sparse_embedder": lambda: SparseEmbedder(tiny("bert"), pooling="sum", seed=4),
    "multi_vector_embedder": lambda: MultiVectorEmbedder(tiny("bert"), dim=4, query_length=8,
                                                         seed=4),
}


class Words:
    """Stands for a tokenizer."""

    def save(self, folder):
        pathlib.Path(folder, "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "a"]))


def test_every_task_is_here():
    assert set(model_classes()) <= set(MODELS)


@pytest.mark.parametrize("read", [
    from_pretrained, export_saved_model, load_tokenizer, Tokenizer.load, Tokenizer.of_vocabulary,
    Vocabulary.load, ModelConfig.load, variables.find_checkpoint,
    lambda path: list(read_texts([path])), lambda path: list(files.read_lines(path))])
@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_what_is_missing_is_told(read, kind, tmp_path):
    with pytest.raises(BertTfError, match="missing"):
        read(kind(tmp_path / "missing"))


# Like another one but for its head or an option.
LONG = ("pretraining", "masked_lm_alone", "left_to_right", "discriminator", "ranker", "span")


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in MODELS])
def test_round_trip(name, tmp_path):
    folder = tmp_path / "model"
    model = MODELS[name]()
    model.save_pretrained(folder, Words())
    assert (folder / "vocab.txt").exists()
    assert ModelConfig.load(folder / "model_config.json") == model.config
    again = from_pretrained(folder, seed=5)
    assert {"task": again.saved_as, **again.options()} == again.task_config() == model.task_config()
    assert again.fresh_variables == ()
    for a, b in zip(model.trainable_variables, again.trainable_variables, strict=True):
        assert a.path == b.path
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A Pretrainer of BERT, and its folder."""
    folder = str(tmp_path_factory.mktemp("models") / "pretrainer")
    model = Pretrainer(TINY, seed=4)
    model.save_pretrained(folder)
    return model, folder


def test_the_encoder_alone(pretrained):
    model, folder = pretrained
    encoder = from_pretrained(folder, "encoder", dtype="mixed_bfloat16", encoder_outputs=True)
    np.testing.assert_allclose(encoder(batch())["pooled_output"],
                               model.encoder(batch())["pooled_output"], atol=0.05)
    assert "encoder_outputs" in encoder(batch())


@pytest.mark.parametrize(("task", "options", "fresh"), [
    ("classifier", {"labels": ["a", "b"]}, ["cls/classifier/output_bias",
                                            "cls/classifier/output_weights"]),
    ("classifier", {"labels": ["a", "b"], "config": {"bilstm": True, "hidden_dropout_prob": 0.2}},
     ["bert/bilstm/", "cls/classifier/"]),
    ("span", {}, ["cls/span/"]),
    ("language_model", {"config": {"attention": "causal"}}, []),
    ("pretraining", {"sentence_task": "sentence_order"}, ["cls/sentence_order/"]),
])
def test_another_task_starts_with_the_encoder(pretrained, task, options, fresh):
    model, folder = pretrained
    built = from_pretrained(folder, task, seed=9, **options)
    for prefix in fresh:
        assert any(path.startswith(prefix) for path in built.fresh_variables)
    assert all(path.startswith(tuple(fresh)) for path in built.fresh_variables)
    ours = {variable.path: variable for variable in model.trainable_variables}
    for variable in built.trainable_variables:
        if variable.path not in built.fresh_variables:
            np.testing.assert_array_equal(variable, ours[variable.path])


def test_a_discriminator_starts_with_a_masked_lm(tmp_path):
    folder = str(tmp_path / "model")
    started = MODELS["replaced_tokens"]()
    masked = Pretrainer(started.config, sentence_task=None, seed=7)
    masked.save_pretrained(folder)
    built = from_pretrained(folder, "replaced_tokens", generator=started.generator.config, seed=9)
    assert all(path.startswith(("generator", "discriminator_predictions/"))
               for path in built.fresh_variables)
    assert any(path.startswith("generator/encoder/") for path in built.fresh_variables)
    ours = {variable.path: variable for variable in masked.encoder.weights}
    for variable in built.encoder.weights:
        np.testing.assert_array_equal(variable, ours[variable.path])


def test_a_head_of_other_labels_starts_fresh(tmp_path):
    folder = str(tmp_path / "model")
    model = Classifier(TINY, ["a", "b"], seed=4)
    model.head.output_bias.assign([3.0, 4.0])
    model.save_pretrained(folder)
    kept = from_pretrained(folder, "classifier", labels=["a", "b"])
    np.testing.assert_array_equal(kept.head.output_bias, [3, 4])
    other = from_pretrained(folder, labels=["c", "d"])
    np.testing.assert_array_equal(other.head.output_bias, [0, 0])
    assert len(other.fresh_variables) == 2 and other.labels == ["c", "d"]
    assert from_pretrained(folder, num_labels=2).labels == ["a", "b"]
    for options in ({"num_labels": 3}, {"problem": "regression", "num_labels": 1}):
        other = from_pretrained(folder, "classifier", **options)
        assert len(other.fresh_variables) == 2
        assert other.labels == ["0", "1", "2"][:options["num_labels"]]


def test_a_discriminator_keeps_its_head_without_its_generator(tmp_path):
    folder = str(tmp_path / "model")
    model = MODELS["replaced_tokens"]()
    model.save_pretrained(folder)
    alone = from_pretrained(folder, generator=None)
    assert alone.generator is None and alone.fresh_variables == ()
    np.testing.assert_allclose(alone(batch())["replaced_logits"], model.discriminate(batch()),
                               atol=1e-6)


def rewrite(folder, **tensors):
    """Add tensors to a folder's checkpoint; None takes one away."""
    prefix = folder + "/model"
    held = {**variables.read_variables(prefix), **tensors}
    variables.write_variables(prefix, {name: value for name, value in held.items()
                                       if value is not None})


KERNEL = "bert/encoder/layer_0/output/dense/kernel"


@pytest.mark.parametrize(("damage", "options", "message"), [
    (lambda folder: rewrite(folder, **{KERNEL: None}), {}, rf"- {KERNEL} \(32, 16\)"),
    (lambda folder: rewrite(folder, **{KERNEL: None}), {"task": "span"}, f"- {KERNEL}"),
    (lambda folder: rewrite(folder, **{KERNEL: np.zeros((3, 2), "float32")}), {},
     rf"- {KERNEL} \(32, 16\).*\(3, 2\)"),
    (lambda folder: rewrite(folder, more=np.zeros(3, "float32")), {}, r"\+ more \(3,\)"),
    (lambda folder: rewrite(folder, **{"cls/predictions/output_bias": None}), {},
     r"- cls/predictions/output_bias \(50,\)"),
    (None, {"config": {"num_hidden_layers": 2}}, "- bert/encoder/layer_1/attention"),
    (None, {"config": {"hiden_size": 3}}, "unknown key 'hiden_size'"),
    (None, {"task": "clasifier"}, "try task='classifier'"),
    (None, {"task": "token_classifier"}, "try task='tagger'"),
    (None, {"task": "token-classification"}, "try task='tagger'"),
    (None, {"task": "classify"}, "try task='classifier'"),
    (None, {"task": "QuestionAnswering"}, "try task='span'"),
    (None, {"task": "causal-lm"}, "try task='language_model'"),
    (None, {"task": "language_model"}, "attention='causal'"),
])
def test_what_does_not_fit_is_listed(pretrained, tmp_path, damage, options, message):
    folder = shutil.copytree(pretrained[1], str(tmp_path / "model"))
    if damage:
        damage(unsealed(folder))
    with pytest.raises(UsageError, match=message):
        from_pretrained(folder, **options)


@pytest.mark.parametrize(("task", "message"), [
    ([1], "names no task"), ({"task": "classify"}, "names no task"),
    ({"task": ["span"]}, "names no task"),
    ({"task": "replaced_tokens", "generator": 3}, "the generator: int; expected a JSON object"),
    ({"task": "classifier"}, "has the keys task; expected labels, task"),
    ({"task": "classifier", "labels": [1, 2]}, "two or more different names"),
    ({"task": "pretraining", "sentence_task": "nsp"}, "sentence_task='nsp'")])
def test_a_task_that_is_none(pretrained, tmp_path, task, message):
    folder = shutil.copytree(pretrained[1], str(tmp_path / "model"))
    (tmp_path / "model" / "task.json").write_text(json.dumps(task))
    unsealed(folder)
    with pytest.raises(UsageError, match=message):
        from_pretrained(folder)


def test_a_folder_without_a_task_is_judged_by_its_tensors(tmp_path):
    for number, make in enumerate([lambda: build_encoder(TINY), lambda: Pretrainer(TINY),
                                   lambda: Pretrainer(TINY, None)]):
        folder = tmp_path / str(number)
        model = make()
        model.save_pretrained(str(folder))
        (unsealed(folder) / "task.json").unlink()
        assert from_pretrained(str(folder)).task_config() == model.task_config()


def test_missing_and_damaged_files(tmp_path):
    folder = str(tmp_path / "model")
    with pytest.raises(BertTfError, match="model_config.json"):
        from_pretrained(folder)
    build_encoder(TINY).save_pretrained(folder)
    data = tmp_path / "model" / "model.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(BertTfError, match="damaged"):
        from_pretrained(folder)


def test_two_encoders_of_text_in_one_model(tmp_path):
    """Both had a layer of the name "preprocessor"."""
    folder = str(tmp_path / "model")
    build_encoder(TINY, seed=4).save_pretrained(folder, Words())
    text = keras.Input((), dtype="string")
    encoders = [from_pretrained(folder, name=name) for name in ("query", "passage")]
    model = keras.Model(text, [encoder(text)["pooled_output"] for encoder in encoders])
    one, other = model(tf.constant(["a"]))
    np.testing.assert_array_equal(one, other)
    encoders[1].save_pretrained(tmp_path / "again")  # under the names of any other
    again = from_pretrained(str(tmp_path / "again"))
    np.testing.assert_array_equal(again(tf.constant(["a"]))["pooled_output"], one)


def test_half_precision_weights_are_float32_on_disk(tmp_path):
    folder = str(tmp_path / "model")
    model = QuestionAnswering(TINY, dtype="mixed_float16", seed=1)
    model.save_pretrained(folder)
    tensors = variables.read_variables(folder + "/model")
    assert all(value.dtype == "float32" for value in tensors.values())
    assert from_pretrained(folder, dtype="mixed_float16")(batch())["start_logits"].dtype == \
        tf.float32


def test_models_of_others_are_left_to_keras(tmp_path):
    encoder = build_encoder(TINY)
    model = keras.Model(encoder.input, encoder.output["pooled_output"])
    with pytest.raises(UsageError, match=r"a Functional; expected .*; try model.save\("):
        save_pretrained(tmp_path / "model", model)


def test_labels_in_jamo_are_those_of_the_head(tmp_path):
    """Those of tables that are read are composed."""
    labels = ["긍정", "부정"]
    Classifier(TINY, [unicodedata.normalize("NFD", name) for name in labels],
               seed=4).save_pretrained(str(tmp_path))
    model = from_pretrained(str(tmp_path), labels=labels)
    assert model.fresh_variables == () and model.labels == labels
    assert from_pretrained(str(tmp_path), labels=labels[::-1]).fresh_variables
