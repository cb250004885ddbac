"""Byte-level BPE against the `tokenizers` library, inside and outside of graphs."""

import functools
import json
import random

import pytest
import tensorflow as tf
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.errors import BertTfError, UsageError
from bert_tf.tokenization import pair_merges
from bert_tf.tokenization.byte_pair import SPECIAL_TOKENS, BytePairTokenizer, byte_alphabet
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.offsets import character_offsets

CORPUS = ["The quick brown fox doesn't jump over the lazy dog's tail, 1,000 times!",
          "한국어 문장을 토큰으로 나눈다. 토큰은 문장의 조각이다.",
          "😀😀 we'll see, they've said\n\n\tso"]
TEXTS = ["Hello world", "don't  we'll   's 'S don'test 1's a  's ''s", "a\n\n b \n c  ", "", "'",
         "한국어 문장", "😀😀 👩‍👩‍👧", "\xa0x\u3000y \u2009 z", "६ digits १२३ ½", "  lead",
         "trail  ", "tabs\t\tx \t y",
         "e\u0301 \x1c\x1d q\x85w \0", "aaaa aaaaaaa", "Ĵ ६\u200b\ufeff"]
ANY = st.text(st.sampled_from("aeTthdsrvml'’ ½19.,!\n\t\xa0\u3000한국ㅋ😀\0") | st.characters(
    exclude_categories=["Cn", "Cs"], max_codepoint=0xD7FF), max_size=30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A vocabulary trained on `CORPUS`."""
    folder = tmp_path_factory.mktemp("byte_pair")
    learned = tokenizers.ByteLevelBPETokenizer()
    learned.train_from_iterator(CORPUS * 3, vocab_size=400, show_progress=False,
                                special_tokens=["<s>", "<pad>", "</s>", "<unk>"])
    learned.save_model(str(folder))
    vocabulary = json.loads((folder / "vocab.json").read_text())
    vocabulary["<mask>"] = len(vocabulary)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return str(folder)


@pytest.fixture(scope="module")
def tokenizer(folder):
    return load_tokenizer(folder)


@pytest.fixture(scope="module")
def reference(folder):
    return tokenizers.ByteLevelBPETokenizer(f"{folder}/vocab.json", f"{folder}/merges.txt")


def graph_of(method):
    return tf.function(method, autograph=False, input_signature=[tf.TensorSpec([None], tf.string)])


@pytest.fixture(scope="module")
def graph(tokenizer):
    """`tokenize` in a graph, for many texts."""
    return graph_of(tokenizer.tokenize)


def test_equals_the_tokenizers_library(tokenizer, graph, reference):
    texts = TEXTS + CORPUS
    expected = [reference.encode(text).ids for text in texts]
    assert tokenizer.tokenize(texts).to_list() == expected
    assert graph(tf.constant(texts)).to_list() == expected
    assert graph(tf.constant([], tf.string)).shape[0] == 0


@pytest.mark.parametrize(("often", "block"), [
    (1, 2), (pair_merges._OFTEN, pair_merges._BLOCK), pytest.param(4, 8, marks=pytest.mark.long)])
def test_long_words_are_split_in_parts(tokenizer, reference, often, block, monkeypatch):
    """Also where the pieces of parts differ, so that they are made one."""
    monkeypatch.setattr(pair_merges, "_OFTEN", often)
    monkeypatch.setattr(pair_merges, "_BLOCK", block)
    letters = "".join(character for text in CORPUS for character in text if character.isalpha())
    draw = random.Random(1)
    texts = [*TEXTS, letters * 9, *CORPUS, letters[::-1] * 5, "a" * 201 + letters + "er" * 99,
             *("".join(draw.choices(letters, k=draw.randrange(300))) for _ in range(99))]
    expected = [reference.encode(text).ids for text in texts]
    assert graph_of(tokenizer.tokenize)(texts).to_list() == expected


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(ANY, min_size=1, max_size=5))
def test_any_text(tokenizer, graph, reference, texts):
    ids = graph(texts)
    assert ids.to_list() == [reference.encode(text).ids for text in texts]
    assert [text.decode() for text in tokenizer.detokenize(ids).numpy()] == texts


def test_tokens_of_a_part_of_a_character(tokenizer, reference):
    ids = reference.encode("\U0001f680 \ud7a3").ids  # a rocket and a rare syllable
    assert len(ids) > 3
    rows = [ids[:end] for end in range(len(ids) + 1)]
    assert tokenizer.decode(rows) == [reference.decode(row) for row in rows]


def test_texts_of_tokens_are_without_any_white_space_around(tokenizer):
    written = [" foxes\n", "\xa0", "\u3000a \u2002b\x85\x1c", "\t\u2028", "\u200bc "]
    alphabet = byte_alphabet()
    tokens = ["".join(alphabet[byte] for byte in text.encode()) for text in written]
    vocabulary = [*tokenizer.vocabulary.tokens, *tokens]
    more = BytePairTokenizer(vocabulary, tokenizer.merges)
    ids = tf.constant([[vocabulary.index(token)] for token in tokens])
    assert [text.decode() for text in more.texts(ids)[:, 0].numpy()] == [
        text.strip() for text in written]


def test_special_tokens_in_text(tokenizer):
    vocabulary = tokenizer.vocabulary
    assert vocabulary.special_tokens == SPECIAL_TOKENS
    assert vocabulary.special_ids == (1, 3, 0, 2, len(vocabulary) - 1)
    assert vocabulary.pair_separators == 2
    text = ["The \u3000<mask> fox<s></s>", "", "<pad>\0"]
    ids = tokenizer.tokenize(text, allow_special=True)
    the, fox = tokenizer.tokenize(["The", " fox"]).to_list()
    assert ids.to_list() == [[*the, vocabulary.mask_id, *fox, 0, 2], [],
                             [1, *tokenizer.tokenize(["\0"]).to_list()[0]]]
    assert tokenizer.tokens(ids)[0, -2:].numpy().tolist() == [b"<s>", b"</s>"]
    assert vocabulary.mask_id not in tokenizer.tokenize(text).flat_values
    assert tokenizer.detokenize(ids).numpy().tolist() == [b"The fox", b"", b"\0"]


def test_prefix_space_and_whole_words(tokenizer):
    spaced = BytePairTokenizer(tokenizer.vocabulary.tokens, tokenizer.merges,
                               add_prefix_space=True)
    assert spaced.tokenize(["the", " the", ""]).to_list() == tokenizer.tokenize(
        [" the", " the", ""]).to_list()
    word = tokenizer.tokenize([" quickly"]).to_list()[0]
    assert len(word) > 1
    assert tokenizer.vocabulary.continuation[word].tolist() == [False] + [True] * (len(word) - 1)


def test_of_a_pair_that_is_there_twice_the_later_counts(tokenizer):
    merges = tokenizer.merges
    again = BytePairTokenizer(tokenizer.vocabulary.tokens, [*merges[:5], *merges])
    assert again.tokenize(TEXTS).to_list() == tokenizer.tokenize(TEXTS).to_list()


def test_save(tokenizer, folder, tmp_path):
    tokenizer.save(str(tmp_path))
    again = load_tokenizer(str(tmp_path))
    assert again.vocabulary.tokens == tokenizer.vocabulary.tokens
    assert again.merges == tokenizer.merges
    assert again.add_prefix_space is False


PIECES = {token: index for index, token in enumerate([*SPECIAL_TOKENS, "a", "b", "ab"])}


@pytest.mark.parametrize(("name", "content", "message"), [
    ("vocab.json", json.dumps({"a": 0, "b": 2}), "the ids 0, 1, 2"),
    ("vocab.json", json.dumps({"a": 0, "b": "1"}), "the ids 0, 1, 2"),
    ("vocab.json", json.dumps({"<unk>": 0, "the</w>": 1}), "as GPT-1's do.*token ids"),
    ("vocab.json", json.dumps({"a": 0, "b": 1}), "has no <pad> <unk> <s> </s> <mask>"),
    ("vocab.json", "[]", "an object of pieces"),
    ("vocab.json", "{", "invalid JSON"),
    ("merges.txt", "a b\nab a\n", "merge 2, 'ab' and 'a': 'aba' is no entry"),
    ("merges.txt", "a b c\n", "line 1: 'a b c'"),
    ("merges.txt", "#version: 0.2\n", "no merges"),
    ("tokenizer_config.json", '{"add_prefix_space": 1}', "true or false"),
])
def test_damaged_files_are_named(tmp_path, name, content, message):
    (tmp_path / "vocab.json").write_text(json.dumps(PIECES))
    (tmp_path / "merges.txt").write_text("a b\n")
    assert load_tokenizer(str(tmp_path)).tokenize(["ab c"]).to_list() == [[7, 1, 1]]
    (tmp_path / name).write_text(content)
    with pytest.raises(BertTfError, match=message) as error:
        load_tokenizer(str(tmp_path))
    assert str(tmp_path) in str(error.value)


def test_a_folder_without_tokenizer(tmp_path):
    (tmp_path / "vocab.json").write_text(json.dumps(PIECES))
    with pytest.raises(UsageError, match="vocab.txt; or spiece.model; or vocab.json and merges"):
        load_tokenizer(str(tmp_path))


def test_alphabet():
    alphabet = byte_alphabet()
    assert sorted(alphabet) == sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    assert (alphabet[0x20], alphabet[0x0A], alphabet[0xAD]) == ("Ġ", "Ċ", "Ń")


@functools.cache
def pair_of(folder, add_prefix_space):
    """Our tokenizer of a folder in a graph, and theirs."""
    tokenizer = BytePairTokenizer.load(folder)
    tokenizer.add_prefix_space = add_prefix_space
    return graph_of(tokenizer.tokenize_with_offsets), tokenizers.ByteLevelBPETokenizer(
        f"{folder}/vocab.json", f"{folder}/merges.txt", add_prefix_space=add_prefix_space,
        trim_offsets=False)


@pytest.mark.parametrize("add_prefix_space", [
    False, pytest.param(True, marks=pytest.mark.long)])
@settings(max_examples=15, deadline=None)
@given(texts=st.lists(ANY, min_size=1, max_size=4))
def test_offsets_are_those_of_the_tokenizers_library(folder, add_prefix_space, texts):
    with_offsets, reference = pair_of(folder, add_prefix_space)
    ids, starts, ends = with_offsets(texts)
    assert ids.to_list() == [reference.encode(text).ids for text in texts]
    starts, ends = (character_offsets(texts, offsets).to_list() for offsets in (starts, ends))
    for text, *spans in zip(texts, starts, ends, strict=True):
        encoded = reference.encode(text)
        expected = [(first + (last - first > 1 and text[first] == " "), last)
                    for first, last in encoded.offsets]
        if add_prefix_space and text[:1] != " " and encoded.tokens[:1] == ["Ġ"]:
            expected[0] = (0, 0)  # there: the first character, twice
        assert list(zip(*spans, strict=True)) == expected


def test_offsets_of_pieces_of_a_character_are_the_character(tokenizer):
    for text in ("가😀", "", "a 가"):
        ids, starts, ends = tokenizer.tokenize_with_offsets([text])
        characters = [(len(text[:index].encode()), len(text[:index + 1].encode()))
                      for index in range(len(text))]
        assert set(zip(starts.values.numpy(), ends.values.numpy(), strict=True)) <= set(characters)
    unknown = BytePairTokenizer(["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "ab"],
                                [("a", "b")])
    _, starts, ends = unknown.tokenize_with_offsets(["aé ab"])
    assert starts.to_list() == [[0, 1, 1, 3, 4]] and ends.to_list() == [[1, 3, 3, 4, 6]]


def test_a_byte_that_is_no_utf8_gets_the_blank_of_a_prefix():
    tokenizer = BytePairTokenizer([*SPECIAL_TOKENS, *byte_alphabet(), "ab"], [("a", "b")],
                                  add_prefix_space=True)
    for text in (b"\xffa", b"a\xff", b" \xff"):
        assert tokenizer.tokenize([text]).to_list() == (
            tokenizer.tokenize_with_offsets([text])[0].to_list())
