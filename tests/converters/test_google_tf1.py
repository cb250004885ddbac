"""Folders of the three original projects: their numbers, their names, and what is refused."""

import dataclasses
import json
import os
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from harness import unsealed
from same import check_same, near
from test_keras_hub_tokenizer import sentence_piece

from bert_tf.config import ModelConfig
from bert_tf.converters import google_tf1
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.errors import BertTfError, UsageError
from bert_tf.models.families import build_encoder
from bert_tf.storage import variables
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

SIZES = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 4, "num_attention_heads": 2,
         "intermediate_size": 32, "max_position_embeddings": 12}
GENERATOR = {"hidden_size": 4, "num_attention_heads": 1, "intermediate_size": 16,
             "num_hidden_layers": 2}
PRETRAINING = {"bert": {"task": "pretraining", "sentence_task": "next_sentence"},
               "albert": {"task": "pretraining", "sentence_task": "sentence_order"}}


def made(family, task=None, seed=3, **changes):
    """A tiny `Checkpoint` with random tensors."""
    extra = {} if family == "bert" else {"embedding_size": 6}
    config = ModelConfig.from_dict({**SIZES, **extra, "family": family, **changes})
    task = task or PRETRAINING.get(family) or {
        "task": "replaced_tokens", "generator": config.replace(**GENERATOR).to_dict()}
    draw = np.random.default_rng(seed)
    return Checkpoint(config, task, Tensors.of({
        name: draw.standard_normal(shape).astype(np.float32)
        for name, shape in parameter_shapes(config, task).items()}))


def copy_checkpoint(path, name):
    """Copy the checkpoint in a folder to another `name` there."""
    for end in ("index", "data-00000-of-00001"):
        shutil.copy(f"{path}/bert_model.ckpt.{end}", f"{path}/{name}.{end}")


def names_in(path):
    """Names and shapes, as TensorFlow's own reader has them."""
    found = tf.train.load_checkpoint(variables.find_checkpoint(str(path)))
    shapes = {name: tuple(shape) for name, shape in found.get_variable_to_shape_map().items()}
    shapes.pop("global_step", None)
    return shapes


def written(folder, *args, **changes):
    """The path of a folder of a tiny model."""
    path = str(folder / "google")
    google_tf1.write(made(*args, **changes), path)
    return unsealed(path)


def rewrite(path, change):
    """Pass the tensors of a checkpoint through `change`."""
    prefix = variables.find_checkpoint(path)
    variables.write_variables(prefix, change(variables.read_variables(prefix)))


def encoder_like(config, tensors, **options):
    model = build_encoder(config, encoder_outputs=True, attention_probs=True, dtype="float32",
                          **options)
    variables.assign_variables(model.trainable_variables, tensors, "the checkpoint")
    return model


def inputs(expected, ids="input_ids"):
    return {"input_word_ids": expected[ids], "input_mask": expected["input_mask"],
            "input_type_ids": expected["segment_ids"]}


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_bert_and_albert_give_the_numbers_of_the_original_code(shared, family):
    folder = shared / "reference" / f"google_{family}"
    checkpoint, expected = google_tf1.read(str(folder)), np.load(folder / "expected.npz")
    task = checkpoint.task["sentence_task"]
    outputs = encoder_like(checkpoint.config, checkpoint.tensors)(inputs(expected))
    near(outputs["encoder_outputs"], expected["all_encoder_layers"])
    near(outputs["sequence_output"], expected["sequence_output"])
    near(outputs["pooled_output"], expected["pooled_output"])
    model = Pretrainer(checkpoint.config, task, dtype="float32")
    variables.assign_variables(model.trainable_variables, checkpoint.tensors, str(folder))
    batch = {**inputs(expected), **{name: expected[name] for name in (
        "masked_lm_positions", "masked_lm_ids", "masked_lm_weights", f"{task}_labels")}}
    logits = model(batch)
    near(tf.reshape(tf.nn.log_softmax(logits["masked_lm_logits"]), [12, 400]),
         expected["masked_lm_log_probs"])
    near(tf.nn.log_softmax(logits[f"{task}_logits"]), expected[f"{task}_log_probs"])
    assert float(model.compute_loss(batch, y_pred=logits)) == pytest.approx(
        float(expected["total_loss"]), abs=1e-4)


def test_electra_gives_the_numbers_of_the_original_code(shared):
    folder = shared / "reference" / "google_electra"
    checkpoint, expected = google_tf1.read(str(folder)), np.load(folder / "expected.npz")
    config, tensors = checkpoint.config, checkpoint.tensors
    discriminator = encoder_like(config, tensors)
    generator = encoder_like(ModelConfig.from_dict(checkpoint.task["generator"]), tensors,
                             name="generator", embeddings=discriminator.backbone.embeddings)
    for name, model, ids in (("generator", generator, "generator_input_ids"),
                             ("discriminator", discriminator, "discriminator_input_ids")):
        outputs = model(inputs(expected, ids))
        near(outputs["embedding_output"], expected[f"{name}_embedding_output"])
        near(outputs["encoder_outputs"], expected[f"{name}_all_encoder_layers"])
        near(tf.stack(outputs["attention_probs"]),
             expected[f"{name}_attention_probs"])
    model = ReplacedTokens(config, checkpoint.task["generator"], dtype="float32")
    variables.assign_variables(model.trainable_variables, tensors, str(folder))
    near(model.discriminate(inputs(expected, "discriminator_input_ids")),
         expected["discriminator_logits"])
    logits = model({**inputs(expected, "generator_input_ids"), **{
        name: expected[name] for name in ("masked_lm_positions", "masked_lm_ids",
                                          "masked_lm_weights")}})["masked_lm_logits"]
    near(logits, expected["generator_logits"])


@pytest.mark.parametrize("family", ["bert", "albert", "electra"])
def test_in_and_out_changes_no_byte_of_the_references(shared, family, tmp_path):
    folder = shared / "reference" / f"google_{family}"
    checkpoint, path = google_tf1.read(str(folder)), str(tmp_path / "out")
    assert google_tf1.write(checkpoint, path) == []
    check_same(checkpoint, google_tf1.read(path))
    assert names_in(path) == names_in(folder)
    name = f"{family}_config.json"
    ours, theirs = (json.loads((where / name).read_text()) for where in (tmp_path / "out", folder))
    if family == "electra":
        assert ours["discriminator"] == theirs["discriminator"]
        assert ours["generator"] == theirs["generator"]
        assert ours["model_hparams"].items() <= theirs["model_hparams"].items()
    else:
        assert ours == theirs
    before = variables.read_variables(variables.find_checkpoint(str(folder)))
    after = variables.read_variables(variables.find_checkpoint(path))
    assert all(before[name].tobytes() == after[name].tobytes() for name in after)


@pytest.mark.parametrize(("family", "task", "changes"), [
    ("bert", {"task": "encoder"}, {}),
    ("bert", {"task": "pretraining", "sentence_task": None}, {"hidden_act": "relu"}),
    ("albert", None, {"num_hidden_groups": 2}),
    ("albert", {"task": "encoder"}, {"embedding_size": 8, "type_vocab_size": 3}),
    ("electra", None, {}),
    ("electra", None, {"embedding_size": 4}),
    ("electra", {"task": "replaced_tokens", "generator": None}, {"embedding_size": 8}),
    ("electra", {"task": "encoder"}, {}),
])
def test_every_shape_of_model_comes_back(family, task, changes, tmp_path):
    checkpoint = made(family, task, **changes)
    path = str(tmp_path / "google")
    assert google_tf1.write(checkpoint, path) == []
    check_same(checkpoint, google_tf1.read(path))


def test_groups_of_albert_have_the_original_names(tmp_path):
    path = written(tmp_path, "albert", num_hidden_groups=2)
    scope = "bert/encoder/transformer/group_1/inner_group_0"
    assert {name: shape for name, shape in names_in(path).items()
            if name.startswith(scope) and "bias" not in name and "beta" not in name} == {
        f"{scope}/attention_1/self/query/kernel": (8, 8),
        f"{scope}/attention_1/self/key/kernel": (8, 8),
        f"{scope}/attention_1/self/value/kernel": (8, 8),
        f"{scope}/attention_1/output/dense/kernel": (8, 8), f"{scope}/LayerNorm/gamma": (8,),
        f"{scope}/ffn_1/intermediate/dense/kernel": (8, 32),
        f"{scope}/ffn_1/intermediate/output/dense/kernel": (32, 8),
        f"{scope}/LayerNorm_1/gamma": (8,)}


def test_heads_without_a_place_are_dropped_and_named(tmp_path):
    checkpoint = made("bert", {"task": "classifier", "labels": ["no", "yes"]})
    dropped = google_tf1.write(checkpoint, str(tmp_path / "a"))
    assert dropped == ["cls/classifier/output_weights", "cls/classifier/output_bias"]
    assert google_tf1.read(str(tmp_path / "a")).task == {"task": "encoder"}
    checkpoint = made("bert", PRETRAINING["albert"])
    dropped = google_tf1.write(checkpoint, str(tmp_path / "b"))
    assert dropped == ["cls/sentence_order/output_weights", "cls/sentence_order/output_bias"]


def test_what_training_adds_is_left_behind(tmp_path):
    path = written(tmp_path, "albert")
    kernel = "bert/pooler/dense/kernel"
    rewrite(path, lambda tensors: {**tensors, "global_step": np.int64(7),
                                   f"{kernel}/adam_m": tensors[kernel],
                                   f"{kernel}/adam_v": tensors[kernel]})
    read = google_tf1.read(path)
    check_same(made("albert"), read)
    assert set(read.dropped) == {"global_step", f"{kernel}/adam_m", f"{kernel}/adam_v"}


@pytest.mark.parametrize(("family", "changes", "message"), [
    ("bert", {"hidden_act": "gelu"}, "hidden_act='gelu' cannot be written to bert_config.json"),
    ("albert", {"hidden_act": "gelu"}, "hidden_act='gelu'.*expected 'gelu_approximate'"),
    ("electra", {"hidden_act": "gelu_approximate"}, "hidden_act='gelu_approximate'"),
    ("bert", {"layer_norm_eps": 1e-5}, "layer_norm_eps=1e-05.*expected 1e-12"),
    ("electra", {"layer_norm_eps": 1e-6}, "layer_norm_eps=1e-06"),
    ("bert", {"padding_id": 1}, "padding_id=1"),
    ("bert", {"embedding_size": 6}, "embedding_size=6.*expected 8"),
    ("bert", {"num_hidden_groups": 1}, "num_hidden_groups=1.*expected 0"),
    ("albert", {"num_hidden_groups": 0}, "num_hidden_groups=0.*expected 1"),
    ("bert", {"attention": "causal"}, "attention='causal'"),
    ("bert", {"position_embedding": "sinusoidal"}, "position_embedding='sinusoidal'"),
    ("albert", {"feed_forward": "conv"}, "feed_forward='conv'"),
    ("bert", {"pooling": "first"}, "pooling='first'"),
    ("bert", {"head_act": "relu"}, "head_act='relu'"),
    ("bert", {"bilstm": True}, "bilstm=True"),
    ("roberta", {}, "family='roberta' has no google format; expected one of bert, albert, elec"),
])
def test_what_the_format_cannot_say_is_refused_by_name(family, changes, message, tmp_path):
    checkpoint = made(family, {"task": "encoder"}, **changes)
    with pytest.raises(UsageError, match=message):
        google_tf1.write(checkpoint, str(tmp_path / "google"))
    assert not os.listdir(tmp_path)


def test_generators_that_the_original_code_cannot_build_are_refused(tmp_path):
    config = made("electra").config
    wide = config.replace(**{**GENERATOR, "intermediate_size": 20})
    checkpoint = made("electra", {"task": "replaced_tokens", "generator": wide.to_dict()})
    with pytest.raises(UsageError, match="generator intermediate_size=20.*expected 16"):
        google_tf1.write(checkpoint, str(tmp_path / "google"))
    alone = made("electra", {"task": "pretraining", "sentence_task": None})
    with pytest.raises(UsageError, match="generator alone"):
        google_tf1.write(alone, str(tmp_path / "google"))


def change_json(path, name, **changes):
    file = os.path.join(path, name)
    with open(file, encoding="utf-8") as stream:
        values = json.load(stream)
    values.update(changes)
    with open(file, "w", encoding="utf-8") as stream:
        json.dump({key: value for key, value in values.items() if value is not ...}, stream)


def truncate(path, share):
    prefix = variables.find_checkpoint(path)
    name = f"{prefix}.data-00000-of-00001"
    os.truncate(name, int(os.path.getsize(name) * share))


BIAS, POOLER = "cls/predictions/output_bias", "bert/pooler/dense/kernel"


@pytest.mark.parametrize(("family", "spoil", "message"), [
    ("bert", lambda path: rewrite(path, lambda t: {n: v for n, v in t.items() if n != POOLER}),
     rf"- {POOLER} \(8, 8\)$"),
    ("bert", lambda path: rewrite(path, lambda t: {**t, "bert/bias": t[BIAS]}),
     r"\+ bert/bias \(30,\)$"),
    ("bert", lambda path: rewrite(path, lambda t: {**t, POOLER: t[POOLER][:5]}),
     rf"{POOLER} expected \(8, 8\), found \(5, 8\)$"),
    ("bert", lambda path: rewrite(path, lambda t: {**t, POOLER: np.zeros((8, 8), np.int32)}),
     f"{POOLER} is int32; expected float32"),
    ("bert", lambda path: change_json(path, "bert_config.json", num_hidden_layers=5),
     r"- bert/encoder/layer_4/attention/self/query/kernel \(8, 8\)"),
    ("bert", lambda path: change_json(path, "bert_config.json", hidden_size="8"),
     "hidden_size='8'; expected int"),
    ("bert", lambda path: change_json(path, "bert_config.json", hidden_size=...),
     "bert_config.json: hidden_size is missing"),
    ("bert", lambda path: change_json(path, "bert_config.json", hiden_act="gelu"),
     "unknown key 'hiden_act'; try 'hidden_act'"),
    ("bert", lambda path: change_json(path, "bert_config.json", hidden_act="swish"),
     "hidden_act='swish'; expected one of gelu, relu, tanh"),
    ("bert", lambda path: change_json(path, "bert_config.json", hidden_act=["gelu"]),
     r"hidden_act=\['gelu'\]; expected one of gelu"),
    ("albert", lambda path: change_json(path, "albert_config.json", inner_group_num=2),
     "inner_group_num=2; expected 1"),
    ("albert", lambda path: change_json(path, "albert_config.json", layers_to_keep=[3]),
     "unknown key 'layers_to_keep'"),
    ("albert", lambda path: os.rename(f"{path}/albert_config.json", f"{path}/bert_config.json"),
     "bert_config.json: unknown key 'embedding_size'"),
    ("bert", lambda path: shutil.copy(f"{path}/bert_config.json", f"{path}/albert_config.json"),
     "holds bert_config.json, albert_config.json; expected only one"),
    ("bert", lambda path: os.remove(f"{path}/bert_config.json"),
     "without a configuration; expected one of bert_config.json"),
    ("electra", lambda path: os.remove(f"{path}/electra_config.json"),
     "an ELECTRA checkpoint without electra_config.json; expected .*num_attention_heads"),
    ("electra", lambda path: change_json(path, "electra_config.json", discriminator=...),
     "no discriminator"),
    ("electra", lambda path: change_json(path, "electra_config.json", generator=None),
     r"\+ generator/"),
    ("electra", lambda path: change_json(path, "electra_config.json",
                                         model_hparams={"untied_generator": False}),
     "untied_generator=False; expected True"),
    ("bert", lambda path: truncate(path, 0.7), "damaged: .* takes .* of a data file of"),
    ("bert", lambda path: os.truncate(f"{path}/bert_model.ckpt.index", 300), "is damaged"),
    ("bert", lambda path: os.remove(f"{path}/bert_model.ckpt.index"), "no checkpoint at"),
    ("bert", lambda path: copy_checkpoint(path, "b"),
     r"holds the checkpoints b, bert_model.ckpt; try .*google/b$"),
    ("bert", lambda path: [copy_checkpoint(path, f"m.ckpt-{step}") for step in (0, 90, 100)],
     r"; try .*google/m.ckpt-100$"),
])
def test_bad_folders_are_one_clear_line(family, spoil, message, tmp_path):
    path = written(tmp_path, family)
    spoil(path)
    with pytest.raises(BertTfError) as raised:
        checkpoint = google_tf1.read(path)
        google_tf1.write(checkpoint, str(tmp_path / "other"))
    line = str(raised.value)
    assert re.search(message, line) and "\n" not in line
    assert os.listdir(tmp_path) == ["google"]


def test_a_key_of_albert_that_its_code_does_not_read(tmp_path):
    path = written(tmp_path, "albert")
    change_json(path, "albert_config.json", layers_to_keep=[])
    check_same(made("albert"), google_tf1.read(path))


def test_a_flipped_bit_is_found(tmp_path):
    path = written(tmp_path, "bert")
    with open(f"{path}/bert_model.ckpt.data-00000-of-00001", "r+b") as stream:
        stream.seek(2000)
        byte = stream.read(1)[0]
        stream.seek(2000)
        stream.write(bytes([byte ^ 4]))
    with pytest.raises(BertTfError, match="is damaged: .*[Cc]hecksum"):
        google_tf1.write(google_tf1.read(path), str(tmp_path / "other"))


def test_one_of_several_checkpoints_is_read_by_its_prefix(tmp_path):
    path = written(tmp_path, "bert")
    prefix = variables.find_checkpoint(path)
    variables.write_variables(f"{path}/later", {
        name: value + 1 for name, value in variables.read_variables(prefix).items()})
    for each, shift in ((prefix, 0), (f"{path}/later", 1)):
        bias = google_tf1.read(each).tensors[BIAS]
        np.testing.assert_array_equal(bias, made("bert").tensors[BIAS] + np.float32(shift))


@pytest.mark.parametrize(("pieces", "uncased"), [
    (["hello", "##s", "é"], True), (["hello", "Hello"], False)])
def test_casing_that_no_file_states_is_judged_by_the_vocabulary(pieces, uncased, tmp_path):
    path = written(tmp_path, "bert")
    (tmp_path / "google" / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, *pieces]) + "\n")
    checkpoint = google_tf1.read(path)
    assert len(checkpoint.notes) == 1 and ("no capital letters" in checkpoint.notes[0]) == uncased
    google_tf1.write(checkpoint, str(tmp_path / "again"))
    stated = json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())
    assert stated == {"lower_case": uncased, "strip_accents": uncased, "normalization": "google"}
    assert google_tf1.read(str(tmp_path / "again")).notes == ()


def test_a_sentencepiece_model_of_any_name_travels_along(tmp_path):
    path = written(tmp_path, "albert")
    model = sentence_piece().model
    (tmp_path / "google" / "30k-clean.model").write_bytes(model)
    google_tf1.write(google_tf1.read(path), str(tmp_path / "again"))
    assert (tmp_path / "again" / "spiece.model").read_bytes() == model
    (tmp_path / "google" / "other.model").write_bytes(b"others")
    with pytest.raises(UsageError, match="30k-clean.model, other.model; expected one"):
        google_tf1.read(path)


@pytest.mark.parametrize(("options", "told"), [
    ({"lower_case": True, "strip_accents": True}, ["normalization='nfc'"]),
    ({"lower_case": True, "strip_accents": False}, ["normalization='nfc'", "strip_accents=False"]),
    ({"lower_case": True, "strip_accents": True, "normalization": "google"}, []),
    ({"tokenize_chinese_chars": False}, ["tokenize_chinese_chars=False"]),
    ({"pretokenize": "morphemes"}, ["pretokenize='morphemes'"]), ({}, [])])
def test_what_the_original_tokenizer_does_otherwise_is_told(tmp_path, options, told):
    (tmp_path / "ours").mkdir()
    Tokenizer(Vocabulary([*SPECIAL_TOKENS, "영화"]), **options).save(str(tmp_path / "ours"))
    checkpoint = dataclasses.replace(made("bert"), tokenizer=str(tmp_path / "ours"))
    notes = google_tf1.write(checkpoint, str(tmp_path / "google"))
    assert [line.removeprefix("the tokenizer's ").partition(" (")[0] for line in notes] == told
    back = google_tf1.read(str(tmp_path / "google")).tokenizer
    assert load_tokenizer(back).options == load_tokenizer(str(tmp_path / "ours")).options
