"""Small copies of published encoders give the numbers that transformers computed, and go back."""

import json
import math

import hf_models
import numpy as np
import pytest
from hub_models import FOLDERS, errors_of, model_of, saved_model_error, two_steps

from bert_tf.converters import hf_safetensors, ours, weight_files
from bert_tf.converters.checkpoint import parameter_shapes
from bert_tf.converters.formats import find_format, load_format
from bert_tf.errors import UsageError

# Keys of theirs on which no number depends here, nor in transformers.
UNWRITTEN = {
    "add_cross_attention", "bos_token_id", "classifier_dropout", "cls_token_id",
    "deterministic_flash_attn", "eos_token_id", "initializer_cutoff_factor", "is_decoder",
    "pooler_dropout", "qa_dropout", "sep_token_id", "seq_classif_dropout", "sinusoidal_pos_embds",
    "sparse_pred_ignore_index", "sparse_prediction", "summary_activation",
    "summary_last_dropout", "summary_type", "summary_use_proj", "transformers_version",
    "use_cache"}
# Each head, and architectures that test_hf_numbers.py lacks; the others in `make test-all`.
FEW = ("bert_multilabel", "deberta_v3_classification", "distilbert_questions",
       "modernbert_tokens", "mpnet_st")
each = pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.long] * (name not in FEW)) for name in FOLDERS])


def checkpoint_of(shared, name):
    return hf_models.read(shared, f"hub/{name}")


def test_the_list_is_whole(shared):
    folders = (shared / "reference" / "hub").glob("*/config.json")
    assert sorted(path.parent.name for path in folders) == list(FOLDERS)


@each
def test_states_and_logits(shared, name):
    checkpoint = checkpoint_of(shared, name)
    assert checkpoint.tensors.shapes == parameter_shapes(checkpoint.config, checkpoint.task)
    errors = errors_of(shared / "reference" / "hub" / name, model_of(checkpoint, name))
    assert max(errors.values()) < 2e-5, errors


@each
def test_the_way_back(shared, name, tmp_path):
    """Their tensors bit for bit, their fields, and what the folder is read as again."""
    checkpoint = checkpoint_of(shared, name)
    source, target = shared / "reference" / "hub" / name, tmp_path / "out"
    hf_safetensors.write(checkpoint, str(target))
    theirs, back = weight_files.read_folder(str(source)), hf_models.tensors(target)
    assert set(back) == set(theirs) - set(checkpoint.dropped)
    for tensor, array in back.items():
        np.testing.assert_array_equal(array, theirs[tensor], tensor)
    stated, written = (json.loads((folder / "config.json").read_text())
                       for folder in (source, target))
    stated.pop("classifier_dropout_prob", None)  # ALBERT's, ours is that of the encoder
    if stated.get("max_relative_positions") == -1:  # stands for:
        stated["max_relative_positions"] = stated["max_position_embeddings"]
    assert {key: written[key] for key in stated if key in written} == {
        key: value for key, value in stated.items() if key in written}
    assert set(stated) - set(written) <= UNWRITTEN
    again = hf_safetensors.read(str(target))
    task = checkpoint.task
    if task["task"] == "tagger":  # reads in windows: written is one in which theirs leave out least
        length = checkpoint.config.longest
        task = task | {"reading": {"seq_length": length, "unit": "word", "stride": length // 2}}
    assert (again.config, again.task) == (checkpoint.config, task)


@pytest.mark.long
@pytest.mark.parametrize("name", FOLDERS)
def test_served_and_fine_tuned(shared, name, tmp_path):
    """What a SavedModel answers for text, and that two steps learn."""
    source = shared / "reference" / "hub" / name
    ours.write(load_format(find_format(str(source))).read(str(source)), str(tmp_path / "ours"))
    error = saved_model_error(source, tmp_path / "ours", tmp_path / "served")
    assert error is not None and error < 2e-5
    before, after = two_steps(source, tmp_path / "ours")
    assert math.isfinite(after) and after < before


@pytest.mark.parametrize(("name", "changes", "message"), [
    ("deberta_v3_encoder", {"conv_kernel_size": 4}, "first_conv_kernel_size=4; expected 0, or an"),
    ("deberta_v3_encoder", {"conv_kernel_size": 3, "conv_groups": 2}, "conv_groups=2; expected 1"),
    ("deberta_v3_encoder", {"conv_act": "mish"}, "conv_act='mish'"),
    ("deberta_v3_encoder", {"attention_head_size": 8}, "attention_head_size=8; expected hidden"),
    ("deberta_v3_encoder", {"pos_att_type": "c2p|p2p"}, "pos_att_type='c2p|p2p'"),
    ("deberta_v3_encoder", {"share_att_key": False}, "share_att_key=False; expected True"),
    ("deberta_v3_encoder", {"position_biased_input": True}, "position_biased_input=True"),
    ("deberta_v3_encoder", {"position_buckets": -1}, "position_buckets=-1"),
    ("modernbert_mlm", {"norm_bias": True}, "norm_bias=True; expected False"),
    ("modernbert_mlm", {"layer_types": [*["full_attention"] * 3, "sliding_attention"]},
     "layer_types="),
    ("modernbert_mlm", {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
     "rope_parameters="),
    ("mpnet_st", {"pad_token_id": 0}, "pad_token_id=0; expected 1"),
    ("mpnet_st", {"relative_attention_num_buckets": 64}, "num_buckets=64; expected 32"),
    ("deberta_v3_classification", {"pooler_hidden_act": "mish"}, "pooler_hidden_act='mish'"),
    ("deberta_v3_classification", {"pooler_hidden_size": 8}, "pooler_hidden_size=8"),
    ("modernbert_classification", {"classifier_pooling": "max"}, "classifier_pooling='max'"),
    ("modernbert_classification", {"classifier_bias": True}, "classifier_bias=True"),
    ("bert_cross_encoder", {"problem_type": "single_label_classification"}, "two or more"),
    ("bert_cross_encoder", {"auto_map": {"AutoModel": "modeling.Model"}}, "auto_map="),
    ("bert_cross_encoder", {"rotary_dim": 8}, "rotary_dim=8, which we do not know"),
    ("bert_cross_encoder", {"position_embedding_type": "sans_pos"}, "expected 'absolute'"),
    ("distilbert_mlm", {"layer_norm_eps": 1e-5}, "layer_norm_eps=1e-05, which we do not know"),
])
def test_what_changes_the_numbers_is_refused_by_name(shared, name, changes, message, tmp_path):
    folder = hf_models.changed(shared, f"hub/{name}", tmp_path / "changed", changes)
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(folder)


@pytest.mark.parametrize(("name", "published"), [
    # ModernBERT-base beside what transformers itself wrote, mmBERT's, and of a small vocabulary.
    ("modernbert_mlm", {
        "classifier_pooling": "mean", "gradient_checkpointing": False, "layer_norm_eps": 1e-12,
        "position_embedding_type": "absolute", "reference_compile": True,
        "repad_logits_with_grad": False, "rope_parameters": None, "layer_types": None,
        "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "dtype": None,
        "torch_dtype": "float32", "transformers_version": "4.47.0.dev0"}),
    ("modernbert_mlm", {"layer_norm_eps": 1e-05, "position_embedding_type": "sans_pos"}),
    ("modernbert_mlm", {"pad_token_id": None}),
    ("distilbert_mlm", {"output_past": True, "sinusoidal_pos_embds": True, "tie_weights_": True}),
    ("electra_classification", {"generator_size": "0.25"}),
])
def test_keys_of_published_files_that_no_number_depends_on(shared, name, published, tmp_path):
    folder = hf_models.changed(shared, f"hub/{name}", tmp_path / "in")
    path = tmp_path / "in" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | published))
    right, found = checkpoint_of(shared, name), hf_safetensors.read(folder)
    assert found.config.replace(padding_id=0, pooling="first") == right.config.replace(
        padding_id=0, pooling="first")
    assert found.config.padding_id == (0 if "pad_token_id" in published else
                                       right.config.padding_id)


def test_a_pooler_that_a_classifier_does_not_use(shared, tmp_path):
    """Files of transformers 3, as twitter-roberta-base-sentiment, hold RoBERTa's."""
    name = "xlm_roberta_classification"
    right = checkpoint_of(shared, name)
    width = right.config.hidden_size
    pooler = {"roberta.pooler.dense.bias": np.ones(width, np.float32),
              "roberta.pooler.dense.weight": np.ones((width, width), np.float32)}
    found = hf_safetensors.read(hf_models.changed(
        shared, f"hub/{name}", tmp_path / "in", change=lambda arrays: arrays | pooler))
    labels = {key: value for key, value in right.task.items() if key != "reading"}
    assert (found.config, found.task, found.dropped) == (right.config, labels, tuple(pooler))
    assert list(found.tensors) == list(right.tensors)


@pytest.mark.parametrize(("full", "window"), [
    ([0, 1, 2, 3], 8), ([0, 2], 8), ([1], 8), ([], 8), ([0, 1, 2, 3], 0)])
def test_layers_see_what_a_file_names(shared, full, window, tmp_path):
    """They count, not how often it was that older files say, and are written as they were."""
    kinds = ["full_attention" if layer in full else "sliding_attention" for layer in range(4)]
    found = hf_safetensors.read(hf_models.changed(shared, "hub/modernbert_mlm", tmp_path / "in", {
        "layer_types": kinds, "local_attention": window}))
    assert [layer for layer in range(4) if found.config.sees_all(layer)] == full
    hf_safetensors.write(found, str(tmp_path / "out"))
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (written["layer_types"], written["local_attention"]) == (kinds, window)


def test_null_is_the_base_of_the_layers_that_see_everything(shared, tmp_path):
    folder = hf_models.changed(shared, "hub/modernbert_mlm", tmp_path / "changed", {
        "rope_parameters": None, "global_rope_theta": 5000.0})
    path = tmp_path / "changed" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"local_rope_theta": None}))
    config = hf_safetensors.read(folder).config
    assert (config.rotary_base, config.local_rotary_base) == (5000, 5000)
