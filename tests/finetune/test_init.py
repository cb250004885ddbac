"""What a fine-tuning starts from: our folders, other formats, sizes and vocabularies alone."""

import json

import numpy as np
import pytest
from sentiment import WORDS, config, examples, tokenizer

from bert_tf.converters import google_tf1, hf_safetensors, keras_hub, ours, tf_models
from bert_tf.converters.formats import find_format
from bert_tf.errors import BertTfError, UsageError
from bert_tf.finetune.config import FinetuneConfig
from bert_tf.finetune.init import find_start, start_files
from bert_tf.models.families import build_encoder
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tokenization.load import TokenizerSource, load_tokenizer

WRITERS = {"google": google_tf1.write, "hf": hf_safetensors.write, "keras_hub": keras_hub.write,
           "tf_models": tf_models.write, "bert_tf": ours.write}


def options(**values):
    return FinetuneConfig(task="cola", train="t.tsv", dev=0.1, output_dir="run", **values)


def no_texts():
    raise AssertionError("there is a vocabulary")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A model and its folder."""
    model = build_encoder(config(), seed=5)
    folder = str(tmp_path_factory.mktemp("init") / "encoder")
    model.save_pretrained(folder, tokenizer())
    return model, folder


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.long] * (name in ("tf_models", "keras_hub")))
    for name in WRITERS])
def test_every_format_is_known_and_read(name, encoder, tmp_path):
    model, folder = encoder
    path = str(tmp_path / "theirs")
    WRITERS[name](ours.read(folder), path)
    assert find_format(path) == name
    start = find_start(options(init=path), str(tmp_path / "run"), no_texts)
    classifier = start.build("classifier", {"hidden_dropout_prob": 0.2}, labels=["a", "b"], seed=1)
    assert classifier.config.hidden_dropout_prob == 0.2
    read = {variable.path: variable.numpy() for variable in classifier.weights}
    for variable in model.weights:
        np.testing.assert_array_equal(read[variable.path], variable.numpy())
    assert start.tokenizer.vocabulary.tokens == tokenizer().vocabulary.tokens
    assert start.tokenizer.lower_case


def test_a_checkpoint_of_another_format_is_converted_once(encoder, tmp_path, monkeypatch):
    path, run = str(tmp_path / "theirs"), str(tmp_path / "run")
    hf_safetensors.write(ours.read(encoder[1]), path)
    first = find_start(options(init=path), run, no_texts)
    monkeypatch.setattr(hf_safetensors, "read", no_texts)
    again = find_start(options(init=path), run, no_texts)
    assert first.folder == again.folder == str(tmp_path / "run" / "init")


def test_the_folder_of_a_run_is_its_model(tmp_path):
    model = Pretrainer(config(), None, seed=5)
    model.save_pretrained(str(tmp_path / "run" / "model"), tokenizer())
    start = find_start(options(init=str(tmp_path / "run")), str(tmp_path / "new"), no_texts)
    assert start.folder == str(tmp_path / "run" / "model")


def test_what_is_no_model_is_refused(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"pickle")
    with pytest.raises(BertTfError, match="is a pickle"):
        find_start(options(init=str(tmp_path / "model.bin")), str(tmp_path), no_texts)
    with pytest.raises(UsageError, match="holds no model; expected a model folder"):
        find_start(options(init=str(tmp_path)), str(tmp_path / "run"), no_texts)


def test_a_checkpoint_without_a_tokenizer_is_not_converted(encoder, tmp_path):
    path = tmp_path / "theirs"
    google_tf1.write(ours.read(encoder[1]), str(path))
    (path / "checksums.json").unlink()
    (path / "vocab.txt").unlink()
    with pytest.raises(BertTfError, match="theirs has no tokenizer; expected vocab.txt; or "):
        find_start(options(init=str(path)), str(tmp_path / "run"), no_texts)
    assert not (tmp_path / "run").exists()


def test_from_scratch_the_vocabulary_is_learned_from_the_text_and_kept(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**config().to_dict(), "vocab_size": 60}))
    texts = [example.text_a for example in examples(50)]
    flags = options(config=str(tmp_path / "config.json"), lower_case=True)
    start = find_start(flags, str(tmp_path / "run"), lambda: texts)
    assert start.folder is None and start.tokenizer.lower_case
    assert start.config.vocab_size == len(start.tokenizer.vocabulary) <= 60
    assert set("".join(WORDS)) <= {token[-1] for token in start.tokenizer.vocabulary.tokens}
    again = find_start(flags, str(tmp_path / "run"), no_texts)
    assert again.tokenizer.vocabulary.tokens == start.tokenizer.vocabulary.tokens
    one, other = (each.build("classifier", {}, labels=["a", "b"], seed=3).get_weights()
                  for each in (start, again))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_from_scratch_with_the_sizes_and_the_vocabulary_of_a_folder(encoder, tmp_path):
    hf = str(tmp_path / "hf")
    hf_safetensors.write(ours.read(encoder[1]), hf)
    for folder in (encoder[1], hf):
        start = find_start(options(config=folder), str(tmp_path / "run"), no_texts)
        assert start.folder is None and start.config == config()
        assert start.tokenizer.lower_case
    with pytest.raises(UsageError, match="--lower_case False with the tokenizer"):
        find_start(options(config=hf, lower_case=False), str(tmp_path / "cased"), no_texts)


@pytest.mark.parametrize("name", ["roberta_tokens", "xlm_roberta_mlm", "bert_ner_cased"])
def test_from_scratch_with_a_tokenizer_of_any_kind(shared, name, tmp_path):
    folder = str(shared / "reference" / "hub" / name)
    start = find_start(options(vocab=folder), str(tmp_path / "run"), no_texts)
    expected = load_tokenizer(folder)
    assert start.tokenizer.vocabulary.tokens == expected.vocabulary.tokens
    assert (start.config.vocab_size, start.config.padding_id) == (
        len(expected.vocabulary), expected.vocabulary.pad_id)
    assert start_files(options(vocab=folder)) == TokenizerSource(folder).files()
    with pytest.raises(UsageError, match="lower_case=True with the tokenizer in"):
        find_start(options(vocab=folder, lower_case=True), str(tmp_path / "other"), no_texts)


def test_from_scratch_with_a_vocabulary_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(tokenizer().vocabulary.tokens) + "\n")
    start = find_start(options(vocab=str(path)), str(tmp_path / "run"), no_texts)
    assert start.config.vocab_size == len(tokenizer().vocabulary)
    assert (start.config.num_hidden_layers, start.config.hidden_size) == (2, 128)
    assert start.tokenizer.lower_case is False
