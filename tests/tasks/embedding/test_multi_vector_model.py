"""Vectors of tokens: what of a text has one, their formula by hand, MaxSim, and that they are
kept."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from text_models import CONFIG, TINY, VOCABULARY, make_preprocessor, pack_words

import bert_tf
from bert_tf.errors import UsageError
from bert_tf.models.families import build_encoder
from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

TEXTS = ["a b c d", "good", "", "x"]  # the last one is [UNK]


def make(reading=(16,), **options):
    return MultiVectorEmbedder(CONFIG, **{"dim": 5, "query_length": 6, "seed": 3, **options},
                               preprocessor=make_preprocessor(*reading))


@functools.cache
def an_encoder():
    return build_encoder(CONFIG)


def by_formula(model, ids, seen=None):
    """The vectors of all of one text's tokens, of which the first `seen` are seen by others."""
    mask = np.arange(len(ids)) < (len(ids) if seen is None else seen)
    inputs = {"input_word_ids": [ids], "input_mask": [mask.astype(int)],
              "input_type_ids": [[0] * len(ids)]}
    encoder = an_encoder()
    encoder.set_weights(model.encoder.get_weights())
    states = encoder({name: np.array(values) for name, values in inputs.items()})
    vectors = states["sequence_output"][0].numpy() @ model.projection.kernel.numpy()
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def ids_of(words):
    return pack_words([words])["input_word_ids"][0].tolist()


@pytest.mark.parametrize(("attends", "padding_free"), [(False, True), (True, False)])
def test_queries_are_filled_up_with_masks(attends, padding_free, eager):
    model = make(attends_expansion=attends)
    model.backbone.padding_free = padding_free
    for text, found in zip(TEXTS, model.vectors(TEXTS, "query"), strict=True):
        ids = ids_of(text.split())[:6]
        ids[-1] = VOCABULARY.sep_id
        expected = by_formula(model, ids + [VOCABULARY.mask_id] * (6 - len(ids)),
                              None if attends else len(ids))
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_queries_grow_by_so_many_masks_at_least(eager):
    model = make()
    [plain] = make(expansion=0).vectors(["a"], "query")
    np.testing.assert_allclose(plain, by_formula(model, ids_of(["a"])), atol=1e-5)
    [longer] = make(expansion=4).vectors(["a b c d e"], "query")  # at least 4, at most 6
    assert len(longer) == 6


def test_passages_leave_out_the_skiplist(eager):
    model = make(skiplist=["b", "good", "[CLS]", "unheard"])
    np.testing.assert_allclose(model.vectors("a b c"), by_formula(model, ids_of(
        ["a", "b", "c"]))[[1, 3, 4]], atol=1e-5)
    assert len(model.vectors("x")) == 2  # [UNK] is not left out with a token that is not known
    assert len(model.vectors("b", "query")) == 6
    nothing = make(skiplist=["b", "[CLS]", "[SEP]"])
    assert nothing.vectors(["b b", ""])[0].shape == (0, 5)
    np.testing.assert_array_equal(nothing.scores(["a", "a"], ["b", ""]), [0, 0])
    assert nothing(["b"]).numpy().any() is np.False_


def test_a_text_is_cut_to_its_own_length(eager):
    model = make(reading=(8,))
    assert len(model.vectors(" ".join("abcdefgh"))) == 8
    assert len(model.vectors(" ".join("abcdefgh"), "query")) == 6


def test_similarity_is_max_sim_after_the_prompts(eager):
    model = make(prompts={"query": "a ", "document": "c "})
    passage = by_formula(model, ids_of(["c", "d"]))
    [query] = make().vectors(["a b"], "query")
    expected = sum(max(row @ other for other in passage) for row in query)
    assert model.scores(["b"], ["d"])[0] == pytest.approx(expected, rel=1e-5)
    passage = by_formula(model, ids_of(["c", "b"]))
    other = sum(max(row @ each for each in passage) for row in query)
    assert [each["score"] for each in model.rank("b", ["d", "b"])] == pytest.approx(
        sorted([expected, other], reverse=True), rel=1e-5)
    assert model.rank("b", []) == [] and model.vectors([]) == []


def test_a_prompt_may_be_a_token_that_text_does_not_give():
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *"abcdefgh", "[unused0]", "[D] "]))
    model = MultiVectorEmbedder(
        CONFIG, dim=5, query_length=6, seed=3,
        preprocessor=bert_tf.TextPreprocessor(tokenizer, 8),
        prompts={"query": "[unused0] b ", "passage": "[D] "})
    marker, passage = tokenizer.vocabulary.id("[unused0]"), tokenizer.vocabulary.id("[D] ")
    np.testing.assert_array_equal(model.read({"query": tf.constant(["a"])})["input_word_ids"], [[
        2, marker, tokenizer.vocabulary.id("b"), tokenizer.vocabulary.id("a"), 3, 4]])
    np.testing.assert_array_equal(model.read(tf.constant(["a"]))["input_word_ids"],
                                  [[2, passage, tokenizer.vocabulary.id("a"), 3]])
    assert model.roles == {
        "query": {"seq_length": 6, "prompt": " b ", "special_tokens": 3},
        "passage": {"seq_length": 8, "prompt": "", "special_tokens": 3}}


def test_it_takes_ids_and_is_kept(tmp_path):
    build_encoder(CONFIG, seed=5).save_pretrained(str(tmp_path / "encoder"),
                                                  make_preprocessor().tokenizer)
    model = bert_tf.from_pretrained(str(tmp_path / "encoder"), "multi_vector_embedder", dim=5,
                                    prompts={"query": "a "}, skiplist=["b"])
    assert model.fresh_variables == ("cls/projection/kernel",)
    assert model.preprocessor.seq_length == model.reading.query_length == 16
    inputs = pack_words([["a", "b"], ["c"]])
    np.testing.assert_allclose(np.linalg.norm(model(inputs), axis=-1), inputs["input_mask"],
                               atol=1e-6)
    mask = np.array([[1, 0, 0, 0], [0, 0, 0, 1]])
    np.testing.assert_allclose(np.linalg.norm(model({**inputs, "vector_mask": mask}), axis=-1),
                               mask, atol=1e-6)
    model.save_pretrained(str(tmp_path / "model"))
    model.save(tmp_path / "model.keras")
    for again in (bert_tf.from_pretrained(str(tmp_path / "model")),
                  bert_tf.load_model(tmp_path / "model.keras")):
        assert again.options() == {
            "dim": 5, "query_length": 16, "expansion": 16, "attends_expansion": False,
            "skiplist": ["b"], "prompts": {"query": "a "}}
        for role in ("query", "passage"):
            inputs = {role: tf.constant(TEXTS)}
            np.testing.assert_array_equal(again(inputs), model(inputs))


@pytest.mark.parametrize(("options", "message"), [
    ({"dim": 0}, "dim=0; expected a whole number of at least 1"),
    ({"query_length": 17}, "query_length=17; expected 3 to 16"),
    ({"expansion": 7}, "expansion=7; expected 0 to 6"),
    ({"skiplist": "abc"}, "skiplist='abc'; expected a list")])
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        make(**options)


def test_what_is_not_read_is_refused():
    model = make()
    with pytest.raises(UsageError, match="prompt='search'"):
        model.vectors(TEXTS, "search")
    for pairs in ([("a", "b")], (["a"], ["b"])):
        with pytest.raises(UsageError, match="pairs of texts"):
            model.vectors(pairs)
    with pytest.raises(UsageError, match="expected query, passage or text"):
        model({"query": tf.constant(["a"]), "passage": tf.constant(["b"])})
    with pytest.raises(UsageError, match="long='windows' with a vector for each token"):
        make(reading=(8, "windows", 6)).vectors("a")
    with pytest.raises(UsageError, match="no preprocessor"):
        MultiVectorEmbedder(TINY, query_length=12).vectors(TEXTS)


@pytest.mark.parametrize("padding_free", [pytest.param(False, marks=pytest.mark.long), True])
def test_it_learns_from_queries_and_their_texts(padding_free):
    examples = [QueryExample(str(number), query, (positive,))
                for number, (query, positive) in enumerate(["ab", "cd", "ef", "gh"])]
    model = make()
    model.backbone.padding_free = padding_free
    with pytest.raises(UsageError, match="expected MultiVectorLoss"):
        model.compile("adam", bert_tf.EmbeddingLoss())
    model.compile("adam", bert_tf.MultiVectorLoss())
    first, then = (model.fit(bert_tf.query_batches(examples, model, 4, seed=1, epochs=8),
                             verbose=0).history for _ in range(2))
    assert then["loss"][0] < first["loss"][0]


def test_a_quantized_projection_is_read_as_it_was(tmp_path):
    model = make()
    inputs = pack_words([["a", "b"], ["c"]])
    model.quantize("int8")
    model.save(tmp_path / "model.keras")
    np.testing.assert_allclose(bert_tf.load_model(tmp_path / "model.keras")(inputs), model(inputs),
                               atol=1e-6)
