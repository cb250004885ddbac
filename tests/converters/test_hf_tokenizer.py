"""What a folder for transformers says of a tokenizer of ours."""

import json

import pytest
import tiny_model

from bert_tf.converters.hf_tokenizer import write_tokenizer
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.sentence_piece import SentencePieceTokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary


def _written(tokenizer, folder, tokenizer_class, **options):
    """The configuration in the folder `out`, object."""
    for part in ("source", "out"):
        (folder / part).mkdir()
    tokenizer.save(str(folder / "source"))
    write_tokenizer(str(folder / "source"), str(folder / "out"), tokenizer_class, 16, **options)
    return json.loads((folder / "out" / "tokenizer_config.json").read_text())


@pytest.mark.parametrize(("options", "name"), [
    ({"normalization": "huggingface", "max_characters_per_word": 100}, "BertTokenizer"),
    ({"normalization": "google"}, "PreTrainedTokenizerFast"),
    ({"max_characters_per_word": 100}, "PreTrainedTokenizerFast")])
def test_the_usual_class_is_named_where_it_has_all_rules(tmp_path, options, name):
    # Where BertTokenizer is named, transformers 5 takes its rules: no NFC, words of 100 characters.
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a"]), **options)
    assert _written(tokenizer, tmp_path, "BertTokenizer")["tokenizer_class"] == name
    back = load_tokenizer(str(tmp_path / "out"))
    assert back.max_characters_per_word == tokenizer.max_characters_per_word


@pytest.mark.parametrize("has_types", [True, False])
def test_the_class_for_any_tokenizer_is_told_of_segments(tmp_path, has_types):
    """It leaves `token_type_ids` out, which models without segments must not be given."""
    ours = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a"]), normalization="google")
    stated = _written(ours, tmp_path, "BertTokenizer", has_types=has_types)
    assert ("token_type_ids" in stated.get("model_input_names", ())) is has_types


@pytest.mark.parametrize(("name", "separators", "usual"), [
    ("BertTokenizer", 1, True), ("BertTokenizer", 2, False), ("MPNetTokenizer", 2, True)])
def test_the_usual_class_is_named_for_its_separators(tmp_path, name, separators, usual):
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "a"], pair_separators=separators)
    ours = Tokenizer(vocabulary, normalization="huggingface", max_characters_per_word=100)
    assert _written(ours, tmp_path, name)["tokenizer_class"] == (
        name if usual else "PreTrainedTokenizerFast")


@pytest.mark.parametrize(("name", "normalization", "separators", "usual"), [
    ("AlbertTokenizer", "albert_huggingface", 1, True), ("AlbertTokenizer", "albert", 1, False),
    ("DebertaV2Tokenizer", "deberta", 1, True), ("DebertaV2Tokenizer", "albert", 1, False),
    ("CamembertTokenizer", "sentencepiece", 2, True),
    ("OpenAIGPTTokenizer", "sentencepiece", 1, False),
    ("XLMRobertaTokenizer", "sentencepiece", 2, False)])  # whose unknown piece has another id
def test_the_usual_class_is_named_for_its_pieces(tmp_path, name, normalization, separators, usual):
    """transformers 5 takes that class's normalizer and unknown piece for those of the file."""
    ours = SentencePieceTokenizer(tiny_model.sentence_piece().model, False, True,
                                  normalization=normalization, pair_separators=separators)
    assert _written(ours, tmp_path, name)["tokenizer_class"] == (
        name if usual else "PreTrainedTokenizerFast")
