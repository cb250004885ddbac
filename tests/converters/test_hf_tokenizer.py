"""What a folder for transformers says of a tokenizer of ours."""

import json

import pytest

from bert_tf.converters.hf_tokenizer import write_tokenizer
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary


@pytest.mark.parametrize(("options", "name"), [
    ({"normalization": "huggingface", "max_characters_per_word": 100}, "BertTokenizer"),
    ({"normalization": "google"}, "PreTrainedTokenizerFast"),
    ({"max_characters_per_word": 100}, "PreTrainedTokenizerFast")])
def test_the_usual_class_is_named_where_it_has_all_rules(tmp_path, options, name):
    # Where BertTokenizer is named, transformers 5 takes its rules: no NFC, words of 100 characters.
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a"]), **options)
    for part in ("source", "out"):
        (tmp_path / part).mkdir()
    tokenizer.save(str(tmp_path / "source"))
    write_tokenizer(str(tmp_path / "source"), str(tmp_path / "out"), "BertTokenizer", 16)
    written = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert written["tokenizer_class"] == name
    back = load_tokenizer(str(tmp_path / "out"))
    assert back.max_characters_per_word == tokenizer.max_characters_per_word
