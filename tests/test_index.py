"""The command `index`: a model's vectors, built and searched."""

import io
import json

import numpy as np
import pytest
from tiny_model import SEQ_LENGTH, config_of, word_piece

import bert_tf
from bert_tf import cli, index
from bert_tf.embedder import Embedder
from bert_tf.errors import UsageError
from bert_tf.retrieval.token_vectors import TokenVectors, max_sims
from bert_tf.storage import checksums, manifest
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder

PASSAGES = ["the quick brown fox", "the lazy dog", "a café", "fox jumps over dog", "안녕하세요"]


def embedder(seed):
    tokenizer = word_piece()
    return SentenceEmbedder(config_of(tokenizer), seed=seed,
                            preprocessor=TextPreprocessor(tokenizer, SEQ_LENGTH))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("models") / "model")
    embedder(1).save_pretrained(folder, word_piece())
    return folder


@pytest.fixture(scope="module")
def built(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    (folder / "corpus.txt").write_text("\n".join(PASSAGES))
    flags = ["build", "--model", model, "--corpus", str(folder / "*.txt"),
             "--output", str(folder / "index"), "--shard_size", "2"]
    assert cli.run(index.main, flags) == 0
    return str(folder / "index"), flags


def test_half_precision_is_what_was_asked_for(model):
    whole, half = (Embedder(model, dtype).vectors(PASSAGES) for dtype in (None, "bfloat16"))
    assert 0 < np.abs(whole - half).max() < 0.1 * np.abs(whole).max()


def test_it_finds_what_the_model_finds(built, capsys, eager, monkeypatch):
    folder, flags = built
    queries = ["the fox", "dog"]
    model = embedder(1)
    vectors, found = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (
        model.embed(PASSAGES), model.embed(queries)))
    expected = np.argsort(-(found @ vectors.T), axis=1)
    assert cli.run(index.main, ["search", folder, *queries, "--k", "9", "--format", "json"]) == 0
    lines = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [line["query"] for line in lines] == queries
    assert [[each["text"] for each in line["passages"]] for line in lines] == [
        [PASSAGES[row] for row in rows] for rows in expected]
    assert lines[0]["passages"][0]["id"] == str(expected[0, 0] + 1)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the fox\n\n \ndog\n")))
    assert cli.run(index.main, ["search", folder, "--k", "9", "--format", "json"]) == 0
    assert list(map(json.loads, capsys.readouterr().out.splitlines())) == lines  # no blank ones
    assert cli.run(index.main, ["search", folder, "the fox", "--k", "1", "--verify"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 2 and PASSAGES[expected[0, 0]] in shown[1]
    assert cli.run(index.main, flags) == 0
    assert "nothing to do" in capsys.readouterr().out
    opened = bert_tf.open_index(folder)
    assert opened.search_vectors(model.embed(queries), 2)[1].tolist() == expected[:, :2].tolist()


def test_a_table_in_another_form(model, tmp_path, capsys):
    (tmp_path / "corpus.csv").write_bytes("".join(
        f"{number};https://x;{text}\n" for number, text in enumerate(["개", "여우", "fox"])
    ).encode("cp949"))
    flags = ["build", "--model", model, "--corpus", str(tmp_path / "corpus.csv"),
             "--output", str(tmp_path / "index"), "--encoding", "CP949", "--delimiter",
             "semicolon", "--id_column", "0", "--no-header", "--text_column"]
    assert cli.run(index.main, flags[:7]) == 1
    assert "is not UTF-8, but may be CP949; " in (told := capsys.readouterr().err)
    assert told.endswith(", or --encoding CP949\n")
    assert cli.run(index.main, [*flags, "2"]) == 0
    passages = bert_tf.open_index(str(tmp_path / "index")).passages
    assert [(passage.id, passage.text) for passage in map(passages.__getitem__, range(3))] == [
        ("0", "개"), ("1", "여우"), ("2", "fox")]
    assert cli.run(index.main, [*flags, "1"]) == 2  # another index


def test_ids_are_of_the_files_that_were_named(model, tmp_path, capsys):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"fox {name}\n")
    flags = ["build", "--model", model, "--corpus", str(tmp_path / "*.txt"), "--output",
             str(tmp_path / "index")]
    assert cli.run(index.main, flags) == 0
    (tmp_path / "b.txt").rename(tmp_path / "c.txt")
    assert cli.run(index.main, flags) == 2
    assert "(file_names was " in capsys.readouterr().err
    assert cli.run(index.main, [*flags, "--overwrite"]) == 0
    passages = bert_tf.open_index(str(tmp_path / "index")).passages
    assert [passages[row].id for row in range(2)] == ["a.txt:1", "c.txt:1"]
    record = str(tmp_path / "index" / "manifest.json")
    about = checksums.read_sealed(record)
    del about["options"]["file_names"]  # of an earlier version, which is not built again
    about["fingerprint"] = manifest.fingerprint(
        about["options"], [each["content"] for each in about["input_facts"]])
    checksums.write_sealed(record, about)
    (tmp_path / "c.txt").rename(tmp_path / "d.txt")
    assert cli.run(index.main, flags) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_names_of_files_do_not_matter_to_passages_with_ids(model, tmp_path, capsys):
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text(f'{{"_id": "{name}", "text": "fox {name}"}}\n')
    flags = ["build", "--model", model, "--corpus", str(tmp_path / "*.jsonl"), "--output",
             str(tmp_path / "index")]
    assert cli.run(index.main, flags) == 0
    (tmp_path / "b.jsonl").rename(tmp_path / "c.jsonl")
    assert cli.run(index.main, flags) == 0
    assert "nothing to do" in capsys.readouterr().out


def scalar_products(model, queries):
    passages = model.sparse(PASSAGES)
    return np.array([[sum(weight * passage.get(token, 0) for token, weight in query.items())
                      for passage in passages] for query in model.sparse(queries, queries=True)])


def sums_of_maxima(model, queries):
    return max_sims(TokenVectors.of(model.vectors(queries, "query")),
                    TokenVectors.of(model.vectors(PASSAGES)))


@pytest.mark.parametrize("model_class, scores_of, of_others", [
    (SparseEmbedder, scalar_products, ["--precision", "int8"]),
    (MultiVectorEmbedder, sums_of_maxima, ["--precision", "bits"])])
def test_of_tokens(model_class, scores_of, of_others, tmp_path, capsys, eager):
    tokenizer = word_piece()
    model = model_class(config_of(tokenizer), seed=1,
                        preprocessor=TextPreprocessor(tokenizer, SEQ_LENGTH))
    model.save_pretrained(str(tmp_path / "model"), tokenizer)
    (tmp_path / "corpus.txt").write_text("\n".join(PASSAGES))
    flags = ["build", "--model", str(tmp_path / "model"), "--corpus", str(tmp_path / "corpus.txt"),
             "--output", str(tmp_path / "index"), "--shard_size", "2"]
    assert cli.run(index.main, flags) == 0
    opened = bert_tf.open_index(str(tmp_path / "index"))
    queries = ["the fox", "dog"]
    expected = scores_of(model, queries)
    for found, scores in zip(opened.search(queries, 9), expected, strict=True):
        order = [row for row in np.argsort(-scores.round(5), kind="stable")
                 if scores[row] > 0 or model_class is MultiVectorEmbedder]
        assert [each["text"] for each in found] == [PASSAGES[row] for row in order]
        np.testing.assert_allclose([each["score"] for each in found], scores[order], rtol=1e-4)
    capsys.readouterr()
    for arguments, message in [
            ([*flags, *of_others], f"of {tmp_path / 'model'}, which gives"),
            ([*flags, "--dimensions", "4"], "try leaving --dimensions out"),
            (["search", str(tmp_path / "index"), "x", "--probes", "4"], "is searched exactly")]:
        assert cli.run(index.main, arguments) == 2
        assert message in capsys.readouterr().err


def test_refused(built, model, tmp_path, capsys):
    folder, flags = built
    embedder(2).save_pretrained(str(tmp_path / "other"), word_piece())
    for arguments, code, message in [
            (["search", folder, "x", "--model", str(tmp_path / "other")], 2, "is not the model"),
            (["search", str(tmp_path), "x"], 2, f"{tmp_path} holds no index"),
            (["search", folder + "s", "x"], 2, f"{folder}s does not exist; expected the folder of "
             "an index; try python -m bert_tf.index build"),
            (["search", folder, "x", "--k", "0"], 2, "--k"),
            (["search", folder, "x", "--probes", "4"], 2, "an index of vectors, which is searched "
             "exactly; try leaving probes out"),
            (["search", "memory://x/y", "x"], 2, "a local folder"),
            (["find", folder], 2, "action='find' is unknown"),
            ([*flags, "--precision", "int8"], 2, "precision was 'float32', now 'int8'"),
            ([*flags, "--output", str(tmp_path / "new"), "--dimensions", "17"], 2, "16 at most"),
            (["build", "--model", "none", "--corpus", "none", "--output", "memory://x/y"], 2,
             "a local folder")]:
        assert cli.run(index.main, arguments) == code
        (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
        assert line.startswith("error: ") and message in line
    with pytest.raises(UsageError, match="is not the model"):
        bert_tf.open_index(folder, str(tmp_path / "other"))
    assert cli.run(index.main, []) == 2 and cli.run(index.main, ["--help"]) == 0
