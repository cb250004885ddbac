"""Models by their names on the Hugging Face Hub, wherever a model is taken."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from folders import files_of
from hub_server import HubServer, forget, read_from

import bert_tf
from bert_tf import convert
from bert_tf.errors import BertTfError
from bert_tf.visualization.tokenizers import open_tokenizer

pytest.importorskip("huggingface_hub")


@pytest.fixture
def server(shared):
    """A hub with small copies of published folders as `org/<their names>`."""
    with HubServer() as server:
        for name in ("bert_st_mean", "distilbert_classification", "xlm_roberta_mlm"):
            server.repositories[f"org/{name}"] = {
                "main": files_of(shared / "reference" / "hub" / name)}
        yield server


def vectors_of(model, source):
    """Its vectors, and those of sentence-transformers."""
    texts = json.loads((source / "expected.json").read_text())["sentence_embeddings_of"]
    rows = [row for row, text in enumerate(texts) if "[" not in text]  # plain text for us
    with np.load(source / "sentence_embeddings.npz") as arrays:
        return model.embed([texts[row] for row in rows]), arrays["sentence_embeddings"][rows]


def test_a_model_by_its_name(server, shared, tmp_path, monkeypatch, eager):
    """Read, converted, tokenized with; again without network, and at a revision that is gone."""
    read_from(server, tmp_path / "cache", monkeypatch)
    monkeypatch.chdir(tmp_path)
    source = shared / "reference" / "hub" / "bert_st_mean"
    name = "hf://org/bert_st_mean"
    files = server.repositories["org/bert_st_mean"]["main"]
    server.repositories["org/bert_st_mean"]["old"] = {**files, "modules.json": b"[]"}
    expected = bert_tf.load_tokenizer(str(source))
    for tokenizer in (bert_tf.load_tokenizer(name), open_tokenizer("org/bert_st_mean")):
        assert tokenizer.vocabulary.tokens == expected.vocabulary.tokens
    assert "model.safetensors" not in server.downloaded()
    np.testing.assert_allclose(*vectors_of(bert_tf.from_pretrained(name), source), atol=1e-5)
    convert.main(["--from", "sentence_transformers", "org/bert_st_mean", "--to", "bert_tf", "st"])
    forget(monkeypatch, offline=True)
    np.testing.assert_allclose(*vectors_of(bert_tf.from_pretrained("st"), source), atol=1e-5)
    assert bert_tf.from_pretrained(name, "encoder").config.num_hidden_layers
    with pytest.raises(BertTfError, match="HF_HUB_OFFLINE is set"):
        bert_tf.from_pretrained(f"{name}@old")
    forget(monkeypatch)
    with pytest.raises(BertTfError, match="modules"):
        bert_tf.from_pretrained(f"{name}@old")


@pytest.mark.long
def test_every_command_takes_a_name(server, shared, tmp_path):
    """As processes, which know the server and the cache from their environment."""
    labels = files_of(shared / "reference" / "hub" / "distilbert_classification")["config.json"]
    labels = list(json.loads(labels)["id2label"].values())
    (tmp_path / "table.csv").write_text("text,label\n" + "".join(
        f"a film {number},{labels[number % 2]}\n" for number in range(20)))
    (tmp_path / "text.txt").write_text("\n\n".join(
        "\n".join(f"sentence {row} of document {document} ." for row in range(8))
        for document in range(30)))
    classifier, language = "hf://org/distilbert_classification", "org/xlm_roberta_mlm"
    environment = {**os.environ, "HF_ENDPOINT": server.address, "HF_HOME": str(tmp_path / "hf"),
                   "PYTHONPATH": os.getcwd()}

    def run(command, code=0, **further):
        done = subprocess.run([sys.executable, "-m", *f"bert_tf.{command}".split()], cwd=tmp_path,
                              env={**environment, **further}, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done

    run(f"finetune --task classify --init {classifier} --train table.csv --dev 0.3 --epochs 1 "
        "--output_dir runs/tuned")
    run(f"pretrain --init {language} --input text.txt --train_steps 2 --max_seq_length 32 "
        "--batch_size 4 --output_dir runs/trained --objective mlm")
    run(f"export --model {classifier}")
    run(f"evaluate --task classify --model {classifier} --data table.csv")
    run(f"visualize attention --model {language} --text x --output a.html")
    run(f"create_data --vocab {language} --format full_sentences --input text.txt --output_dir d")
    assert sorted(os.listdir(tmp_path / "saved_models")) == [
        "distilbert_classification", "trained", "tuned"]
    found = json.loads((tmp_path / "evaluations" / "distilbert_classification_table" /
                        "results.json").read_text())
    assert found["model"] == classifier and found["examples"] == 20
    missing = run("convert --from hf hf://org/none --to bert_tf x", code=2)
    assert missing.stderr.startswith("error: ") and missing.stderr.count("\n") == 1
    server.stop()
    run(f"convert --from hf {classifier} --to bert_tf cached", HF_HUB_OFFLINE="1")
    stopped = run("convert --from hf hf://org/bert_st_mean --to bert_tf x", code=1)
    assert stopped.stderr.startswith("error: cannot read hf://org/bert_st_mean: ")
    assert stopped.stderr.count("\n") == 1 and not (tmp_path / "x").exists()
