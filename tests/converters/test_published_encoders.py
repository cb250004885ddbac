"""Small copies of published encoders give the numbers that transformers computed, and go back."""

import hf_models
import numpy as np
import pytest

from bert_tf.converters import hf_safetensors
from bert_tf.converters.checkpoint import parameter_shapes
from bert_tf.errors import UsageError
from bert_tf.models.families import build_encoder
from bert_tf.storage import variables
from bert_tf.tasks.pretraining.masked_lm import Pretrainer

FOLDERS = ("distilbert_mlm", "xlm_roberta_mlm", "xlm_roberta_st", "camembert_mlm", "mpnet_st",
           "deberta_v3_encoder", "modernbert_mlm", "modernbert_st", "roberta_st_korean",
           "roberta_wordpiece", "bert_st_mean")
INPUTS = {"input_word_ids": "input_ids", "input_mask": "attention_mask",
          "input_type_ids": "token_type_ids"}


def checkpoint_of(shared, name):
    return hf_models.read(shared, f"hub/{name}")


def expected_of(shared, name, part):
    """`({our name: inputs}, {their name: outputs})` of the `single` texts or the `pair`s."""
    own = {key.removeprefix(f"{part}/"): array
           for key, array in hf_models.expected(shared, f"hub/{name}").items()
           if key.startswith(f"{part}/")}
    zeros = np.zeros_like(own["input_ids"])
    return {ours: own.pop(theirs, zeros).astype("int32") for ours, theirs in INPUTS.items()}, own


@pytest.mark.parametrize("name", FOLDERS)
def test_every_state_of_attended_tokens(shared, name):
    checkpoint = checkpoint_of(shared, name)
    assert checkpoint.tensors.shapes == parameter_shapes(checkpoint.config, checkpoint.task)
    encoder = build_encoder(checkpoint.config, encoder_outputs=True, dtype="float32")
    variables.assign_variables(encoder.weights, checkpoint.tensors, name)
    worst = {}
    for part in ("single", "pair"):
        inputs, expected = expected_of(shared, name, part)
        real = inputs["input_mask"][..., None]
        for padding_free in (False, True):
            encoder.backbone.padding_free = padding_free
            outputs = encoder(inputs)
            found = {f"hidden_states_{i}": state for i, state in enumerate(
                [outputs["embedding_output"], *outputs["encoder_outputs"]])}
            found["last_hidden_state"] = outputs["sequence_output"]
            for key in set(found) & set(expected):
                error = np.abs((found[key] - expected[key]) * real).max()
                worst[key] = max(worst.get(key, 0), error)
            if checkpoint.config.pooling == "dense":
                worst["pooled"] = np.abs(outputs["pooled_output"] - expected["pooler_output"]).max()
    assert len(worst) > checkpoint.config.num_hidden_layers
    assert max(worst.values()) < 2e-5, worst


@pytest.mark.parametrize("name", [name for name in FOLDERS if name.endswith(("mlm", "wordpiece"))])
def test_masked_lm_logits(shared, name):
    checkpoint = checkpoint_of(shared, name)
    model = Pretrainer(checkpoint.config, None, dtype="float32")
    variables.assign_variables(model.weights, checkpoint.tensors, name)
    inputs, expected = expected_of(shared, name, "single")
    mask = inputs["input_mask"]
    positions = np.broadcast_to(np.arange(mask.shape[1], dtype="int32"), mask.shape)
    logits = model({**inputs, "masked_lm_positions": positions})["masked_lm_logits"]
    assert np.abs((logits - expected["logits"]) * mask[..., None]).max() < 1e-4


@pytest.mark.parametrize("name", FOLDERS)
def test_there_and_back(shared, name, tmp_path):
    checkpoint = checkpoint_of(shared, name)
    hf_safetensors.write(checkpoint, str(tmp_path / "out"))
    again = hf_safetensors.read(str(tmp_path / "out"))
    assert (again.config, again.task) == (checkpoint.config, checkpoint.task)
    assert again.tensors.shapes == checkpoint.tensors.shapes
    for tensor in checkpoint.tensors:
        np.testing.assert_array_equal(again.tensors[tensor], checkpoint.tensors[tensor])


@pytest.mark.parametrize(("name", "changes", "message"), [
    ("deberta_v3_encoder", {"conv_kernel_size": 3}, "conv_kernel_size=3; expected 0"),
    ("deberta_v3_encoder", {"pos_att_type": "c2p"}, "pos_att_type='c2p'"),
    ("deberta_v3_encoder", {"share_att_key": False}, "share_att_key=False; expected True"),
    ("deberta_v3_encoder", {"position_biased_input": True}, "position_biased_input=True"),
    ("deberta_v3_encoder", {"position_buckets": -1}, "position_buckets=-1"),
    ("modernbert_mlm", {"norm_bias": True}, "norm_bias=True; expected False"),
    ("modernbert_mlm", {"layer_types": ["full_attention"] * 4}, "layer_types="),
    ("modernbert_mlm", {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
     "rope_parameters="),
    ("distilbert_mlm", {"sinusoidal_pos_embds": True}, "sinusoidal_pos_embds=True"),
])
def test_what_changes_the_numbers_is_refused_by_name(shared, name, changes, message, tmp_path):
    folder = hf_models.changed(shared, f"hub/{name}", tmp_path / "changed", changes)
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(folder)
