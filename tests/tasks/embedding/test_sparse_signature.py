"""The tokens that an export gives for texts, as the Keras model does; and how they are written."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from tiny_model import TEXTS, Traced, only_signatures, save_model

import bert_tf
from bert_tf.errors import UsageError
from bert_tf.saved_model.save import export_saved_model

READ = [text.replace("[MASK]", "") for text in TEXTS]  # which a graph takes for plain text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_model(str(tmp_path_factory.mktemp("sparse") / "model"), "sparse")


def close(found, expected):
    assert list(found) == list(expected) and found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("max_terms", [pytest.param(None, marks=pytest.mark.long), 3])
def test_an_export_gives_the_heaviest_tokens(folder, max_terms):
    call, model = Traced(folder, max_terms=max_terms), bert_tf.from_pretrained(folder)
    ids = {name: value.numpy() for name, value in model.read(tf.constant(READ)).items()}
    expected = model.sparse(READ, max_terms)
    for answer in (call("serving_default", text=READ), call("sparse_ids", **ids)):
        assert answer["terms"].shape == answer["weights"].shape == (
            len(READ), max(map(len, expected)))
        for terms, weights, count, of_text in zip(*(
                answer[name] for name in ("terms", "weights", "num_terms")), expected,
                strict=True):
            close(dict(zip((term.decode() for term in terms[:count]), weights[:count],
                           strict=True)), of_text)
            assert not np.any(weights[count:]) and set(terms[count:]) <= {b""}
    assert call("sparse", text=[])["terms"].shape == (0, 0)
    answer = call("sparse_queries", text=["the fox the"])
    assert dict(zip(answer["terms"][0], answer["weights"][0], strict=True)) == {
        b"the": 1, b"fox": 1}


@pytest.mark.parametrize("max_terms", [None, 2])
def test_a_table_may_weigh_below_0(folder, max_terms, tmp_path):
    model = bert_tf.from_pretrained(folder)
    vocabulary = model.preprocessor.tokenizer.vocabulary
    table = np.ones(len(vocabulary), np.float32)
    table[[vocabulary.id("fox"), vocabulary.id("dog")]] = -0.5, -2
    model.query_table.term_weights.assign(table)
    model.save_pretrained(str(tmp_path / "model"))
    answer = Traced(str(tmp_path / "model"), max_terms=max_terms)(
        "sparse_queries", text=["the dog fox", "a"])
    expected = model.sparse(["the dog fox", "a"], max_terms, queries=True)
    assert list(expected[0].values()) == [1, -0.5, -2][:max_terms]
    for row, of_text in enumerate(expected):
        count = answer["num_terms"][row]
        close(dict(zip((term.decode() for term in answer["terms"][row, :count]),
                       answer["weights"][row, :count], strict=True)), of_text)


@pytest.mark.parametrize(("name", "max_terms", "message"), [
    ("sparse", 0, "max_terms=0; expected 1 to"), ("sparse", 10_000, "max_terms=10000; expected 1"),
    ("bert", 3, "max_terms=3 of a pretraining; expected a sparse_embedder")])
def test_how_many_there_may_be(folder, model_folder, name, max_terms, message):
    with pytest.raises(UsageError, match=message):
        Traced(folder if name == "sparse" else model_folder, max_terms=max_terms)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_version_is_compared_and_predicts(folder, dtype, tmp_path):
    with only_signatures("sparse", "sparse_ids", "sparse_queries", "describe"):
        version = export_saved_model(folder, str(tmp_path / "served"), dtype=dtype)
    texts = list(filter(None, READ))
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": each}) + "\n" for each in texts))
    columns = {}
    for form in ("jsonl", "parquet"):
        bert_tf.predict(model=version, input=[str(tmp_path / "in.jsonl")], format=form,
                        output_dir=str(tmp_path / form))
        (part,) = (tmp_path / form / "predictions").iterdir()
        columns[form] = [json.loads(line)["terms"] for line in part.read_text().splitlines()
                         ] if form == "jsonl" else [
                             dict(row) for row in pq.read_table(part)["terms"].to_pylist()]
    for found, other, expected in zip(columns["jsonl"], columns["parquet"],
                                      bert_tf.from_pretrained(folder).sparse(texts), strict=True):
        close(found, other)
        if dtype == "float32":
            close(found, expected)
