"""The answers of `answers.py` against a search by brute force, and those of a model."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from question_tokenizers import TEXT, byte_pair, word_piece

from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.tasks.base import long_texts
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.question_answering import answers
from bert_tf.tasks.question_answering.model import QuestionAnswering
from bert_tf.tasks.question_answering.preprocessor import QuestionPreprocessor

N_BEST, LONGEST = 4, 3
QUESTIONS = ["a b", "c", "한국", "", "e", "a"]
CONTEXTS = ["the cab bed, 한국어까지 e\u0301 😀 " * 3, "", "שלום a\u200b b.", "b", "\ufeff",
            "a b c d e " * 40]


@pytest.fixture(scope="module")
def tokenizers():
    return {"word_piece": word_piece(), "byte_pair": byte_pair()}


@pytest.fixture(scope="module")
def models(tokenizers):
    """A model for each tokenizer; its graphs are made once."""
    return {kind: make_model(tokenizer) for kind, tokenizer in tokenizers.items()}


@pytest.fixture(scope="module")
def search():
    """`best_spans` and `answers_from` as one graph for all shapes."""
    bools, ints, floats = (tf.TensorSpec([None, None], kind)
                           for kind in (tf.bool, tf.int64, tf.float32))

    @tf.function(input_signature=[
        {"rows": tf.TensorSpec([None], tf.int64), "opens": bools, "closes": bools,
         "max_context": bools, "starts": ints, "ends": ints}, floats, floats,
        tf.TensorSpec([None], tf.string), tf.TensorSpec([], tf.float32)])
    def search(windows, start_logits, end_logits, context, threshold):
        spans = answers.best_spans(windows, start_logits, end_logits, tf.size(context), N_BEST,
                                   LONGEST)
        return (spans, answers.answers_from(spans, context, threshold),
                answers.answers_from(spans, context))

    return search


def brute_force(windows, starts, ends, row):
    """All spans of a question, best first: `[(score, first byte, last byte)]`; the null score."""
    found, null = [], np.inf
    for window in np.flatnonzero(windows["rows"] == row):
        null = min(null, starts[window, 0] + ends[window, 0])
        for first in range(starts.shape[1]):
            for last in range(first, min(first + LONGEST, starts.shape[1])):
                if (windows["opens"][window, first] and windows["max_context"][window, first]
                        and windows["closes"][window, last]):
                    score = starts[window, first] + ends[window, last]
                    found.append((-score, window, first, last))
    return [(-score, windows["starts"][window, first], windows["ends"][window, last])
            for score, window, first, last in sorted(found)], null


@settings(max_examples=7, deadline=None)
@given(data=st.data(), rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=3),
       kind=st.sampled_from(["word_piece", "byte_pair"]), few=st.booleans())
def test_best_spans_by_brute_force(tokenizers, search, data, rows, kind, few):
    preprocessor = QuestionPreprocessor(tokenizers[kind], data.draw(st.integers(9, 20)),
                            data.draw(st.integers(1, 6)), 3)
    questions, contexts = zip(*rows, strict=True)
    windows = preprocessor((tf.constant(questions), tf.constant(contexts)))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    # Few values: many spans have the same score.
    shape = windows["input_word_ids"].shape
    starts, ends = (random.integers(0, 3, shape).astype("float32") if few
                    else random.normal(size=shape).astype("float32") for _ in range(2))
    threshold = float(random.normal())
    asked = {name: windows[name] for name in ("rows", "opens", "closes", "max_context", "starts",
                                              "ends")}
    spans, found, always = search(asked, starts, ends, tf.constant(contexts), threshold)
    windows = {name: value.numpy() for name, value in windows.items()}
    for row, context in enumerate(contexts):
        expected, null = brute_force(windows, starts, ends, row)
        count = min(N_BEST, len(expected))
        got = list(zip(*(spans[name][row].numpy() for name in ("scores", "starts", "ends")),
                       strict=True))
        assert got == [*expected[:count], *[(-np.inf, 0, 0)] * (N_BEST - count)]
        assert spans["null_scores"][row] == null
        assert len({span[1:] for span in expected}) == len(expected)  # none is there twice
        for which, nulls in ((found, [null]), (always, [])):
            exponents = np.exp(np.float64([score for score, _, _ in expected[:count]] + nulls))
            np.testing.assert_allclose(which["scores"][row, :count], exponents[:count]
                                       / max(exponents.sum(), 1e-9), rtol=1e-5)
            assert not which["scores"][row, count:].numpy().any()
            check_texts({name: value[row].numpy() for name, value in which.items()}, context,
                        count)
        best = expected[0][0] if expected else answers.NO_SPAN
        np.testing.assert_allclose(found["no_answer_score"][row], null - best, rtol=1e-6)
        assert found["has_answer"][row] == (count > 0 and null - best <= np.float32(threshold))
        assert always["has_answer"][row] == (count > 0)


def check_texts(answer, context, count):
    """`context[start:end]` is each of `count` answers; after them is nothing."""
    for text, start, end in list(zip(answer["answers"], answer["starts"], answer["ends"],
                                     strict=True))[:count]:
        assert text.decode() == context[start:end] != ""
    assert set(answer["answers"][count:]) <= {b""}
    assert not answer["starts"][count:].any() and not answer["ends"][count:].any()


def make_model(tokenizer, **options):
    config = ModelConfig(
        vocab_size=len(tokenizer.vocabulary), hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=32,
        initializer_range=0.5, padding_id=tokenizer.vocabulary.pad_id,
        family="bert" if tokenizer.vocabulary.pair_separators == 1 else "roberta")
    return QuestionAnswering(config, seed=3, preprocessor=QuestionPreprocessor(tokenizer, 24, 5, 6),
                             **{
        "n_best": 3, "max_answer_length": 4, "null_threshold": -0.5, **options})


@pytest.mark.parametrize("kind", [
    "word_piece", pytest.param("byte_pair", marks=pytest.mark.long)])
def test_a_model_answers_from_the_context(models, kind):
    model = models[kind]
    together = {name: value.numpy()
                for name, value in model.answer_tensors(QUESTIONS, CONTEXTS).items()}
    for row, context in enumerate(CONTEXTS):
        answer = {name: value[row] for name, value in together.items()}
        check_texts(answer, context, int(np.count_nonzero(answer["scores"])))
        assert bool(answer["has_answer"]) == (bool(answer["answers"][0])
                                              and answer["no_answer_score"] <= -0.5)
        alone = model.answer_tensors([QUESTIONS[row]], [context])
        for name, value in alone.items():
            if value.dtype == tf.float32:
                np.testing.assert_allclose(value[0], answer[name], atol=1e-4)
            else:
                np.testing.assert_array_equal(value[0], answer[name])
    assert not together["answers"][1].any()  # nothing in an empty context


def test_more_windows_than_fit_together(models, monkeypatch):
    model = models["word_piece"]
    windows = model.preprocessor((tf.constant(QUESTIONS), tf.constant(CONTEXTS)))
    assert len(windows["rows"]) > 32
    for at_once in (32, 7):
        monkeypatch.setattr(long_texts, "_AT_ONCE", at_once)
        logits = answers.window_logits(model, windows)
        for got, expected in zip(logits, model(windows).values(), strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-4)


def test_logits_of_text_are_those_of_its_windows(models):
    model = models["word_piece"]
    asked = {"question": tf.constant(QUESTIONS), "context": tf.constant(CONTEXTS)}
    windows = model.preprocessor(asked)
    for name, logits in model(asked).items():
        np.testing.assert_array_equal(logits, model(windows)[name])
        assert logits.shape == windows["input_word_ids"].shape


def test_options_count_when_they_are_changed(models, eager):
    model = models["word_piece"]
    question, context = QUESTIONS[:1], CONTEXTS[:1]
    score = float(model.answer_tensors(question, context)["no_answer_score"][0])
    for threshold, has in ((score - 1, False), (score + 1, True)):
        model.null_threshold = threshold
        answer = model.answer_tensors(question, context)
        assert bool(answer["has_answer"][0]) == has
        assert float(tf.reduce_sum(answer["scores"])) < 0.999
    model.n_best, model.null_threshold = 7, None
    answer = model.answer_tensors(question, context)
    model.n_best, model.null_threshold = 3, -0.5
    assert answer["answers"].shape == (1, 7) and answer["has_answer"].numpy().all()
    # Without a threshold all probability goes to answers.
    np.testing.assert_allclose(tf.reduce_sum(answer["scores"]), 1, atol=1e-5)


def test_an_empty_batch(models):
    answer = models["word_piece"].answer_tensors([], [])
    assert answer["answers"].shape == (0, 3) and answer["has_answer"].shape == (0,)
    logits = models["word_piece"].predict({"question": [], "context": []}, verbose=0)
    assert {name: len(values) for name, values in logits.items()} == {"start_logits": 0,
                                                                      "end_logits": 0}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["word_piece", "byte_pair"])
def test_round_trips_with_the_reader(models, kind, tmp_path):
    model = models[kind]
    expected = model.answer_tensors(QUESTIONS, CONTEXTS)
    model.save(str(tmp_path / "model.keras"))
    model.save_pretrained(str(tmp_path / "folder"))
    for again in (keras.saving.load_model(str(tmp_path / "model.keras")),
                  from_pretrained(str(tmp_path / "folder"))):
        assert again.task_config() == model.task_config()
        assert again.preprocessor.reading() == model.preprocessor.reading()
        for name, value in again.answer_tensors(QUESTIONS, CONTEXTS).items():
            np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize(("options", "message"), [
    ({"n_best": 0}, "n_best=0; expected an integer from 1 on"),
    ({"max_answer_length": 2.5}, "max_answer_length=2.5; expected an integer"),
    ({"null_threshold": float("nan")}, "null_threshold=nan; expected a number or None")])
def test_options_out_of_range(tokenizers, options, message):
    with pytest.raises(UsageError, match=message):
        make_model(tokenizers["word_piece"], **options)


def test_a_model_without_its_reader_says_so(models):
    config = models["word_piece"].config
    model = QuestionAnswering(config)
    for ask in (lambda: model.answer_tensors(["a"], ["b"]),
                lambda: model({"question": tf.constant(["a"]), "context": tf.constant(["b"])})):
        with pytest.raises(UsageError,
                           match="no preprocessor; .* try preprocessor=QuestionPreprocessor"):
            ask()
    with pytest.raises(UsageError,
                       match="with a TextPreprocessor; expected a QuestionPreprocessor"):
        QuestionAnswering(config, preprocessor=TextPreprocessor())


def test_a_very_long_context(models):
    model = models["word_piece"]
    context = "cab bed " * 12500  # 100,000 characters
    answer = model.answer_tensors(["a"], [context + "😀 the"])
    assert len(context) == 100_000 and answer["answers"][0, 0] != b""
    check_texts({name: value[0].numpy() for name, value in answer.items()}, context + "😀 the", 3)


@pytest.mark.long
def test_adapters_are_seen_by_the_next_answer(tokenizers):
    model = make_model(tokenizers["word_piece"])
    before = model.answer_tensors(QUESTIONS, CONTEXTS)["scores"].numpy()
    model.backbone.enable_lora(2)
    for variable in model.trainable_variables:
        if "lora" in variable.path:
            variable.assign(tf.random.stateless_normal(variable.shape, [1, 2]))
    after = model.answer_tensors(QUESTIONS, CONTEXTS)["scores"].numpy()
    assert np.abs(after - before).max() > 1e-3
