"""The tokenizer that travels with a checkpoint."""

import json

import pytest
import tiny_model

from bert_tf.converters.hf_tokenizer import write_tokenizer
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


def test_the_class_that_the_model_s_configuration_names_travels_along(tmp_path):
    """Without it ALBERT's rules would run, which are those of no name."""
    source, target, written = (tmp_path / name for name in ("source", "target", "written"))
    for folder in (source, target, written):
        folder.mkdir()
    (source / "spiece.model").write_bytes(tiny_model.sentence_piece().model)
    (source / "config.json").write_text('{"model_type": "big_bird"}')
    copy_tokenizer(str(source), str(target))
    write_tokenizer(str(source), str(written), "BertTokenizer", 512)
    for folder in (target, written):
        with pytest.raises(NoTextError, match="tokenizer_class='big_bird', whose rules"):
            load_tokenizer(str(folder))
