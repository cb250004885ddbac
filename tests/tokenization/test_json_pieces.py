"""A `tokenizer.json` of a Unigram model whose class has rules of its own, beside the library."""

import json

import pytest
import tiny_model
from json_folder import load
from tokenizers import Tokenizer, normalizers, pre_tokenizers

from bert_tf.converters.hf_tokenizer import to_json
from bert_tf.tokenization.sentence_piece import SentencePieceTokenizer


def written(normalization):
    return to_json(SentencePieceTokenizer(tiny_model.sentence_piece().model,
                                          normalization=normalization))


@pytest.mark.parametrize(("name", "config", "kinds"), [
    ("AlbertTokenizer", {"keep_accents": True}, ["Lowercase"]),
    ("AlbertTokenizerFast", {"do_lower_case": False}, ["NFKD", "StripAccents"])])
def test_rules_of_albert_in_the_configuration(tmp_path, name, config, kinds):
    values = written("albert_huggingface")
    library = Tokenizer.from_str(json.dumps(values))
    library.normalizer = normalizers.Sequence([
        *(normalizers.Replace(quote, '"') for quote in ("``", "''")),
        *(getattr(normalizers, kind)() for kind in kinds), library.normalizer[5]])
    tokenizer = load(tmp_path, values, {"tokenizer_class": name, **config})
    assert isinstance(tokenizer, SentencePieceTokenizer)
    text = "The e\u0301 the, ``The''"
    assert tokenizer.encode(text) == library.encode(text).ids


@pytest.mark.parametrize("stated", ["tokenizer_config.json", "config.json"])
@pytest.mark.parametrize(("lowers", "splits"), [(False, False), (True, False), (False, True)])
def test_rules_of_deberta_in_the_configuration(tmp_path, lowers, splits, stated):
    """As its class has them where any is true, which no graph has."""
    values = written("deberta")
    values["normalizer"]["normalizers"].pop()  # the model's, which that class leaves out
    library = Tokenizer.from_str(json.dumps(values))
    if lowers:
        library.normalizer = normalizers.Sequence([normalizers.Lowercase(), library.normalizer])
    if splits:
        library.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Punctuation("isolated"), library.pre_tokenizer])
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "deberta-v2"}))
    tokenizer = load(tmp_path, values, {"do_lower_case": lowers, "split_by_punct": splits} | (
        {"tokenizer_class": "DebertaV2Tokenizer"} if stated == "tokenizer_config.json" else {}))
    assert isinstance(tokenizer, SentencePieceTokenizer) == (not lowers and not splits)
    text = "The the.the, (The)"
    assert tokenizer.encode(text) == library.encode(text).ids


@pytest.mark.parametrize(("name", "splits"), [
    ("PreTrainedTokenizerFast", False), ("XLMRobertaTokenizer", True),
    ("DebertaV2Tokenizer", True)])
def test_blanks_that_nothing_joins(tmp_path, name, splits):
    """SentencePiece strips them, and classes split text at them whatever the file has."""
    values = written("sentencepiece")
    kept = {**values, "pre_tokenizer": values["pre_tokenizer"]["pretokenizers"][-1]}
    tokenizer = load(tmp_path, kept, {"tokenizer_class": name})
    assert isinstance(tokenizer, SentencePieceTokenizer) == splits
    library = Tokenizer.from_str(json.dumps(values if splits else kept))
    assert tokenizer.encode("the  the ") == library.encode("the  the ").ids
