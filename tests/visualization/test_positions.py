"""Position embeddings: what is drawn is what the model adds."""

import numpy as np
import pytest
import tensorflow as tf
from matplotlib import image
from tiny_encoder import CONFIG, tokenizer

from bert_tf import cli, visualize
from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.family_defaults import FAMILY_DEFAULTS
from bert_tf.layers.layout import Padded
from bert_tf.models.families import build_encoder
from bert_tf.visualization.positions import position_table


def _encoder(family, **changes):
    return build_encoder(ModelConfig(**{
        **FAMILY_DEFAULTS[family], "family": family, "vocab_size": 40, "hidden_size": 16,
        "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
        "max_position_embeddings": 20, "padding_id": 1, **changes}), seed=1)


@pytest.mark.parametrize(("family", "changes"), [
    ("bert", {}), ("roberta", {}), ("bert", {"position_embedding": "sinusoidal"})])
def test_rows_are_what_the_embeddings_add(family, changes):
    encoder = _encoder(family, **changes)
    embeddings = encoder.backbone.embeddings
    embeddings = encoder.backbone.embeddings
    ids = tf.fill([1, embeddings.longest], 7)
    added = embeddings._add_positions(tf.zeros([embeddings.longest, 16]), ids,
                                      Padded(None, [1, embeddings.longest]))
    table = position_table(encoder)
    np.testing.assert_array_equal(table, tf.reshape(added, table.shape))
    np.testing.assert_array_equal(position_table(encoder, 5), table[:5])


def test_pictures(tmp_path, capsys):
    arguments = ["positions", "--length", "32", "--width", "16", "--output"]
    assert cli.run(visualize.main, [*arguments, str(tmp_path / "a.png")]) == 0
    assert np.ptp(image.imread(tmp_path / "a.png")[..., :3]) > 0.5
    assert cli.run(visualize.main, [*arguments, str(tmp_path / "a.svg")]) == 0
    assert (tmp_path / "a.svg").read_text().count("sinusoidal position encodings") >= 1
    assert cli.run(visualize.main, [*arguments, str(tmp_path / "a.pdf")]) == 2
    assert "this view writes .png or .svg" in capsys.readouterr().err
    assert cli.run(visualize.main, [*arguments, str(tmp_path / "b.png"), "--model", "m"]) == 2
    assert "--width with --model" in capsys.readouterr().err


@pytest.mark.parametrize(("values", "why"), [
    ({"family": "deberta", "num_hidden_layers": 1, "num_attention_heads": 2,
      "intermediate_size": 8}, "'deberta', whose attention knows distances"),
    ({"family": "static"}, "'static', which knows nothing of positions")])
def test_a_model_without_position_embeddings_is_refused(values, why):
    config = ModelConfig.from_dict({"vocab_size": 9, "hidden_size": 8, **values})
    with pytest.raises(UsageError, match=why):
        position_table(build_encoder(config))


def test_a_model_whose_training_diverged_is_refused(tmp_path, capsys):
    model = build_encoder(CONFIG)
    weight = model.weights[0]
    weight.assign(np.full(weight.shape, np.nan))
    model.save_pretrained(tmp_path / "model", tokenizer())
    assert cli.run(visualize.main, ["positions", "--model", str(tmp_path / "model"), "--output",
                                    str(tmp_path / "p.png")]) == 1
    assert f"model: {weight.path} holds numbers that are not finite" in capsys.readouterr().err
