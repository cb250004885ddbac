"""An index against brute force, interrupted builds, and what is not there or damaged."""

import contextlib
import hashlib
import json
import shutil
import sys

import numpy as np
import pytest
from folders import files_of

from bert_tf.errors import BertTfError, UnavailableError, UsageError
from bert_tf.retrieval.build_index import build_index
from bert_tf.retrieval.vector_index import StoredVectors, VectorIndex
from bert_tf.storage import checksums

N, WIDTH = 500, 32
OPTIONS = {"dimensions": None, "precision": "float32", "shard_size": 128, "approximate": None,
           "seed": 1}


def embed(texts):
    """Vectors near one of 20 centers, the same for the same text."""
    seeds = [int(hashlib.blake2b(text.encode()).hexdigest()[:8], 16) for text in texts]
    centers = np.random.default_rng(0).normal(size=(20, WIDTH))
    return np.array([centers[seed % 20] + np.random.default_rng(seed).normal(size=WIDTH)
                     for seed in seeds], np.float32)


def of_passages(embed):
    return lambda passages: embed([passage.content for passage in passages])


TEXTS = [f"passage {number}" if number % 50 else "the same text" for number in range(N)]
QUERIES = [f"query {number}" for number in range(30)]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.tsv"
    path.write_text("".join(f"id{number}\t{text}\n" for number, text in enumerate(TEXTS)))
    return str(path)


def build(folder, corpus, embed=embed, overwrite=False, **options):
    options = OPTIONS | options
    build_index(str(folder), options, [corpus],
                lambda: StoredVectors(options, of_passages(embed)), {}, overwrite)
    return VectorIndex(str(folder), embed)


def cosines(dimensions=None):
    def unit(vectors):
        vectors = vectors[:, :dimensions].astype(np.float64)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit(embed(QUERIES)) @ unit(embed(TEXTS)).T


def recall(rows, scores, k=10):
    """How many of the rows found are as near as the k nearest."""
    found = np.take_along_axis(scores, rows[:, :k], 1)
    return (found >= np.sort(scores)[:, -k, None] - 1e-9).mean()


def test_exact_search_is_brute_force(tmp_path, corpus):
    index = build(tmp_path / "index", corpus)
    expected = np.argsort(-cosines().round(6), axis=1, kind="stable")[:, :10]
    assert len(index) == N and index.width == WIDTH
    scores, rows = index.search_vectors(embed(QUERIES), 10)
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_allclose(scores, np.take_along_axis(cosines(), rows, 1), atol=1e-5)
    found = index.search(QUERIES[:2], 3)
    assert [[each["id"] for each in of_query] for of_query in found] == [
        [f"id{row}" for row in of_query[:3]] for of_query in expected[:2]]
    assert found[0][0] == {"id": f"id{rows[0, 0]}", "text": TEXTS[rows[0, 0]], "title": "",
                           "score": pytest.approx(scores[0, 0])}
    assert index.search(QUERIES[0], 3) == found[0] and index.search([]) == []
    same = [each["id"] for each in index.search("the same text", 10_000)]
    assert len(same) == N and same[:10] == [f"id{row}" for row in range(0, N, 50)]


@pytest.mark.parametrize("options, known", [
    ({}, {"exact"}), ({"precision": "int8"}, {"exact"}),
    ({"precision": "bits"}, {"exact", "rescore"}),
    ({"approximate": True}, {"exact", "rescore", "probes"})])
def test_options_that_would_change_nothing_are_refused(tmp_path, corpus, options, known):
    index = build(tmp_path / "index", corpus, **options)
    for name in ("exact", "rescore", "probes"):
        refused = pytest.raises(UsageError, match=f"^{name} for .*; try leaving {name} out$")
        with contextlib.nullcontext() if name in known else refused:
            index.search(QUERIES[:1], 3, **{name: 1})


@pytest.mark.parametrize("options, least", [
    ({"precision": "int8"}, 0.97), ({"precision": "bits"}, 0.8),
    ({"precision": "int8", "dimensions": 16}, 0.97), ({"dimensions": 16}, 1),
    ({"approximate": True}, 0.95), ({"precision": "int8", "approximate": True}, 0.9)])
def test_small_and_approximate(tmp_path, corpus, options, least):
    index = build(tmp_path / "index", corpus, **options)
    scores, rows = index.search_vectors(embed(QUERIES), 10)
    assert recall(rows, cosines(options.get("dimensions"))) >= least
    assert (np.diff(scores) <= 0).all()
    rescored = index.search_vectors(embed(QUERIES), 10, rescore=45, probes=10_000)[1]
    exact = index.search_vectors(embed(QUERIES), 10, exact=True, rescore=45)[1]
    np.testing.assert_array_equal(rescored, exact)


@pytest.mark.parametrize("options", [{"precision": "int8"}, {"precision": "bits"},
                                     {"precision": "int8", "approximate": True}])
def test_scores_are_cosines_however_vectors_are_stored(tmp_path, corpus, options):
    # For the scale of the first shard components of others are too large, and clipped.
    index = build(tmp_path / "index", corpus, **options, shard_size=20, dimensions=8)
    codes = np.concatenate([np.load(path).astype(float) for path in sorted(
        (tmp_path / "index").glob("shard-*/int8.npy"))])
    of_codes = codes / np.linalg.norm(codes, axis=1, keepdims=True)
    queries = embed(TEXTS[:20])[:, :8]
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    scores, rows = index.search_vectors(embed(TEXTS[:20]), 5)
    np.testing.assert_allclose(scores, np.take_along_axis(queries @ of_codes.T, rows, 1),
                               atol=1e-5)


@pytest.mark.parametrize("count", [1, 5, 17])
def test_approximate_search_of_a_few(tmp_path, corpus, count):
    with open(corpus, encoding="utf-8") as stream:
        lines = stream.readlines()[:count]
    (tmp_path / "few.tsv").write_text("".join(lines))
    index = build(tmp_path / "index", str(tmp_path / "few.tsv"), approximate=True)
    rows = index.search_vectors(embed(QUERIES), 10)[1]
    np.testing.assert_array_equal(rows, np.argsort(-cosines()[:, :count], axis=1)[:, :10])
    found = index.search_vectors(embed(QUERIES), 1, rescore=2)[1]  # by what was built
    assert (found[:, 0] == rows[:, 0]).mean() > 0.8


def test_shards_whose_names_are_in_another_order(tmp_path, corpus, monkeypatch):
    for module in ("build_index", "stored_index"):  # as of 100,000 shards
        monkeypatch.setattr(f"bert_tf.retrieval.{module}.shard_name", "shard-{}".format)
    index = build(tmp_path / "index", corpus, shard_size=40, approximate=True)
    rows = index.search_vectors(embed(QUERIES), 10)[1]
    assert len(index.shards) == 13 and recall(rows, cosines()) >= 0.95


@pytest.mark.parametrize("options", [{}, {"precision": "bits", "approximate": True}])
def test_an_interrupted_build_gives_the_same_bytes(tmp_path, corpus, options, capsys):
    build(tmp_path / "whole", corpus, **options)
    calls = []

    def interrupted(texts):
        if len(texts) > 1:  # one tells whether what is asked for fits
            calls.append(len(texts))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return embed(texts)

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "parts", corpus, interrupted, **options)
    assert not (tmp_path / "parts" / "manifest.json").exists()
    with pytest.raises(UsageError, match="no finished index"):
        VectorIndex(str(tmp_path / "parts"))
    shard = tmp_path / "parts" / "shard-00001" / "passages.jsonl"
    shard.write_bytes(shard.read_bytes().replace(b"passage 130", b"passage 131"))
    build(tmp_path / "parts", corpus, interrupted, **options)
    assert calls == [128, 128, 128, 128, 128, 116] and "made again" in capsys.readouterr().out
    assert files_of(tmp_path / "parts") == files_of(tmp_path / "whole")
    build(tmp_path / "parts", corpus, None, **options)
    assert "nothing to do" in capsys.readouterr().out
    shard.write_bytes(b"")
    build(tmp_path / "parts", corpus, **options)
    assert "made again" in capsys.readouterr().out
    assert files_of(tmp_path / "parts") == files_of(tmp_path / "whole")
    with pytest.raises(UsageError, match="precision was .* now 'int8'.*; try .* --overwrite"):
        build(tmp_path / "parts", corpus, precision="int8")


def test_a_shard_that_is_made_again_tells_the_width(tmp_path, corpus, monkeypatch):
    """Those of an earlier version, which come after it, do not."""
    with monkeypatch.context() as earlier:
        earlier.setattr(StoredVectors, "_about", lambda stored: {"scale": stored.scale})
        assert "width" not in build(tmp_path / "index", corpus).manifest
    (tmp_path / "index" / "shard-00000" / "passages.jsonl").write_bytes(b"")
    assert build(tmp_path / "index", corpus).manifest["width"] == WIDTH


def test_a_shard_that_cannot_be_read_now_stays(tmp_path, corpus, monkeypatch):
    build(tmp_path / "index", corpus)
    before = files_of(tmp_path / "index")

    def away(folder):
        raise UnavailableError(f"cannot read {folder}")

    monkeypatch.setattr(checksums, "check", away)
    with pytest.raises(UnavailableError):
        build(tmp_path / "index", corpus, None)  # nothing is made again
    assert files_of(tmp_path / "index") == before


def test_damaged(tmp_path, corpus, monkeypatch):
    index = build(tmp_path / "index", corpus, approximate=True)
    vectors = tmp_path / "index" / "shard-00002" / "float32.npy"
    data = vectors.read_bytes()
    for changed, verify, message in ((data[:-4], False, "bytes"), (data, None, None),
                                     (data[:-4] + b"1234", None, "content changed"),
                                     (data[:-4] + b"1234", False, None)):
        vectors.write_bytes(changed)
        if message is None:
            VectorIndex(str(tmp_path / "index"), verify=verify)
            continue
        with pytest.raises(BertTfError, match=f"float32.npy .*{message}"):
            VectorIndex(str(tmp_path / "index"), verify=verify)
    vectors.write_bytes(data)
    (tmp_path / "index" / "approximate.faiss").write_bytes(b"IwFl")
    for verify in (None, False):
        with pytest.raises(BertTfError, match="approximate.faiss is damaged"):
            VectorIndex(str(tmp_path / "index"), verify=verify)
    index = build(tmp_path / "index", corpus, None, approximate=True)  # no vector is made again
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UsageError, match=r"pip install 'bert_tf\[search\]'"):
        VectorIndex(str(tmp_path / "index"), verify=False)
    assert index.search_vectors(embed(QUERIES), 1)[1].shape == (30, 1)


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_missing_or_damaged_alone_is_made_again(tmp_path, corpus, overwrite, capsys):
    folder, made = tmp_path / "index", []
    build(folder, corpus, approximate=True)
    before = files_of(folder)
    shutil.rmtree(folder / "shard-00001")
    (folder / "shard-00002" / "checksums.json").write_text("{}")
    (folder / "approximate.faiss").unlink()

    def counting(texts):
        made.append(len(texts))
        return embed(texts)

    index = build(folder, corpus, counting, overwrite, approximate=True)
    assert made == [OPTIONS["shard_size"]] * 2 and files_of(folder) == before
    assert "approximate.faiss is missing; it is made again" in capsys.readouterr().out
    assert index.search_vectors(embed(QUERIES), 1)[1].shape == (30, 1)


@pytest.mark.parametrize("name", ["../kept", "/kept", "shard-00000/../../kept"])
def test_nothing_outside_of_an_index_is_removed(tmp_path, corpus, name):
    build(tmp_path / "index", corpus)
    (tmp_path / "kept").write_text("kept")
    path = tmp_path / "index" / "manifest.json"
    made = json.loads(path.read_text())
    del made["blake2b"]
    path.write_text(json.dumps(made | {"files": {name: {"size": 1, "blake2b": ""}}}))
    before = files_of(tmp_path)
    with pytest.raises(BertTfError, match="kept.* points outside its folder"):
        build(tmp_path / "index", corpus)
    assert files_of(tmp_path) == before


def test_what_was_opened_stays_as_it_was_while_the_index_is_built_again(tmp_path, corpus):
    index = build(tmp_path / "index", corpus)
    before = index.search(QUERIES, 3)
    with open(corpus, encoding="utf-8") as stream:
        lines = stream.readlines()
    with open(corpus, "w", encoding="utf-8") as stream:
        stream.writelines(reversed(lines))
    build_index(index.folder, OPTIONS, [corpus],
                lambda: StoredVectors(OPTIONS, of_passages(embed)), {}, overwrite=True)
    assert index.search(QUERIES, 3) == before


@pytest.mark.parametrize("changes", [
    {"shards": None}, {"shards": "1"}, {"shards": 0}, {"shards": 10**9}, {"passages": 1.5},
    {"files": ["shard-00000"]}, {"files": None}, {"scale": None}, {"scale": "1"}])
def test_a_manifest_that_no_build_wrote(tmp_path, corpus, changes):
    build(tmp_path / "index", corpus, precision="int8")
    path = tmp_path / "index" / "manifest.json"
    made = json.loads(path.read_text()) | changes
    del made["blake2b"]
    path.write_text(json.dumps(made))
    with pytest.raises(BertTfError, match="manifest.json is damaged; try bert_tf.index build"):
        VectorIndex(str(tmp_path / "index"))
    path.write_text("{}")
    with pytest.raises(UsageError, match="holds no index"):
        VectorIndex(str(tmp_path / "index"))


def test_vectors_of_another_model_are_refused_where_its_width_is_known(tmp_path, corpus):
    index, other = build(tmp_path / "index", corpus, dimensions=16), np.ones((1, WIDTH + 8))
    with pytest.raises(UsageError, match=f"queries .* for vectors of {WIDTH}"):
        index.search_vectors(other)
    np.testing.assert_array_equal(index.search_vectors(embed(QUERIES)[:, :16])[1],
                                  index.search_vectors(embed(QUERIES))[1])
    path = tmp_path / "index" / "manifest.json"
    made = json.loads(path.read_text())
    assert made.pop("width") == WIDTH
    del made["blake2b"]
    path.write_text(json.dumps(made))  # as an earlier version wrote it
    index = VectorIndex(str(tmp_path / "index"))
    assert index.search_vectors(other, 1)[1].shape == (1, 1)
    with pytest.raises(UsageError, match="for vectors of 16"):
        index.search_vectors(other[:, :15])


def test_refused(tmp_path, corpus, monkeypatch):
    index = build(tmp_path / "index", corpus)
    for queries in (np.ones((1, WIDTH - 1)), np.ones(WIDTH), np.ones((1, WIDTH + 1))):
        with pytest.raises(UsageError, match=f"for vectors of {WIDTH}"):
            index.search_vectors(queries)
    with pytest.raises(BertTfError, match="not finite"):
        index.search_vectors(np.full((1, WIDTH), np.nan))
    with pytest.raises(UsageError, match="at least 1"):
        index.search_vectors(np.ones((1, WIDTH)), 0)
    with pytest.raises(UsageError, match="without a model"):
        VectorIndex(index.folder).search("x")
    with pytest.raises(UsageError, match="holds no index; .*bert_tf.index build"):
        VectorIndex(str(tmp_path))
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(BertTfError, match="no passage"):
        build(tmp_path / "none", str(tmp_path / "empty.txt"))
    read = []

    def counting(texts):
        read.extend(texts)
        return embed(texts)

    twice = tmp_path / "twice.tsv"
    twice.write_text("a\tone\n" * 2)
    for folder, path, options, error in (
            ("twice", str(twice), {}, "the id 'a' a second time"),
            ("approximate", corpus, {"approximate": True}, "needs the package faiss-cpu"),
            ("bits", corpus, {"precision": "bits"}, "needs the package faiss-cpu")):
        with monkeypatch.context() as patched, pytest.raises(BertTfError, match=error):
            patched.setitem(sys.modules, "faiss", None)
            build(tmp_path / folder, path, counting, **options)
    before = files_of(tmp_path / "index")
    with pytest.raises(BertTfError, match="the id 'a' a second time"):
        build(tmp_path / "index", str(twice), counting, overwrite=True)
    assert files_of(tmp_path / "index") == before and not read
    with pytest.raises(UsageError, match="multiple of 8"):
        build(tmp_path / "bits", corpus, counting, precision="bits", dimensions=12)
    assert len(read) == 1  # refused before there is any work to lose
    build(tmp_path / "bits", corpus, precision="bits", dimensions=16)
