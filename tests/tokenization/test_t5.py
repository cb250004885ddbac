"""T5's SentencePiece models: sentinels, ends of segments, bytes for what no piece has."""

import io
import json

import pytest
import sentencepiece
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.converters.hf_tokenizer import write_tokenizer
from bert_tf.errors import UsageError
from bert_tf.tokenization.load import load_tokenizer

CORPUS = ["The quick brown fox jumps over the lazy dog.", "한국어 문장을 토큰으로 나눈다.",
          "Translate English to German: that is good."] * 20
TEXTS = [*CORPUS[:3], "", "  a \t b\n", "ﬁ ½ 한국 가꥟", "👍🏽 ok", "<extra_id_0> </s> x", "Ω≈ç√"]
END, SENTINELS = 1, 5


@pytest.fixture(scope="module", params=[False, True], ids=["unknown", "bytes"])
def folder(request, tmp_path_factory):
    """A folder as T5's class reads it, of which the second has mT5's fallback."""
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=stream, hard_vocab_limit=False,
        minloglevel=3, vocab_size=400, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
        byte_fallback=request.param)
    folder = tmp_path_factory.mktemp("t5")
    (folder / "spiece.model").write_bytes(stream.getvalue())
    state(folder, extra_ids=SENTINELS)
    return folder


def state(folder, **config):
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "T5Tokenizer", **config}))


@pytest.fixture(scope="module")
def written(folder, tmp_path_factory):
    """The tokenizer, and what `tokenizers` reads of the `tokenizer.json` that is written of it."""
    target = tmp_path_factory.mktemp("written")
    write_tokenizer(str(folder), str(target), "PreTrainedTokenizerFast", 512)
    return load_tokenizer(str(folder)), tokenizers.Tokenizer.from_file(
        str(target / "tokenizer.json")), load_tokenizer(str(target))


def test_ids_are_those_of_the_library(folder, written):
    ours, library, again = written
    plain = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    number = plain.get_piece_size()
    assert ours.vocabulary.tokens[number:] == again.vocabulary.tokens[number:] == [
        f"<extra_id_{each}>" for each in reversed(range(SENTINELS))]
    assert ours.vocabulary.special_tokens == ("<pad>", "<unk>", "</s>", "</s>", "<extra_id_0>")
    wanted = [plain.encode(text) for text in TEXTS]
    assert ours.tokenize(TEXTS).to_list() == again.tokenize(TEXTS).to_list() == wanted
    assert (2 in wanted[6]) != ("<0xF0>" in ours.vocabulary.tokens)
    without = [text for text in TEXTS if "extra" not in text]  # where the library finds tokens
    assert [library.encode(text).ids for text in without] == [
        plain.encode(text) + [END] for text in without]


def test_each_segment_ends_as_if_it_was_alone(written):
    ours, library, _ = written
    one, two = CORPUS[0], CORPUS[1]
    assert ours.encode([one], pair=[two]) == [library.encode(one, two).ids]


@settings(deadline=None, max_examples=15)
@given(text=st.text(st.characters(exclude_categories=["Cn", "Cs", "Cc"]), max_size=12))
def test_offsets_lie_in_the_text_and_do_not_go_back(written, text):
    ours = written[0]
    ids, starts, ends = (each.to_list()[0] for each in ours.tokenize_with_offsets([text]))
    assert ids == ours.tokenize([text]).to_list()[0]
    size = len(text.encode())
    assert all(0 <= start <= end <= size for start, end in zip(starts, ends, strict=True))
    assert starts == sorted(starts) and ends == sorted(ends)
    text.encode()[:ends[-1] if ends else 0].decode()  # no half of a character


@pytest.mark.parametrize("number", [-1, 1.5, "100", 10**9, True])
def test_a_wrong_number_of_sentinels(number, folder, tmp_path):
    (tmp_path / "spiece.model").write_bytes((folder / "spiece.model").read_bytes())
    state(tmp_path, extra_ids=number)
    with pytest.raises(UsageError, match=r"tokenizer_config.json: extra_ids=.*expected 0 to 1000"):
        load_tokenizer(str(tmp_path))


def test_bytes_that_a_file_lacks(written, tmp_path):
    """Rules that the graph cannot run are left to the library."""
    values = json.loads(written[1].to_str())
    values["model"]["byte_fallback"] = True
    values["model"]["vocab"] = [each for each in values["model"]["vocab"] if each[0] != "<0x00>"]
    values["added_tokens"] = [each for each in values["added_tokens"] if "extra" not in
                              each["content"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"mask_token": "<pad>"}))
    assert "bytes without a piece" in load_tokenizer(str(tmp_path)).python_only
