"""The tokenizer that travels with a checkpoint."""

import json

import pytest
import tiny_model

from bert_tf.converters.hf_tokenizer import to_json, write_tokenizer
from bert_tf.converters.tokenizer_files import copy_tokenizer
from bert_tf.errors import NoTextError
from bert_tf.tokenization.load import load_tokenizer


def test_pieces_whose_rules_we_do_not_run_are_copied_and_named(tmp_path):
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    tiny_model.sentence_piece().save(str(tmp_path / "source"))
    (tmp_path / "source" / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "XLNetTokenizer"}))
    copy_tokenizer(str(tmp_path / "source"), str(tmp_path / "target"))
    assert (tmp_path / "target" / "spiece.model").exists()
    with pytest.raises(NoTextError, match="tokenizer_class='XLNetTokenizer', whose rules"):
        load_tokenizer(str(tmp_path / "target"))


@pytest.fixture
def copied(tmp_path):
    """Function that copies a classic file, beside a `tokenizer.json` without rules that we run, in
    both ways; it returns the two folders."""
    def copy(tokenizer, name, data, config):
        source, target, written = (tmp_path / part for part in ("source", "target", "written"))
        for folder in (source, target, written):
            folder.mkdir()
        (source / name).write_bytes(data)
        (source / "config.json").write_text(json.dumps(config))
        (source / "tokenizer.json").write_text(json.dumps(
            {**to_json(tokenizer), "post_processor": None}))
        copy_tokenizer(str(source), str(target))
        write_tokenizer(str(source), str(written), "BertTokenizer", 512)
        return target, written

    return copy


@pytest.mark.parametrize(("config", "name"), [
    ({"model_type": "big_bird"}, "BigBirdTokenizer"),
    ({"model_type": "rembert"}, "RemBertTokenizer"),
    ({"model_type": "camembert"}, "CamembertTokenizer"),
    ({"model_type": "bert", "tokenizer_class": "XLNetTokenizer"}, "XLNetTokenizer"),
    ({"model_type": "bert", "auto_map": {"AutoTokenizer": "code.Mine"}}, "code.Mine")])
def test_the_class_that_the_model_s_configuration_tells_travels_along(copied, config, name):
    """Without it ALBERT's or XLM-R's rules would run, which the files look like."""
    pieces = tiny_model.sentence_piece()
    for folder in copied(pieces, "spiece.model", pieces.model, config):
        stated = json.loads((folder / "tokenizer_config.json").read_text())
        assert stated["tokenizer_class"] == name


def test_the_class_of_roformer_travels_along(copied):
    pieces = tiny_model.word_piece()
    vocabulary = "\n".join(pieces.vocabulary.tokens).encode()
    target, _ = copied(pieces, "vocab.txt", vocabulary, {"model_type": "roformer"})
    stated = json.loads((target / "tokenizer_config.json").read_text())
    assert stated["tokenizer_class"] == "RoFormerTokenizer"


def test_classic_files_whose_rules_run_do_so_where_they_are_copied(copied):
    pieces = tiny_model.word_piece()
    vocabulary = "\n".join(pieces.vocabulary.tokens).encode()
    for folder in copied(pieces, "vocab.txt", vocabulary, {"model_type": "bert"}):
        assert load_tokenizer(str(folder)).vocabulary.tokens == pieces.vocabulary.tokens
