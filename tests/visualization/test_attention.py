"""The attention that is shown is what the model computes, and what the page holds."""

import base64
import json
import os
import re

import numpy as np
import pytest
from tiny_model import SEQ_LENGTH, byte_pair, config_of, export_once, word_piece

from bert_tf import cli, visualize
from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.models.families import build_encoder
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import Vocabulary
from bert_tf.visualization import served_attention
from bert_tf.visualization.attention import attention, attention_page
from bert_tf.visualization.single_page import script_json
from bert_tf.visualization.source import load_encoder

TEXT = "The quick <script>alert(1)</script> 안녕하세요 😀"
PAIR = "</script> ㅋㅋ \u2028 the dog & fox"


def make_encoder(tokenizer, **values):
    config = config_of(tokenizer, num_hidden_layers=2, **values)
    return build_encoder(config, attention_probs=True, encoder_outputs=True, seed=3)


def without_types():
    return Tokenizer(Vocabulary(word_piece().vocabulary.tokens, pair_types=False), lower_case=True)


def data_of(page):
    """What a page holds, its probabilities as an array."""
    data = json.loads(re.search(r'(?s)<script type="application/json" id="data">(.*?)</script>',
                                page)[1])
    steps = np.frombuffer(base64.b64decode(data["probabilities"]), "<u2")
    length = len(data["tokens"])
    data["probabilities"] = steps.reshape(
        data["layers"], data["heads"], length, length) / data["steps"]
    return data


@pytest.mark.parametrize(("tokenizer", "values", "pair"), [
    (word_piece, {}, PAIR), pytest.param(word_piece, {}, None, marks=pytest.mark.long),
    pytest.param(without_types, {}, PAIR, marks=pytest.mark.long),
    (byte_pair, {"family": "roberta", "type_vocab_size": 1}, "the dog"),
    (byte_pair, {"family": "gpt"}, None)])
def test_probabilities_are_the_models(tokenizer, values, pair):
    tokenizer = tokenizer()
    encoder = make_encoder(tokenizer, **values)
    seen = attention(encoder, tokenizer, TEXT, pair)
    length = len(seen["tokens"])
    assert seen["probabilities"].shape == (2, 2, length, length) and seen["cut"] >= 0
    assert seen["probabilities"].dtype == np.float32
    np.testing.assert_allclose(seen["probabilities"].sum(-1), 1, atol=1e-5)
    # The same tokens among padding.
    pieces = [tokenizer.tokenize([text], allow_special=True) for text in (TEXT, pair) if text]
    outputs = encoder(pack(tokenizer.vocabulary, pieces, SEQ_LENGTH))
    for layer, expected in zip(seen["probabilities"], outputs["attention_probs"], strict=True):
        np.testing.assert_allclose(layer, expected[0, :, :length, :length], atol=1e-5)


def test_a_static_model_attends_to_nothing(monkeypatch):
    config = ModelConfig.from_dict({"family": "static", "hidden_size": 8,
                                    "vocab_size": len(word_piece().vocabulary)})
    with pytest.raises(UsageError, match="a static model, which has no layers"):
        attention(build_encoder(config, attention_probs=True), word_piece(), TEXT)
    monkeypatch.setattr(served_attention, "exported_window", lambda folder: 128)
    monkeypatch.setattr(served_attention, "exported_config", lambda folder: config)
    assert not served_attention.ServedAttention().has_page("version")


def test_probabilities_by_hand():
    """Vaswani et al. 2017, equation 1, from the layer's input and its weights."""
    encoder = make_encoder(word_piece())
    seen = attention(encoder, word_piece(), TEXT)
    inputs = pack(word_piece().vocabulary, [word_piece().tokenize([TEXT])], 50, fixed=False)
    hidden = encoder(inputs)["encoder_outputs"][0].numpy()[0]
    weights = {variable.path: variable.numpy() for variable in encoder.weights}
    query, key = (hidden @ weights[f"bert/encoder/layer_1/attention/self/{name}/kernel"]
                  + weights[f"bert/encoder/layer_1/attention/self/{name}/bias"]
                  for name in ("query", "key"))
    for head, part in enumerate((slice(0, 8), slice(8, 16))):
        scores = np.exp(query[:, part] @ key[:, part].T / np.sqrt(8))
        np.testing.assert_allclose(seen["probabilities"][1, head],
                                   scores / scores.sum(1, keepdims=True), atol=1e-5)


def test_what_cannot_be_shown():
    encoder = make_encoder(word_piece())
    with pytest.raises(UsageError, match=f"at most {SEQ_LENGTH}"):
        attention(encoder, word_piece(), TEXT, max_length=SEQ_LENGTH + 1)
    with pytest.raises(UsageError, match="attention_probs=True"):
        attention(build_encoder(encoder.config), word_piece(), TEXT)


def test_the_command_writes_what_the_functions_give(made_once, tmp_path, capsys):
    path = str(tmp_path / "page.html")
    _, version = export_once(str(made_once), "bert")
    assert cli.run(visualize.main, [
        "attention", "--model", version, "--output", path, "--text", TEXT, "--text_pair", PAIR,
        "--max_length", "12"]) == 0
    said = capsys.readouterr().out.splitlines()
    seen = attention(*load_encoder(version, attention_probs=True), TEXT, PAIR, 12)
    assert said == ["12 tokens, 1 layers of 2 heads, 0.0 MB",
                    f"note: truncated at 12 tokens: {seen['cut']} more are not shown",
                    f"wrote {path}"]
    with open(path) as file:
        page = file.read()
    # All scripts are the page's own; a text is data, whatever stands in it.
    assert len(re.findall("<script", page)) == len(os.listdir(
        os.path.join(os.path.dirname(visualize.__file__), "visualization", "page"))) - 1
    assert "alert(1)" in page and "</script>alert" not in page and "\u2028" not in page
    data = data_of(page)
    assert data["texts"] == [TEXT, PAIR] and data["cut"] == seen["cut"] > 0
    assert data["tokens"] == seen["labels"]
    assert np.abs(data["probabilities"] - seen["probabilities"]).max() < 8e-6


@pytest.mark.parametrize("text", ["</script><!--", "\u2028\u2029", "한글 😀", "\ud800"])
def test_json_in_a_script_element_is_ascii_without_html(text):
    found = script_json({"text": text})
    assert found.isascii() and not set(found) & set("<>&")
    assert json.loads(found) == {"text": text}


def test_a_large_page_is_below_10_mb():
    scores = np.random.default_rng(1).exponential(size=(12, 12, 128, 128)).astype(np.float32)
    seen = {"probabilities": scores / scores.sum(-1, keepdims=True), "labels": ["토큰"] * 128,
            "segments": np.zeros(128, int), "special": np.zeros(128, bool), "cut": 0,
            "offsets": np.full((128, 2), -1)}
    page = attention_page(seen, "large", "text")
    assert len(page.encode()) < 10e6
    assert np.abs(data_of(page)["probabilities"] - seen["probabilities"]).max() < 8e-6
