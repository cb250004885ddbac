"""The named sizes and what goes with them."""

import pytest

from bert_tf.errors import UsageError
from bert_tf.family_defaults import FAMILIES
from bert_tf.presets import PRESETS, generator_config, preset


@pytest.mark.parametrize("family", FAMILIES)
def test_every_size_of_a_family_is_of_that_family(family):
    assert "tiny" in PRESETS[family]
    for name in PRESETS[family]:
        config = preset(family, name, vocab_size=99, hidden_dropout_prob=0.3)
        assert (config.family, config.vocab_size, config.hidden_dropout_prob) == (family, 99, 0.3)
        if family not in ("modernbert", "eurobert", "qwen3", "gemma3", "t5") or name == "tiny":
            assert config.intermediate_size == 4 * config.block_width


def test_what_a_published_vocabulary_brings():
    roberta = preset("roberta", "base")
    assert (roberta.vocab_size, roberta.padding_id, roberta.longest) == (50265, 1, 512)
    assert preset("roberta", "base", vocab_size=99).padding_id == 0
    modernbert = preset("modernbert", "base")
    assert (modernbert.padding_id, modernbert.intermediate_size) == (50283, 1152)
    eurobert = preset("eurobert", "xlarge")
    assert (eurobert.key_value_heads, eurobert.head_size, eurobert.padding_id) == (6, 128, 128001)
    qwen3 = preset("qwen3", "base")
    assert (qwen3.key_value_heads, qwen3.query_size, qwen3.padding_id) == (8, 2048, 151643)
    gemma3 = preset("gemma3", "base")
    assert [layer for layer in range(24) if gemma3.sees_all(layer)] == [5, 11, 17, 23]
    assert (gemma3.head_size, gemma3.query_size, gemma3.longest) == (256, 768, 2048)


@pytest.mark.parametrize(("name", "width", "heads"), [("small", 64, 1), ("base", 256, 4),
                                                      ("large", 256, 4)])
def test_generators_of_electra(name, width, heads):
    """ELECTRA paper, appendix A, table 6: 1/4, 1/3 and 1/4 of the discriminator's width."""
    config = preset("electra", name)
    generator = generator_config(config, name)
    assert (generator.hidden_size, generator.num_attention_heads) == (width, heads)
    assert generator.intermediate_size == 4 * width
    assert generator.embedding_width == config.embedding_width
    assert generator.num_hidden_layers == config.num_hidden_layers


def test_unknown_names():
    with pytest.raises(UsageError, match="try preset='mini'"):
        preset("bert", "minni")
    with pytest.raises(UsageError, match="family="):
        preset("birt", "mini")
