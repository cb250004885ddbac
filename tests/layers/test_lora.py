"""Adapters in folders of their own."""

import pytest
import tensorflow as tf
from text_models import classifier

from bert_tf.errors import UsageError


def test_adapters_that_loading_merged_are_not_written(tmp_path):
    """They were of no effect; those that never learned are written as they are."""
    model = classifier()
    model.backbone.enable_lora(2)
    model.backbone.save_lora_weights(tmp_path / "fresh")
    model.save_weights(tmp_path / "a.weights.h5")
    model.load_weights(tmp_path / "a.weights.h5")
    with pytest.raises(UsageError, match="adapters that change nothing: load_weights adds them"):
        model.backbone.save_lora_weights(tmp_path / "merged")
    for variable in model.backbone.trainable_variables:
        variable.assign(tf.ones_like(variable))
    model.backbone.save_lora_weights(tmp_path / "learned")


def test_adapters_of_fewer_layers_do_not_take_some_of_those_that_were_saved(tmp_path):
    saved, model = classifier(), classifier()
    saved.backbone.enable_lora(2, ["query", "key", "value"])
    saved.backbone.save_lora_weights(tmp_path / "adapters")
    model.backbone.enable_lora(2)
    with pytest.raises(UsageError, match=r"adapters of key, query, value, of which bert has .* try "
                                         "load_lora_weights without enable_lora"):
        model.backbone.load_lora_weights(tmp_path / "adapters")
