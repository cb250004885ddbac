"""How a text is cut: places lead back to the text, counts are those of the words one by one."""

import functools
import html
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import byte_pair, save_model, sentence_piece, word_piece

from bert_tf import cli, visualize
from bert_tf.data.tables import read_rows
from bert_tf.tokenization.byte_pair import SPECIAL_TOKENS as SPECIALS
from bert_tf.tokenization.byte_pair import BytePairTokenizer, byte_alphabet
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.visualization import tokens_page
from bert_tf.visualization.tokens import count_pieces, tokenize_texts

SCRIPT = "the <script>alert(1)</script> fox & 안녕하세요 CAFÉ"
ANY = st.lists(st.sampled_from([*"abcABCÉé가나다,x😀\u200b \n\t", "e\u0301"]),
               max_size=25).map("".join)


@functools.cache
def letters():
    return Tokenizer(Vocabulary([*SPECIAL_TOKENS, *"abcé", *(f"##{c}" for c in "abcé"), "가",
                                 "가나", "##다", ",", "##😀"]), lower_case=True)


@settings(deadline=None, max_examples=6)
@given(st.lists(ANY, min_size=1, max_size=4))
def test_pieces_are_what_stands_at_their_places(texts):
    tokenizer = letters()
    for text, cut in zip(texts, tokenize_texts(tokenizer, texts), strict=True):
        last = 0
        for piece, start, end, unknown in zip(cut["pieces"], cut["starts"], cut["ends"],
                                              cut["unknown"], strict=True):
            assert last <= start < end and not text[last:start].strip("\u200b \n\t")
            assert unknown == (piece == "[UNK]")
            surface = text[start:end].replace("e\u0301", "é").replace("\u200b", "").lower()
            assert unknown or surface == piece.removeprefix("##")
            last = end
        assert not text[last:].strip("\u200b \n\t")
        # Nothing of a word depends on the others, so that each can be cut by itself.
        alone = [tokenizer.tokenize([word]).values.numpy().tolist() for word in text.split()]
        assert cut["word_pieces"].tolist() == [len(ids) for ids in alone]
        assert cut["word_unknown"].tolist() == [ids.count(1) for ids in alone]


def test_bytes_are_counted_with_the_words_they_are_of():
    tokenizer = byte_pair()
    text = "the  fox 안녕\nthe dog"
    (cut,) = tokenize_texts(tokenizer, [text])
    assert b"".join(tokenizer._bytes.numpy()[cut["ids"]]).decode() == text
    alone = [len(tokenizer.tokenize([before + word]).values) for before, word in (
        ("", "the"), (" ", "fox"), ("", "안녕"), ("", "the"), (" ", "dog"))]
    assert cut["word_pieces"].tolist() == alone
    whites = [text[start:end] for start, end in zip(cut["starts"], cut["ends"], strict=True)
              if not text[start:end].strip()]
    # The blank before 안녕 is a piece of its own, that before fox is not.
    assert whites == [" ", " ", "\n"] and len(cut["pieces"]) == sum(alone) + len(whites)
    # Every byte of a character is at the place of the character.
    assert {(int(start), int(end)) for start, end in zip(cut["starts"], cut["ends"], strict=True)
            if "안" in text[start:end]} == {(9, 10)}


def test_an_unknown_blank_is_of_no_word():
    letters = [letter for letter in byte_alphabet() if letter != "Ċ"]  # which is a line end
    tokenizer = BytePairTokenizer([*SPECIALS, *letters, "aa"], [("a", "a")])
    (cut,) = tokenize_texts(tokenizer, ["\naa\nb\n"])
    assert cut["pieces"] == ["<unk>", "aa", "<unk>", "b", "<unk>"]
    assert (cut["word_pieces"].tolist(), cut["word_unknown"].tolist()) == ([1, 1], [0, 0])
    assert cut["unknown"].sum() == 3


def test_sentence_piece_tells_places_and_counts_words():
    tokenizer = sentence_piece()
    texts = ["The quick brown fox", "안녕하세요 ☃ the ☃☃"]
    cuts = tokenize_texts(tokenizer, texts)
    for text, cut in zip(texts, cuts, strict=True):
        begins = [place for place, piece in enumerate(cut["pieces"]) if piece[0] == "\u2581"]
        # What is but the blank before a word is of no word.
        alone = [cut["pieces"][place] == "\u2581" for place in begins]
        widths = [end - start - bare for start, end, bare in zip(
            begins, [*begins[1:], len(cut["pieces"])], alone, strict=True)]
        assert cut["word_pieces"].tolist() == widths and len(widths) == len(text.split())
        parts = [text[start:end] for start, end in zip(cut["starts"], cut["ends"], strict=True)]
        assert "".join(parts) == text.replace(" ", "")
    assert (cuts[1]["word_unknown"] > 0).tolist() == [False, True, False, True]


def test_morphemes_are_told_in_the_text_as_written():
    pieces = ["영화", "를", "재밌", "게", "봤", "다", "문자"]
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *pieces]), pretokenize="morphemes")
    text = "😀 영화를 재밌게 봤다"
    (cut,) = tokenize_texts(tokenizer, [text])
    assert cut["pieces"] == ["[UNK]", *pieces[:6]]
    assert [text[start:end] for start, end in zip(cut["starts"], cut["ends"], strict=True)] == [
        "😀", *pieces[:6]]
    counts = count_pieces([cut])
    assert counts == {
        "texts": 1, "words": 4, "pieces": 7, "unknown_pieces": 1, "whole_words": 0,
        "unknown_words": 1, "pieces_per_word": 7 / 4, "whole_word_share": 0.0,
        "unknown_word_share": 0.25}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With the tokenizers of models, and a vocabulary by itself."""
    folder = tmp_path_factory.mktemp("tokens")
    save_model(str(folder / "bert"))
    for name, tokenizer in (("bytes", byte_pair()), ("pieces", sentence_piece())):
        (folder / name).mkdir()
        tokenizer.save(str(folder / name))
    word_piece().vocabulary.save(str(folder / "words.txt"))
    return folder


def _run(*words):
    return cli.run(visualize.main, ["tokens", *map(str, words)])


def test_the_files_hold_the_numbers(folder, tmp_path, capsys):
    flags = ("--model", folder / "bert", "--compare", folder / "pieces", "--text", SCRIPT, "the",
             "--output")
    assert _run(*flags, tmp_path / "a.json") == 0
    assert "bert (WordPiece, lower case, accents kept): 7 words" in capsys.readouterr().out
    assert _run(*flags, tmp_path / "a.tsv") == 0
    made = json.loads((tmp_path / "a.json").read_text())
    cuts = {"bert": tokenize_texts(word_piece(), [SCRIPT, "the"]),
            "pieces": tokenize_texts(sentence_piece(), [SCRIPT, "the"])}
    assert [each["name"] for each in made["tokenizers"]] == list(cuts)
    rows = [row for _, row in read_rows(
        str(tmp_path / "a.tsv"), ["text", "tokenizer", "piece", "start", "unknown"])]
    for name, cut in cuts.items():
        (table,) = (each for each in made["tokenizers"] if each["name"] == name)
        assert count_pieces(cut).items() <= table.items()
        for number, one in enumerate(cut):
            told = made["texts"][number]["tokens"][name]
            assert told["ids"] == one["ids"].tolist()
            assert told["starts"] == one["starts"].tolist()
            mine = [row for row in rows if row["tokenizer"] == name and row["text"] == str(number)]
            assert [row["piece"] for row in mine] == one["pieces"]
            assert [row["start"] for row in mine] == list(map(str, one["starts"]))
            assert [int(row["unknown"]) for row in mine] == one["unknown"].tolist()


def test_the_page(folder, tmp_path, monkeypatch, capsys):
    page = tmp_path / "a.html"
    flags = ("--output", page, "--text", SCRIPT, "the fox")
    assert _run(*flags, "--vocab", folder / "words.txt", "--lower_case", "--compare",
                folder / "bytes") == 0
    written = page.read_text()
    assert "<script" not in written and html.escape(SCRIPT, quote=False) in written
    (cut,) = tokenize_texts(word_piece(), [SCRIPT])
    assert len(re.findall(r'<li class="[^"]*unknown', written)) == cut["unknown"].sum() > 0
    # Both have "the" and "fox"; bytes have no "café".
    assert re.search(r'<li class="piece"><b>fox</b>', written)
    assert re.search(r'<li class="piece only"><b>CAFÉ</b>', written)
    monkeypatch.setattr(tokens_page, "_MOST_PIECES", 3)
    capsys.readouterr()
    assert _run(*flags, "--model", folder / "pieces") == 0
    assert page.read_text().count('<li class="piece') == 3
    assert "the page ends in text 1 of 2, after 3 pieces" in capsys.readouterr().out


def test_what_is_wrong_is_told(folder, tmp_path, capsys):
    output = ("--output", tmp_path / "a.json")
    for flags, told in (
            (("--model", folder / "bert", "--lower_case", "--text", "a"), "--lower_case with"),
            (("--model", folder / "bert", "--text", "a", " "), "--text 2: empty text"),
            (("--model", tmp_path / "none", "--text", "a"), "does not exist"),
            (("--vocab", tmp_path / "none", "--text", "a"), "does not exist"),
            (("--model", folder / "bert", "--input", tmp_path / "none"), "no file matches")):
        assert _run(*flags, *output) in (1, 2)
        assert told in capsys.readouterr().err
