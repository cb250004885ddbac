"""Published models of labels read as much of a text as transformers does, and say so again."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.converters import hf_safetensors, ours
from bert_tf.embedder import loaded
from bert_tf.errors import NoTextError, UsageError
from bert_tf.saved_model.served_model import load_served
from bert_tf.saved_model.signatures import description, signatures
from bert_tf.tokenization.load import load_tokenizer

CROSS_ENCODER, TAGGER = "bert_cross_encoder", "bert_ner_cased"


@pytest.fixture
def folder(shared, tmp_path):
    """`folder(name, tokenizer_config)` is a copy of a reference folder with other values there."""
    def make(name=CROSS_ENCODER, **stated):
        target = tmp_path / "in"
        shutil.copytree(shared / "reference" / "hub" / name, target, copy_function=shutil.copyfile)
        target.chmod(0o755)
        path = target / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | stated))
        return str(target)
    return make


@pytest.mark.parametrize(("stated", "length"), [(48, 48), (512, 64), (1e30, 64), (None, 64)])
def test_the_window_of_a_classifier(folder, stated, length):
    read = hf_safetensors.read(folder(model_max_length=stated))
    assert read.task["reading"] == {"seq_length": length, "long": "head", "stride": length // 2,
                                    "pair": None}


def test_keras_reranking_and_serving_read_the_same(folder, tmp_path):
    path = folder(model_max_length=24)
    assert loaded(path).preprocessor.seq_length == 24  # of `evaluate --reranker`
    checkpoint = hf_safetensors.read(path)
    ours.write(checkpoint, str(tmp_path / "ours"))
    served = load_served(str(tmp_path / "ours"))
    # No file says whether it is about pairs: both are answered.
    assert {"predict", "rank"} <= signatures(served).keys()
    assert served.text_names == ("text",)
    pairs = load_served(str(tmp_path / "ours"), pair=True)
    texts = {"text_a": tf.constant(["a b", "c"]), "text_b": tf.constant(["c d", "a"])}
    predict, rank = (signatures(pairs)[name] for name in ("predict", "rank"))
    assert predict.inputs.keys() == texts.keys() and description(pairs)["pair"]
    np.testing.assert_allclose(
        predict.function(pairs, **texts)["score"],
        served.model.scores(*([text.decode() for text in column.numpy()]
                              for column in texts.values())), atol=1e-5)
    assert rank.inputs.keys() == {"query", "passage"}
    served.model.preprocessor.pair = False
    served.model.save_pretrained(str(tmp_path / "single"))
    with pytest.raises(UsageError, match="pair=True of a classifier of single texts; expected"):
        load_served(str(tmp_path / "single"), pair=True)
    assert served.model.preprocessor.seq_length == 24
    hf_safetensors.write(checkpoint, str(tmp_path / "back"))
    assert hf_safetensors.read(str(tmp_path / "back")).task == checkpoint.task


def test_the_windows_of_a_tagger(folder):
    read = hf_safetensors.read(folder(TAGGER, model_max_length=32, truncation_side="left"))
    assert read.task["reading"] == {"seq_length": 32, "unit": "word", "stride": 16}


@pytest.mark.parametrize(("stated", "message"), [
    ({"truncation_side": "left"}, "truncation_side='left'; expected \"right\""),
    ({"model_max_length": "many"}, "tokenizer_config.json: model_max_length='many'; expected an"),
    ({"model_max_length": 2}, "model_max_length=2; expected an integer from 3 on")])
def test_where_text_would_get_other_labels_none_is_read(folder, tmp_path, stated, message):
    read = hf_safetensors.read(folder(**stated))
    assert read.task["reading"] is None
    assert re.search(f"it takes no text: .*{message}", read.notes[-1])
    path = str(tmp_path / "ours")
    ours.write(read, path)
    message = "takes no text, token ids alone: text was read otherwise where the model comes from"
    with pytest.raises(NoTextError, match=f"^{path} {message}"):
        loaded(path)  # of `evaluate --reranker`
    model = bert_tf.from_pretrained(path)
    with pytest.raises(NoTextError, match=message):
        model.predict(["text"])
    served = signatures(load_served(path))
    assert "encode_ids" in served and not {"predict", "encode"} & served.keys()
    model.save_pretrained(tmp_path / "again")
    again = ours.read(str(tmp_path / "again"))
    assert again.task == read.task and load_tokenizer(again.tokenizer)
    # A head of other labels, or of another task, learns from text as we read it.
    fresh = bert_tf.from_pretrained(path, labels=["similarity"])
    fresh.save_pretrained(tmp_path / "fresh")
    assert ours.read(str(tmp_path / "fresh")).task["reading"] == fresh.preprocessor.reading()
    assert bert_tf.from_pretrained(path, "embedder").preprocessor is not None
    assert hf_safetensors.write(read, str(tmp_path / "back")) == [
        "how text was read where the model comes from"]


def test_a_classifier_without_a_tokenizer_reads_no_text(shared, folder, tmp_path):
    path = folder()
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (tmp_path / "in" / name).unlink()
    assert "reading" not in hf_safetensors.read(path).task
