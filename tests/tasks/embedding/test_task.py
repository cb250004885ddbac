"""`evaluate` of models without labels: how alike two texts are, by their vectors."""

import json

import numpy as np
import pytest
import tensorflow as tf
from embedder_step import CONFIG, make
from scipy.stats import spearmanr
from sentiment import options
from sklearn.metrics import roc_auc_score
from tiny_model import only_signatures

import bert_tf
from bert_tf import cli, evaluate
from bert_tf.config import ModelConfig
from bert_tf.errors import BertTfError, UsageError
from bert_tf.models.families import build_encoder
from bert_tf.saved_model.save import export_saved_model
from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.embedding.options import EmbeddingLoss
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.registry import find_task, make_type
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

ROWS = [("a b c", "a b d", "1", 4.0), ("a", "c d", "0", 1.5), ("b b", "b", "1", 5.0),
        ("c d", "d c", "0", 3.0), ("a", "a", "1", 4.5), ("d", "b a", "0", 0.5)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of an encoder alone; beside it `pairs.csv` and `sts-dev.tsv`."""
    path = tmp_path_factory.mktemp("vectors")
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a", "b", "c", "d"]))
    config = ModelConfig(vocab_size=9, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                         intermediate_size=32, max_position_embeddings=16, initializer_range=0.5)
    build_encoder(config, seed=1).save_pretrained(str(path / "model"), tokenizer)
    (path / "pairs.csv").write_text("text_a,text_b,label\n" + "".join(
        f"{a},{b},{label}\n" for a, b, label, _ in ROWS))
    (path / "sts.tsv").write_text("index\tsentence1\tsentence2\tscore\n" + "".join(
        f"{row}\t{a}\t{b}\t{score}\n" for row, (a, b, _, score) in enumerate(ROWS)))
    return path


def cosines(folder, **options):
    model = bert_tf.from_pretrained(str(folder / "model"), "embedder", **options)
    model.preprocessor = TextPreprocessor(bert_tf.Tokenizer.load(str(folder / "model")), 16)
    left, right = (model.embed([row[side] for row in ROWS]) for side in (0, 1))
    return np.sum(left * right, 1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)


def run(task, data, model, out):
    assert cli.run(evaluate.main, ["--task", task, "--model", str(model), "--data", str(data),
                                   "--output_dir", str(out)]) == 0
    lines = (out / "predictions.jsonl").read_text().splitlines()
    return (json.loads((out / "results.json").read_text())["metrics"],
            [json.loads(line)["score"] for line in lines])


def test_an_encoder_tells_how_alike_texts_are(folder, tmp_path, eager):
    expected = cosines(folder)
    metrics, scores = run("stsb", folder / "sts.tsv", folder / "model", tmp_path / "sts")
    np.testing.assert_allclose(scores, expected, atol=2e-6)
    assert set(metrics) == {"spearman", "pearson"}
    assert metrics["spearman"] == pytest.approx(spearmanr([row[3] for row in ROWS], scores)[0])
    metrics, _ = run("pair", folder / "pairs.csv", folder / "model", tmp_path / "pairs")
    assert metrics["auc"] == pytest.approx(roc_auc_score([row[2] == "1" for row in ROWS], expected))


@pytest.mark.parametrize("exported", [False, pytest.param(True, marks=pytest.mark.long)])
def test_an_embedder_and_an_export_as_they_say(folder, tmp_path, exported):
    options = {"pooling": "mean_max", "layers": (0, -1)}
    expected = cosines(folder, **options)
    model = str(tmp_path / "model")
    if exported:
        with only_signatures("describe", "embed"):
            model = export_saved_model(str(folder / "model"), model, embedding=options)
    else:
        bert_tf.from_pretrained(str(folder / "model"), "embedder", **options).save_pretrained(
            model, bert_tf.Tokenizer.load(str(folder / "model")))
    _, scores = run("pair", folder / "pairs.csv", model, tmp_path / "measured")
    np.testing.assert_allclose(scores, expected, atol=2e-6)


def test_what_likeness_cannot_tell(folder, capsys):
    (folder / "nli.tsv").write_text("index\tsentence1\tsentence2\tlabel\n1\ta\tb\tentailment\n")
    flags = ["--model", str(folder / "model"), "--output_dir", str(folder / "out")]
    assert cli.run(evaluate.main, ["--task", "rte", "--data", str(folder / "nli.tsv"),
                                   *flags]) == 2
    assert "say only how similar two texts are; try stsb" in capsys.readouterr().err
    assert cli.run(evaluate.main, ["--task", "cola", "--data", str(folder / "nli.tsv"),
                                   *flags]) == 2
    assert "whose task is encoder" in capsys.readouterr().err


@pytest.mark.parametrize("prompts", [{}, {"query": "w0 ", "passage": "w1 "}])
def test_the_own_text_of_a_query_is_not_ranked(prompts, eager):
    model = make(prompts=prompts, normalize=True)
    examples = [QueryExample("0", "w2", ("w3",)), QueryExample("1", "w3", ("w2",)),
                QueryExample("2", "w5", ("w5",))]
    passages = model.embed([f"{prompts.get('passage', '')}{text}" for text in ("w2", "w3", "w5")])
    kind = make_type(find_task("embed"), options(task="embed"))
    lines = kind.predict(model, examples)
    for at, (line, other) in enumerate(zip(lines, (1, 0, 2), strict=True)):
        query = model.embed(prompts.get("query", "") + examples[at].query)
        nearer = [row for row in range(3) if row not in (at, other)
                  and passages[row] @ query >= passages[other] @ query]
        assert line["ranks"] == [1 + len(nearer)]


@pytest.mark.parametrize("name, kind", [("embed", SentenceEmbedder), ("sparse", SparseEmbedder)])
def test_texts_in_windows_are_measured_as_they_are_embedded(name, kind, eager):
    model = make(kind)
    model.preprocessor = TextPreprocessor(model.preprocessor.tokenizer, 6, long="windows")
    queries = [" ".join(f"w{(3 * at + place) % 20}" for place in range(9 + at))
               for at in range(3)]
    examples = [QueryExample(query, query, (f"w{at}",)) for at, query in enumerate(queries)]
    lines = make_type(find_task(name), options(task=name)).predict(model, examples)
    np.testing.assert_allclose([line["score"] for line in lines], model.scores(
        queries, ["w0", "w1", "w2"]), rtol=1e-5)


@pytest.mark.parametrize("prompts", [{}, {"query": "w0 ", "passage": "w1 "}])
def test_texts_that_differ_in_blanks_are_one_text(prompts, eager):
    examples = [QueryExample("0", "w2", ("w3",)), QueryExample("1", "w4", (" w3",)),
                QueryExample("2", " w2", ("w5",)), QueryExample("3", "w3", ("W2 ",))]
    kind, model = make_type(find_task("embed"), options(task="embed")), make(prompts=prompts)
    lines = kind.predict(model, examples)
    # Two texts beside its own; the own one is not ranked.
    assert [line["ranks"] for line in lines[::2]] == [[1, 2]] * 2
    embed = {"embed": lambda text: {"embedding": tf.constant(model.embed(
        [each.decode() for each in text.numpy()]))}}
    assert [line["ranks"] for line in kind.predict_served(
        embed, {"prompts": prompts}, examples)] == [line["ranks"] for line in lines]


@pytest.mark.parametrize("passage", ["x{}", "w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w{}"])
@pytest.mark.parametrize("name, kind", [("embed", SentenceEmbedder), ("sparse", SparseEmbedder)])
def test_a_model_that_cannot_tell_passages_apart_finds_nothing(name, kind, passage, eager):
    """All are unknown to its vocabulary, or the same up to the end of what is read."""
    examples = [QueryExample(str(n), f"w{n}", (passage.format(n),)) for n in range(20)]
    task = make_type(find_task(name), options(task=name))
    lines = task.predict(make(kind), examples)
    assert task.metrics(examples, lines)["mrr@10"] < 0.3  # by chance 0.15


def test_labelled_pairs_keep_their_cosines(eager):
    """Also where texts differ in case alone, which a cased model does not read alike."""
    examples = [QueryExample("0", "w2", ("W2",), scores=(1.0,))]
    (line,) = make_type(find_task("embed"), options(task="embed")).predict(make(), examples)
    assert line["score"] < 1


def test_that_many_texts_are_read_alike_is_noted(capsys):
    kind = make_type(find_task("embed"), options(task="embed", crops=None))
    kind.loss = EmbeddingLoss(loss="in_batch")
    apart = [QueryExample(str(n), f"w{n}", (f"w{n + 1} w1",)) for n in range(8)]
    kind.features(apart, make(), training=True)
    assert "different texts" not in capsys.readouterr().out
    unknown = [QueryExample(str(n), f"w{n}", (f"x{n}",)) for n in range(8)]
    kind.features(unknown, make(), training=True)
    causal = SentenceEmbedder(CONFIG.replace(attention="causal", pooling="mean"), pooling="cls",
                              preprocessor=make().preprocessor)
    with pytest.raises(UsageError, match="--pooling cls of .*first token has seen no other"):
        kind.features(unknown, causal, training=True)
    assert "note: the model reads 16 different texts as 9: " in capsys.readouterr().out


@pytest.mark.parametrize("kind, given, refused", [
    (SentenceEmbedder, {"prompts": {"query": "w0 "}}, True), (SparseEmbedder, {}, True),
    (SparseEmbedder, {"prompts": {"query": "w0 "}}, False),
    (SparseEmbedder, {"query_table": True}, False),
    (MultiVectorEmbedder, {"query_length": 8}, False),
    (MultiVectorEmbedder, {"query_length": 8, "expansion": 0}, True)])
def test_texts_alone_need_dropout_where_they_are_read_the_same_twice(kind, given, refused):
    name = {SentenceEmbedder: "embed", SparseEmbedder: "sparse"}.get(kind, "multi_vector")
    task = make_type(find_task(name), options(task=name, crops=None))
    config = ModelConfig(**{**CONFIG.to_dict(), "hidden_dropout_prob": 0.0,
                            "attention_probs_dropout_prob": 0.0})
    model = kind(config, preprocessor=make().preprocessor, **given)
    task.loss = kind.loss_class(loss="in_batch")
    examples = [QueryExample("0", "w1 w2"), QueryExample("1", "w3")]
    if refused:
        with pytest.raises(UsageError, match="texts alone and a model without dropout"):
            task.features(examples, model, training=True)
    else:
        assert len(task.features(examples, model, training=True)) == 2


def test_ranks_among_few_texts_are_noted_as_chance(eager):
    kind, examples = make_type(find_task("embed"), options(task="embed")), [
        QueryExample("0", "w2", ("w3",)), QueryExample("1", "w4", (" W3",))]
    lines = kind.predict(make(), examples)
    assert kind.notes(examples, lines, kind.metrics(examples, lines)) == [
        "mrr@10 1.0000 is no better than 1.0000, as of an order by chance"]


def test_the_same_vector_of_all_texts_is_noted(eager):
    kind, model = make_type(find_task("embed"), options(task="embed")), make()
    same = [QueryExample(str(n), f"w{n}", (f"w{n}",)) for n in range(3)]  # every score is 1
    pairs = [QueryExample(str(n), f"w{n}", (f"w{n + 5}",), scores=(n,)) for n in range(2)]
    for noted in (False, True):
        for examples in (same, pairs):
            lines = kind.predict(model, examples)
            notes = kind.notes(examples, lines, kind.metrics(examples, lines))
            assert notes == ["every cosine is 1: all texts have the same vector"] * noted
        table = model.encoder.backbone.embeddings.word_embeddings
        table.assign(np.ones(table.shape))
    assert kind.notes(pairs, [{"score": 0.5}, {"score": 1}], {}) == []  # of a trial before


def test_many_negatives_of_a_single_row_are_noted(eager, capsys):
    kind = make_type(find_task("embed"), options(task="embed", crops=None))
    kind.loss = EmbeddingLoss(loss="in_batch")
    examples = [QueryExample(str(n), f"w{n}", ("w9",)) for n in range(8)]
    kind.features(examples, make(), training=True)
    assert "note" not in capsys.readouterr().out
    examples[0] = QueryExample("0", "w0", ("w9",), tuple(f"w1{n}" for n in range(6)))
    kind.features(examples, make(), training=True)
    assert "note: a row has 6 hard negatives and most have fewer: 66%" in capsys.readouterr().out


@pytest.mark.parametrize("widths", [None, (8,)])
def test_dot_products_of_first_components_are_noted(widths, capsys):
    kind = make_type(find_task("embed"), options(task="embed", crops=None))
    kind.loss = EmbeddingLoss(loss="in_batch", similarity="dot", matryoshka_widths=widths)
    kind.features([QueryExample("0", "w0", ("w1",))], make(normalize=True), training=True)
    assert ("is of dot products" in capsys.readouterr().out) == bool(widths)


def test_vectors_that_are_not_finite_are_no_measurement(eager):
    model = make()
    table = model.encoder.backbone.embeddings.word_embeddings
    table.assign(np.full(table.shape, np.nan))
    kind = make_type(find_task("embed"), options(task="embed"))
    with pytest.raises(BertTfError, match="vectors that are not finite"):
        kind.predict(model, [QueryExample("0", "w2", ("w3",)), QueryExample("1", "w3", ("w2",))])
