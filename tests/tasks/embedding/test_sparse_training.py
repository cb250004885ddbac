"""What weights of tokens learn: the FLOPS regularizer, and `finetune --task sparse` from files."""

import json

import numpy as np
import pytest
import tensorflow as tf
from embedder_step import WORDS, write_pairs
from scipy import sparse

from bert_tf import cli, evaluate, finetune
from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.storage import files
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.losses.vector_batch import VectorBatch
from bert_tf.tasks.embedding.ranks import positive_ranks
from bert_tf.tasks.embedding.sparse.flops import regularizer
from bert_tf.tasks.embedding.sparse.options import SparseLoss
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary


@pytest.mark.parametrize(("progress", "risen"), [(None, 1), (0.0, 0), (1 / 6, 1 / 4), (0.7, 1)])
def test_the_regularizer_is_that_of_the_formula_and_rises(progress, risen):
    weights = np.random.default_rng(1).uniform(0, 2, (3, 3, 5)).astype("float32")
    ids = np.array([[1, 2, 3], [4, 5, 0], [6, 7, 8]])  # a text that is not there
    batch = VectorBatch(tf.constant(weights), tf.constant(ids), None, tf.constant([1.0, 1.0, 0.0]))
    passages = np.stack([weights[0, 1], weights[0, 2], weights[1, 1]])
    expected = 0.3 * np.sum(weights[:2, 0].mean(0)**2) + 0.2 * np.sum(passages.mean(0)**2)
    found = regularizer(batch, SparseLoss(query_flops=0.3, passage_flops=0.2), progress)
    assert found.numpy() == pytest.approx(risen * expected, rel=1e-5)


def test_texts_are_compared_by_scalar_products():
    assert SparseLoss(similarity=None).similarity == "dot"
    with pytest.raises(UsageError, match="similarity='cosine'"):
        SparseLoss(similarity="cosine")
    with pytest.raises(UsageError, match="matryoshka_widths of weights of tokens"):
        SparseLoss(matryoshka_widths=(8,))


def test_ranks_by_sparse_products_are_those_by_dense_ones():
    draw = np.random.default_rng(1)
    queries, texts = (np.maximum(draw.normal(size=(n, 6)), 0) for n in (4, 9))
    positives, left_out = [[0, 1], [2], [3], [8]], [[5], [], [0], []]
    assert positive_ranks(*map(sparse.csr_matrix, (queries, texts)), positives,
                          left_out) == positive_ranks(queries, texts, positives, left_out)


def make_tokenizer():
    return Tokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of a masked LM and `pairs.tsv`, whose positives are their queries in other words."""
    path = tmp_path_factory.mktemp("sparse")
    Pretrainer(ModelConfig(vocab_size=25, hidden_size=16, num_hidden_layers=1,
                           num_attention_heads=2, intermediate_size=32, max_position_embeddings=16,
                           initializer_range=0.3), None, seed=1).save_pretrained(
        str(path / "model"), make_tokenizer())
    write_pairs(path / "pairs.tsv")
    return path


def command(folder, *further, name="run"):
    return ["--task", "sparse", "--train", str(folder / "pairs.tsv"), "--dev", "0.25",
            "--init", str(folder / "model"), "--output_dir", str(folder / name),
            "--export_dir", str(folder / "saved" / name), "--batch_size", "16",
            "--learning_rate", "1e-2", *further]


@pytest.mark.parametrize(("further", "message"), [
    (("--loss", "triplet"), "expected in_batch or margin_mse"),
    (("--pooling", "max"), "is for embedding, classification, ranking, not"),
    (("--loss", "vectors"), "--loss vectors"), (("--query_flops", "-1"), "at least 0")])
def test_what_does_not_suit_is_refused(folder, further, message, capsys):
    assert cli.run(finetune.main, command(folder, *further)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.long
def test_it_is_learned_measured_and_served(folder, tmp_path):
    terms = []
    for number, weight in enumerate((0, 0.01)):
        flops = "--query_flops", str(weight), "--passage_flops", str(weight), "--epochs", "20"
        assert cli.run(finetune.main, command(folder, *flops, name=f"run{number}")) == 0
        lines = [json.loads(line) for line in files.read_lines(
            str(folder / f"run{number}" / "metrics.jsonl"))]
        terms.append([line["passage_terms"] for line in lines if "passage_terms" in line][-1])
    assert 1 < terms[1] < terms[0] - 2
    found = files.read_json(str(folder / "run0" / "results.json"))["metrics"]
    assert found["mrr@10"] > 0.2  # by chance 0.06
    measured = [measure(folder, model, tmp_path / model.name)
                for model in (folder / "run0", folder / "saved" / "run0" / "1")]
    assert measured[0] == pytest.approx(measured[1], abs=0.01)


def measure(folder, model, output):
    assert cli.run(evaluate.main, ["--model", str(model), "--task", "sparse", "--data",
                                   str(folder / "pairs.tsv"), "--output_dir", str(output)]) == 0
    return files.read_json(str(output / "results.json"))["metrics"]


@pytest.mark.long
def test_queries_by_a_table_are_learned_measured_and_served(folder, tmp_path):
    begin = from_pretrained(str(folder / "model"), "sparse_embedder", query_table=True,
                            preprocessor=TextPreprocessor(make_tokenizer(), 16))
    begin.save_pretrained(str(folder / "by_table"), make_tokenizer())
    words = command(folder, "--epochs", "20", name="table")
    words[words.index("--init") + 1] = str(folder / "by_table")
    assert cli.run(finetune.main, words) == 0
    model = from_pretrained(str(folder / "table"))
    assert np.ptp(model.query_table.term_weights) > 0.1  # ones at first
    assert measure(folder, folder / "by_table", tmp_path / "before")["mrr@10"] < 0.2
    found, served = (measure(folder, path, tmp_path / path.name)
                     for path in (folder / "table", folder / "saved" / "table" / "1"))
    assert found["mrr@10"] > 0.2 and served == pytest.approx(found, abs=0.01)
