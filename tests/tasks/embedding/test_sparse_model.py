"""Weights of tokens for texts: their formula, whose head they are of, and that they are kept."""

import numpy as np
import pytest
import tensorflow as tf
from text_models import CONFIG, TINY, VOCABULARY, make_preprocessor, pack_words

import bert_tf
from bert_tf.errors import UsageError
from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.pretraining.language_model import LanguageModel
from bert_tf.tasks.pretraining.masked_lm import Pretrainer

TEXTS = ["a b c d", "good", "", "x"]  # the last one is [UNK]


def make(reading=(16,), **options):
    model = SparseEmbedder(CONFIG, seed=3, preprocessor=make_preprocessor(*reading), **options)
    bias = np.random.default_rng(1).normal(0.0, 0.5, CONFIG.vocab_size)
    model.masked_lm_head.output_bias.assign(bias)
    return model


def by_formula(model, rows, pooling=np.max):
    """Formal et al. 2021 in NumPy, a row at a time, by the logits that a `Pretrainer` has."""
    pretrainer = Pretrainer(CONFIG, sentence_task=None)
    pretrainer.set_weights(model.get_weights())
    weights = []
    for row in rows:
        batch = pack_words([row])
        positions = np.arange(batch["input_mask"].sum())[np.newaxis]
        logits = pretrainer({**batch, "masked_lm_positions": positions})["masked_lm_logits"][0]
        weights.append(pooling(np.log1p(np.maximum(logits, 0)), 0))
    return np.array(weights)


@pytest.mark.parametrize(("pooling", "function"), [("max", np.max), ("sum", np.sum)])
def test_weights_are_those_of_the_formula(pooling, function):
    model = make(pooling=pooling)
    expected = by_formula(model, [["a", "b", "c", "d"], ["good"], []], function)
    np.testing.assert_allclose(model(TEXTS[:3]), expected, atol=1e-5)
    assert 0 < np.count_nonzero(expected) < expected.size


def test_tokens_by_their_weights(eager):
    model = make()
    for text, weights, found in zip(TEXTS, model(TEXTS).numpy(), model.sparse(TEXTS), strict=True):
        assert {VOCABULARY.id(token): weight for token, weight in found.items()} == pytest.approx(
            {i: weights[i] for i in np.flatnonzero(weights)}, rel=1e-4)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert list(model.sparse(text, top_k=2)) == list(found)[:2]
    assert model.sparse([]) == []
    for top_k in (0, len(VOCABULARY) + 1):
        with pytest.raises(UsageError, match=f"top_k={top_k}; expected 1 to {len(VOCABULARY)}"):
            model.sparse(TEXTS, top_k=top_k)
    with pytest.raises(UsageError, match="no preprocessor"):
        SparseEmbedder(TINY).sparse(TEXTS)


def test_a_long_text_is_cut_or_read_in_windows():
    text = " ".join("abcdefgh" * 3)
    model = make(reading=(8,))
    np.testing.assert_allclose(model([text]), by_formula(model, [list("abcdef")]), atol=1e-5)
    windows = make(reading=(8, "windows", 6))
    expected = by_formula(windows, [list("abcdef"), list("ghabcd"), list("efghab"),
                                    list("cdefgh")]).max(0)
    np.testing.assert_allclose(windows([text, "a"])[0], expected, atol=1e-5)


def test_similarity_is_the_scalar_product_after_the_prompts(eager):
    model = make(prompts={"query": "a "})
    query, passage = model(["a b"]).numpy(), model(["c d"]).numpy()
    assert model.rank("b", ["c d", "b"])[1]["score"] == pytest.approx(
        min((query @ passage.T).item(), (query @ model(["b"]).numpy().T).item()), rel=1e-5)


def test_queries_by_a_table(eager):
    model = make(query_table=True)
    variable = model.query_table.term_weights
    assert variable.path.endswith("cls/query/term_weights") and np.all(variable.numpy() == 1)
    variable.assign(np.linspace(0.5, 2, CONFIG.vocab_size))
    expected = np.zeros((3, CONFIG.vocab_size), np.float32)
    for row, tokens in enumerate((("a", "b"), ("good",), ())):  # however often, no special ones
        for token in tokens:
            expected[row, VOCABULARY.id(token)] = variable.numpy()[VOCABULARY.id(token)]
    texts = ["a b a", "good", ""]
    np.testing.assert_array_equal(model.query_weights(tf.constant(texts)), expected)
    for found, weights in zip(model.sparse(texts, queries=True), expected, strict=True):
        assert {VOCABULARY.id(token): weight for token, weight in found.items()} == {
            i: weights[i] for i in np.flatnonzero(weights)}
    passages = ["c d", "a", "b"]
    np.testing.assert_allclose(model.scores(texts, passages),
                               (expected * model(passages).numpy()).sum(1), rtol=1e-5)
    # A batch of queries with their texts has the query in the first place.
    rows = [pack_words([list("ab"), list("cd")]), pack_words([["good"], list("dc")])]
    batch = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    found = model({**batch, "text_ids": np.int32([[1, 2], [3, 4]])})
    np.testing.assert_array_equal(found[:, 0], expected[:2])
    np.testing.assert_allclose(found[:, 1], model(["c d", "d c"]), atol=1e-6)
    windows = make(reading=(8, "windows", 6), query_table=True)
    assert len(windows.sparse(" ".join("abcdefgh"), queries=True)) == 8


def test_it_takes_over_the_head_of_a_masked_lm_and_is_kept(tmp_path):
    pretrainer = Pretrainer(CONFIG, seed=5)
    pretrainer.save_pretrained(str(tmp_path / "mlm"), make_preprocessor().tokenizer)
    model = bert_tf.from_pretrained(str(tmp_path / "mlm"), "sparse_embedder", pooling="sum",
                                    prompts={"query": "a "})
    assert model.fresh_variables == ()
    np.testing.assert_array_equal(model.masked_lm_head.transform.dense.kernel,
                                  pretrainer.masked_lm_head.transform.dense.kernel)
    model.save_pretrained(str(tmp_path / "sparse"))
    model.save(tmp_path / "model.keras")
    for again in (bert_tf.from_pretrained(str(tmp_path / "sparse")),
                  bert_tf.load_model(tmp_path / "model.keras")):
        assert again.options() == {"pooling": "sum", "act": "relu", "prompts": {"query": "a "}}
        np.testing.assert_array_equal(again(TEXTS), model(TEXTS))


def test_a_model_without_the_head_is_refused(tmp_path):
    encoder = bert_tf.build_encoder(CONFIG, seed=1)
    encoder.save_pretrained(str(tmp_path / "encoder"))
    with pytest.raises(UsageError, match="it holds no cls/predictions/…; expected a model with a"):
        bert_tf.from_pretrained(str(tmp_path / "encoder"), "sparse_embedder")
    gpt = CONFIG.replace(family="gpt", attention="causal", pooling="last", type_vocab_size=0)
    LanguageModel(gpt).save_pretrained(str(tmp_path / "gpt"))
    with pytest.raises(UsageError, match="masked-LM head"):
        bert_tf.from_pretrained(str(tmp_path / "gpt"), "sparse_embedder")
    with pytest.raises(UsageError, match="family 'gpt', which has no masked-LM head"):
        SparseEmbedder(gpt)


def test_it_learns_from_queries_and_their_texts():
    examples = [QueryExample(str(number), query, (positive,))
                for number, (query, positive) in enumerate(["ab", "cd", "ef", "gh"])]
    model = make()
    with pytest.raises(UsageError, match="expected SparseLoss"):
        model.compile("adam", bert_tf.EmbeddingLoss())
    model.compile("adam", bert_tf.SparseLoss(query_flops=0.1))
    first, then = (model.fit(bert_tf.query_batches(examples, model, 4, seed=1, epochs=8),
                             verbose=0).history for _ in range(2))
    assert then["loss"][0] < first["loss"][0] and first["query_terms"][0] > 2
