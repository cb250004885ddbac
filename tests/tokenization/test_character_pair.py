"""BPE of characters, as Gemma and Llama 2 have it, against the `tokenizers` library."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from json_folder import both_ways
from nasty_texts import TEXTS
from tokenizers import decoders, normalizers, pre_tokenizers, processors

from bert_tf.errors import UsageError
from bert_tf.tokenization.character_pair import BYTES, SPECIAL_TOKENS, CharacterPairTokenizer
from bert_tf.tokenization.library import LibraryTokenizer
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.trim import check_trims, trim

CORPUS = ["The quick brown fox doesn't jump over the lazy dog, 1,000 times:  twice\n\nor   so.",
          "한국어 문장을 토큰으로 나눈다. 토큰은 문장의 조각이다.", "<b>bold</b> <i>x</i> </p>"]
WRITTEN = ["\n", "\n\n", "<unused0>", "▁▁"]  # always found in a text
PARTS = [" ", "  ", "\n", "\n\n", "\n\n\n", "<unused0>", "<bos>", "▁", "▁▁▁", "토큰", "the ",
         " quick", "</b> ", "<0x41>", "é", "e\u0301", "가", "😀", "\0", "\t", "x", ".", "\xa0"]


def learned(kind):
    """Return a library's tokenizer: `words`, `texts` whose pieces have blanks inside, or `spaced`,
    which puts one before a text."""
    unknown = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    library = tokenizers.Tokenizer(tokenizers.models.BPE(**unknown))
    blanks = normalizers.Replace(" ", "▁")
    library.normalizer = blanks if kind != "spaced" else normalizers.Sequence(
        [normalizers.Prepend("▁"), blanks])
    if kind != "texts":
        library.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    library.train_from_iterator(CORPUS * 3, tokenizers.trainers.BpeTrainer(
        vocab_size=250, show_progress=False,
        special_tokens=[*SPECIAL_TOKENS[:1], "<eos>", "<bos>", "<unk>", "<mask>"]))
    values = json.loads(library.to_str())
    pieces = values["model"]["vocab"]
    for piece in (*BYTES, *WRITTEN):
        pieces.setdefault(piece, len(pieces))
    del pieces["."]  # as no merge has it: a character of bytes
    values["model"]["vocab"] = {piece: number for number, piece in enumerate(pieces)}
    values["model"]["merges"] = [pair for pair in values["model"]["merges"] if "." not in "".join(
        pair)]
    for entry in values["added_tokens"]:
        entry["id"] = values["model"]["vocab"][entry["content"]]
    library = tokenizers.Tokenizer.from_str(json.dumps(values))
    library.add_tokens([tokenizers.AddedToken(token, normalized=False) for token in WRITTEN])
    library.pre_tokenizer = None if kind == "spaced" else pre_tokenizers.Split(
        " ", "merged_with_previous")
    library.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
        *([decoders.Strip(" ", 1, 0)] if kind == "spaced" else [])])
    library.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>", pair="<bos> $A <eos> <bos>:1 $B:1 <eos>:1", special_tokens=[
            (token, library.token_to_id(token)) for token in ("<bos>", "<eos>")])
    library.encode_special_tokens = True
    return library


def load(folder, values):
    (folder / "tokenizer.json").write_text(json.dumps(values))
    return load_tokenizer(str(folder))


@pytest.fixture(scope="module", params=[
    pytest.param("words", marks=pytest.mark.long), "texts", "spaced"])
def both(request, tmp_path_factory):
    library = learned(request.param)
    ours = load(tmp_path_factory.mktemp(request.param), json.loads(library.to_str()))
    assert isinstance(ours, CharacterPairTokenizer) and ours.python_only is None
    assert ours.add_prefix_space == (request.param == "spaced") != ours.blanks_in_pieces()
    graph = tf.function(ours.tokenize, autograph=False,
                        input_signature=[tf.TensorSpec([None], tf.string)])
    return ours, library, graph


def ids_of(library, texts):
    return [each.ids for each in library.encode_batch(texts, add_special_tokens=False)]


def test_equals_the_tokenizers_library(both):
    ours, library, graph = both
    letters = "".join(character for text in CORPUS for character in text if character.isalpha())
    texts = [*TEXTS, *CORPUS, " ".join(CORPUS), letters * 5, "a" * 999, " " * 99, "</b> " * 50]
    assert graph(texts).to_list() == ids_of(library, texts)
    assert ours.tokenize(CORPUS).to_list() == ids_of(library, CORPUS)
    assert graph(tf.constant([], tf.string)).shape[0] == 0
    assert len(ours.words(CORPUS)) > 3


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.lists(st.sampled_from(PARTS), max_size=9).map("".join), min_size=1,
                      max_size=4))
def test_any_text(both, texts):
    ours, library, graph = both
    ids = graph(texts)
    assert ids.to_list() == ids_of(library, texts)
    assert ours.decode(ids) == [library.decode(row) for row in ids.to_list()]


def test_special_tokens_around_segments(both):
    ours, library, _ = both
    firsts, seconds = ["the fox", "", "a"], ["토큰 x", "b", ""]
    assert ours.encode(firsts) == [library.encode(first).ids for first in firsts]
    pairs = ours.encode(firsts, seconds)
    assert pairs == [library.encode(*pair).ids for pair in zip(firsts, seconds, strict=True)]
    packed = pack(ours.vocabulary, [ours.tokenize(texts) for texts in (firsts, seconds)], 64)
    for ids, real, pair in zip(packed["input_word_ids"].numpy(),
                               packed["input_mask"].numpy() > 0, pairs, strict=True):
        assert ids[real].tolist() == pair
    short = pack(ours.vocabulary, [ours.tokenize(CORPUS[:1])], 8)["input_word_ids"].numpy()[0]
    assert (short[0], short[-1]) == (ours.vocabulary.cls_id, ours.vocabulary.sep_id)
    assert ours.vocabulary.num_special() == 2 and ours.vocabulary.num_special(2) == 4
    assert ours.encode("a<mask>", allow_special=True)[-2] == ours.vocabulary.mask_id


def test_read_and_written(both, tmp_path):
    ours, library, _ = both
    theirs = both_ways(ours, tmp_path, "GemmaTokenizer")
    theirs.encode_special_tokens = True
    assert ids_of(theirs, [*TEXTS, *CORPUS]) == ids_of(library, [*TEXTS, *CORPUS])
    before, after = (json.loads(each.to_str()) for each in (library, theirs))
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        assert before[part] == after[part]


def test_offsets(both):
    ours, _, _ = both
    text = "  the 토큰. 😀\n\nfox</b> x"
    ids, starts, ends = ours.tokenize_with_offsets([text])
    assert ids.to_list() == ours.tokenize([text]).to_list()
    found = [text.encode()[start:end].decode() for start, end in zip(
        starts.to_list()[0], ends.to_list()[0], strict=True)]
    pieces = [token.decode() for token in ours.tokens(ids)[0].numpy()]
    assert found.count("😀") == 4 and found.count(".") == 1 and "\n\n" in found
    for piece, part in zip(pieces, found, strict=True):
        if piece not in BYTES:
            assert piece.replace("▁", " ").lstrip(" ") == part.lstrip(" ")
    ids, starts, ends = ours.tokenize_with_offsets(["", "a"])
    assert (starts[1, -1].numpy(), ends[1, -1].numpy()) == (0, 1)


def test_trimmed(both):
    ours, _, _ = both
    check_trims(ours)
    texts = [CORPUS[0], "é. 토큰"]
    ids = ours.tokenize(texts)
    smaller, kept = trim(ours, np.unique(ids.values))
    assert len(smaller.vocabulary) < len(ours.vocabulary)
    assert kept[smaller.tokenize(texts).values].tolist() == ids.values.numpy().tolist()
    assert smaller.options == ours.options


@pytest.mark.parametrize("ordered", [True, pytest.param(False, marks=pytest.mark.long)])
def test_runs_of_blanks(tmp_path, ordered):
    """Gemma's longest ones come first, so that they are joined one by one from the left."""
    values = json.loads(learned("words").to_str())
    pieces, merges = values["model"]["vocab"], values["model"]["merges"]
    for length in range(2, 6):
        pieces.setdefault("▁" * length, len(pieces))
    values["model"]["merges"] = [
        *(["▁" * left, "▁" * (length - left)] for length in (5, 4, 3, 2)
          for left in reversed(range(1, length))),
        *(pair for pair in map(list, merges) if "".join(pair).strip("▁"))]
    if not ordered:
        values["model"]["merges"].append(["▁" * 5, "a"])
        pieces["▁" * 5 + "a"] = len(pieces)
    library, ours = tokenizers.Tokenizer.from_str(json.dumps(values)), load(tmp_path, values)
    assert ours._run == (5 if ordered else 0)
    texts = [f"{before}{' ' * count}{after}" for count in range(40) for before in ("", "b", "</b>")
             for after in ("", "a", "the", "</b>", "\n")]
    texts.append(" " * 3000 if ordered else " " * 300)
    graph = tf.function(ours.tokenize, autograph=False)
    assert graph(tf.constant(texts)).to_list() == ids_of(library, texts)


def _without_byte(values):
    vocabulary = values["model"]["vocab"]
    vocabulary["other"] = vocabulary.pop("<0xC3>")
    values["model"]["vocab"] = dict(sorted(vocabulary.items(), key=lambda item: item[1]))


def _normalized(values):
    values["added_tokens"][-1]["normalized"] = True


@pytest.mark.parametrize(("change", "reason"), [
    (_without_byte, "byte_fallback without the pieces <0xC3>"),
    (_normalized, "is looked for in normalized text"),
    (lambda values: values.update(normalizer=None), "byte_fallback and the normalizers"),
    (lambda values: values["pre_tokenizer"].update(pattern={"String": "▁"}), "pattern="),
    (lambda values: values["model"].update(ignore_merges=True), "ignore_merges=True")])
def test_other_rules_run_in_python(tmp_path, change, reason):
    values = json.loads(learned("words").to_str())
    change(values)
    found = load(tmp_path, values)
    assert isinstance(found, LibraryTokenizer) and reason in found.python_only


def test_damaged_files_are_named(tmp_path):
    ours = load(tmp_path, json.loads(learned("words").to_str()))
    (tmp_path / "ours").mkdir()
    ours.save(str(tmp_path / "ours"))
    (tmp_path / "ours" / "merges.json").write_text('[["a", "b", "c"]]')
    with pytest.raises(UsageError, match="merges.json: the merge .*; expected two pieces"):
        load_tokenizer(str(tmp_path / "ours"))
    (tmp_path / "ours" / "merges.json").write_text('{"a b": 1}')
    with pytest.raises(UsageError, match="merges.json: the merges .*; expected a list of pairs"):
        load_tokenizer(str(tmp_path / "ours"))
