"""keras-hub: the same numbers in both libraries, byte for byte in and out, and what cannot be."""

import keras_nlp
import numpy as np
import pytest
from same import check_same

import bert_tf
from bert_tf import preset
from bert_tf.converters import google_tf1, hf_safetensors, keras_hub
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.errors import UsageError
from bert_tf.models.families import build_encoder

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 32, "vocab_size": 50}
CONFIGS = {
    "bert": {"max_position_embeddings": 12},
    "roberta": {"max_position_embeddings": 14, "padding_id": 1},
    "albert": {"max_position_embeddings": 12, "embedding_size": 8, "num_hidden_groups": 2,
               "num_hidden_layers": 4},
    "electra": {"max_position_embeddings": 12, "embedding_size": 8,
                "hidden_act": "gelu_approximate"},
    "electra_without_projection": {"max_position_embeddings": 12, "embedding_size": 16,
                                   "hidden_act": "gelu_approximate", "pooling": "dense"},
    "gpt2": {"max_position_embeddings": 12, "hidden_act": "gelu_approximate"},
}
ALL = pytest.mark.parametrize("kind", [
    pytest.param(kind, marks=[pytest.mark.long] * ("electra" in kind)) for kind in CONFIGS])
ENCODER = {"task": "encoder"}


def make_checkpoint(kind, task=None, **changes):
    """Random weights, every bias and LayerNorm too."""
    config = preset(kind.split("_")[0], "tiny", **{**SIZES, **CONFIGS[kind], **changes})
    task = task or ({"task": "language_model"} if kind == "gpt2" else ENCODER)
    random = np.random.default_rng(7)
    return Checkpoint(config, task, Tensors.of({
        name: (random.normal(size=shape) * 0.2 + name.endswith("gamma")).astype(np.float32)
        for name, shape in parameter_shapes(config, task).items()}))


def make_live(kind):
    """A Backbone of the library with random weights, every bias and LayerNorm too."""
    config = make_checkpoint(kind).config
    arguments = {"num_layers": config.num_hidden_layers, "num_heads": 2, "hidden_dim": 16,
                 "intermediate_dim": 32, "max_sequence_length": 12,
                 "dropout": config.hidden_dropout_prob, "dtype": "float32"}
    live = {
        "bert": lambda: keras_nlp.models.BertBackbone(50, **arguments),
        "roberta": lambda: keras_nlp.models.RobertaBackbone(50, **arguments),
        "albert": lambda: keras_nlp.models.AlbertBackbone(
            50, embedding_dim=8, num_groups=2, **arguments),
        "electra": lambda: keras_nlp.models.ElectraBackbone(50, embedding_dim=8, **arguments),
        "electra_without_projection": lambda: keras_nlp.models.ElectraBackbone(
            50, embedding_dim=16, **arguments),
        "gpt2": lambda: keras_nlp.models.GPT2Backbone(50, **arguments)}[kind]()
    random = np.random.default_rng(8)
    for variable in live.weights:
        variable.assign(random.normal(size=variable.shape) * 0.2
                        + variable.path.endswith("gamma"))
    return live


def check_same_numbers(checkpoint, live):
    """Our model of `checkpoint` and their `live` one agree at real tokens; the largest error."""
    encoder = build_encoder(checkpoint.config, dtype="float32")
    assert {v.path for v in encoder.trainable_variables} == set(checkpoint.tensors)
    for variable in encoder.trainable_variables:
        variable.assign(checkpoint.tensors[variable.path])
    random = np.random.default_rng(9)
    mask = (np.arange(12) < np.array([[12], [7], [3]])).astype(np.int32)
    ids = np.where(mask, random.integers(5, 50, mask.shape), checkpoint.config.padding_id)
    types = random.integers(0, 2, mask.shape) * mask
    got = encoder({"input_word_ids": ids, "input_mask": mask, "input_type_ids": types})
    segments = {} if checkpoint.config.family in ("roberta", "gpt2") else {"segment_ids": types}
    want = live({"token_ids": ids, "padding_mask": mask, **segments})
    want = want if isinstance(want, dict) else {"sequence_output": want}
    errors = [np.abs(got["sequence_output"] - want["sequence_output"])[mask == 1].max()]
    if checkpoint.config.pooling == "dense":
        errors.append(np.abs(got["pooled_output"] - want["pooled_output"]).max())
    assert max(errors) < 1e-4
    return max(errors)


@pytest.mark.parametrize(("reader", "folder", "output"), [
    (google_tf1, "google_bert", "sequence_output"),
    (hf_safetensors, "hf_roberta", "hidden_states_2"),
    (hf_safetensors, "hf_albert", "last_hidden_state"),
    (google_tf1, "google_albert", "sequence_output"),
])
def test_the_original_numbers_come_out_of_a_backbone(shared, reader, folder, output):
    path = shared / "reference" / folder
    live = keras_hub.to_live(reader.read(str(path)))
    expected = np.load(path / "expected.npz")
    mask = expected["input_mask" if folder.startswith("google") else "attention_mask"]
    inputs = {"token_ids": expected["input_ids"], "padding_mask": mask}
    for name in ("segment_ids", "token_type_ids"):
        if name in expected:
            inputs["segment_ids"] = expected[name]
    got = live(inputs)
    got = got["sequence_output"] if isinstance(got, dict) else got
    np.testing.assert_allclose(np.asarray(got)[mask == 1], expected[output][mask == 1], atol=1e-4)


@ALL
def test_what_we_write_gives_the_same_numbers_there(kind, tmp_path):
    checkpoint = make_checkpoint(kind)
    keras_hub.write(checkpoint, str(tmp_path / "preset"))
    live = keras_nlp.models.Backbone.from_preset(str(tmp_path / "preset"))
    assert type(live) is keras_hub.BACKBONES[checkpoint.config.family]
    check_same_numbers(checkpoint, live)


@ALL
def test_what_they_write_gives_the_same_numbers_here(kind, tmp_path):
    live = make_live(kind)
    live.save_to_preset(str(tmp_path))
    checkpoint = keras_hub.read(str(tmp_path))
    check_same(checkpoint, keras_hub.from_live(live))
    check_same_numbers(checkpoint, live)
    # Out again: every byte that they hold.
    again = keras_hub.to_live(checkpoint)
    assert again.get_config()["num_layers"] == checkpoint.config.num_hidden_layers
    for before, after in zip(live.weights, again.weights, strict=True):
        assert before.path == after.path
        assert np.asarray(before).tobytes() == np.asarray(after).tobytes(), before.path


@ALL
def test_in_and_out_changes_no_byte(kind, tmp_path):
    checkpoint = make_checkpoint(kind)
    dropped = keras_hub.write(checkpoint, str(tmp_path / "preset"))
    back = keras_hub.read(str(tmp_path / "preset"))
    if kind != "roberta":
        assert dropped == []
        check_same(checkpoint, back)
        return
    # Its one segment went into the positions, of which the library holds those of real tokens.
    assert dropped == ["roberta/embeddings/token_type_embeddings (added to the positions)",
                       "roberta/embeddings/position_embeddings of the first 2 positions"]
    positions, segment = (f"roberta/embeddings/{name}_embeddings"
                          for name in ("position", "token_type"))
    assert back.config == checkpoint.config
    assert not back.tensors[segment].any()
    np.testing.assert_array_equal(
        back.tensors[positions][2:],
        checkpoint.tensors[positions][2:] + checkpoint.tensors[segment])
    for name in set(checkpoint.tensors) - {positions, segment}:
        assert back.tensors[name].tobytes() == checkpoint.tensors[name].tobytes(), name
    keras_hub.write(back, str(tmp_path / "again"))
    check_same(back, keras_hub.read(str(tmp_path / "again")))


@pytest.mark.parametrize(("kind", "task", "heads"), [
    ("bert", {"task": "pretraining", "sentence_task": "next_sentence"}, 7),
    *(pytest.param(*row, marks=pytest.mark.long) for row in (
        ("albert", {"task": "pretraining", "sentence_task": "sentence_order"}, 7),
        ("electra", {"task": "replaced_tokens", "generator": None}, 4),
        ("bert", {"task": "classifier", "labels": ["a", "b"]}, 2))),
])
def test_heads_are_named_and_dropped(kind, task, heads, tmp_path):
    checkpoint = make_checkpoint(kind, task)
    dropped = keras_hub.write(checkpoint, str(tmp_path / "preset"))
    assert set(dropped) == set(checkpoint.tensors) - set(make_checkpoint(kind).tensors)
    assert len(dropped) == heads
    back = keras_hub.read(str(tmp_path / "preset"))
    assert back.task == ENCODER
    for name in back.tensors:
        assert back.tensors[name].tobytes() == checkpoint.tensors[name].tobytes()


def test_a_task_preset_gives_its_backbone(tmp_path):
    live = make_live("bert")
    task = keras_nlp.models.BertMaskedLM(live, preprocessor=None)
    task.save_to_preset(str(tmp_path))
    checkpoint = keras_hub.read(str(tmp_path))
    assert checkpoint.notes[0].startswith("the weights of a head, task.weights.h5, are left out")
    check_same(checkpoint, keras_hub.from_live(live))


def test_a_backbone_of_gpt2_is_a_language_model(tmp_path):
    live = make_live("gpt2")
    task = keras_nlp.models.GPT2CausalLM(live, preprocessor=None)
    task.save_to_preset(str(tmp_path))
    checkpoint = keras_hub.read(str(tmp_path))
    assert (checkpoint.task, checkpoint.notes) == ({"task": "language_model"}, ())
    ids = np.random.default_rng(9).integers(0, 50, [2, 12])
    logits = bert_tf.from_live(live).next_token_logits(
        {"input_word_ids": ids, "input_mask": np.ones_like(ids)})
    expected = task({"token_ids": ids, "padding_mask": np.ones_like(ids)})
    np.testing.assert_allclose(logits, expected[:, -1], atol=1e-4)
    # Padding is found by the mask there: its id, which published ones state, changes nothing.
    other = make_checkpoint("gpt2", padding_id=49)
    check_same(keras_hub.from_live(keras_hub.to_live(other)), make_checkpoint("gpt2"))


def test_bfloat16_weights_are_read_as_they_are(tmp_path):
    live = keras_nlp.models.BertBackbone(50, 2, 2, 16, 32, max_sequence_length=12,
                                         dtype="bfloat16")
    live.save_to_preset(str(tmp_path))
    check_same(keras_hub.read(str(tmp_path)), keras_hub.from_live(live))


@pytest.mark.parametrize(("kind", "changes", "message"), [
    ("bert", {"hidden_act": "gelu"}, "hidden_act='gelu' .* BertBackbone; expected 'gelu_approx"),
    ("bert", {"hidden_act": "relu"}, "hidden_act='relu'"),
    ("bert", {"layer_norm_eps": 1e-5}, "layer_norm_eps=1e-05"),
    ("bert", {"attention_probs_dropout_prob": 0.3}, "attention_probs_dropout_prob=0.3"),
    ("bert", {"padding_id": 3}, "padding_id=3"),
    ("bert", {"attention": "causal"}, "attention='causal'"),
    ("bert", {"position_embedding": "sinusoidal"}, "position_embedding='sinusoidal'"),
    ("bert", {"feed_forward": "conv"}, "feed_forward='conv'"),
    ("bert", {"bilstm": True}, "bilstm=True"),
    ("bert", {"embedding_size": 8}, "embedding_size=8"),
    ("bert", {"num_hidden_groups": 2}, "num_hidden_groups=2"),
    ("bert", {"pooling": "last"}, "pooling='last'"),
    ("roberta", {"hidden_act": "gelu_approximate"}, "hidden_act='gelu_approximate'"),
    ("roberta", {"layer_norm_eps": 1e-12}, "layer_norm_eps=1e-12"),
    ("roberta", {"padding_id": 0}, "padding_id=0"),
    ("roberta", {"type_vocab_size": 2}, "type_vocab_size=2"),
    ("albert", {"num_hidden_groups": 3}, "num_hidden_groups=3; expected a divisor"),
    ("albert", {"num_hidden_groups": 0}, "num_groups=0"),
    ("albert", {"embedding_size": 16}, "embedding_size=16"),
    ("electra", {"hidden_act": "gelu"}, "hidden_act='gelu'"),
])
def test_what_a_backbone_cannot_compute_is_refused(kind, changes, message, tmp_path):
    checkpoint = make_checkpoint(kind, **changes)
    for write in (keras_hub.to_live, lambda it: keras_hub.write(it, str(tmp_path / "preset"))):
        with pytest.raises(UsageError, match=message):
            write(checkpoint)
    assert list(tmp_path.iterdir()) == []


def test_gpt_is_refused():
    config = preset("gpt", "tiny", vocab_size=50)
    with pytest.raises(UsageError, match="family='gpt'.*bert, roberta, albert, electra"):
        keras_hub.to_live(Checkpoint(config, ENCODER, Tensors.of({})))


def test_other_live_objects_are_refused():
    with pytest.raises(UsageError, match="a DistilBertBackbone; expected BertBackbone"):
        keras_hub.from_live(keras_nlp.models.DistilBertBackbone(50, 1, 2, 16, 32))
    live = make_live("bert")
    live.enable_lora(2)
    with pytest.raises(UsageError, match="BertBackbone does not fit.*lora"):
        keras_hub.from_live(live)
