"""The vectors of tokens that an export gives, as the Keras model does; and how they are written."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from tiny_model import TEXTS, Traced, only_signatures, save_model

import bert_tf
from bert_tf.embedder import TokenEmbedder
from bert_tf.saved_model.save import export_saved_model

READ = [text.replace("[MASK]", "") for text in TEXTS]  # which a graph takes for plain text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_model(str(tmp_path_factory.mktemp("multi_vector") / "model"), "multi_vector")


def close(found, expected):
    for vectors, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(vectors, other, atol=1e-5)


def test_an_export_gives_vectors_and_their_score(folder):
    call, model = Traced(folder), bert_tf.from_pretrained(folder)
    for role in ("query", "passage"):
        expected, answer = model.vectors(READ, role), call(f"{role}_vectors", text=READ)
        assert answer["vectors"].shape == (len(READ), max(map(len, expected)), 6)
        close([vectors[:count] for vectors, count in zip(
            answer["vectors"], answer["num_vectors"], strict=True)], expected)
        assert call(f"{role}_vectors", text=[])["vectors"].shape == (0, 0, 6)
    queries = READ[::-1]
    np.testing.assert_allclose(call("rank", query=queries, passage=READ)["score"],
                               model.scores(queries, READ), rtol=1e-4)


def test_clients_can_count_what_is_read_of_each_role(folder):
    call, model = Traced(folder), bert_tf.from_pretrained(folder)
    described = json.loads(call("describe", text=[""])["description"][0])
    for role, of_role in described["roles"].items():
        counts = call("count_tokens", text=[of_role["prompt"] + text for text in READ])
        sizes = (counts["num_tokens"] - described["text_tokens"] + of_role["special_tokens"])
        read = model.read({role: tf.constant(READ)})["input_mask"]
        np.testing.assert_array_equal(np.minimum(sizes, of_role["seq_length"]), read.numpy().sum(1))
    assert list(described["roles"]) == ["query", "passage"]


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_version_is_compared_and_predicts(folder, dtype, tmp_path):
    with only_signatures("passage_vectors", "query_vectors", "rank", "describe"):
        version = export_saved_model(folder, str(tmp_path / "served"), dtype=dtype)
    texts, model = list(filter(None, READ)), bert_tf.from_pretrained(folder)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": each}) + "\n" for each in texts))
    for form in ("jsonl", "parquet"):
        bert_tf.predict(model=version, input=[str(tmp_path / "in.jsonl")], format=form,
                        output_dir=str(tmp_path / form))
        (part,) = (tmp_path / form / "predictions").iterdir()
        found = [json.loads(line)["vectors"] for line in part.read_text().splitlines()
                 ] if form == "jsonl" else pq.read_table(part)["vectors"].to_pylist()
        if dtype == "float32":
            close(found, model.vectors(texts))
        else:
            assert [len(each) for each in found] == list(map(len, model.vectors(texts)))
    if dtype == "float32":
        [queries] = TokenEmbedder(version).vectors(texts, "query")
        close([queries[[row]].values for row in range(len(texts))], model.vectors(texts, "query"))
