"""Parameters of the published sizes, counted on the models themselves."""

import json

import pytest
import tensorflow as tf

from bert_tf.models.backbone import Backbone
from bert_tf.presets import preset
from bert_tf.tasks.pretraining.language_model import LanguageModel
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens

# Millions of parameters with the pooler, from google-research/bert's README.
MILLIONS = {"tiny": 4.4, "mini": 11.3, "small": 29.1, "medium": 41.7}
PUBLISHED = {
    "bert-base-uncased": ("bert", "base"), "bert-large-uncased": ("bert", "large"),
    "albert-base-v2": ("albert", "base"), "albert-xxlarge-v2": ("albert", "xxlarge"),
    "roberta-base": ("roberta", "base"), "electra-small-discriminator": ("electra", "small"),
    "electra-base-discriminator": ("electra", "base"),
    "electra-large-discriminator": ("electra", "large"), "openai-gpt": ("gpt", "base"),
}
# Other names of what `counts` gives.
SAME = {"model": "model_without_pooler", "model_no_pooler": "model_without_pooler",
        "embeddings_without_mapping_in": "embeddings",
        "encoder_without_mapping_in": "encoder", "blocks": "encoder",
        "embedding_hidden_mapping_in": "embeddings_project",
        "for_pretraining_with_discriminator_head": "discriminator",
        "lm_head_model_tied": "language_model"}


def backbone_of(config):
    """A Backbone without memory for its variables, nodes of a graph that never runs."""
    with tf.Graph().as_default():
        backbone = Backbone(config, name=config.family)
        backbone.build()
    return backbone


def heads_of(task, config, *args):
    """Parameters of a task's model beside the encoder's, whose depth they do not depend on."""
    with tf.Graph().as_default():
        model = task(config.replace(num_hidden_layers=1), *args)
    return model.count_params() - model.encoder.count_params()


def counts(config):
    """`{name: parameters}` of a model, its parts and its heads."""
    backbone = backbone_of(config)
    tables = {variable.path.split("/")[-1]: variable.shape.num_elements()
              for variable in backbone.embeddings.trainable_variables}
    parts = {"embeddings": backbone.embeddings, "embeddings_project": backbone.embeddings_project,
             "encoder": backbone.encoder, "pooler": backbone.pooler}
    found = {name: part.count_params() if part else 0 for name, part in parts.items()}
    mapping, total = found["embeddings_project"], backbone.count_params()
    found |= {"tokens_embed": tables["word_embeddings"],
              "positions_embed": tables["position_embeddings"],
              "embeddings_with_mapping_in": found["embeddings"] + mapping,
              "encoder_with_mapping_in": found["encoder"] + mapping,
              "model_with_pooler": total, "model_without_pooler": total - found["pooler"]}
    if config.family == "gpt":
        found["language_model"] = total + heads_of(LanguageModel, config)
    elif config.family == "electra":
        found["discriminator_head"] = heads_of(ReplacedTokens, config)
        found["discriminator"] = total + found["discriminator_head"]
    else:
        found |= {"for_pretraining_mlm_nsp_tied": total + heads_of(Pretrainer, config),
                  "for_pretraining_mlm_sop_tied":
                      total + heads_of(Pretrainer, config, "sentence_order"),
                  # Hugging Face leaves the pooler out where nothing reads it.
                  "for_masked_lm_tied":
                      total - found["pooler"] + heads_of(Pretrainer, config, None)}
    return found


FEW = ("albert-base-v2",)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.long] * (name not in FEW)) for name in PUBLISHED])
def test_published_sizes(shared, name):
    expected = json.loads((shared / "reference" / "params.json").read_text())["models"][name]
    config = preset(*PUBLISHED[name])
    if "model_with_pooler" in expected:
        config = config.replace(pooling="dense")
    for key, value in expected.pop("config").items():
        key = {"n_positions": "max_position_embeddings", "n_embd": "hidden_size",
               "n_layer": "num_hidden_layers", "n_head": "num_attention_heads"}.get(key, key)
        if key == "embedding_size":
            assert config.embedding_width == value
        elif key != "inner_group_num":
            assert getattr(config, key) == value, key
    found = counts(config)
    assert {key: found[SAME.get(key, key)] for key in expected} == expected


def test_all_references_are_counted(shared):
    models = json.loads((shared / "reference" / "params.json").read_text())["models"]
    assert set(models) == set(PUBLISHED)


@pytest.mark.parametrize("name", [
    "tiny", *(pytest.param(name, marks=pytest.mark.long) for name in ("mini", "small", "medium"))])
def test_sizes_of_bert(name):
    count = backbone_of(preset("bert", name)).count_params()
    assert abs(count / 1e6 / MILLIONS[name] - 1) < 0.02


@pytest.mark.parametrize(("family", "name", "millions"), [
    ("albert", "large", 18), ("albert", "xlarge", 60), ("distilbert", "base", 66),
    *(pytest.param(*size, marks=pytest.mark.long) for size in (
        ("roberta", "large", 355), ("camembert", "base", 110), ("xlm_roberta", "base", 277),
        ("xlm_roberta", "large", 559), ("mpnet", "base", 109), ("deberta", "xsmall", 70),
        ("deberta", "small", 141), ("deberta", "base", 184), ("deberta", "large", 434),
        ("deberta_v1", "base", 139), ("deberta_v1", "large", 405), ("deberta_v1", "xlarge", 758),
        ("modernbert", "base", 149), ("modernbert", "large", 395),
        ("nomic_bert", "base", 137), ("gte", "base", 305), ("eurobert", "base", 210),
        ("jina_embeddings_v3", "large", 559), ("mobilebert", "base", 25),
        ("eurobert", "large", 610), ("eurobert", "xlarge", 2100), ("qwen3", "base", 596),
        ("qwen3", "large", 4020), ("qwen3", "xlarge", 7570), ("gemma3", "base", 303),
        ("gpt2", "small", 124), ("gpt2", "medium", 355), ("gpt2", "large", 774),
        ("gpt2", "xlarge", 1558),
        ("t5", "base", 110), ("t5", "large", 335), ("t5", "xlarge", 1240)))])
def test_other_sizes_of_the_papers(family, name, millions):
    """The papers' and model cards' numbers, in whole millions."""
    count = backbone_of(preset(family, name)).count_params()
    assert abs(count / 1e6 - millions) < 0.03 * millions
