"""`finetune --task embed` from files: what is learned, measured, served, resumed and refused."""

import json
import os
import random

import numpy as np
import pytest
from tiny_model import only_signatures

from bert_tf import cli, convert, evaluate, finetune
from bert_tf.config import ModelConfig
from bert_tf.models.families import build_encoder
from bert_tf.storage import files, variables
from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.embedding.check import kind_of
from bert_tf.tasks.embedding.ranks import positive_ranks
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.training import loop

WORDS = [f"w{number}" for number in range(20)]
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 32, "max_position_embeddings": 16, "initializer_range": 0.3}


def words(numbers, further=0):
    return " ".join(WORDS[number + further] for number in numbers)


def write(path, header, rows):
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in [header, *rows]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of an encoder; `pairs.tsv`, whose positives are their queries in other words; `sts.tsv`,
    labelled pairs with none to all of the words in other words, and `overlap.tsv` in the same."""
    path = tmp_path_factory.mktemp("embed")
    draw = random.Random(1)
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS]))
    build_encoder(ModelConfig(vocab_size=25, **SIZES), seed=1).save_pretrained(
        str(path / "model"), tokenizer)
    pairs, scored = [], []
    for _ in range(192):
        query, other = (draw.sample(range(10), 4) for _ in range(2))
        pairs.append((words(query), words(query, 10)))
        count = draw.randint(0, 4)
        scored.append((words(query), words([*query[:count], *other[count:]], 10), count))
    write(path / "overlap.tsv", ("sentence1", "sentence2", "score"), [
        (first, " ".join(f"w{int(word[1:]) - 10}" for word in second.split()), count)
        for first, second, count in scored])
    write(path / "pairs.tsv", ("query", "positive"), pairs)
    write(path / "sts.tsv", ("sentence1", "sentence2", "score"), scored)
    return path


def command(folder, *further, name="run"):
    return ["--task", "embed", "--train", str(folder / "pairs.tsv"), "--dev", "0.25",
            "--init", str(folder / "model"), "--output_dir", str(folder / name),
            "--export_dir", str(folder / "saved" / name), "--batch_size", "16", "--epochs", "6",
            "--learning_rate", "5e-3", *further]


@pytest.fixture(scope="module")
def run(folder):
    with only_signatures("describe", "embed"):
        assert cli.run(finetune.main, command(folder)) == 0
    return folder / "run"


def measured(folder, model, name, data="pairs.tsv"):
    out = folder / name
    assert cli.run(evaluate.main, ["--task", "embed", "--model", str(model), "--data",
                                   str(folder / data), "--output_dir", str(out)]) == 0
    return files.read_json(str(out / "results.json"))["metrics"], [
        json.loads(line) for line in files.read_lines(str(out / "predictions.jsonl"))]


def test_it_is_learned_measured_and_served(folder, run):
    results = files.read_json(str(run / "results.json"))
    assert results["monitor"] == "mrr@10"
    assert set(results["metrics"]) == {"mrr@10", "ndcg@10", "map", "recall@1", "recall@10"}
    before, _ = measured(folder, folder / "model", "untouched")
    after, lines = measured(folder, run, "tuned")
    assert after["mrr@10"] > before["mrr@10"] + 0.1
    served, of_served = measured(folder, folder / "saved" / "run" / "1", "served")
    assert served == after
    np.testing.assert_allclose([line["score"] for line in lines],
                               [line["score"] for line in of_served], atol=2e-6)
    assert lines[0].keys() == {"id", "query", "gold", "ranks", "score"}


def test_labelled_pairs_are_measured_by_their_correlation(folder, run):
    metrics, lines = measured(folder, run, "sts", "sts.tsv")
    assert set(metrics) == {"spearman", "pearson"} and metrics["spearman"] > 0.3
    assert lines[0].keys() == {"id", "query", "text", "gold", "score"}


@pytest.mark.long
def test_a_run_that_is_stopped_ends_with_the_same_weights(folder, run, monkeypatch):
    calls = []

    def stop(self):
        calls.append(self.step)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return judged(self)

    judged = loop._Run.evaluate
    monkeypatch.setattr(loop._Run, "evaluate", stop)
    assert cli.run(finetune.main, command(folder, name="again")) == 130
    assert cli.run(finetune.main, command(folder, name="again")) == 0
    assert calls == [9, 18, 18, 27, 36, 45, 54]
    expected = variables.read_variables(str(run / "model" / "model"))
    for name, values in variables.read_variables(str(folder / "again/model/model")).items():
        np.testing.assert_array_equal(values, expected[name], name)


@pytest.mark.long
@pytest.mark.parametrize("words", [
    ["--loss", "cosent", "--train", "overlap.tsv"], ["--loss", "angle", "--train", "overlap.tsv"],
    ["--loss", "cosine", "--train", "overlap.tsv"], ["--dev", "sts.tsv"],
    ["--accumulate_steps", "2", "--two_sided", "--matryoshka_widths", "16", "8"],
    ["--loss", "vectors", "--teacher", "run"]])
def test_other_losses(folder, run, words, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    assert cli.run(finetune.main, command(folder, *words, name=tmp_path.name)) == 0
    results = files.read_json(str(folder / tmp_path.name / "results.json"))
    assert results["metrics"][results["monitor"]] > 0.15  # untrained: 0.04


@pytest.mark.long
def test_texts_alone_teach_by_spans_of_them(folder):
    draw = random.Random(2)
    (folder / "texts.txt").write_text("".join(
        words(draw.choices(draw.sample(range(20), 3), k=12)) + "\n" for _ in range(144)))
    spans = [draw.sample(range(20), 3) for _ in range(48)]
    write(folder / "spans.tsv", ("query", "positive"), [
        (words(draw.sample(three, 3)), words(draw.choices(three, k=8))) for three in spans])
    before, _ = measured(folder, folder / "model", "unlearned_spans", "spans.tsv")
    assert cli.run(finetune.main, command(
        folder, "--train", str(folder / "texts.txt"), "--dev", str(folder / "spans.tsv"),
        "--crops", "4", "--epochs", "3", name="cropped")) == 0
    results = files.read_json(str(folder / "cropped" / "results.json"))
    assert results["metrics"]["mrr@10"] > before["mrr@10"] + 0.1


@pytest.mark.long
def test_a_teacher_of_another_format(folder, run):
    theirs = str(folder / "theirs")
    convert.main(["--from", "bert_tf", str(run), "--to", "sentence_transformers", theirs])
    assert cli.run(finetune.main, command(
        folder, "--loss", "vectors", "--teacher", theirs, "--epochs", "1", name="taught")) == 0
    for name, values in variables.read_variables(str(run / "model/model")).items():
        np.testing.assert_array_equal(
            variables.read_variables(str(folder / "taught/teacher/model"))[name], values)


@pytest.mark.parametrize("words, code, message", [
    (["--batch_size", "160"], 2, "--batch_size 160 with 144 train examples; expected batches no "
                                 "larger than the data; try --batch_size 144"),
    (["--batch_size", "1"], 2, "--batch_size 1 with --loss in_batch, which compares a pair with "
                               "others of its batch; expected at least 2"),
    (["--train", "same.tsv", "--dev", "pairs.tsv"], 1,
     "all 20 train examples have one positive, so that no query has a negative"),
    (["--loss", "triplet"], 2, "no hard negative, for --loss triplet; expected a column negative"),
    (["--loss", "cosent"], 2, "--loss cosent with queries with positives; expected pairs with a "
                              "score; try --loss in_batch"),
    (["--loss", "in_batch", "--train", "sts.tsv"], 2, "--loss in_batch with labelled pairs"),
    (["--margin", "2"], 2, "--margin with --loss in_batch: it is for triplet; omit it"),
    (["--loss", "vectors"], 2, "--loss vectors without a teacher; try --teacher PATH"),
    (["--dev", "alone.txt"], 2, "alone.txt line 1: texts alone, which vectors cannot be measured"),
    (["--test", "alone.txt"], 2, "alone.txt line 1: texts alone, which vectors cannot be measured"),
    (["--train", "sts.tsv", "--loss", "angle", "--matryoshka_widths", "5"], 2,
     "--loss angle of vectors of 5 components; expected even widths"),
    (["--train", "equal.tsv"], 1, "have the score 2; expected different ones"),
    (["--train", "half.tsv"], 1, "half.tsv line 2: empty positive; try removing the row, or "
                                 "--skip_bad_rows"),
    (["--task", "cola", "--two_sided"], 2, "--two_sided True is for embedding, multi "
                                           "vector, not for --task cola"),
    (["--train", "alone.txt", "--dev", "sts.tsv", "--dropout", "0", "--batch_size", "2"], 2,
     "texts alone and a model without dropout"),
    (["--crops", "4"], 2, "--crops with queries with positives and --loss in_batch: it is for "),
    (["--matryoshka_widths", "32"], 2, "--matryoshka_widths 32 of vectors of 16 components"),
])
def test_what_cannot_be_done_is_said_in_one_line(folder, words, code, message, monkeypatch,
                                                 capsys):
    monkeypatch.chdir(folder)
    write(folder / "equal.tsv", ("sentence1", "sentence2", "score"),
          [(f"w1 w{n}", "w2", 2) for n in range(20)])
    write(folder / "same.tsv", ("query", "positive"), [(f"w{n}", "w2") for n in range(20)])
    write(folder / "half.tsv", ("query", "positive"), [("w1", " "), ("w2", "w3")])
    (folder / "alone.txt").write_text("w1 w2\nw3\n")
    assert cli.run(finetune.main, command(folder, *words, name="refused")) == code
    printed = capsys.readouterr().err
    assert message in printed and printed.count("\n") == 1
    assert not os.path.exists(folder / "refused" / "trials")


@pytest.mark.parametrize("train, printed", [
    ("replies.tsv", "loss in_batch, of texts alone"),
    ("sts.tsv", "loss cosent, of labelled pairs")])
def test_what_was_detected_in_a_file_is_printed(folder, train, printed, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    write(folder / "replies.tsv", ("query", "reply"), [(f"w{n}", f"w{n} w1") for n in range(20)])
    # A width that no vector has ends it before anything is trained.
    cli.run(finetune.main, command(folder, "--train", train, "--dev", "sts.tsv",
                                   "--matryoshka_widths", "32", name=f"detected_{train}"))
    assert printed in capsys.readouterr().out


@pytest.mark.parametrize(("words", "printed"), [
    (["--similarity", "dot"], "note: --loss in_batch is of dot products"), ([], "")])
def test_that_vectors_learn_by_dot_products_is_told(folder, words, printed, capsys):
    # A width that no vector has ends it before anything is trained.
    cli.run(finetune.main, command(folder, *words, "--matryoshka_widths", "32", name="told"))
    out = capsys.readouterr().out
    assert printed in out and ("dot products" in out) == bool(printed)


def test_ranks():
    queries = np.eye(2, dtype="float32")
    texts = np.array([[1, 0], [0.5, 0.1], [0.9, 0.2], [0.9, 0]], "float32")
    ranks = positive_ranks(queries, texts, [[0, 3], [1]])
    assert ranks == [[1, 3], [2]]  # of the equal 0.9 the other text comes first
    same = positive_ranks(queries, np.ones((12, 2), "float32"), [[0], [1]])
    assert same == [[12], [12]]
    assert positive_ranks(queries, texts, [[0, 3], [1]], [[2], []]) == [[1, 2], [2]]
    assert positive_ranks(queries, texts, [[0, 3], [1]], [[3], [1]]) == ranks
    assert kind_of([QueryExample("0", "a")]) == "texts alone"
