"""The published sizes."""

import pytest

from bert_tf.errors import UsageError
from bert_tf.presets import PRESETS, preset

# Millions of parameters with the pooler, from google-research/bert's README.
MILLIONS = {"tiny": 4.4, "mini": 11.3, "small": 29.1, "medium": 41.7, "base": 110.1,
            "large": 340}


def parameters(config):
    """Parameters of embeddings, encoder and pooler by the paper's formulas."""
    hidden, inner = config.hidden_size, config.intermediate_size
    embeddings = hidden * (config.vocab_size + config.max_position_embeddings
                           + config.type_vocab_size + 2)
    block = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden
    return embeddings + config.num_hidden_layers * block + hidden * hidden + hidden


@pytest.mark.parametrize("name", PRESETS["bert"])
def test_sizes(name):
    assert abs(parameters(preset("bert", name)) / 1e6 / MILLIONS[name] - 1) < 0.02


def test_base_is_exact():
    assert parameters(preset("bert", "base")) == 109_482_240


def test_unknown_names():
    with pytest.raises(UsageError, match="try preset='mini'"):
        preset("bert", "minni")
    with pytest.raises(UsageError, match="family="):
        preset("birt", "mini")
