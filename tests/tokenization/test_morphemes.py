"""Korean text with blanks between its morphemes, and the way back to the text."""

import builtins
import concurrent.futures
import functools
import multiprocessing
import types
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.errors import UsageError
from bert_tf.tokenization import morphemes
from bert_tf.tokenization.morphemes import analyse, original_offsets, parts_of, pretokenize
from bert_tf.tokenization.offsets import character_offsets
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

# Analysed by hand, by the rules of school grammar; a syllable of two morphemes stays whole.
ANALYSED = {
    "영화를 재밌게 봤다": "영화 를 재밌 게 봤 다",  # 보 and 았 share 봤
    "가는곳이": "가 는 곳 이",
    "가는 곳이": "가 는 곳 이",
    "학교에서 먹었다": "학교 에서 먹 었 다",
    "갈 때": "갈 때",  # 가 and ㄹ
    "저는 학생입니다.": "저 는 학생 입니다 .",  # ㅂ of ㅂ니다 is in 입
    "도와줘": "도와줘",  # 돕, 아, 주 and 어 overlap
    "PC가 3개": "PC 가 3 개",
    "좋다ㅋㅋㅋ😀😀": "좋 다 ㅋㅋㅋ 😀😀",
    "뉴스는 [MASK]를": "뉴스 는 [MASK] 를",
    "don't U.S.A 3.14% 😀😀 日本語です": "don't U.S.A 3.14% 😀😀 日本語です",  # no Hangul
    "영🗻영": "영 🗻영",  # the analyser's last word ends after the text
    "": "", " ": " ", "\n영화를\r\n\t": "\n영화 를\r\n\t",
}
_KOREAN = st.text(st.sampled_from(
    "가나다를은이했봤었입니다영화하고ㅋㅠ 간갈\u1112\u1161\u11ababΣ1.,!?😀\u0308\n"))
_TEXTS = st.one_of(st.text(), _KOREAN, st.tuples(st.text(), _KOREAN, st.text()).map("".join))


def put_in(text, analysed):
    """Places of `analysed` where a blank was put in: found with `str.find`, character by character.

    None where `analysed` is anything but `text` with blanks.
    """
    places, begin = [], 0
    for character in text:
        end = analysed.find(character, begin)
        if end < 0 or analysed[begin:end].strip(" "):
            return None
        places += range(begin, end)
        begin = end + 1
    return places if begin == len(analysed) else None


@pytest.mark.parametrize("text", ANALYSED)
def test_blanks_stand_between_morphemes(text):
    assert analyse([text]) == [ANALYSED[text]]


@settings(max_examples=300, deadline=None)
@given(_TEXTS)
def test_nothing_but_single_blanks_comes_in_and_nothing_goes(text):
    (analysed,) = analyse([text])
    places = put_in(text, analysed)
    assert places is not None
    for place in places:
        before, after = analysed[place - 1:place], analysed[place + 1:place + 2]
        assert before and after and not before.isspace() and not after.isspace()
        # Places of Hangul's blocks that hold no character yet have no name.
        assert any("HANGUL" in unicodedata.name(c, "") or unicodedata.category(c) == "Cn"
                   for c in (before, after))


@settings(max_examples=100, deadline=None)
@given(_TEXTS)
def test_blanks_part_no_character(text):
    """NFC, which the tokenizer begins with, joins the same characters as without the blanks."""
    (analysed,) = analyse([text])
    text, analysed = (unicodedata.normalize("NFC", form) for form in (text, analysed))
    assert put_in(text, analysed) is not None


@settings(max_examples=100, deadline=None)
@given(_TEXTS)
def test_offsets_lead_back(text):
    (analysed,) = analyse([text])
    offsets = original_offsets(text, analysed)
    inserted = set(put_in(text, analysed))
    kept = [place for place in range(len(analysed)) if place not in inserted]
    assert [text[offsets[place]] for place in kept] == list(text)
    assert [offsets[place + 1] for place in kept] == list(range(1, len(text) + 1))
    assert [offsets[place] for place in kept] == list(range(len(text)))


@settings(max_examples=100, deadline=None)
@given(st.lists(_TEXTS))
def test_analysing_twice_is_analysing_once(texts):
    analysed = analyse(texts)
    again = analyse(np.array(analysed, object))
    assert again == analysed
    assert all(one is other for one, other in zip(again, analysed, strict=True))
    mixed = analyse([*analysed, *texts])
    assert mixed == analysed * 2


@pytest.mark.parametrize("text", ["영화를 재밌게 봤다", "Café가는곳이", "ㅋㅋ 좋다\u0308"])
def test_decomposed_text_is_split_where_composed_text_is(text):
    decomposed = unicodedata.normalize("NFD", text)
    (analysed,) = analyse([decomposed])
    assert unicodedata.normalize("NFC", analysed) == analyse([text])[0] != text
    assert original_offsets(decomposed, analysed)[-1] == len(decomposed)


def test_what_is_no_analysis_has_no_offsets():
    for analysed in ("영화 은", "영화", "영화 를 보", "영 - 화를"):
        with pytest.raises(UsageError, match="is not an analysis of"):
            original_offsets("영화를", analysed)


def test_word_pieces_of_analysed_text_lead_back_to_the_original():
    text = "나는 영화를 봤다"
    pieces = ["나", "는", "영", "##화", "를", "봤", "다"]
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *pieces]), pretokenize="morphemes")
    (analysed,) = pretokenize(tokenizer, [text])
    ids, starts, ends = tokenizer.tokenize_with_offsets([analysed])
    assert [piece.decode() for piece in tokenizer.tokens(ids).values.numpy()] == pieces
    offsets = original_offsets(text, analysed)
    starts, ends = (offsets[character_offsets([analysed], places).values.numpy()]
                    for places in (starts, ends))
    assert [text[start:end] for start, end in zip(starts, ends, strict=True)] == [
        "나", "는", "영", "화", "를", "봤", "다"]


def test_only_where_the_tokenizer_says_so():
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "a"])
    texts = ["영화를"]
    assert pretokenize(Tokenizer(vocabulary), texts) is texts
    assert pretokenize(types.SimpleNamespace(), texts) is texts
    assert pretokenize(Tokenizer(vocabulary, pretokenize="morphemes"), texts) == ["영화 를"]
    with pytest.raises(UsageError, match="pretokenize='morphems' is unknown.*morphemes"):
        Tokenizer(vocabulary, pretokenize="morphems")


def test_a_text_comes_out_the_same_whatever_stands_beside_it():
    texts = list(ANALYSED) * 5
    assert analyse(texts) == [ANALYSED[text] for text in texts]
    assert analyse(texts[::-1])[::-1] == analyse(texts)
    assert analyse([]) == []


def test_long_texts_are_analysed_in_parts():
    sentence = "나는 어제 영화를 봤다. "
    (analysed,) = analyse([sentence * 400])
    assert analysed == "나 는 어제 영화 를 봤 다 . " * 400
    for text in ("가" * 2500, "영화를 " * 1000, "나는\n" * 900, "가나\u0308" * 900):
        (analysed,) = analyse([text])
        assert put_in(text, analysed) is not None


@pytest.mark.parametrize("text", ["영화를재밌게봤다배우들의연기가훌륭했다" * 60,
                                  "가나\u0308" * 900])
def test_long_texts_end_their_parts_alike_composed_and_decomposed(text):
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert unicodedata.normalize("NFC", analyse([decomposed])[0]) == analyse([composed])[0]
    parts = parts_of(decomposed)
    assert "".join(parts) == decomposed and "".join(analyse(parts)) == analyse([decomposed])[0]


def test_many_marks_are_composed_some_at_a_time():
    marks = "\u0301\u0323" * 15  # NFC has all of one before all of the other
    assert morphemes._composed("a" + marks * 80) == unicodedata.normalize("NFC", "a" + marks) + (
        "\u0323" * 15 + "\u0301" * 15) * 79
    for text in ("a" + marks * 80, unicodedata.normalize("NFD", "영화를 봤다é. " * 200) + marks):
        parts = parts_of(text)
        assert "".join(parts) == text and max(map(len, parts)) <= 3000


@pytest.mark.long
def test_a_forked_process_analyses_alike():
    """Its analyser is its own: the threads of the one it came with are gone."""
    texts = list(ANALYSED)
    analyse(texts)
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        assert pool.submit(analyse, texts).result(timeout=300) == list(ANALYSED.values())


def test_without_the_analyser_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def missing(name, *arguments, **options):
        if name == "kiwipiepy":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    # Not that of other tests, which takes seconds to load.
    monkeypatch.setattr(morphemes, "_analyser", functools.cache(morphemes._analyser.__wrapped__))
    assert analyse(["no Hangul"]) == ["no Hangul"]
    with pytest.raises(UsageError, match=r"kiwipiepy.*pip install 'bert_tf\[korean\]'"):
        analyse(["영화를"])


def test_real_reviews_keep_their_text(shared):
    from bert_tf.storage import files

    path = shared / "data" / "corpus" / "ko_reviews.txt.gz"
    if not path.exists():
        pytest.skip("../shared/data/corpus is absent")
    reviews = next(files.read_line_blocks(str(path), 1 << 14))
    analysed = analyse(reviews)
    assert all(put_in(*pair) is not None for pair in zip(reviews, analysed, strict=True))
    words = sum(len(text.split()) for text in reviews)
    assert 1.5 < sum(len(text.split()) for text in analysed) / words < 3
    before, after = (Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a"])).normalize(tf.constant(texts))
                     for texts in (reviews, analysed))
    assert [text.replace(b" ", b"") for text in before.numpy()] == [
        text.replace(b" ", b"") for text in after.numpy()]
