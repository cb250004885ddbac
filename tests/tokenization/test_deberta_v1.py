"""The tokenizer of DeBERTa's first version: bytes as GPT-2 has them, special tokens as BERT."""

import json

import pytest
import tokenizers
from json_folder import both_ways, load, write_classic

from bert_tf.errors import NoTextError
from bert_tf.tokenization.byte_pair import BytePairTokenizer
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS

END = "<|endoftext|>"
PLAIN = ["The quick  brown fox doesn't jump", "한국어 문장을\n\n나눈다 12,345", "", f" a {END}",
         "[CLS] of a text"]


@pytest.fixture
def library():
    """As published: the mask is the last token, and GPT-2's own is a token like others."""
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(PLAIN * 3, vocab_size=300, show_progress=False,
                             special_tokens=["[PAD]", "[CLS]", "[SEP]", "[UNK]", END])
    made.add_special_tokens(["[MASK]"])
    values = json.loads(made.to_str())
    values["model"]["vocab"]["[MASK]"] = made.token_to_id("[MASK]")
    made = tokenizers.Tokenizer.from_str(json.dumps(values | {"added_tokens": []}))
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return made


def check(found, library):
    assert isinstance(found, BytePairTokenizer)
    assert found.vocabulary.special_tokens == SPECIAL_TOKENS
    assert found.vocabulary.pair_types and found.vocabulary.mask_id == len(found.vocabulary) - 1
    assert found.encode(PLAIN) == [each.ids for each in library.encode_batch(PLAIN)]
    assert found.encode(PLAIN, PLAIN[::-1]) == [each.ids for each in library.encode_batch(
        [*zip(PLAIN, PLAIN[::-1], strict=True)])]


@pytest.mark.parametrize(("config", "beside"), [
    ({"do_lower_case": False, "vocab_type": "gpt2"}, {"model_type": "deberta"}), ({}, {}),
    ({"tokenizer_class": "DebertaTokenizer", "mask_token": {"content": "[MASK]"}}, {})])
def test_the_classic_files(config, beside, library, tmp_path):
    """As published and as a class saves them; written, they are read alike."""
    folder = write_classic(json.loads(library.to_str()), tmp_path / "classic", config)
    (tmp_path / "classic" / "config.json").write_text(json.dumps(beside))
    found = load_tokenizer(folder)
    check(found, library)
    written = both_ways(found, tmp_path, "PreTrainedTokenizerFast")
    assert written.encode(*PLAIN[:2]).ids == library.encode(*PLAIN[:2]).ids


def test_a_file_of_all_rules(library, tmp_path):
    """The class takes the blank before a text from the configuration."""
    values = json.loads(library.to_str())
    config = {"tokenizer_class": "DebertaTokenizer", **{
        f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}}
    check(load(tmp_path, values, config), library)
    values["pre_tokenizer"]["add_prefix_space"] = True
    check(load(tmp_path, values, config), library)


def test_another_class_is_not_taken_for_it(library, tmp_path):
    folder = write_classic(json.loads(library.to_str()), tmp_path / "classic", {})
    (tmp_path / "classic" / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    assert load_tokenizer(folder).vocabulary.special_tokens == (END,) * 5
    (tmp_path / "classic" / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "LEDTokenizer"}))
    with pytest.raises(NoTextError, match="DebertaTokenizer, GPT2Tokenizer, RobertaTokenizer"):
        load_tokenizer(folder)
