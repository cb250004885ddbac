"""Words where they stand: found by their characters, compared as by hand."""

import json
import unicodedata

import numpy as np
import pytest
import tiny_model
from hypothesis import given, settings
from hypothesis import strategies as some
from matplotlib import image
from tiny_encoder import (
    SENTENCES,
    cosine,
    encoder,
    rarity,
    save,
    states_of,
    tokenizer,
    tokens_of,
)

from bert_tf import cli, visualize
from bert_tf.config import ModelConfig
from bert_tf.errors import BertTfError, UsageError
from bert_tf.models.families import build_encoder
from bert_tf.tasks.base import pictures
from bert_tf.tokenization import byte_pair
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.visualization.similarity import compare, draw_similarity, row_name
from bert_tf.visualization.word_vectors import Occurrence, occurrences, places_of


@pytest.mark.parametrize(("word", "text", "found"), [
    ("bank", "Bank, banks and embankment: bank", ["Bank", "bank"]),
    ("은행", "은행에서 국책은행은 은행", ["은행"] * 3),
    ("AI", "AI는 ai FAIR", ["AI", "ai"]),
    ("1", "1 10 21 x1 1.", ["1", "1"]),
    ("cafe", "cafe café cafe\u0301", ["cafe"]),
    ("café", "café cafe\u0301", ["café", "cafe\u0301"]),
    ("가", unicodedata.normalize("NFD", "가각가"), [unicodedata.normalize("NFD", "가")] * 2),
    ("🏦", "a🏦b🏦", ["🏦", "🏦"]),
    ("a.b", "a.b axb", ["a.b"]),
])
def test_places(word, text, found):
    assert [text[start:end] for start, end in places_of(word, text, ignore_case=True)] == found
    assert places_of("Bank", "bank") == []


@settings(deadline=None, max_examples=6)
@given(some.lists(some.sampled_from(["the", "River", "bank", "banks", "은행에서", "나무", "x"]),
                  min_size=1, max_size=12), some.sampled_from([" ", ", ", "\t", " 😀 "]))
def test_pieces_of_an_occurrence_are_those_of_its_characters(words, between):
    text = between.join(words)
    names = tokens_of(text)
    for word, pieces in (("bank", ("bank",)), ("river", ("river",)), ("은행", ("은행",)),
                         ("x", ("[UNK]",)), ("banks", ("bank", "##s"))):
        expected = sum(each.lower().startswith(word) if word == "은행" else each.lower() == word
                       for each in words)
        if not expected:
            continue
        found = occurrences(tokenizer(), [text], [word], seq_length=100)
        assert len(found) == expected
        for each in found:
            assert text[each.start:each.end].lower() == word and each.pieces == pieces
            assert tuple(names[place] for place in each.positions) == pieces
        assert len({each.positions for each in found}) == expected


def test_a_word_that_ends_after_the_window_has_no_pieces():
    for seq_length, pieces in ((5, ("bank", "##s")), (4, ()), (3, ())):  # [CLS] the bank ##s [SEP]
        (found,) = occurrences(tokenizer(), ["the banks"], ["banks"], seq_length)
        assert found.pieces == pieces and len(found.positions) == len(pieces)


def test_pieces_of_bytes():
    alphabet = byte_pair.byte_alphabet()
    tokens = [*byte_pair.SPECIAL_TOKENS, *alphabet, "Ġb", "an", "Ġban"]
    pairs = byte_pair.BytePairTokenizer(tokens, [("Ġ", "b"), ("a", "n"), ("Ġb", "an")])
    text = "a bank 은행에서 🏦bank, Bank"
    found = occurrences(pairs, [text], ["bank", "은행", "🏦"])
    assert [text[each.start:each.end] for each in found] == ["bank", "bank", "은행", "🏦"]
    for each in found:
        ids = [[tokens.index(piece) for piece in each.pieces]]
        written = pairs.detokenize(np.array(ids, "int32")).numpy()[0].decode()
        assert written.strip() == text[each.start:each.end]
        (row,) = pairs.tokenize([text])
        assert [row.numpy()[place - 1] for place in each.positions] == ids[0]


def test_sentence_piece_in_lower_case():
    pytest.importorskip("sentencepiece")
    text = "The fox, the Fox and foxes"
    found = occurrences(tiny_model.sentence_piece(), [text], ["fox"])
    assert [text[each.start:each.end] for each in found] == ["fox", "Fox"]


def test_pieces_of_morphemes():
    pytest.importorskip("kiwipiepy", reason="the extra korean is not installed")
    morphemes = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "영화", "를", "재밌", "게", "봤", "다"]),
                          pretokenize="morphemes")
    text = "영화를 재밌게 봤다"  # 영화 를 재밌 게 봤 다
    found = occurrences(morphemes, [text], ["재밌", "화를", "게 봤"])
    assert [each.pieces for each in found] == [("재밌",), ("영화", "를"), ("게", "봤")]
    assert [each.positions for each in found] == [(3,), (1, 2), (4, 5)]
    assert [text[each.start:each.end] for each in found] == ["재밌", "화를", "게 봤"]


def _words_by_hand(word_tokens):
    """`{sentence: [positions of each word]}` by looking for runs of tokens."""
    found = {}
    for number, text in enumerate(SENTENCES):
        names = tokens_of(text)
        for tokens in word_tokens:
            for place in range(len(names)):
                if names[place:place + len(tokens)] == tokens:
                    found.setdefault(number, []).append(range(place, place + len(tokens)))
    return found


def test_cosines_of_words_and_sums_are_those_of_single_sentences():
    states = [states_of(text)[0] for text in SENTENCES]
    rare = rarity(SENTENCES)
    comparisons = compare(encoder(), tokenizer(), SENTENCES, ["bank", "walking", "은행"],
                          ["words", "sum", "idf", "bm25"], [[0], [-1, 1]])
    assert [(each["of"], each["layers"]) for each in comparisons] == [
        (kind, layers) for kind in ("words", "sum", "idf", "bm25") for layers in ([0], [1, 2])]
    by_sentence = _words_by_hand([["bank"], ["walk", "##ing"], ["은행"]])
    assert sum(map(len, by_sentence.values())) == 5 and len(by_sentence) == 5
    words = [(number, list(places)) for token in ("bank", "walk", "은행")
             for number in sorted(by_sentence) for places in by_sentence[number]
             if tokens_of(SENTENCES[number])[places[0]] == token]
    for each in comparisons:
        summed = [sum(state[layer] for layer in each["layers"]) for state in states]
        if each["of"] == "words":
            vectors = [summed[number][places].mean(0) for number, places in words]
            assert [row["sentence"] for row in each["rows"]] == [number for number, _ in words]
        else:
            weights = rare.get(each["of"], [np.ones(99)] * len(SENTENCES))
            vectors = [sum(weights[number][list(places)].mean() * summed[number][places].mean(0)
                           for places in by_sentence[number]) for number in sorted(by_sentence)]
            assert [row["sentence"] for row in each["rows"]] == sorted(by_sentence)
        expected = [[cosine(left, right) for right in vectors] for left in vectors]
        np.testing.assert_allclose(each["cosines"], expected, atol=2e-5)


def test_sums_of_whole_sentences_leave_special_tokens_out():
    rare = rarity(SENTENCES)["bm25"]
    plain, weighted = compare(encoder(), tokenizer(), SENTENCES, layers=[[-1]])
    states = [states_of(text)[0][-1][1:-1] for text in SENTENCES]
    for found, weights in ((plain, [np.ones(99)] * len(states)), (weighted, rare)):
        vectors = [np.sum(state * weight[1:len(state) + 1, None], axis=0)
                   for state, weight in zip(states, weights, strict=True)]
        expected = [[cosine(left, right) for right in vectors] for left in vectors]
        np.testing.assert_allclose(found["cosines"], expected, atol=2e-5)


def test_words_of_a_static_model_mean_the_same_everywhere():
    config = ModelConfig.from_dict({"family": "static", "hidden_size": 8,
                                    "vocab_size": len(tokenizer().vocabulary)})
    [found] = compare(build_encoder(config, seed=1), tokenizer(), SENTENCES, ["bank"])
    assert found["layers"] == [0] and len(found["rows"]) > 1
    np.testing.assert_allclose(found["cosines"], 1, atol=1e-6)


def test_what_cannot_be_compared():
    with pytest.raises(BertTfError, match="the word 'ban' is in none of 6 sentences"):
        compare(encoder(), tokenizer(), SENTENCES, ["bank", "ban"])
    with pytest.raises(BertTfError, match="the word ' ' is in none"):
        compare(encoder(), tokenizer(), SENTENCES, [" "])
    with pytest.raises(UsageError, match="no word to compare"):
        compare(encoder(), tokenizer(), SENTENCES, kinds=["words"])
    with pytest.raises(BertTfError, match="no word within 3 tokens"):
        compare(encoder(), tokenizer(), ["the river bank"], ["bank"], seq_length=3)
    many = {"of": "sum", "layers": [1], "rows": [{"sentence": 0}] * 61, "cosines": np.eye(61)}
    with pytest.raises(UsageError, match="61 vectors in a heat map; expected at most 60"):
        draw_similarity([many], ["a"])


def test_names_of_rows():
    text = "A very long sentence in which the bank is at its middle, with more after it."
    place = text.index("bank")
    row = {"word": "bank", "sentence": 0, "start": place, "end": place + 4}
    assert row_name(row, [text]) == "…ence in which the [bank] is at its middle,…"
    assert row_name({**row, "start": 0, "end": 1}, [text]).startswith("[A] very long")
    assert row_name({"sentence": 0}, [text]) == text[:39] + "…"


def test_command(tmp_path, capsys):
    model = save(tmp_path / "model")
    command = ["similarity", "--model", model, "--word", "bank", "--layers", "0", "--layers", "-1",
               "1", "--text", *SENTENCES[:4], "--output"]
    for name in ("a.json", "a.png", "a.svg"):
        assert cli.run(visualize.main, [*command, str(tmp_path / name)]) == 0
    written = json.loads((tmp_path / "a.json").read_text())
    first, second = written["comparisons"]
    assert (first["layers"], second["layers"]) == ([0], [1, 2])
    row = Occurrence(**second["rows"][1])
    assert written["sentences"][row.sentence][row.start:row.end] == "Bank"
    assert np.shape(second["cosines"]) == (3, 3)
    drawn = (tmp_path / "a.svg").read_text()
    assert "The river [bank]." in drawn and f"{second['cosines'][0][1]:.2f}" in drawn
    pixels = image.imread(tmp_path / "a.png")[..., :3] * 255
    least = min(np.min(each["cosines"]) for each in (first, second))
    assert least < 0.99
    for colour in ((253, 231, 37), (68, 1, 84)):  # the ends of the scale, cosine 1 and the least
        assert (np.abs(pixels - colour).sum(axis=-1) < 6).sum() > 500
    assert "words, sum of layers 1 to 2:\n  most similar, 0." in capsys.readouterr().out


def test_sentences_that_no_font_can_draw_are_numbered(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pictures, "_font_with", lambda text: None)
    command = ["similarity", "--model", save(tmp_path / "model"), "--word", "은행", "--text",
               "은행에서 돈", "나무, 은행", "--output", str(tmp_path / "a.svg")]
    assert cli.run(visualize.main, command) == 0
    assert "  words 2: 나무, [은행]" in capsys.readouterr().out
    assert "은행" not in (tmp_path / "a.svg").read_text()
