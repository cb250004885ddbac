"""Hard negatives: which passages are taken, by BM25 and by vectors."""

import json
import pathlib

import numpy as np
import pytest
from tiny_model import SEQ_LENGTH, config_of, word_piece

from bert_tf import cli
from bert_tf import mine_negatives as command
from bert_tf.errors import BertTfError, UsageError
from bert_tf.mine_negatives import mine_negatives
from bert_tf.retrieval import bm25
from bert_tf.retrieval.bm25 import Bm25
from bert_tf.retrieval.negatives import NegativeRule
from bert_tf.storage import files, locks
from bert_tf.tasks.base.query_files import read_queries
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.model import SentenceEmbedder

PASSAGES = ["the quick brown fox", "The  quick brown FOX", "the lazy dog", "a quick dog",
            "fox jumps over the dog", "the lazy dog", "the quick fox", "café"]
QUERIES = [("quick fox", "the quick brown fox"), ("lazy dog", "the lazy dog"),
           ("quick fox", "the quick fox")]


@pytest.fixture
def data(tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(PASSAGES))
    (tmp_path / "pairs.tsv").write_text("query\tpositive\n" + "".join(
        f"{query}\t{positive}\n" for query, positive in QUERIES))
    return {"input": str(tmp_path / "pairs.tsv"), "corpus": str(tmp_path / "corpus.txt"),
            "output": str(tmp_path / "train.jsonl")}


def read(path):
    with open(path) as stream:
        return [json.loads(line) for line in stream]


def test_by_bm25(data, capsys):
    lines = read(mine_negatives(**data, bm25=True, negatives=3))
    # Of a query that is there twice neither positive, and none of their duplicates, counts.
    assert [(line["query"], line["positive"]) for line in lines] == [
        QUERIES[0], QUERIES[2], QUERIES[1]]
    texts = [PASSAGES[row] for row in (0, 2, 3, 4, 6, 7)]  # each once
    scores, rows = Bm25(texts).search(["quick fox", "lazy dog"], 6)
    expected = [[texts[row] for row in of_query if row >= 0 and texts[row] not in positives][:3]
                for of_query, positives in zip(rows, (
                    {"the quick brown fox", "the quick fox"}, {"the lazy dog"}), strict=True)]
    assert [line["negatives"] for line in lines] == [expected[0], expected[0], expected[1]]
    assert [(each.query, each.negatives) for each in read_queries(data["output"])] == [
        (line["query"], tuple(line["negatives"])) for line in lines]
    mine_negatives(**data, bm25=True, negatives=3)
    assert "is there already" in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"train.jsonl holds .*\(negatives was 3, now 1\); try "
                                         "another output, or"):
        mine_negatives(**data, bm25=True, negatives=1)
    best = read(mine_negatives(**data, bm25=True, negatives=9, first_rank=2, last_rank=2,
                               overwrite=True))
    assert [line["negatives"] for line in best] == [each[1:2] for each in (
        expected[0], expected[0], expected[1])]
    assert "left out" not in capsys.readouterr().out
    with open(data["input"], "a") as stream:
        stream.write("café\tcafé\n")  # which no other passage has
    assert len(read(mine_negatives(**data, bm25=True, overwrite=True))) == len(QUERIES)
    assert "note: 1 positives without a negative are left out" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["the quick brown fox", "a quick dog"])
def test_a_passage_that_is_there_often_has_one_rank(data, tmp_path, text):
    expected = read(mine_negatives(**data, bm25=True, last_rank=3))
    (tmp_path / "corpus.txt").write_text("\n".join(PASSAGES + [text, text.upper()] * 20))
    found = read(mine_negatives(**data, bm25=True, last_rank=3, overwrite=True))
    assert found == expected and all(len(line["negatives"]) > 1 for line in found)


def test_by_vectors_and_both(data, tmp_path, eager):
    tokenizer = word_piece()
    model = SentenceEmbedder(config_of(tokenizer), seed=1,
                             preprocessor=TextPreprocessor(tokenizer, SEQ_LENGTH))
    folder = str(tmp_path / "model")
    model.save_pretrained(folder, tokenizer)
    lines = read(mine_negatives(**data, model=folder, negatives=8, relative_margin=0.1))
    def unit(texts):
        vectors = model.embed(texts)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    kept = [row for row in range(8) if row not in (0, 1, 6, 5)]
    cosines = unit(["quick fox"]) @ unit([PASSAGES[row] for row in kept]).T
    for line in lines[:2]:
        bound = 0.9 * (unit(["quick fox"]) @ unit([line["positive"]]).T)
        expected = [PASSAGES[kept[place]] for place in np.argsort(-cosines[0], kind="stable")
                    if cosines[0, place] <= bound[0, 0]]
        assert line["negatives"] == expected
    assert not (tmp_path / "train.jsonl.vectors").exists()
    both = read(mine_negatives(**data, model=folder, bm25=True, negatives=8, overwrite=True))
    assert {*both[0]["negatives"]} == {PASSAGES[row] for row in kept}


def test_a_passage_that_is_a_title_alone_is_no_negative(data, tmp_path, eager):
    tokenizer = word_piece()
    SentenceEmbedder(config_of(tokenizer), seed=1, preprocessor=TextPreprocessor(
        tokenizer, SEQ_LENGTH)).save_pretrained(str(tmp_path / "model"), tokenizer)
    (tmp_path / "corpus.tsv").write_text("text\ttitle\n\tfox\n" + "".join(
        f"{text}\t\n" for text in PASSAGES))
    data["corpus"] = str(tmp_path / "corpus.tsv")
    lines = read(mine_negatives(**data, model=str(tmp_path / "model"), negatives=9))
    assert all(each.strip() for line in lines for each in line["negatives"])


def test_a_positive_with_its_passage_s_title_is_no_negative(data, tmp_path):
    (tmp_path / "corpus.tsv").write_text("text\ttitle\n" + "".join(
        f"{text}\tTitle {number}\n" for number, text in enumerate(PASSAGES)))
    positive = f"Title 0 {PASSAGES[0]}"
    (tmp_path / "pairs.tsv").write_text(f"query\tpositive\nquick fox\t{positive}\n")
    data["corpus"] = str(tmp_path / "corpus.tsv")
    [line] = read(mine_negatives(**data, bm25=True, negatives=9))
    assert line["positive"] == positive
    found = {*line["negatives"]}
    assert {"the quick fox", "a quick dog"} <= found and found.isdisjoint(PASSAGES[:2])


def test_judged_passages_are_read_as_a_reranker_reads_them(data, tmp_path):
    (tmp_path / "judged.tsv").write_text("query\tpassage\tlabel\nquick fox\tthe quick fox\t2\n"
                                         "quick fox\tthe lazy dog\t0\n")
    [line] = read(mine_negatives(**data | {"input": str(tmp_path / "judged.tsv")}, bm25=True))
    assert line["positive"] == "the quick fox" and "the quick brown fox" in line["negatives"]


def test_queries_without_a_relevant_passage_are_left_out(data, tmp_path, capsys):
    path = tmp_path / "judged.tsv"
    path.write_text("query\tpassage\tlabel\nquick fox\tthe quick fox\t2\n"
                    "lazy dog\tthe quick fox\t0\ncafé\tthe quick fox\t0\n")
    for _ in range(2):
        [line] = read(mine_negatives(**data | {"input": str(path)}, bm25=True))
        assert line["query"] == "quick fox"
        assert "note: 2 queries without a relevant passage are left out" in capsys.readouterr().out
    path.write_text("query\tpassage\tlabel\nlazy dog\tthe quick fox\t0\n")
    with pytest.raises(BertTfError, match="line 2: all 1 labels of the query 'lazy dog' are 0"):
        mine_negatives(**data | {"input": str(path)}, bm25=True, overwrite=True)


def test_a_corpus_in_another_form(data, tmp_path):
    (tmp_path / "corpus.csv").write_bytes("doc;body\n".encode("utf-16") + "".join(
        f"{number};{text}\n" for number, text in enumerate(PASSAGES)).encode("utf-16-le"))
    expected = read(mine_negatives(**data, bm25=True))
    data |= {"corpus": str(tmp_path / "corpus.csv"), "output": str(tmp_path / "other.jsonl")}
    assert read(mine_negatives(**data, bm25=True, text_column="body", delimiter=";")) == expected


def test_into_a_store(data, tmp_path, monkeypatch, eager):
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    tokenizer = word_piece()
    model = SentenceEmbedder(config_of(tokenizer), seed=1,
                             preprocessor=TextPreprocessor(tokenizer, SEQ_LENGTH))
    model.save_pretrained(str(tmp_path / "model"), tokenizer)
    output = "memory://mined/train.jsonl"
    assert mine_negatives(**data | {"output": output}, model=str(tmp_path / "model")) == output
    assert len(list(read_queries(output))) == 3
    assert files.list_folder("memory://mined") == ["train.jsonl", "train.jsonl.manifest.json"]
    assert not [each for each in (tmp_path / "cache").iterdir() if each.is_dir()]


@pytest.mark.parametrize("folder, told", [("", "what is finished is kept"),
                                          ("memory://stopped/", "nothing is kept")])
def test_what_a_stop_keeps(data, tmp_path, folder, told, monkeypatch, capsys):
    """What comes into a store works in the cache."""
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_Mining", stopped)
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    data["output"] = folder + "train.jsonl" if folder else data["output"]
    assert cli.run(command.main, [
        "--bm25", *(word for name, value in data.items() for word in (f"--{name}", value))]) == 130
    assert f"stopped: {told}" in capsys.readouterr().err


@pytest.mark.parametrize("module, name", [(command.manifest, "write"),
                                          (command.files, "write_json_lines")])
def test_one_stopped_while_it_writes_resumes(data, module, name, monkeypatch):
    mine_negatives(**data, bm25=True, negatives=1)
    write = getattr(module, name)

    def stopped(*given, **options):
        write(*given, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(module, name, stopped)
        mine_negatives(**data, bm25=True, negatives=2, overwrite=True)
    assert len(read(mine_negatives(**data, bm25=True, negatives=2))[0]["negatives"]) == 2


def test_how_korean_was_compared_is_told_of_what_is_there_too(data, tmp_path, capsys, monkeypatch):
    def missing(_):
        raise UsageError("kiwipiepy is not installed")

    monkeypatch.setattr(bm25, "analyse", missing)
    (tmp_path / "corpus.txt").write_text("\n".join([*PASSAGES, "개는 quick"]))
    for _ in range(2):
        mine_negatives(**data, bm25=True)
        assert "note: BM25 compares Korean text by pairs" in capsys.readouterr().out


def test_rule():
    generator = np.random.default_rng(0)
    scores = np.array([.9, .8, .7, .6, .5, -.2])
    for rule, expected in [({}, [0, 1, 2, 3, 4]), ({"margin": .25}, [2, 3, 4, 5]),
                           ({"relative_margin": .3}, [3, 4, 5]), ({"first_rank": 6}, [5]),
                           ({"margin": .05, "relative_margin": .5, "last_rank": 5}, [])]:
        assert NegativeRule(**rule).choose(scores, .95 if rule != {"margin": .05,
            "relative_margin": .5, "last_rank": 5} else .9, generator).tolist() == expected
    random = NegativeRule(2, sampling="random")
    drawn = {tuple(random.choose(scores, 1, generator).tolist()) for _ in range(200)}
    assert len(drawn) == 15 and all(first < second for first, second in drawn)


@pytest.mark.parametrize("options, error, message", [
    ({}, UsageError, "nothing to search by"),
    ({"bm25": True, "first_rank": 9, "last_rank": 2}, UsageError, "ranks 9 to 2"),
    ({"bm25": True, "margin": -1.0}, UsageError, "margin"),
    ({"bm25": True, "margin": 100.0}, BertTfError, "no negative for any of 2 queries"),
    ({"bm25": True, "corpus": "other", "margin": .1}, BertTfError, "is not in the corpus"),
])
def test_refused(data, tmp_path, options, error, message, capsys):
    if "corpus" in options:
        (tmp_path / "other.txt").write_text("a quick dog\na lazy fox")
        options = options | {"corpus": str(tmp_path / "other.txt")}
    with pytest.raises(error, match=message):
        mine_negatives(**data | options)
    flags = [word for name, value in (data | options).items()
             for word in ([f"--{name}"] if value is True else [f"--{name}", str(value)])]
    assert cli.run(command.main, flags) == (2 if error is UsageError else 1)
    assert capsys.readouterr().err.count("\n") == 1


def test_other_outputs_in_a_folder_are_mined_at_the_same_time(data, tmp_path):
    with locks.held(str(tmp_path), name="other.jsonl"):
        mine_negatives(**data, bm25=True)
    with locks.held(str(tmp_path), name="train.jsonl"), \
            pytest.raises(BertTfError, match="train.jsonl is in use by process"):
        mine_negatives(**data, bm25=True)


def test_no_flag_that_is_not_there_is_named(data, tmp_path):
    (tmp_path / "left.csv").write_text("left,right\na,b\n")
    with pytest.raises(UsageError, match="no column of queries among left, right; .*try renaming"):
        mine_negatives(**data | {"input": str(tmp_path / "left.csv"), "bm25": True})


def test_a_positive_of_the_same_query_in_another_spelling_is_no_negative(data):
    pairs = [("Quick  fox", "the quick brown fox"), ("quick fox", "the quick fox"),
             ("café", "a quick dog"), ("cafe\u0301", "café")]
    pathlib.Path(data["input"]).write_text("query\tpositive\n" + "".join(
        f"{query}\t{text}\n" for query, text in pairs))
    for line in read(mine_negatives(**data, bm25=True, negatives=9)):
        own = next(group for group in (pairs[:2], pairs[2:]) if line["query"] in dict(group))
        assert line["negatives"] and not set(line["negatives"]) & {text for _, text in own}


def test_positives_of_all_spellings_leave_ranks_for_negatives(data, tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(f"quick fox {n}" for n in range(40)))
    (tmp_path / "pairs.tsv").write_text("query\tpositive\n" + "".join(
        f"{' ' * n}quick{' ' * (n + 1)}fox\tquick fox {n}\n" for n in range(1, 31)))
    lines = read(mine_negatives(**data, bm25=True, negatives=2, last_rank=5))
    assert {text for line in lines for text in line["negatives"]} <= {
        f"quick fox {n}" for n in (0, *range(31, 40))} and len(lines) == 30


@pytest.mark.parametrize(("given", "message"), [
    ({"output": "train.tsv"}, "--output train.tsv; expected a name that ends with .jsonl"),
    ({"output": "train.jsonl.gz"}, "--output train.jsonl.gz; expected a name that ends with"),
    ({"dtype": "bfloat16"}, "--dtype bfloat16 without --model; omit it")])
def test_what_would_be_lost_or_does_nothing(data, given, message):
    with pytest.raises(UsageError, match=message):
        mine_negatives(**{**data, "bm25": True, **given})


@pytest.mark.parametrize("option", ["input", "corpus"])
def test_what_is_read_is_not_replaced(data, option):
    path = pathlib.Path(data[option]).with_suffix(".JSONL")
    path.write_text("".join(json.dumps({"query": query, "text": text, "positive": text}) + "\n"
                            for query, text in QUERIES))
    before = path.read_text()
    with pytest.raises(UsageError, match="is one of the files that are read"):
        mine_negatives(**data | {option: str(path), "output": str(path), "bm25": True,
                                 "overwrite": True})
    assert path.read_text() == before
