"""What a folder for transformers says of a tokenizer of ours."""

import json

import pytest

from bert_tf.converters.hf_tokenizer import write_tokenizer
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary


def _written(tokenizer, folder, tokenizer_class):
    """The configuration in the folder `out`, object."""
    for part in ("source", "out"):
        (folder / part).mkdir()
    tokenizer.save(str(folder / "source"))
    write_tokenizer(str(folder / "source"), str(folder / "out"), tokenizer_class, 16)
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


@pytest.mark.parametrize(("name", "separators", "usual"), [
    ("BertTokenizer", 1, True), ("BertTokenizer", 2, False), ("MPNetTokenizer", 2, True)])
def test_the_usual_class_is_named_for_its_separators(tmp_path, name, separators, usual):
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "a"], pair_separators=separators)
    ours = Tokenizer(vocabulary, normalization="huggingface", max_characters_per_word=100)
    assert _written(ours, tmp_path, name)["tokenizer_class"] == (
        name if usual else "PreTrainedTokenizerFast")
