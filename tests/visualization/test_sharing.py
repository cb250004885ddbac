"""Distances between layers are those of the encoder's own outputs, whatever the batches."""

import json

import numpy as np
import pytest
import tensorflow as tf
from matplotlib import image
from tiny_model import SEQ_LENGTH, config_of, word_piece

from bert_tf import cli, visualize
from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.models.families import build_encoder
from bert_tf.visualization import sharing
from bert_tf.visualization.sharing import draw_distances, measure_layers

TEXTS = ["The quick brown fox.", "dog", "안녕하세요 the lazy dog " * 8, "a café"]


def _encoder(**values):
    return build_encoder(config_of(word_piece(), **values), encoder_outputs=True, seed=3)


def _by_hand(encoder, texts, window):
    """Means over all tokens, each text encoded by itself; numpy alone."""
    found = {"l2": [], "cosine": [], "degrees": []}
    vocabulary = word_piece().vocabulary
    for text in texts:
        pieces = word_piece().tokenize([text]).values.numpy().tolist()[:window - 2]
        ids = tf.constant([[vocabulary.cls_id, *pieces, vocabulary.sep_id]])
        outputs = encoder({"input_word_ids": ids, "input_mask": tf.ones_like(ids),
                           "input_type_ids": tf.zeros_like(ids)})
        states = np.float64([outputs["embedding_output"][0],
                             *(output[0] for output in outputs["encoder_outputs"])])
        before, after = states[:-1], states[1:]
        cosine = (before * after).sum(-1) / np.sqrt((before**2).sum(-1) * (after**2).sum(-1))
        found["l2"].append(np.sqrt(((after - before)**2).sum(-1)))
        found["cosine"].append(1 - cosine)
        found["degrees"].append(np.degrees(np.arccos(cosine)))
    return {name: np.concatenate(values, axis=1).mean(axis=1) for name, values in found.items()}


@pytest.mark.parametrize("values", [
    {"num_hidden_layers": 2},
    pytest.param({"family": "albert", "embedding_size": 8, "num_hidden_groups": 1,
                  "num_hidden_layers": 4}, marks=pytest.mark.long)])
def test_means_over_all_tokens(values, monkeypatch):
    encoder = _encoder(**values)
    monkeypatch.setattr(sharing, "_BATCH", 3)  # batches of 3 texts and of 1
    measured = measure_layers(encoder, word_piece(), TEXTS)
    for name, expected in _by_hand(encoder, TEXTS, SEQ_LENGTH).items():
        assert measured[name].shape == (values["num_hidden_layers"],)
        np.testing.assert_allclose(measured[name], expected, rtol=1e-4)
    assert measured["cut_texts"] == 1
    sizes = word_piece().tokenize(TEXTS).row_lengths().numpy() + 2
    assert measured["tokens"] == np.minimum(sizes, SEQ_LENGTH).sum()
    shorter = measure_layers(encoder, word_piece(), TEXTS, seq_length=5)
    np.testing.assert_allclose(shorter["l2"], _by_hand(encoder, TEXTS, 5)["l2"], rtol=1e-4)


def test_a_static_model_has_no_layers_to_measure():
    config = ModelConfig.from_dict({"family": "static", "hidden_size": 8,
                                    "vocab_size": len(word_piece().vocabulary)})
    with pytest.raises(UsageError, match="a static model, which has none"):
        measure_layers(build_encoder(config, encoder_outputs=True), word_piece(), TEXTS)


def test_both_panels_show_the_numbers():
    measured = {"shallow": {"l2": np.array([2.0, 1.0]), "cosine": np.array([0.5, 0.25]),
                            "degrees": np.array([60.0, 41.0])},
                "_$deep$": {"l2": np.arange(24.0), "cosine": np.arange(24.0) / 24,
                            "degrees": np.arange(24.0)}}
    for angle, relative in ((False, False), (True, True)):
        figure = draw_distances(measured, angle, relative)
        for axes, kind in zip(figure.axes, ("l2", "degrees" if angle else "cosine"), strict=True):
            for line, values in zip(axes.lines, measured.values(), strict=True):
                np.testing.assert_array_equal(line.get_ydata(), values[kind])
                layers = np.arange(1, len(values[kind]) + 1)
                np.testing.assert_array_equal(
                    line.get_xdata(), layers / len(layers) if relative else layers)
            if not relative:
                assert all(tick == round(tick) for tick in axes.get_xticks())
        names = [text.get_text() for text in figure.legends[0].get_texts()]
        assert names == list(measured)


def test_the_command(tmp_path, capsys):
    paths = []
    for name, layers in (("one", 1), ("two", 2)):
        paths.append(str(tmp_path / name))
        _encoder(num_hidden_layers=layers).save_pretrained(paths[-1], word_piece())
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS))

    def run(output, *flags):
        assert cli.run(visualize.main, ["sharing", "--model", *paths, "--input", str(texts),
                                        "--output", str(tmp_path / output), *flags]) == 0

    run("a.json", "--max_texts", "3")
    told = capsys.readouterr().out
    assert "the first 3 of 4 texts are read" in told
    assert "two: 1 texts are truncated" in told
    made = json.loads((tmp_path / "a.json").read_text())
    for name, layers in (("one", 1), ("two", 2)):
        measured = measure_layers(_encoder(num_hidden_layers=layers), word_piece(), TEXTS[:3])
        np.testing.assert_allclose(made["models"][name]["degrees"], measured["degrees"], rtol=1e-4)
    run("a.png", "--angle")
    picture = image.imread(tmp_path / "a.png")[..., :3]
    half = picture.shape[1] // 2
    assert np.ptp(picture[:, :half]) > 0.5 < np.ptp(picture[:, half:])
