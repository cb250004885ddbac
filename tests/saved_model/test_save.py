"""Versions appear whole and checked, or not at all."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from harness import unsealed
from tiny_model import MODELS, Traced, config_of, only_signatures, save_model, word_piece

from bert_tf.config import ModelConfig
from bert_tf.converters.tokenizer_files import vocabulary_notes
from bert_tf.errors import BertTfError, UsageError
from bert_tf.saved_model import save, server_config, verify
from bert_tf.saved_model.save import export_saved_model
from bert_tf.saved_model.served_model import load_served
from bert_tf.saved_model.signatures import signatures
from bert_tf.saved_model.warmup import warmup_requests
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.pretraining.language_model import LanguageModel
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens
from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.tokenization.vocabulary import AddedToken


@pytest.fixture
def quick(monkeypatch):
    """Exports that hold a file instead of a graph: seconds saved where the graph is not tested."""
    def write(served, model_folder, folder):
        os.makedirs(folder)
        pathlib.Path(folder, "saved_model.pb").touch()

    monkeypatch.setattr(save, "_write", write)
    monkeypatch.setattr(save, "verify", lambda *_: None)


@pytest.mark.parametrize(("name", "files"), [
    ("bert", ["vocab.txt"]), ("albert", ["spiece.model"]),
    pytest.param("gpt", ["merges.txt", "vocab.json"], marks=pytest.mark.long)])
def test_what_a_version_holds(name, files, exported):
    export = exported(name)
    folder, model = pathlib.Path(export.version), pathlib.Path(export.folder)
    assert folder.name == "1"
    assert sorted(os.listdir(folder / "assets")) == files
    for file in files:
        assert (folder / "assets" / file).read_bytes() == (model / file).read_bytes()
    extra = folder / "assets.extra"
    for file in ("model_config.json", "task.json", "tokenizer_config.json"):
        assert (extra / file).read_text() == (model / file).read_text()
    about = json.loads((extra / "export.json").read_text())
    assert set(about["signatures"]) == set(MODELS[name][2])
    assert about["notes"] == []
    assert os.listdir(folder.parent) == ["1"]


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.long] * (name != "bert"))
    for name in sorted(set(MODELS) - {"cased"})])
def test_warm_up_requests_are_the_servers_protos(name, exported):
    export = exported(name)
    prediction_log_pb2 = pytest.importorskip(
        "tensorflow_serving.apis.prediction_log_pb2", reason="the extra [serving] is not installed")
    path = os.path.join(export.version, "assets.extra", "tf_serving_warmup_requests")
    signatures = set()
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        inputs = {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}
        assert export.call(request.model_spec.signature_name, **inputs)
        signatures.add(request.model_spec.signature_name)
    assert signatures == set(export.call.signatures)


def test_warm_up_goes_from_short_texts_to_the_whole_window(tmp_path):
    tokenizer = word_piece()
    config = ModelConfig(vocab_size=len(tokenizer.vocabulary), hidden_size=8, num_hidden_layers=1,
                         num_attention_heads=2, intermediate_size=8, max_position_embeddings=200)
    Pretrainer(config).save_pretrained(str(tmp_path / "model"), tokenizer)
    served = load_served(str(tmp_path / "model"))
    lengths = {name: [] for name in signatures(served)}
    for requests in warmup_requests(served):
        for name, inputs in requests.items():
            assert {len(value) for value in inputs.values()} == {1}
            ids = (inputs if "input_word_ids" in inputs
                   else served.read({"text": next(iter(inputs.values()))}))
            lengths[name].append(ids["input_word_ids"].shape[1])
    for short, middling, longest in lengths.values():
        assert 3 < short <= 16 < 48 <= middling <= 72
        assert longest == 200


def test_batching_parameters_are_beside_the_graph(quick, model_folder, tmp_path):
    version = export_saved_model(model_folder, str(tmp_path))
    assert (pathlib.Path(version, "batching_params.pbtxt").read_text()
            == server_config.BATCHING_PARAMS)


def test_the_next_free_number(quick, model_folder, tmp_path):
    for name in ("2", "9", "10", ".11", "latest", ".hidden"):  # 11 was served before
        (tmp_path / name).mkdir()
    assert export_saved_model(model_folder, str(tmp_path)) == str(tmp_path / "12")


def test_a_wrong_graph_is_not_published(model_folder, tmp_path, monkeypatch):
    load = save.load_served
    write = save._write

    def write_another_model(served, model_folder, folder):
        other = load(model_folder)
        for weight in other.model.weights:
            weight.assign(weight + 0.01)
        write(other, model_folder, folder)

    monkeypatch.setattr(save, "_write", write_another_model)
    with only_signatures("embed"), pytest.raises(
            BertTfError, match="Keras model; nothing is published"):
        export_saved_model(model_folder, str(tmp_path))
    assert os.listdir(tmp_path) == []


@pytest.mark.long
def test_a_killed_export_leaves_nothing_that_counts(quick, model_folder, tmp_path):
    script = ("import os, signal, sys\n"
              "from bert_tf.saved_model import save\n"
              "save.verify = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
              "save.export_saved_model(sys.argv[1], sys.argv[2])\n")
    process = subprocess.run([sys.executable, "-c", script, model_folder, tmp_path], timeout=300)
    assert process.returncode == -9
    lock, left = sorted(os.listdir(tmp_path))
    assert lock == ".lock" and left.startswith(".tmp-")
    assert (tmp_path / left / "saved_model.pb").exists()
    version = export_saved_model(model_folder, str(tmp_path))
    assert os.listdir(tmp_path) == ["1"]
    assert version == str(tmp_path / "1")


def test_what_a_killed_export_left_is_deleted_and_does_not_count(quick, model_folder, tmp_path):
    (tmp_path / ".tmp-1-0123456789ab" / "variables").mkdir(parents=True)
    assert export_saved_model(model_folder, str(tmp_path)) == str(tmp_path / "1")
    assert os.listdir(tmp_path) == ["1"]


def test_exports_at_once_take_different_numbers(quick, model_folder, tmp_path):
    threads = [threading.Thread(target=export_saved_model, args=(model_folder, str(tmp_path)))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(os.listdir(tmp_path)) == ["1", "2", "3", "4"]


def test_a_full_disk_is_one_line(model_folder, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise tf.errors.ResourceExhaustedError(None, None, "variables: No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full)
    with only_signatures("embed"), pytest.raises(BertTfError, match="the disk is full"):
        export_saved_model(model_folder, str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_a_run_brings_its_window_and_its_records(quick, tmp_path, monkeypatch):
    run = tmp_path / "runs" / "demo"
    (run / "data").mkdir(parents=True)
    save_model(str(run / "model"))
    (run / "data" / "manifest.json").write_text(json.dumps({"options": {"seq_length": 17}}))
    for name in ("train_config.json", "results.json"):
        (run / name).write_text("{}")
    monkeypatch.chdir(tmp_path)
    windows = []
    load = save.load_served
    monkeypatch.setattr(save, "load_served",
                        lambda *given: windows.append(given[2]) or load(*given))
    for path in ("runs/demo", "runs/demo/model/", "runs/demo"):
        version = export_saved_model(path, seq_length=9 if len(windows) == 2 else None)
    assert version == os.path.join("saved_models", "demo", "3")
    assert windows == [17, 17, 9]
    assert set(os.listdir(os.path.join(version, "assets.extra"))) == {
        "model_config.json", "task.json", "tokenizer_config.json", "export.json",
        "train_config.json", "results.json", "tf_serving_warmup_requests"}


def test_the_local_config_lists_every_model(quick, model_folder, tmp_path):
    model_server_config_pb2 = pytest.importorskip(
        "tensorflow_serving.config.model_server_config_pb2",
        reason="the extra [serving] is not installed")
    checkout = tmp_path / 'with "quotes" 한글'
    for name in ("zebra", "ape"):
        export_saved_model(model_folder, str(checkout / "saved_models" / name))
    assert not (checkout / "serving").exists()
    (checkout / "serving").mkdir()
    (checkout / "saved_models" / "empty").mkdir()
    (checkout / "saved_models" / "README.md").touch()
    export_saved_model(model_folder, str(checkout / "saved_models" / "zebra"))
    text = (checkout / "serving" / "models.local.config").read_text()
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    assert [(model.name, model.base_path) for model in config.model_config_list.config] == [
        (name, str(checkout / "saved_models" / name)) for name in ("ape", "zebra")]


def test_a_version_is_there_though_servers_cannot_be_told(
        quick, model_folder, tmp_path, capsys):
    (tmp_path / "serving/models.local.config").mkdir(parents=True)  # which nobody can write
    version = export_saved_model(model_folder, str(tmp_path / "saved_models/name"))
    assert os.path.isfile(os.path.join(version, "saved_model.pb"))
    assert "note: cannot read" in (out := capsys.readouterr().out) and "models.local.config" in out


@pytest.mark.parametrize(("options", "message"), [
    ({"dtype": "float33"}, "try dtype='float32'"),
    ({"seq_length": 25}, "5 to 24"),
    ({"seq_length": 4}, "5 to 24"),
    ({"top_k": 0}, "1 to"),
    ({"max_new_tokens": 3}, "max_new_tokens=3 of a pretraining; expected a language_model"),
    ({"top_p": 0.9}, "top_p=0.9 of a pretraining; expected a language_model"),
])
def test_options_that_do_not_fit(options, message, model_folder, tmp_path):
    with pytest.raises(UsageError, match=message):
        export_saved_model(model_folder, str(tmp_path / "out"), **options)
    assert not (tmp_path / "out").exists()


def test_a_folder_from_which_tensorflow_would_load_nothing(model_folder, tmp_path):
    with pytest.raises(UsageError, match=r"--export_dir .*\[1\]; expected no .* pattern"):
        export_saved_model(model_folder, tmp_path / "out[1]")
    assert not (tmp_path / "out[1]").exists()


def test_inside_a_strategy(model_folder, tmp_path):
    with tf.distribute.MirroredStrategy().scope(), pytest.raises(UsageError, match="outside"):
        export_saved_model(model_folder, str(tmp_path))


def test_what_is_near():
    expected = np.array([[[3.0, 4.0]], [[0.0, 0.1]]])
    assert verify.near(expected, expected, 0)
    assert verify.near(expected + [[[0, 0.4]], [[0.09, 0]]], expected, 0.1)
    assert not verify.near(expected + [[[0, 0]], [[0.11, 0]]], expected, 0.1)
    assert not verify.near(expected * np.nan, expected, 0.1)
    assert verify.near(expected[:0], expected[:0], 0)  # nothing was clear enough to compare


def test_a_vocabulary_of_another_size(model_folder, tmp_path):
    folder = unsealed(shutil.copytree(model_folder, tmp_path / "model"))
    with open(folder / "vocab.txt", "a") as vocabulary:
        vocabulary.write("surplus\n")
    with pytest.raises(UsageError, match="tokenizer has 38 tokens; expected vocab_size=37"):
        export_saved_model(str(folder), str(tmp_path / "out"))


def test_a_table_with_rows_that_no_token_is_of(tmp_path):
    """Published tables are often padded to a round number of rows."""
    tokenizer = word_piece()
    size = len(tokenizer.vocabulary)
    model = Pretrainer(config_of(tokenizer, vocab_size=size + 3), seed=1)
    model.masked_lm_head.output_bias.assign(np.float32([0] * size + [99] * 3))
    model.save_pretrained(str(tmp_path / "model"), tokenizer)
    call = Traced(tmp_path / "model")
    found = call("fill_mask", text=["the [MASK]"])
    assert found["scores"].sum() > 0.1 and set(found["tokens"].ravel()) <= {
        token.encode() for token in tokenizer.vocabulary.tokens}
    asked = from_pretrained(tmp_path / "model").fill_mask("the [MASK]")[0][0]
    assert asked["token"].encode() == found["tokens"][0, 0, 0]
    ids = {"input_word_ids": [[2, size + 2, 3]], "input_mask": [[1] * 3],
           "input_type_ids": [[0] * 3]}
    assert call("encode_ids", **ids)["tokens"].tolist() == [[b"[CLS]", b"", b"[SEP]"]]
    model = LanguageModel(config_of(tokenizer, vocab_size=size + 3, family="gpt"), seed=1)
    table = model.encoder.backbone.embeddings.word_embeddings
    table.assign(tf.concat([table[:size], 9 * table[:3]], 0))  # which would be the likeliest
    model.save_pretrained(str(tmp_path / "gpt"), tokenizer)
    with pytest.raises(UsageError, match="max_new_tokens=23; expected 1 to 22"):
        Traced(tmp_path / "gpt", max_new_tokens=23)
    found = Traced(tmp_path / "gpt")("generate", text=["the", "a"])
    assert found["num_tokens"].any() and found["output_word_ids"].max() < size
    asked = from_pretrained(tmp_path / "gpt").generate(
        ["the", "a"], max_new_tokens=found["output_word_ids"].shape[1])
    assert asked == [text.decode() for text in found["text"]]


def test_a_special_token_without_a_row(tmp_path):
    """Gemma 3 has one for images, whose id its models of text have no row for."""
    tokenizer = word_piece()
    vocabulary = tokenizer.vocabulary
    larger = tokenizer.with_tokens([*vocabulary.tokens, "<image>"])
    for special in (True, False):
        larger.vocabulary.added_tokens = (*vocabulary.added_tokens,
                                          AddedToken("<image>", special=special))
        folder = tmp_path / str(special)
        Pretrainer(config_of(tokenizer), seed=1).save_pretrained(str(folder), larger)
        if special:
            assert Traced(folder)("fill_mask", text=["the [MASK]"])["scores"].sum() > 0.1
            (note,) = vocabulary_notes(str(folder), len(vocabulary))
            assert "no text gives <image>, for which the model has no row" in note
            continue
        with pytest.raises(UsageError, match="expected vocab_size="):
            load_served(str(folder))
        with pytest.raises(UsageError, match="expected at most vocab_size="):
            vocabulary_notes(str(folder), len(vocabulary))


def test_without_a_tokenizer_ids_are_taken_and_it_is_said(quick, tmp_path):
    folder = unsealed(save_model(str(tmp_path / "model"), "gpt"))
    ends = {token: number for number, token in enumerate(["<unk>", "a</w>"])}
    (tmp_path / "model" / "vocab.json").write_text(json.dumps(ends))
    version = export_saved_model(folder, str(tmp_path / "out"))
    call = Traced(folder)
    names = {"serving_default", "embed_ids", "encode_ids", "generate_ids", "sample_ids",
             "describe"}
    about = json.loads(pathlib.Path(version, "assets.extra", "export.json").read_text())
    assert set(about["signatures"]) == set(call.signatures) == names
    (note,) = about["notes"]
    assert note.startswith("no signature takes text, only token ids: ")
    assert "its pieces end in </w>, as GPT-1's do" in note
    assert not pathlib.Path(version, "assets").exists() or "vocab.json" in os.listdir(
        pathlib.Path(version, "assets"))
    answer = call("generate_ids", input_word_ids=[[5, 6], [7, 0]], input_mask=[[1, 1], [1, 0]])
    assert set(answer) == {"output_word_ids", "num_tokens"}
    (told,) = call("describe", text=[""])["description"]
    assert json.loads(told)["mask_token"] is None
    assert answer["num_tokens"].tolist() == [8, 8]


def test_a_head_that_no_signature_answers_for_is_named(quick, tmp_path):
    config = ModelConfig(vocab_size=7, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                         intermediate_size=16, max_position_embeddings=16)
    TokenClassifier(config, ["noun", "verb"]).save_pretrained(str(tmp_path / "tagger"))
    ReplacedTokens(config, config).save_pretrained(str(tmp_path / "replaced"))
    for name, note in (("tagger", "no signature serves tagger: "),
                       ("replaced", "the generator is not served, the discriminator alone is")):
        version = export_saved_model(str(tmp_path / name), str(tmp_path / "out"))
        about = json.loads(pathlib.Path(version, "assets.extra", "export.json").read_text())
        assert any(note in line for line in about["notes"])


def test_a_tokenizer_that_pads_otherwise(tmp_path):
    folder = unsealed(save_model(str(tmp_path / "model"), "roberta"))
    path = tmp_path / "model" / "model_config.json"
    path.write_text(path.read_text().replace('"padding_id": 1', '"padding_id": 0'))
    with pytest.raises(UsageError, match="pads with the id 1; expected padding_id=0"):
        export_saved_model(folder, str(tmp_path / "out"))
