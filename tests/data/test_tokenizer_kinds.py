"""Pre-training examples from tokenizers of every kind: the text comes back, words are whole."""

import json

import nasty_texts
import numpy as np
import pytest

from bert_tf.data import create
from bert_tf.data.pretraining_input import PretrainingInput
from bert_tf.errors import UsageError
from bert_tf.tokenization.base import BaseTokenizer
from bert_tf.tokenization.load import load_tokenizer


@pytest.fixture
def make(shared, tmp_path):
    def make(name, **options):
        text = tmp_path / "text.txt"
        lines = nasty_texts.real_lines(shared, 60)
        text.write_text("\n\n".join(map("\n".join, zip(lines[::2], lines[1::2], strict=True))))
        folder = str(shared / "reference" / "hub" / name)
        made = create.create_examples(**{
            "input": [str(text)], "vocab": folder, "output_dir": str(tmp_path / "data"),
            "format": "full_sentences", "max_seq_length": 64, "num_processes": 1, "seed": 1,
            "short_seq_prob": 0.0, "progress": False, **options})
        return lines, load_tokenizer(folder), made
    return make


@pytest.mark.parametrize("name", [
    "roberta_tokens", "deberta_v3_encoder",
    *(pytest.param(name, marks=pytest.mark.long) for name in (
        "mpnet_st", "modernbert_mlm", "xlm_roberta_mlm"))])
def test_examples_hold_the_text(make, tmp_path, name):
    lines, tokenizer, made = make(name, whole_word=True)
    vocabulary = tokenizer.vocabulary
    assert made["vocabulary"] == {
        "size": len(vocabulary), "special_ids": list(vocabulary.special_ids),
        "pad_id": vocabulary.pad_id, "mask_id": vocabulary.mask_id}
    assert made["options"]["tokenizer"]["class"] == type(tokenizer).__name__
    data = PretrainingInput(str(tmp_path / "data"), "train", batch_size=1, seed=0)
    found, masked = [], 0
    for batch in data.dataset(num_steps=data.num_examples):
        batch = {key: np.array(value[0]) for key, value in batch.items() if value.shape.rank}
        ids = batch["input_word_ids"].copy()
        assert ids[0] == vocabulary.cls_id and not batch["input_type_ids"].any()
        count = int(batch["masked_lm_weights"].sum())
        places = batch["masked_lm_positions"][:count]
        masked += (ids[places] == vocabulary.mask_id).sum()
        ids[places] = batch["masked_lm_ids"][:count]
        found += [number for number in ids if number not in vocabulary.special_ids
                  or number == vocabulary.unk_id]
    carries = name in ("roberta_tokens", "modernbert_mlm")  # the blank between two sentences
    assert made["options"].get("blank_between_sentences", False) == carries
    texts = [" " * (carries and number % 2) + line for number, line in enumerate(lines)]
    expected = [number for row in tokenizer.tokenize(texts).to_list() for number in row]
    assert sorted(found) == sorted(expected) and masked > 20


@pytest.mark.long
def test_a_finished_folder_is_reused_and_another_tokenizer_noticed(make, capsys):
    _, _, made = make("roberta_tokens")
    assert make("roberta_tokens")[2] == made
    with pytest.raises(UsageError, match="another run"):
        make("modernbert_mlm")
    with pytest.raises(UsageError, match="other tokens around two segments.*full_sentences"):
        make("xlm_roberta_mlm", format="segment_pair", overwrite=True)
    make("deberta_v3_encoder", format="segment_pair", overwrite=True)


def test_finished_examples_without_blanks_are_reused(make, monkeypatch):
    """A run that an earlier version began goes on with what it learned from."""
    with monkeypatch.context() as earlier:
        earlier.setattr(BaseTokenizer, "blanks_in_pieces", lambda self: False)
        made = make("roberta_tokens")[2]
    assert "blank_between_sentences" not in made["options"] and make("roberta_tokens")[2] == made
    assert make("roberta_tokens", overwrite=True)[2]["options"]["blank_between_sentences"]


def test_a_flag_against_the_folder(make):
    with pytest.raises(UsageError, match="lower_case=False with the tokenizer in .*mpnet_st, whose "
                                         "lower_case is True"):
        make("mpnet_st", lower_case=False)


@pytest.mark.long
def test_a_run_of_roberta_with_its_tokenizer(shared, tmp_path):
    import bert_tf

    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(nasty_texts.real_lines(shared, 80)))
    config = tmp_path / "config.json"
    config.write_text(json.dumps({
        "family": "roberta", "vocab_size": 800, "hidden_size": 16, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 66,
        "type_vocab_size": 1}))
    arguments = {
        "input": [str(text)], "vocab": str(shared / "reference" / "hub" / "roberta_tokens"),
        "output_dir": str(tmp_path / "run"), "config": str(config), "train_steps": 2,
        "batch_size": 4, "max_seq_length": 32, "num_processes": 1, "holdout": 0.2,
        "export_dir": str(tmp_path / "saved")}
    bert_tf.pretrain(**arguments)
    assert (tmp_path / "run" / "tokenizer" / "merges.txt").exists()
    model = bert_tf.load_tokenizer(str(tmp_path / "run" / "model"))
    assert model.encode("Short?") == load_tokenizer(arguments["vocab"]).encode("Short?")
    bert_tf.pretrain(**arguments)  # finished already
