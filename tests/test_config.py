"""Configurations: files, and values that are refused with the nearest right one."""


import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.config import ACTIVATIONS, ModelConfig
from bert_tf.errors import UsageError
from bert_tf.family_defaults import FAMILIES, FAMILY_DEFAULTS


@given(heads=st.integers(1, 16), width=st.integers(1, 64), act=st.sampled_from(ACTIVATIONS),
       dropout=st.floats(0, 0.99))
def test_round_trip(heads, width, act, dropout):
    config = ModelConfig(vocab_size=9, hidden_size=heads * width, num_attention_heads=heads,
                         hidden_act=act, hidden_dropout_prob=dropout)
    assert ModelConfig.from_dict(config.to_dict()) == config
    assert config.head_size == width


def test_files(tmp_path):
    config = ModelConfig(vocab_size=9, hidden_act="gelu_approximate")
    path = tmp_path / "config.json"
    config.save(str(path))
    assert ModelConfig.load(str(path)) == config
    path.write_text("[1]")
    with pytest.raises(UsageError, match="config.json: list; expected a JSON object"):
        ModelConfig.load(str(path))


def test_heads_of_files_of_0_1_are_linear():
    """They have every field of then; what is written by hand has the family's."""
    whole = ModelConfig.from_dict({"family": "roberta", "vocab_size": 9}).to_dict()
    assert whole["label_head"] == "dense"
    earlier = {key: value for key, value in whole.items() if not key.startswith("label_")}
    assert ModelConfig.from_dict(earlier).label_head == "linear"


def test_official_file(shared):
    config = ModelConfig.load_any(str(shared / "reference" / "google_bert" / "bert_config.json"))
    assert config.hidden_act == "gelu_approximate"
    assert (config.hidden_size, config.num_hidden_layers, config.vocab_size) == (64, 3, 400)


def test_published_keys_that_nothing_reads(tmp_path):
    path = tmp_path / "bert_config.json"
    path.write_text('{"vocab_size": 9, "directionality": "bidi", "pooler_type": "first_token"}')
    assert ModelConfig.load_any(str(path)) == ModelConfig(vocab_size=9)


@pytest.mark.parametrize(("changes", "message"), [
    ({"hiden_size": 12}, "unknown key 'hiden_size'; try 'hidden_size'"),
    ({"hidden_size": 10, "num_attention_heads": 3}, "leaves a remainder; try num_attention_heads="),
    ({"hidden_act": "gelu_aproximate"}, "try hidden_act='gelu_approximate'"),
    ({"hidden_dropout_prob": 1.0}, "expected in \\[0, 1\\)"),
    ({"num_hidden_layers": 0}, "expected at least 1"),
    ({"vocab_size": "9"}, "expected int"),
    ({"family": "bart"}, "try family='bert'"),
    ({"padding_id": 9}, "expected an id below vocab_size=9"),
    ({"initializer_range": 0.0}, "expected above 0"),
    ({"num_hidden_groups": 13}, "expected 0 to num_hidden_layers=12"),
    ({"feed_forward": "conv", "conv_kernel_size": 2}, "an odd number"),
    ({"conv_kernel_size": 3}, "try feed_forward='conv'"),
    ({"feed_forward": "conv", "conv_kernel_size": 3, "attention": "causal"}, "right neighbour"),
    ({"family": "gpt", "attention": "bidirectional"}, "attention='causal'"),
    ({"family": "gpt", "type_vocab_size": 2}, "type_vocab_size=0"),
    ({"type_vocab_size": 0}, "at least 1"),
    ({"family": "roberta", "padding_id": 1, "max_position_embeddings": 2}, "at least 3"),
    ({"bilstm": True, "hidden_size": 9, "num_attention_heads": 3}, "half for each direction"),
    ({"pooling": "max"}, "one of dense, first, last, mean"),
    ({"position_embedding": "sinusoid"}, "try position_embedding='sinusoidal'"),
])
def test_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        ModelConfig.from_dict({"vocab_size": 9, **changes})


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_fills_in_its_own_defaults(family, tmp_path):
    config = ModelConfig.from_dict({"family": family, "vocab_size": 9})
    for name, value in FAMILY_DEFAULTS[family].items():
        assert getattr(config, name) == value
    assert ModelConfig.from_dict({"family": family, "vocab_size": 9, "pooling": "dense"}
                                 ).pooling == "dense"
    path = str(tmp_path / "config.json")
    config.save(path)
    assert ModelConfig.load(path) == config


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_made_without_defaults_of_a_family_is_read_back(family):
    needed = {name: value for name, value in FAMILY_DEFAULTS[family].items()
              if name in ("attention", "type_vocab_size", "num_hidden_layers")}
    config = ModelConfig(vocab_size=9, family=family, **needed)
    assert ModelConfig.from_dict(config.to_dict()) == config


def test_what_follows_from_the_fields():
    roberta = ModelConfig.from_dict({"family": "roberta", "vocab_size": 9, "padding_id": 1})
    assert roberta.longest == 512 and roberta.positions_from_padding
    albert = ModelConfig.from_dict({"family": "albert", "vocab_size": 9})
    assert (albert.embedding_width, albert.hidden_size, albert.longest) == (128, 768, 512)
    assert ModelConfig(vocab_size=9).embedding_width == 768
    assert ModelConfig(vocab_size=9, hidden_act="relu").head_activation == "relu"
    assert ModelConfig(vocab_size=9, hidden_act="relu", head_act="gelu").head_activation == "gelu"


def test_what_has_no_default_must_be_there():
    with pytest.raises(UsageError, match="vocab_size is missing"):
        ModelConfig.from_dict({})


def test_heads_are_proposed_at_once_whatever_the_size():
    with pytest.raises(UsageError, match="leaves a remainder; try num_attention_heads=8$"):
        ModelConfig(vocab_size=9, hidden_size=10**18, num_attention_heads=7)
