"""Tokenizers of published checkpoints against the libraries that they were made with."""

import json
import re
import shutil

import nasty_texts as nasty
import numpy as np
import pytest
import tensorflow as tf
import tokenizers
from hub_models import CASED_IDS, FOLDERS
from official.nlp.tools import tokenization as official

from bert_tf.converters import hf_tokenizer
from bert_tf.saved_model.ops import unservable_ops
from bert_tf.tokenization.byte_pair import BytePairTokenizer
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.offsets import character_offsets
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.sentence_piece import SentencePieceTokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

# A folder for each set of rules.
KINDS = ("bert_st_cls", "bert_ner_cased", "mpnet_st", "roberta_wordpiece", "roberta_tokens",
         "modernbert_mlm", "xlm_roberta_mlm", "camembert_mlm", "deberta_v3_encoder",
         "albert_questions")
# One of each kind of tokenizer; the others in `make test-all`.
FEW = ("bert_st_cls", "modernbert_mlm", "xlm_roberta_mlm", "albert_questions")
CLASSIC = ("*.model", "vocab.txt", "vocab.json", "merges.txt", "tokenizer_config.json")


@pytest.fixture(scope="module")
def loaded(shared):
    """The tokenizer of a folder, loaded once."""
    made = {}

    def load(name):
        if name not in made:
            made[name] = load_tokenizer(str(shared / "reference" / "hub" / name))
        return made[name]

    return load


def library_of(folder):
    """The original tokenizer, which takes special tokens in a text for text."""
    library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    library.encode_special_tokens = True
    return library


def each(names, *further):
    return pytest.mark.parametrize("name", [
        pytest.param(name, marks=[pytest.mark.long] * (name not in (*FEW, *further)))
        for name in names])


@each([name for name in FOLDERS if name != CASED_IDS], "bert_ner_cased", "deberta_v3_encoder")
def test_ids_of_published_folders(shared, loaded, name):
    expected = json.loads((shared / "reference" / "hub" / name / "expected.json").read_text())
    tokenizer = loaded(name)
    texts, pairs = expected["texts"], list(zip(*expected["pairs"], strict=True))
    assert tokenizer.encode(texts, allow_special=True) == expected["ids"]
    # Text 10 has special tokens written out: they are text.
    plain = tokenizer.encode(texts)
    assert plain[:10] + plain[11:] == expected["ids"][:10] + expected["ids"][11:]
    assert tokenizer.vocabulary.mask_id not in plain[10]
    assert tokenizer.encode(*map(list, pairs)) == expected["pair_ids"]
    packed = pack(tokenizer.vocabulary, [tokenizer.tokenize(list(part)) for part in pairs], 99)
    for row, mask, kinds, ids, types in zip(
            packed["input_word_ids"].numpy(), packed["input_mask"].numpy(),
            packed["input_type_ids"].numpy(), expected["pair_ids"],
            expected["pair_type_ids"], strict=True):
        assert row[:len(ids)].tolist() == ids and mask.sum() == len(ids)
        assert set(row[len(ids):]) == {tokenizer.vocabulary.pad_id}
        if types is not None:
            assert kinds[:len(ids)].tolist() == types
    assert tokenizer.encode(texts[0]) == expected["ids"][0]
    if isinstance(tokenizer, BytePairTokenizer):
        assert tokenizer.decode(expected["ids"][7:9]) == texts[7:9]


@pytest.mark.parametrize("lines", [150, pytest.param(10_000, marks=pytest.mark.long)])
@each(KINDS)
def test_ids_and_offsets_of_real_and_nasty_lines(shared, loaded, name, lines):
    tokenizer = loaded(name)
    library = library_of(shared / "reference" / "hub" / name)
    texts = _fair(tokenizer) + nasty.real_lines(shared, lines)
    expected = library.encode_batch(texts, add_special_tokens=False)
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    rows = ids.to_list()
    assert tokenizer.tokenize(texts).to_list() == rows
    different = [number for number, row in enumerate(rows) if row != expected[number].ids]
    if isinstance(tokenizer, SentencePieceTokenizer):
        # Of two ways to split with one score either library takes the one that rounding prefers.
        unlike = [number for number in different if score(tokenizer, rows[number])
                  != pytest.approx(score(tokenizer, expected[number].ids), abs=1e-3)]
        assert len(different) < 100
        # The models' own library composes ㅈㅐ, a jamo after the other, as they were trained.
        assert len(unlike) < 5 and all(
            re.search("[ㄱ-ㅎ][ㅏ-ㅣ]", texts[number]) for number in unlike)
    else:
        assert not different
    starts, ends = (character_offsets(texts, places).to_list() for places in (starts, ends))
    for number in range(len(texts) - min(lines // 2, 1_000), len(texts)):  # Korean ones
        if number in different:
            continue
        for begin, end, (first, last) in zip(starts[number], ends[number],
                                             expected[number].offsets, strict=True):
            ours, theirs = texts[number][begin:end], texts[number][first:last]
            assert ours.strip() == theirs.strip() or not ours, (texts[number], ours, theirs)


@pytest.mark.parametrize(("name", "kinds", "blank"), [
    ("deberta_v3_encoder", "Strip Precompiled Replace", " "),
    ("xlm_roberta_mlm", "Precompiled Strip Replace", "\u2581"),
    ("camembert_mlm", "Precompiled Strip Replace", "\u2581")])
def test_what_transformers_4_made_of_a_model(shared, tmp_path, name, kinds, blank):
    folder = shared / "reference" / "hub" / name
    values = json.loads((folder / "tokenizer.json").read_text())
    steps = {"Precompiled": json.loads((shared / "reference" / "hub" / "xlm_roberta_mlm" /
                                        "tokenizer.json").read_text())["normalizer"],
             "Strip": {"type": "Strip", "strip_left": blank == " ", "strip_right": True},
             "Replace": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": blank}}
    values["normalizer"] = {"type": "Sequence",
                            "normalizers": [steps[kind] for kind in kinds.split()]}
    values["pre_tokenizer"] = values["pre_tokenizer"]["pretokenizers"][-1]
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    shutil.copy(folder / "tokenizer_config.json", tmp_path)
    tokenizer, library = load_tokenizer(str(tmp_path)), library_of(tmp_path)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    # The library keeps U+0085, and a blank at the end that was a character of no width before.
    texts = [text.replace("\x85", "").rstrip("\ufeff") for text in _fair(tokenizer)]
    texts += [f"{end}the cat{end}" for end in nasty.TEXTS[1:3]] + nasty.real_lines(shared, 40)
    assert tokenizer.encode(texts) == [row.ids for row in library.encode_batch(texts)]
    values["normalizer"]["normalizers"][kinds.split().index("Strip")]["strip_right"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    assert "the normalizers" in load_tokenizer(str(tmp_path)).python_only


def _fair(tokenizer):
    """Nasty texts without what the library does otherwise than SentencePiece.

    It composes no jamo, and looks for rules of normalization in what ends a character of several.
    """
    return [text for text in nasty.TEXTS if not isinstance(tokenizer, SentencePieceTokenizer)
            or "\u110b" not in text]


def score(tokenizer, ids):
    """The sum of the scores of pieces; 0 for every piece that is not of a Unigram model."""
    from bert_tf.tokenization.sentence_piece_model import read_model

    if not isinstance(tokenizer, SentencePieceTokenizer):
        return len(ids)
    pieces = read_model(tokenizer.model, "").pieces
    return sum(pieces[number].score for number in ids)


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_a_graph_that_can_be_served_gives_the_same(loaded, tmp_path, name):
    tokenizer = loaded(name)
    module = tf.Module()
    module.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")], autograph=False)
    def serve(text):
        ids, starts, ends = tokenizer.tokenize_with_offsets(text, allow_special=True)
        return {"ids": ids.to_tensor(), "starts": starts.to_tensor(), "ends": ends.to_tensor(),
                "plain": tokenizer.tokenize(text).to_tensor()}

    tf.saved_model.save(module, str(tmp_path), signatures=serve)
    assert unservable_ops(str(tmp_path)) == []
    served = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    mask = tokenizer.vocabulary.special_tokens[-1]
    texts = tf.constant([*nasty.TEXTS, f"a {mask} b"])
    expected = serve(texts)
    for key, value in served(text=texts).items():
        assert np.array_equal(value, expected[key])


@each(KINDS)
def test_what_is_saved_is_loaded(shared, loaded, tmp_path, name):
    tokenizer = loaded(name)
    tokenizer.save(str(tmp_path))
    again = load_tokenizer(str(tmp_path))
    assert repr(again) == repr(tokenizer) and type(tokenizer).__name__ in repr(tokenizer)
    texts = [*nasty.TEXTS, "a <mask> b", "a [MASK] b"]
    for allow_special in (False, True):
        assert again.encode(texts, allow_special=allow_special) == tokenizer.encode(
            texts, allow_special=allow_special)
    assert again.vocabulary.pair_types == tokenizer.vocabulary.pair_types


@each(KINDS)
def test_the_way_back_to_hugging_face(loaded, tmp_path, name):
    tokenizer = loaded(name)
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    tokenizer.save(str(tmp_path / "ours"))
    hf_tokenizer.write_tokenizer(str(tmp_path / "ours"), str(tmp_path / "theirs"),
                                 "BertTokenizer", 64)
    library = library_of(tmp_path / "theirs")
    texts = [text for text in _fair(tokenizer) if "``" not in text]
    assert [row.ids for row in library.encode_batch(texts)] == tokenizer.encode(texts)
    assert library.encode("a", "b").ids == tokenizer.encode("a", "b")
    back = load_tokenizer(str(tmp_path / "theirs"))
    assert repr(back) == repr(tokenizer)
    assert back.vocabulary.added_tokens == tokenizer.vocabulary.added_tokens


@each([name for name in KINDS if name != "modernbert_mlm"], "roberta_tokens")
def test_classic_files_give_the_same(shared, loaded, tmp_path, name):
    # ModernBERT has none.
    folder = shared / "reference" / "hub" / name
    for pattern in CLASSIC:
        for path in folder.glob(pattern):
            shutil.copy(path, tmp_path)
    tokenizer = load_tokenizer(str(tmp_path))
    expected = json.loads((folder / "expected.json").read_text())
    assert tokenizer.encode(nasty.TEXTS) == loaded(name).encode(nasty.TEXTS)
    assert tokenizer.encode(*expected["pairs"][0]) == expected["pair_ids"][0]


@pytest.mark.parametrize("lower_case", [True, pytest.param(False, marks=pytest.mark.long)])
def test_the_original_rules_of_word_piece(shared, tmp_path, lower_case):
    lines = nasty.TEXTS + nasty.real_lines(shared, 1_000)
    lines = [line for line in lines if "\ufffd" not in line]
    # Pieces of the original's own normalization, so that jamo and marks have some.
    basic = official.BasicTokenizer(lower_case)
    characters = sorted({character for line in lines for word in basic.tokenize(line)
                         for character in word})
    entries = [*SPECIAL_TOKENS, *characters, *(f"##{each}" for each in characters), "the", "##ing"]
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{entry}\n" for entry in entries))
    original = official.FullTokenizer(str(path), do_lower_case=lower_case)
    original.wordpiece_tokenizer.max_input_chars_per_word = 200  # as google-research/bert has it
    tokenizer = Tokenizer(Vocabulary(entries), lower_case, lower_case, normalization="google")
    assert tokenizer.tokenize(lines).to_list() == [
        original.convert_tokens_to_ids(original.tokenize(line)) for line in lines]
    broken = [b"ab\xffc d\xe3\x81 e", b"\xf0\x9f", b"x\xc3(y"]
    assert tokenizer.tokenize(broken).to_list() == [
        original.convert_tokens_to_ids(original.tokenize(text)) for text in broken]
    # A folder with this file alone is read like that.
    assert load_tokenizer(str(tmp_path)).normalization == "google"


def test_hangul_stays_whole_only_where_the_vocabulary_was_learned_so(tmp_path):
    entries = [*SPECIAL_TOKENS, "영화", "##를", "\u110b", "##\u1167", "##\u11bc"]
    ours = Tokenizer(Vocabulary(entries), True, True)
    google = Tokenizer(Vocabulary(entries), True, True, normalization="google")
    assert ours.tokenize(["영화를"]).to_list() == [[5, 6]]
    assert google.tokenize(["영"]).to_list() == [[7, 8, 9]]
    ids, starts, ends = google.tokenize_with_offsets(["a영"])
    assert (starts[0, 1:].numpy().tolist(), ends[0, 1:].numpy().tolist()) == ([], [])
    ids, starts, ends = google.tokenize_with_offsets([" 영"])
    assert (starts.to_list(), ends.to_list()) == ([[1, 1, 1]], [[4, 4, 4]])
    google.save(str(tmp_path))
    assert load_tokenizer(str(tmp_path)).normalization == "google"


def test_chinese_characters_that_are_no_words(tmp_path):
    entries = [*SPECIAL_TOKENS, "中文", "中", "##文", "a", "##a", "𠀀𠀁"]
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{entry}\n" for entry in entries))
    library = tokenizers.BertWordPieceTokenizer(str(path), handle_chinese_chars=False,
                                                lowercase=True)
    tokenizer = Tokenizer(Vocabulary(entries), True, True, normalization="huggingface",
                          tokenize_chinese_chars=False)
    texts = ["中文", "中 文", "a中文", "中文a 𠀀𠀁!", "A中"]
    expected = [library.encode(text, add_special_tokens=False) for text in texts]
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert ids.to_list() == [each.ids for each in expected]
    assert list(zip(*(character_offsets(texts, each).values.numpy().tolist()
                      for each in (starts, ends)), strict=True)) == [
        offsets for each in expected for offsets in each.offsets]
