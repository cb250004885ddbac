"""Folders that are read as a BERT, beside the BERT that they are."""

import dataclasses
import json

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from same import check_same, near

import bert_tf
from bert_tf.config import ModelConfig
from bert_tf.converters import hf_safetensors
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.errors import UsageError

HIDDEN, TASK_TYPES = 16, 3
CONFIG = ModelConfig(vocab_size=30, hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=2,
                     intermediate_size=24, max_position_embeddings=1024, type_vocab_size=4,
                     layer_norm_eps=1e-5, hidden_act="relu")
ENCODER, MASKED_LM = {"task": "encoder"}, {"task": "pretraining", "sentence_task": None}
PRETRAINING = {"task": "pretraining", "sentence_task": "next_sentence"}
LABELS = [{"task": kind, "labels": ["a", "b", "c"]} for kind in ("classifier", "tagger")]
TASK_TABLE = "embeddings.task_type_embeddings.weight"
ERNIE = {"use_task_id": True, "task_type_vocab_size": TASK_TYPES}
# As KoBigBird has them.
BIG_BIRD = {"attention_type": "block_sparse", "block_size": 64, "num_random_blocks": 3,
            "rescale_embeddings": False, "use_bias": True, "position_embedding_type": "absolute",
            "gradient_checkpointing": False, "sep_token_id": 3}


def drawn(shapes):
    draw = np.random.default_rng(1)
    return {name: draw.normal(0.1, 0.5, shape).astype(np.float32)
            for name, shape in shapes.items()}


def bert(task, **fields):
    """A `Checkpoint` of a small BERT."""
    pooled = task["task"] not in ("tagger", "span") and task != MASKED_LM
    config = CONFIG.replace(pooling="dense" if pooled else "first", **fields)
    return Checkpoint(config, task, Tensors.of(drawn(parameter_shapes(config, task))))


def write(checkpoint, path, kind, name, change, **keys):
    """Write the folder of a BERT as one of another `kind`, and return its path.

    Args:
        name: that of the classes.
        change: `change(tensors)` gives the `{name: array}` of that kind.
        keys: of `config.json`.
    """
    path.mkdir()
    hf_safetensors.write_model(checkpoint, str(path))
    config = json.loads((path / "config.json").read_text())
    classes = [each.replace("Bert", name) for each in config["architectures"]]
    (path / "config.json").write_text(json.dumps(
        config | {"model_type": kind, "architectures": classes} | keys))
    save_file(change(load_file(path / "model.safetensors")), path / "model.safetensors")
    return str(path)


def of_ernie(tensors):
    """The tensors of an ERNIE, with a table that no BERT has; bare ones stay so."""
    bare = "embeddings.word_embeddings.weight" in tensors
    return {name.replace("bert.", "ernie."): array for name, array in tensors.items()} | drawn(
        {TASK_TABLE if bare else f"ernie.{TASK_TABLE}": (TASK_TYPES, HIDDEN)})


def of_big_bird(tensors):
    return {name.replace("pooler.dense.", "pooler."): array for name, array in tensors.items()}


@pytest.mark.parametrize("task", [ENCODER, MASKED_LM, PRETRAINING, *LABELS, {"task": "span"}])
def test_ernie_is_a_bert_with_the_first_task_among_its_token_types(task, tmp_path):
    checkpoint = bert(task)
    found = hf_safetensors.read(write(checkpoint, tmp_path / "ernie", "ernie", "Ernie", of_ernie,
                                      **ERNIE))
    name, = (name for name in checkpoint.tensors if "token_type" in name)
    first, = drawn({TASK_TABLE: (TASK_TYPES, HIDDEN)}).values()
    tensors = dict(checkpoint.tensors)
    tensors[name] = tensors[name] + first[0]
    check_same(found, dataclasses.replace(checkpoint, tensors=Tensors.of(tensors)))
    assert "row 0 of task_type_embeddings" in found.notes[0]
    hf_safetensors.write(found, str(tmp_path / "again"))
    check_same(hf_safetensors.read(str(tmp_path / "again")), found)


def test_ernie_without_task_ids_leaves_the_table(tmp_path):
    checkpoint = bert(ENCODER)
    found = hf_safetensors.read(write(checkpoint, tmp_path / "ernie", "ernie", "Ernie", of_ernie))
    check_same(found, checkpoint)
    assert (found.dropped, found.notes) == ((f"bert.{TASK_TABLE}",), ())


@pytest.mark.parametrize(("change", "keys", "message"), [
    (of_ernie, {"task_type_vocab_size": 5}, r"task_type_embeddings.weight expected \(5, 16\)"),
    (dict, {}, r"- bert.embeddings.task_type_embeddings.weight \(3, 16\)"),
    (of_ernie, {"task_type_vocab_size": 0}, "task_type_vocab_size=0; expected an integer from 1"),
    (of_ernie, {"use_task_id": "no"}, "use_task_id='no'; expected False or True")])
def test_an_ernie_that_contradicts_itself(change, keys, message, tmp_path):
    folder = write(bert(ENCODER), tmp_path / "ernie", "ernie", "Ernie", change, **ERNIE | keys)
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(folder)


@pytest.mark.parametrize("task", [ENCODER, MASKED_LM, PRETRAINING, LABELS[1]])
def test_big_bird_is_a_bert(task, tmp_path):
    checkpoint = bert(task)
    found = hf_safetensors.read(write(checkpoint, tmp_path / "bird", "big_bird", "BigBird",
                                      of_big_bird, **BIG_BIRD))
    check_same(found, checkpoint)
    hf_safetensors.write(found, str(tmp_path / "again"))
    check_same(hf_safetensors.read(str(tmp_path / "again")), checkpoint)


@pytest.mark.parametrize(("keys", "longest"), [
    ({}, "704"), ({"block_size": 16, "num_random_blocks": 2}, "144"),
    ({"num_random_blocks": 6}, None),  # 1,088, more than it has positions
    ({"attention_type": "original_full"}, None)])
def test_what_big_bird_computes_otherwise_is_noted(keys, longest, tmp_path):
    folder = write(bert(ENCODER), tmp_path / "bird", "big_bird", "BigBird", of_big_bird, **keys)
    notes = hf_safetensors.read(folder).notes
    assert [f"longer than {longest} tokens" in note for note in notes] == [True] * bool(longest)


def test_what_big_bird_leaves_out(tmp_path):
    checkpoint = bert(MASKED_LM, vocab_size=50358, hidden_act="gelu_approximate",
                      max_position_embeddings=4096)
    path = tmp_path / "bird"
    left_out = dict.fromkeys(("vocab_size", "hidden_act", "max_position_embeddings"))
    check_same(hf_safetensors.read(write(checkpoint, path, "big_bird", "BigBird", of_big_bird,
                                         **left_out)), checkpoint)


def test_big_bird_classifies_by_the_first_state(tmp_path):
    """A dense layer with the activation of the blocks, and no pooler."""
    checkpoint = bert(LABELS[0])
    head = drawn({"classifier.dense.weight": (HIDDEN, HIDDEN), "classifier.dense.bias": (HIDDEN,),
                  "classifier.out_proj.weight": (3, HIDDEN), "classifier.out_proj.bias": (3,)})

    def change(tensors):
        encoder = {name: array for name, array in of_big_bird(tensors).items()
                   if not name.startswith("classifier.")}
        return encoder | head

    folder = write(checkpoint, tmp_path / "bird", "big_bird", "BigBird", change)
    model = bert_tf.from_pretrained(folder)
    assert model.fresh_variables == ()
    inputs = {name: keras.ops.ones((2, 7), "int32") for name in (
        "input_word_ids", "input_mask", "input_type_ids")}
    first = np.asarray(model.backbone(inputs)["sequence_output"])[:, 0]
    hidden = np.maximum(first @ head["classifier.dense.weight"].T
                        + head["classifier.dense.bias"], 0)
    near(model(inputs), hidden @ head["classifier.out_proj.weight"].T
         + head["classifier.out_proj.bias"])
    with pytest.raises(UsageError, match="label_head='dense'"):
        hf_safetensors.write(hf_safetensors.read(folder), str(tmp_path / "again"))


def test_the_encoder_of_a_big_bird_that_answers_questions(tmp_path):
    checkpoint = bert(ENCODER)
    folder = write(checkpoint, tmp_path / "bird", "big_bird", "BigBird", lambda tensors: {
        **of_big_bird(tensors), "qa_classifier.qa_outputs.bias": np.zeros(2, np.float32)},
        architectures=["BigBirdForQuestionAnswering"])
    check_same(hf_safetensors.read_encoder(folder), checkpoint)


@pytest.mark.parametrize(("keys", "message"), [
    ({"rescale_embeddings": True}, "rescale_embeddings=True; expected False"),
    ({"use_bias": False}, "use_bias=False; expected True"),
    ({"attention_type": "sliding"}, "attention_type='sliding'; expected 'block_sparse' or"),
    ({"block_size": "64"}, "block_size='64'; expected an integer from 1 on"),
    ({"architectures": ["BigBirdForQuestionAnswering"]}, "expected one of BigBirdForPreTraining")])
def test_other_big_birds_are_refused(keys, message, tmp_path):
    folder = write(bert(ENCODER), tmp_path / "bird", "big_bird", "BigBird", of_big_bird, **keys)
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(folder)


def test_a_bert_with_keys_of_these_is_refused(tmp_path):
    folder = write(bert(ENCODER), tmp_path / "bert", "bert", "Bert", dict, use_task_id=True)
    with pytest.raises(UsageError, match="use_task_id=True, which we do not know"):
        hf_safetensors.read(folder)
