"""What vectors of tokens learn: losses of MaxSim, and `finetune --task multi_vector` from files."""

import json

import numpy as np
import pytest
import tensorflow as tf
from embedder_step import WORDS, one_step, write_pairs
from harness import mirrored

from bert_tf import cli, evaluate, finetune
from bert_tf.config import ModelConfig
from bert_tf.data.task_input import TaskInput
from bert_tf.errors import UsageError
from bert_tf.models.families import build_encoder
from bert_tf.storage import files
from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.embedding.features import query_features
from bert_tf.tasks.embedding.losses.table import compute_loss
from bert_tf.tasks.embedding.multi_vector.batch import MultiVectorBatch
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.embedding.multi_vector.options import MultiVectorLoss
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

CONFIG = ModelConfig(vocab_size=25, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                     intermediate_size=32, max_position_embeddings=16, initializer_range=0.3)


def max_sim(vectors, mask, query, row, text):
    own, others = vectors[query, 0][mask[query, 0] > 0], vectors[row, text][mask[row, text] > 0]
    return (own @ others.T).max(1).sum()


@pytest.mark.parametrize(("name", "scale"), [("in_batch", None), ("in_batch", 0.5),
                                             ("margin_mse", None)])
def test_losses_are_those_of_the_formulas(name, scale):
    draw = np.random.default_rng(1)
    vectors = draw.normal(size=(3, 3, 4, 2)).astype("float32")
    mask = draw.integers(0, 2, (3, 3, 4)) | np.eye(4, dtype=int)[0]
    scores = draw.normal(size=(3, 2)).astype("float32")
    batch = MultiVectorBatch(*map(tf.constant, (
        vectors, np.arange(1, 10).reshape(3, 3), np.array([[2], [5], [8]]), np.ones(3, "float32"),
        scores)), None, tf.constant(mask))
    if name == "in_batch":
        columns = [(row, text) for text in (1, 2) for row in range(3)]  # positives first
        logits = (scale or 1) * np.array([[max_sim(vectors, mask, query, *column)
                                           for column in columns] for query in range(3)])
        expected = np.mean(np.log(np.exp(logits).sum(1)) - np.diag(logits))
    else:
        margins = [max_sim(vectors, mask, row, row, 1) - max_sim(vectors, mask, row, row, 2)
                   for row in range(3)]
        expected = np.mean((np.array(margins) - (scores[:, 0] - scores[:, 1]))**2)
    found = compute_loss(batch, MultiVectorLoss(loss=name, scale=scale))
    assert found.numpy() == pytest.approx(expected, rel=1e-5)


def test_a_text_is_read_in_each_of_its_roles():
    model = MultiVectorEmbedder(CONFIG, dim=4, query_length=6, skiplist=["w1"], seed=1,
                                preprocessor=tokenizing())
    features = query_features([QueryExample("0", "w1 w2", ("w1 w2", "w3 " * 20))], model,
                              MultiVectorLoss())
    assert features.truncated == 1
    # Two rows of the query and a positive; the query's text is a passage, too.
    assert features.rows["input_word_ids"].lengths.tolist() == [6, 4, 16]
    assert features.rows["vector_mask"][0].tolist() == [1] * 6
    assert features.rows["input_mask"][0].tolist() == [1, 1, 1, 1, 0, 0]
    assert features.rows["vector_mask"][1].tolist() == [1, 0, 1, 1]
    assert [list(row) for row in features.rows["positive_ids"]] == [[2, 3]] * 2


def test_a_text_alone_is_read_as_a_query_and_as_a_passage():
    model = MultiVectorEmbedder(CONFIG, dim=4, query_length=6, seed=1, preprocessor=tokenizing())
    features = query_features([QueryExample("0", "w1"), QueryExample("1", "w2")], model,
                              MultiVectorLoss())
    lengths = features.rows["input_word_ids"].lengths
    assert lengths[features.lists].tolist() == [[6, 3]] * 2
    assert [list(row) for row in features.rows["positive_ids"]] == [[2], [4]]


def test_a_missing_negative_has_no_tokens():
    model = MultiVectorEmbedder(CONFIG, dim=4, query_length=6, seed=1, preprocessor=tokenizing())
    examples = [QueryExample("0", "w1", ("w2",), ("w3", "w4")), QueryExample("1", "w5", ("w6",))]
    features = query_features(examples, model, MultiVectorLoss())
    batch = next(iter(TaskInput(features, 2, 1, False, shuffle=False).dataset()))
    for name, expected in (("input_mask", [[3, 3, 3, 3], [3, 3, 0, 0]]),
                           ("vector_mask", [[6, 3, 3, 3], [6, 3, 0, 0]])):
        assert batch[name].numpy().sum(-1).tolist() == expected


def tokenizing():
    from bert_tf.tasks.base.text_preprocessor import TextPreprocessor

    return TextPreprocessor(Tokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS])), 16)


@pytest.mark.parametrize(("options", "message"), [
    ({"similarity": "cosine"}, "similarity='cosine'"), ({"loss": "triplet"}, "in_batch or margin"),
    ({"matryoshka_widths": (8,)}, "matryoshka_widths")])
def test_another_loss_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        MultiVectorLoss(**options)


@pytest.mark.long
def test_parts_and_replicas_equal_the_whole_batch():
    """With dropout: what an example draws depends on its place in the batch alone."""
    whole = one_step(tf.distribute.get_strategy(), kind=MultiVectorEmbedder)
    parts = one_step(mirrored(2), 2, kind=MultiVectorEmbedder)
    assert whole[0] > 1 and parts[:2] == pytest.approx(whole[:2], rel=1e-5)
    for name, value in parts[2].items():
        if not name.endswith("key/bias"):  # whose gradient is 0 but for rounding
            np.testing.assert_allclose(value, whole[2][name], rtol=0, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of an encoder and `pairs.tsv`, whose positives are their queries in other words."""
    path = tmp_path_factory.mktemp("multi_vector")
    build_encoder(CONFIG, seed=1).save_pretrained(str(path / "model"), tokenizing().tokenizer)
    write_pairs(path / "pairs.tsv")
    return path


def command(folder, *further, name="run"):
    return ["--task", "multi_vector", "--train", str(folder / "pairs.tsv"), "--dev", "0.25",
            "--init", str(folder / "model"), "--output_dir", str(folder / name),
            "--export_dir", str(folder / "saved" / name), "--batch_size", "16", "--dim", "8",
            "--query_length", "8", "--learning_rate", "1e-2", *further]


@pytest.mark.parametrize(("further", "message"), [
    (("--loss", "triplet"), "expected in_batch or margin_mse"),
    (("--pooling", "max"), "is for embedding, classification, ranking, not"),
    (("--expansion", "9"), "expansion=9; expected 0 to 8"), (("--dim", "0"), "at least 1")])
def test_what_does_not_suit_is_refused(folder, further, message, capsys):
    assert cli.run(finetune.main, command(folder, *further)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.long
def test_it_is_learned_and_measured(folder, tmp_path):
    for name, further in (("run", ()), ("cached", ("--accumulate_steps", "4"))):
        assert cli.run(finetune.main, command(folder, "--epochs", "8", "--dropout", "0", *further,
                                              name=name)) == 0
    losses = [[line["loss"] for line in map(json.loads, files.read_lines(
        str(folder / name / "metrics.jsonl"))) if "loss" in line] for name in ("run", "cached")]
    assert losses[0][0] == pytest.approx(losses[1][0], rel=1e-4)  # gradient caching: the same loss
    found = files.read_json(str(folder / "run" / "results.json"))["metrics"]
    assert found["mrr@10"] > 0.3  # by chance 0.06
    measured = []
    for model in (folder / "run", folder / "saved" / "run" / "1"):
        output = str(tmp_path / f"of_{len(measured)}")
        assert cli.run(evaluate.main, [
            "--model", str(model), "--task", "multi_vector", "--data", str(folder / "pairs.tsv"),
            "--output_dir", output]) == 0
        measured.append(files.read_json(f"{output}/results.json")["metrics"])
    assert measured[0] == pytest.approx(measured[1], abs=0.01)
    assert cli.run(evaluate.main, [
        "--model", str(folder / "run"), "--task", "retrieval", "--data", str(folder / "pairs.tsv"),
        "--output_dir", str(tmp_path / "found"), "--reranker", str(folder / "run"),
        "--rerank", "10"]) == 0
    systems = files.read_json(str(tmp_path / "found" / "results.json"))["systems"]
    assert list(systems)[:3] == ["multi_vector", "bm25", "hybrid"]
    assert systems["multi_vector"]["mrr@10"] > 0.3 > systems["bm25"]["mrr@10"]
