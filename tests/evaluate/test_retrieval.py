"""Retrieval from the command line: every form of queries, systems beside each other, refusals."""

import json
import sys
import unicodedata

import numpy as np
import pytest
from sentiment import MARKS, config, tokenizer

import bert_tf
from bert_tf import cli, evaluate, text_signatures
from bert_tf.data.table_form import TableForm
from bert_tf.embedder import Embedder
from bert_tf.errors import UsageError
from bert_tf.evaluate import queries, retrieval
from bert_tf.evaluate.systems import Reranker
from bert_tf.retrieval import bm25
from bert_tf.retrieval.metrics import ranking_metrics
from bert_tf.storage import files
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder

CORPUS = ("id\ttext\ttitle\nd1\tthe film music\tfine\nd 2\tdull story scene\t\n"
          "d3\tpoor actor end\t\nd4\tthe great end\t\n")
SQUAD = {"data": [{"title": "A", "paragraphs": [
    {"context": "the film music", "qas": [{"id": "1", "question": "which music", "answers": []}]},
    {"context": "dull story scene", "qas": [
        {"id": "2", "question": "which scene", "answers": []},
        {"id": "3", "question": "which end", "answers": [], "is_impossible": True}]},
    {"context": "poor actor end", "qas": []}]}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a corpus, models, and queries in every form."""
    folder = tmp_path_factory.mktemp("retrieval")
    made = {
        "corpus.tsv": CORPUS, "squad.json": json.dumps(SQUAD),
        "ids.jsonl": '{"query": "fine music", "positive_ids": ["d1"]}\n'
                     '{"query": "end", "positive_ids": ["d3", "d4"]}\n',
        "texts.tsv": "query\tpassage\nfine music\tthe film music\nend\tpoor actor end\n",
        "queries.jsonl": '{"_id": "q1", "text": "fine music"}\n{"_id": "q2", "text": "end"}\n'
                         '{"_id": "q3", "text": "none"}\n',
        "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td3\t1\nq2\td4\t2\nq2\td1\t0\n",
        "trec.txt": "q1 0 d1 1\nq2 0 d3 1\nq2 0 d4 2\nq1 0 d1 1\n",
        "twice.txt": "q1 0 d1 2\nq1 0 d3 1\nq1 0 d1 0\n",
        "huge.txt": f"q1 0 d1 1{309 * '0'}\n"}
    for name, text in made.items():
        (folder / name).write_text(text)
    reads = {"preprocessor": TextPreprocessor(tokenizer(), 16), "seed": 4}
    SentenceEmbedder(config(), **reads).save_pretrained(str(folder / "embedder"))
    SparseEmbedder(config(), prompts={"query": "fine "}, **reads).save_pretrained(
        str(folder / "sparse"))
    MultiVectorEmbedder(config(), dim=8, query_length=8, skiplist=["the"], prompts={
        "query": "fine "}, **reads).save_pretrained(str(folder / "multi_vector"))
    reads["preprocessor"] = TextPreprocessor(tokenizer(), 16, pair=True)
    Classifier(config(), ["relevance"], "regression", **reads).save_pretrained(
        str(folder / "reranker"))
    Classifier(config(), list(MARKS), **reads).save_pretrained(str(folder / "labels"))
    return folder


def measure(folder, output, data, *words, model="bm25", corpus="corpus.tsv"):
    given = ["--corpus", str(folder / corpus)] if corpus else []
    return cli.run(evaluate.main, [
        "--task", "retrieval", "--model", model, "--data", str(folder / data),
        "--output_dir", str(output), *given, *words])


@pytest.mark.parametrize("data, words", [
    ("ids.jsonl", ()), ("queries.jsonl", ("qrels.tsv",)), ("queries.jsonl", ("trec.txt",)),
    ("texts.tsv", ())])
def test_forms_of_queries(folder, tmp_path, capsys, data, words):
    flags = ["--qrels", str(folder / words[0])] if words else []
    assert measure(folder, tmp_path, data, *flags) == 0
    assert "2 queries, 4 passages\nbm25: mrr@10 1.0000" in capsys.readouterr().out
    results = files.read_json(str(tmp_path / "results.json"))
    assert results["systems"]["bm25"] == results["metrics"]
    lines = [json.loads(line) for line in files.read_lines(str(tmp_path / "predictions.jsonl"))]
    assert [set(line["gold"]) for line in lines] == [
        {"d1"}, {"d3"} if data == "texts.tsv" else {"d3", "d4"}]
    # Both words of the first query, one of them in the title; in the second both are as long.
    assert [each["id"] for each in lines[0]["rankings"]["bm25"]] == ["d1"]
    assert [each["id"] for each in lines[1]["rankings"]["bm25"]] == ["d3", "d4"]
    gains = [[line["gold"].get(each["id"], 0) for each in line["rankings"]["bm25"]]
             for line in lines]
    assert results["metrics"] == ranking_metrics(
        gains, [list(line["gold"].values()) for line in lines], [1])
    assert (results["metrics"]["ndcg@10"] < 1) == bool(words)  # the better one comes second


def test_columns_of_queries_that_are_judged(folder, tmp_path):
    (tmp_path / "q.jsonl").write_text('{"qid": "q1", "id": 5, "question": "fine music"}\n'
                                      '{"qid": "q2", "id": 6, "question": "end"}\n')
    (tmp_path / "q.tsv").write_text("q1\tfine music\nq2\tend\n")
    for data, columns in (("q.jsonl", ("qid", "question")), ("q.tsv", ("0", "1"))):
        assert measure(folder, tmp_path / data[2:], tmp_path / data, "--qrels",
                       str(folder / "qrels.tsv"), "--id_column", columns[0], "--text_column",
                       columns[1]) == 0
        lines = map(json.loads, files.read_lines(str(tmp_path / data[2:] / "predictions.jsonl")))
        assert [(line["id"], line["query"]) for line in lines] == [
            ("q1", "fine music"), ("q2", "end")]


def test_how_korean_was_compared_is_told_of_what_is_measured_too(folder, tmp_path, capsys,
                                                                 monkeypatch):
    def missing(_):
        raise UsageError("kiwipiepy is not installed")

    monkeypatch.setattr(bm25, "analyse", missing)
    (tmp_path / "corpus.tsv").write_text(CORPUS.replace("dull", "지루한"))
    for _ in range(2):
        assert measure(folder, tmp_path / "out", "ids.jsonl", "--corpus",
                       str(tmp_path / "corpus.tsv"), corpus=None) == 0
        assert "note: BM25 compares Korean text by pairs" in capsys.readouterr().out
    assert files.read_json(str(tmp_path / "out" / "results.json"))["bm25_terms"] == "bigrams"


def test_only_the_data_have_no_header(folder, tmp_path):
    for name in ("corpus", "texts"):
        (tmp_path / f"{name}.tsv").write_text((folder / f"{name}.tsv").read_text())
    (tmp_path / "texts.tsv").write_text(
        "".join((folder / "texts.tsv").read_text().splitlines(keepends=True)[1:]))
    metrics = []
    for data, words in ((folder / "texts.tsv", ()), (tmp_path / "texts.tsv", (
            "--no-header", "--text_column", "0", "--text_b_column", "1"))):
        assert measure(folder, tmp_path / "out", data, *words, "--overwrite") == 0
        metrics.append(files.read_json(str(tmp_path / "out" / "results.json"))["metrics"])
    assert metrics[0] == metrics[1]


def test_queries_without_a_header_and_judgements_beside_them(folder, tmp_path, capsys):
    (tmp_path / "queries.tsv").write_text("q1\tfine music\nq2\tend\n")
    (tmp_path / "corpus.tsv").write_text("\n".join(CORPUS.splitlines()[1:]))
    for words in ((), ("--no-header",)):
        assert measure(folder, tmp_path / "out", tmp_path / "queries.tsv", *words, "--overwrite",
                       "--qrels", str(folder / "trec.txt"), corpus=tmp_path / "corpus.tsv") == 0
        assert "2 queries, 4 passages\nbm25: mrr@10 1.0000" in capsys.readouterr().out


def test_systems_beside_each_other(folder, tmp_path, eager):
    assert measure(folder, tmp_path / "out", "squad.json", "--reranker", str(folder / "reranker"),
                   "--rerank", "2", model=str(folder / "embedder"), corpus=None) == 0
    results = files.read_json(str(tmp_path / "out" / "results.json"))
    assert list(results["systems"]) == ["embedder", "bm25", "hybrid", "hybrid + reranker",
                                        "hybrid + reranker, fused"]
    assert (results["examples"], results["passages"]) == (2, 3)
    lines = [json.loads(line)
             for line in files.read_lines(str(tmp_path / "out" / "predictions.jsonl"))]
    from bert_tf import from_pretrained

    ids = ["0.0", "0.1", "0.2"]
    texts = [f"A {each['context']}" for each in SQUAD["data"][0]["paragraphs"]]
    embedder, reranker = (from_pretrained(str(folder / name)) for name in ("embedder", "reranker"))
    for line in lines:
        ranked = {name: [each["id"] for each in found] for name, found in line["rankings"].items()}
        assert ranked["embedder"] == [ids[each["index"]]
                                      for each in embedder.rank(line["query"], texts)]
        two, rest = ranked["hybrid"][:2], ranked["hybrid"][2:]
        systems = [ranked["embedder"], ranked["bm25"], ranked["hybrid + reranker"][:2]]
        for fused, parts in (("hybrid", systems[:2]), ("hybrid + reranker, fused", systems)):
            sums = {id: sum(1 / (61 + part.index(id)) for part in parts if id in part)
                    for id in ids}
            assert ranked[fused] == sorted(ids, key=lambda id: (-sums[id], id))
        found = reranker.rank(line["query"], [texts[ids.index(id)] for id in two])
        assert ranked["hybrid + reranker"] == [two[each["index"]] for each in found] + rest
        scores = [each["score"] for each in line["rankings"]["hybrid + reranker"]]
        assert scores == sorted(scores, reverse=True)
    runs = list(files.read_lines(str(tmp_path / "out" / "rankings" / "hybrid_reranker.trec")))
    query, _, passage, rank, score, name = runs[0].split()
    assert (query, rank, name, len(runs)) == ("1", "1", "hybrid_reranker", 6)
    assert passage == lines[0]["rankings"]["hybrid + reranker"][0]["id"]


@pytest.mark.parametrize(("name", "gives"), [
    ("sparse", "weights of tokens"), ("multi_vector", "a vector for each token")])
def test_what_tokens_have(folder, tmp_path, eager, name, gives):
    path = str(folder / name)
    assert measure(folder, tmp_path / "out", "squad.json", "--reranker", path, "--rerank", "2",
                   model=path, corpus=None) == 0
    results = files.read_json(str(tmp_path / "out" / "results.json"))
    assert list(results["systems"])[:4] == [name, "bm25", "hybrid", "hybrid + reranker"]
    model = bert_tf.from_pretrained(path)
    texts = [f"A {each['context']}" for each in SQUAD["data"][0]["paragraphs"]]
    for line in map(json.loads, files.read_lines(str(tmp_path / "out" / "predictions.jsonl"))):
        for found, expected in zip(line["rankings"][name], model.rank(line["query"], texts),
                                   strict=True):
            assert found["id"] == f"0.{expected['index']}"
            assert found["score"] == pytest.approx(expected["score"], rel=1e-4)
    with pytest.raises(UsageError, match=f"gives {gives}; expected a model that gives a"):
        Embedder(path)


def test_a_query_does_not_find_itself(folder, tmp_path, eager):
    (tmp_path / "q.jsonl").write_text('{"query": "poor actor end", "positive_ids": ["d4"]}\n'
                                      '{"query": "the great end", "positive_ids": ["d4"]}\n')
    (tmp_path / "twelve.tsv").write_text(CORPUS + "".join(f"e{n}\tmusic\t\n" for n in range(8)))
    assert measure(folder, tmp_path / "out", tmp_path / "q.jsonl", "--depth", "11",
                   model=str(folder / "embedder"), corpus=tmp_path / "twelve.tsv") == 0
    def found(query, system):
        lines = files.read_lines(str(tmp_path / "out" / "rankings" / f"{system}.trec"))
        return sorted(line.split()[2] for line in lines if line.startswith(f"{query} "))

    others = sorted(["d%202", "d1", "d4", *(f"e{n}" for n in range(8))])
    assert found(0, "bm25") == ["d4"] and found(0, "embedder") == found(0, "hybrid") == others
    assert "d4" in found(1, "bm25")  # judged relevant


def test_systems_fused_by_scores(folder, tmp_path, eager):
    assert measure(folder, tmp_path / "out", "squad.json", "--vector_weight", "0.3",
                   "--reranker", str(folder / "reranker"), "--rerank", "2",
                   model=str(folder / "embedder"), corpus=None) == 0
    for line in files.read_lines(str(tmp_path / "out" / "predictions.jsonl")):
        of = {name: {each["id"]: each["score"] for each in found}
              for name, found in json.loads(line)["rankings"].items()}
        [(word, _)] = of["bm25"].items()  # the one passage that shares a word with the query
        lowest, highest = min(of["embedder"].values()), max(of["embedder"].values())
        for id, score in of["hybrid"].items():
            scaled = (of["embedder"][id] - lowest) / (highest - lowest)
            assert score == pytest.approx(0.3 * scaled + 0.7 * (id == word), abs=1e-4)
        better = [*of["hybrid + reranker"]][0]  # of the two that were read
        for id, score in of["hybrid + reranker, fused"].items():
            assert score == pytest.approx(of["hybrid"][id] * 2 / 3 + (id == better) / 3, abs=1e-4)


def test_once_is_enough_and_blanks_in_ids(folder, tmp_path, capsys):
    (tmp_path / "q.jsonl").write_text('{"query": "story", "positive_ids": ["d 2"], "id": "a b"}\n')
    for _ in range(2):
        assert measure(folder, tmp_path / "out", tmp_path / "q.jsonl") == 0
    assert "nothing to do" in capsys.readouterr().out
    [line] = files.read_lines(str(tmp_path / "out" / "rankings" / "bm25.trec"))
    assert line.startswith("a%20b Q0 d%202 1 ")


@pytest.mark.parametrize("data, words, code, message", [
    ('{"query": "end", "positive_ids": ["d9"]}', (), 1,
     "q.jsonl line 1: the passage 'd9', relevant to the query '0', is not in the corpus"),
    ('{"query": "end", "positive": "no such text"}', (), 1,
     "q.jsonl line 1: the passage 'no such text', relevant to the query '0', is not in the corpus"),
    ('{"id": "a", "query": "end", "positive_ids": ["d3"]}\n'
     '{"id": "b", "query": "end", "positive_ids": ["d9"]}', (), 1,
     "q.jsonl line 2: the passage 'd9', relevant to the query 'b', is not in the corpus"),
    ('{"query": "end", "positive_ids": []}', (), 1, "q.jsonl line 1: no positive_ids"),
    ('{"query": "end", "positive_ids": ["d1"]}', ("--text_b_column", "a"), 2,
     "q.jsonl, whose column positive_ids says what is relevant; omit it"),
    ('{"query": " ", "positive_ids": ["d1"]}', (), 1, "q.jsonl line 1: empty query"),
    ('{"id": 1, "query": "a", "positive_ids": "d1"}\n{"id": 1, "query": "b", "positive_ids": "d1"}',
     (), 1, "q.jsonl line 2: the query id '1' a second time"),
    ('{"query": "end", "positive_ids": ["d1"]}', ("--rerank", "5"), 2, "--rerank without --rerank"),
    ('{"query": "end", "positive_ids": ["d1"]}', ("--reranker", "labels", "--rerank", "200"), 2,
     "--rerank 200 of 100 passages that are found; try --depth 200"),
    ('{"query": "end", "positive_ids": ["d1"]}', ("--depth", "9"), 2, "at least 10, for mrr@10"),
    ('{"query": "end", "positive_ids": ["d1"]}', ("--vector_weight", "0.3"), 2, "--model is bm2"),
    ('{"query": "end", "positive_ids": ["d1"]}', ("--corpus", "nowhere.tsv"), 2, "nowhere.tsv"),
    ('{"query": "end", "positive_ids": ["d1"]}', ("--reranker", "labels"), 2,
     "no number to rank by"),
    ('{"query": "end", "positive_ids": ["d1"]}', ("--model", "reranker"), 2,
     "try evaluate --reranker"),
    ('{"id": "q1", "text": "end"}', ("--qrels", "qrels.tsv"), 1,
     "qrels.tsv line 3: the query 'q2' is not in"),
    ("", ("--qrels", "qrels.tsv"), 1, "q.jsonl: no query; expected one or more"),
    ('{"id": "q1", "text": "end"}', ("--qrels", "twice.txt"), 1,
     "twice.txt line 3: the passage 'd1' has relevance 0 to the query 'q1', but 2 in twice.txt "
     "line 1; expected one judgement"),
    ('{"id": "q1", "text": "end"}', ("--qrels", "huge.txt"), 1,
     f"huge.txt line 1: relevance '1{309 * '0'}'; expected a whole number of at most 9 digits"),
    ('{"id": "q1", "text": "end"}', ("--qrels", "qrels.tsv", "--label_column", "a"), 2,
     "--label_column with --qrels; omit it"),
    ('{"query": "end", "positive": "a"}', ("--task", "rank"), 2, "--corpus is for --task retr"),
])
def test_refused(folder, tmp_path, capsys, monkeypatch, data, words, code, message):
    monkeypatch.chdir(folder)
    (tmp_path / "q.jsonl").write_text(data + "\n")
    assert measure(folder, tmp_path / "out", tmp_path / "q.jsonl", *words) == code
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "out" / "results.json").exists()


def test_an_exported_embedder_is_no_reranker(folder, tmp_path, monkeypatch):
    (tmp_path / "saved_model.pb").touch()
    monkeypatch.setattr(text_signatures, "_exported", lambda _: text_signatures._built(
        str(folder / "embedder"), "float32"))
    with pytest.raises(UsageError, match=f"{tmp_path}, a SavedModel that gives no number .*; "
                                         "expected that of a cross-encoder, or the model folder"):
        Reranker(str(tmp_path))


def test_a_missing_package_is_told_before_vectors_are_computed(folder, tmp_path, capsys,
                                                               monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    monkeypatch.setattr(retrieval, "Embedder", None)
    assert measure(folder, tmp_path / "out", "squad.json", model=str(folder / "embedder"),
                   corpus=None) == 2
    assert "pip install 'bert_tf[search]'" in capsys.readouterr().err


@pytest.mark.parametrize("rows", [
    "qid\tquery\tpassage\nq1\tend\tpoor actor end\nq2\tfine music\tdull story scene\n"
    "q1\tend\tthe great end\n",
    "qid\tquery\tpositive_ids\nq1\tend\td3\nq2\tfine music\td 2\nq1\tend\td4\n"])
def test_positives_of_a_query_may_be_in_several_rows(folder, tmp_path, rows):
    (tmp_path / "q.tsv").write_text(rows)
    assert measure(folder, tmp_path / "out", tmp_path / "q.tsv") == 0
    assert files.read_json(str(tmp_path / "out" / "results.json"))["metrics"] == {
        "mrr@10": 0.5, "ndcg@10": 0.5, "map": 0.5, "recall@1": 0.25}
    lines = map(json.loads, files.read_lines(str(tmp_path / "out" / "predictions.jsonl")))
    assert [(line["id"], line["gold"]) for line in lines] == [
        ("q1", {"d3": 1, "d4": 1}), ("q2", {"d 2": 1})]


def test_a_positive_is_in_the_corpus_however_it_is_composed(folder, tmp_path):
    decomposed = unicodedata.normalize("NFD", "한국의 수도")
    (tmp_path / "q.tsv").write_text("query\tpassage\n수도\t한국의 수도\n")
    (tmp_path / "passages.tsv").write_text(f"id\ttext\nd1\tthe end\nd2\t{decomposed}\n")
    assert measure(folder, tmp_path / "out", tmp_path / "q.tsv",
                   corpus=tmp_path / "passages.tsv") == 0
    (line,) = files.read_lines(str(tmp_path / "out" / "predictions.jsonl"))
    assert json.loads(line)["gold"] == {"d2": 1}


def test_a_query_is_the_same_however_it_is_composed(folder, tmp_path):
    both = [unicodedata.normalize(form, "끝은") for form in ("NFC", "NFD")]
    (tmp_path / "q.tsv").write_text("query\tpassage\n" + "".join(
        f"{query}\t{text}\n" for query, text in zip(both, ("poor actor end", "the great end"),
                                                   strict=True)))
    assert measure(folder, tmp_path / "out", tmp_path / "q.tsv") == 0
    (line,) = files.read_lines(str(tmp_path / "out" / "predictions.jsonl"))
    assert json.loads(line)["gold"] == {"d3": 1, "d4": 1}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_ids_in_judgements_may_hold_what_delimits_tables(tmp_path, delimiter):
    ids = ["q1", "0", "d,1;a" if delimiter == "\t" else f"d{delimiter}1", "2"]
    for line in (" ".join(ids), "\t".join(ids)):
        (tmp_path / "qrels.txt").write_text(line + "\nq 0 d 1\n" * (" " in line))
        first, *_ = queries._judgements(str(tmp_path / "qrels.txt"), TableForm())
        assert first[1:] == ("q1", ids[2], 2)


def test_blanks_in_ids_of_tables_of_judgements(tmp_path):
    for line in ("q 1,d x y,1", "q 1\td x\t1", "q, d, 1"):
        (tmp_path / "qrels.txt").write_text(line + "\n")
        [(_, query, passage, relevance)] = queries._judgements(
            str(tmp_path / "qrels.txt"), TableForm())
        assert [query.strip(), passage.strip(), relevance] == [
            field.strip() if at < 2 else 1 for at, field in enumerate(
                line.split("\t" if "\t" in line else ","))]


def test_invalid_queries_are_skipped_and_counted(folder, tmp_path, capsys):
    (tmp_path / "q.jsonl").write_text(
        '{"query": "end", "positive_ids": ["d9"]}\nno JSON\n{"query": "", "positive_ids": "d1"}\n'
        '{"query": "end", "positive_ids": []}\n{"query": "music", "positive_ids": ["d1"]}\n'
        '{"id": null, "query": "story", "positive_ids": ["d 2"]}\n'
        '{"query": "story", "positive_ids": ["d9"]}\n')
    assert measure(folder, tmp_path / "out", tmp_path / "q.jsonl") == 1
    assert "5 of 7 examples are invalid; try correcting them, or --skip_bad_rows" in (
        capsys.readouterr().err)
    assert measure(folder, tmp_path / "out", tmp_path / "q.jsonl", "--skip_bad_rows") == 0
    results = files.read_json(str(tmp_path / "out" / "results.json"))
    assert (results["examples"], results["left_out"]) == (2, 5)


def test_fusion_by_the_formula():
    from bert_tf.retrieval.fusion import reciprocal_rank_fusion

    scores, rows = reciprocal_rank_fusion([np.array([[3, 1, -1]]), np.array([[1, 5, 3]])], 4)
    assert rows.tolist() == [[1, 3, 5, -1]]
    np.testing.assert_allclose(scores[0], [1 / 62 + 1 / 61, 1 / 61 + 1 / 63, 1 / 62, 0], rtol=1e-6)
    # The first two have the ranks 1, 2 and 7, whose sum depends on their order.
    systems = [[0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 0], [2, 0, 3, 4, 5, 6, 1]]
    for own in (systems, systems[::-1], systems[1:] + systems[:1]):
        scores, rows = reciprocal_rank_fusion([np.array([ranked]) for ranked in own], 7)
        assert rows[0].tolist().index(0) < rows[0].tolist().index(1)


def test_weighted_fusion_by_the_formula():
    from bert_tf.retrieval.fusion import weighted_fusion

    vectors = np.array([[0.9, 0.7, 0.5]], np.float32), np.array([[3, 1, 4]])
    words = np.array([[12, 8, 0]], np.float32), np.array([[1, 5, -1]])
    scores, rows = weighted_fusion([vectors, words], (0.25, 0.75), 5)
    assert rows.tolist() == [[1, 3, 4, 5, -1]]
    np.testing.assert_allclose(scores[0], [0.25 * 0.5 + 0.75, 0.25, 0, 0, 0], atol=1e-6)
    nothing = np.zeros((1, 2), np.float32), np.full((1, 2), -1)
    one = np.full((1, 1), 2, np.float32), np.array([[7]])
    scores, rows = weighted_fusion([nothing, one], (0.5, 0.5), 2)
    assert rows.tolist() == [[7, -1]] and scores.tolist() == [[0.5, 0]]
