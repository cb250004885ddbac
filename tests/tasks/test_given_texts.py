"""Every way into a model takes texts from whatever holds them, and analyses what it must.

A model of morphemes is compared with the same weights behind a tokenizer that takes text as it is,
given the analysed text.
"""

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from bert_tf import analyse
from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.tasks.base.text_batches import text_batches
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.question_answering.model import QuestionAnswering
from bert_tf.tasks.question_answering.preprocessor import QuestionPreprocessor
from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

TEXTS = ["나는 영화를 봤다", "영화가 좋다", "학교에서 먹었다 영화를"]
PIECES = sorted({"##는", *" ".join(analyse(TEXTS)).split()})
VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *PIECES])
CONFIG = ModelConfig(vocab_size=len(VOCABULARY), hidden_size=8, num_hidden_layers=1,
                     num_attention_heads=2, intermediate_size=8, max_position_embeddings=16,
                     initializer_range=0.5, hidden_dropout_prob=0.0,
                     attention_probs_dropout_prob=0.0)


def pair(make, preprocessor):
    """Models of morphemes and of text as it is, with the same weights."""
    return [make(CONFIG, seed=1, preprocessor=preprocessor(Tokenizer(VOCABULARY, pretokenize=way),
                                                           16))
            for way in ("morphemes", None)]


@pytest.fixture(scope="module")
def classifiers():
    return pair(lambda config, **options: Classifier(config, ["no", "yes"], **options),
                TextPreprocessor)


@pytest.fixture(scope="module")
def embedders():
    return pair(SentenceEmbedder, TextPreprocessor)


HOLDERS = {
    "list": list, "tuple": tuple, "array": np.array, "generator": iter, "tensor": tf.constant,
    "series": lambda texts: pd.Series(texts, index=[7, 3, 5]), "analysed": analyse,
    "dict": lambda texts: {"text": texts},
    "objects": lambda texts: np.array(analyse(texts), object),
    "dataset": lambda texts: tf.data.Dataset.from_tensor_slices(texts).batch(2),
}


@pytest.fixture(scope="module")
def expected(classifiers):
    plain = classifiers[1]
    expected = plain.predict(analyse(TEXTS), verbose=0)
    assert np.abs(plain.predict(TEXTS, verbose=0) - expected).max() > 0.01
    return expected


@pytest.mark.parametrize("name", HOLDERS)
def test_predict(classifiers, expected, name):
    ours = classifiers[0]
    np.testing.assert_allclose(ours.predict(HOLDERS[name](TEXTS), verbose=0), expected, atol=1e-6)
    if name not in ("dataset", "generator"):
        np.testing.assert_allclose(ours(HOLDERS[name](TEXTS)), expected, atol=1e-6)


def test_pairs(classifiers, eager):
    ours, plain = classifiers
    others = TEXTS[::-1]
    expected = plain.predict((analyse(TEXTS), analyse(others)), verbose=0)
    rows = list(zip(TEXTS, others, strict=True))
    for form in ((TEXTS, others), rows, np.array(rows), np.array(rows, object),
                 {"text_a": TEXTS, "text_b": pd.Series(others)}):
        np.testing.assert_allclose(ours.predict(form, verbose=0), expected, atol=1e-6)


@pytest.mark.parametrize("labels", [["no", "yes", "no"], np.array(["no", "yes", "no"]),
                                    ("no", "yes", "no"), pd.Series(["no", "yes", "no"]),
                                    np.array([0, "no", 1], object)], ids=repr)
def test_names_of_labels_are_refused(classifiers, labels):
    model = classifiers[1]
    model.compile()
    with pytest.raises(UsageError, match="labels such as 'no'; expected numbers"):
        text_batches(TEXTS, labels, model.preprocessor, 3, seed=1)
    for call in (model.fit, model.evaluate):
        with pytest.raises(UsageError, match="labels such as 'no'; expected numbers"):
            call(analyse(TEXTS), labels, verbose=0)
    with pytest.raises(UsageError, match="labels in rows of different lengths; .* try -1 for"):
        model.fit(analyse(TEXTS), [[0], [0, 1], [1]], verbose=0)
    model.evaluate(analyse(TEXTS), (0, 1, 0), verbose=0)


@pytest.mark.parametrize("problem, labels, told", [
    ("single_label", [0, 2, 1], "2; expected whole numbers from 0 to 1, or below 0"),
    ("single_label", pd.Series([0.0, 0.5, 1.0]), "0.5; expected whole"),
    ("single_label", np.array([1, np.nan, 0]), "nan; expected whole"),
    ("multi_label", [[0, 1], [1, 0], [2, 0]], "2; expected whole numbers from 0 to 1")])
def test_labels_that_are_none_are_refused(problem, labels, told):
    """A graph of XLA or of a GPU would take them for others."""
    model = Classifier(CONFIG, labels=["no", "yes"], problem=problem)
    model.compile()
    inputs = {name: np.ones((3, 4), "int32")
              for name in ("input_word_ids", "input_mask", "input_type_ids")}
    for given in ((inputs, labels), (inputs, {"label_ids": labels}),
                  ({**inputs, "label_ids": np.asarray(labels)},)):
        for call in (model.fit, model.evaluate):
            with pytest.raises(UsageError, match=f"label_ids such as {told}"):
                call(*given, verbose=0)


def test_fit_and_evaluate(classifiers, eager):
    ours, plain = classifiers
    labels = [0, 1, 0]
    for model in classifiers:
        model.compile(keras.optimizers.SGD(0.0))
    expected = plain.evaluate(analyse(TEXTS), labels, verbose=0)
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, labels)).batch(3)
    ours_batches = text_batches(pd.Series(TEXTS), labels, ours.preprocessor, 3, seed=1)
    for given in ((TEXTS, labels), (pd.Series(TEXTS), np.array(labels)), (dataset,),
                  (ours_batches,), (TEXTS, {"label_ids": labels})):
        np.testing.assert_allclose(ours.evaluate(*given, verbose=0), expected, rtol=1e-5)
    weights = [1.0] * len(labels)
    history = ours.fit(iter(TEXTS), labels, sample_weight=weights, verbose=0,
                       validation_data=(TEXTS, labels, weights)).history
    np.testing.assert_allclose([history["loss"][0], history["val_loss"][0]], expected[0], rtol=1e-5)


def test_batches_of_a_generator(classifiers, eager):
    ours, plain = classifiers
    labels = np.array([0, 1, 0])
    for model in classifiers:
        model.compile(keras.optimizers.SGD(0.0))
    logits = plain.predict(analyse(TEXTS), verbose=0)
    loss = plain.evaluate(analyse(TEXTS), labels, verbose=0)
    for hold in (np.array, tf.constant, list):
        np.testing.assert_allclose(
            ours.predict(((hold(TEXTS),) for _ in range(1)), verbose=0), logits, atol=1e-6)
        for numbers in (labels, labels.tolist()):
            np.testing.assert_allclose(ours.evaluate(
                ((hold(TEXTS), numbers) for _ in range(1)), verbose=0), loss, rtol=1e-5)


class Rows(keras.utils.PyDataset):
    """A batch for each row; counts its epochs."""

    def __init__(self, hold, columns, **options):
        super().__init__(**options)
        self.hold, self.columns, self.begun = hold, columns, 0

    def __len__(self):
        return len(TEXTS)

    def __getitem__(self, index):
        row = slice(index, index + 1)
        return (self.hold(TEXTS[row]), *(column[row] for column in self.columns))

    def on_epoch_begin(self):
        self.begun += 1


# Keras may wait for several workers for seconds after they are done.
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_batches_of_a_py_dataset(classifiers, eager, workers):
    """String tensors were predicted without being analysed; lists and arrays ended in Keras."""
    ours, plain = classifiers
    labels, weights = [0, 1, 0], [2.0, 2.0, 2.0]
    for model in classifiers:
        model.compile(keras.optimizers.SGD(0.0))
    expected = plain.evaluate(analyse(TEXTS), labels, sample_weight=weights, verbose=0)
    for hold in (np.array, tf.constant, list):
        given = Rows(hold, (labels, weights), workers=workers)
        np.testing.assert_allclose(ours.evaluate(given, verbose=0), expected, rtol=1e-5)
        np.testing.assert_allclose(ours.predict(Rows(hold, (), workers=workers), verbose=0),
                                   plain.predict(analyse(TEXTS), verbose=0), atol=1e-6)
    begun = given.begun
    history = ours.fit(given, validation_data=given, verbose=0, epochs=2).history
    np.testing.assert_allclose(history["val_loss"][-1], expected[0], rtol=1e-5)
    assert given.begun > begun


@pytest.mark.long
def test_a_single_batch(classifiers, eager):
    ours, plain = classifiers
    labels, weights = [0, 1, 0], [1.0, 2.0, 3.0]
    for model in classifiers:
        model.compile(keras.optimizers.SGD(0.0))
    expected = plain.evaluate(analyse(TEXTS), labels, sample_weight=weights, verbose=0)
    for step in (ours.test_on_batch, ours.train_on_batch):
        found = step(TEXTS, labels, weights, return_dict=True)
        np.testing.assert_allclose(found["loss"], expected[0], rtol=1e-5)
        ours.reset_metrics()


def test_embed(embedders, eager):
    ours, plain = embedders
    expected = plain.embed(analyse(TEXTS))
    for name in set(HOLDERS) - {"dict", "dataset"}:
        np.testing.assert_allclose(ours.embed(HOLDERS[name](TEXTS)), expected, atol=1e-6)
    pairs = plain.embed(list(zip(analyse(TEXTS), analyse(TEXTS[::-1]), strict=True)))
    for form in ((TEXTS, TEXTS[::-1]), list(zip(TEXTS, TEXTS[::-1], strict=True))):
        np.testing.assert_allclose(ours.embed(form), pairs, atol=1e-6)


def test_tag_tells_places_in_the_text_as_given(eager):
    ours, plain = pair(lambda config, **options: TokenClassifier(config, ["B-X", "O"], **options),
                       WordPreprocessor)
    texts = pd.Series(TEXTS, index=[2, 1, 0])
    for text, found, seen in zip(TEXTS, ours.tag(texts), plain.tag(analyse(TEXTS)), strict=True):
        for kind in ("units", "entities"):
            assert [(each["label"], each["score"]) for each in found[kind]] == [
                (each["label"], each["score"]) for each in seen[kind]]
            for each, other in zip(found[kind], seen[kind], strict=True):
                assert each["text"] == text[each["start"]:each["end"]]
                assert each["text"].replace(" ", "") == other["text"].replace(" ", "")
    assert any(each["text"] == "를" for each in ours.tag(TEXTS)[0]["units"])
    assert ours.tag([]) == []


@pytest.mark.long
def test_answer_tells_places_in_the_context_as_given():
    ours, plain = pair(QuestionAnswering, QuestionPreprocessor)
    found = ours.answer_tensors(iter(TEXTS[::-1]), np.array(TEXTS))
    seen = plain.answer_tensors(analyse(TEXTS[::-1]), analyse(TEXTS))
    np.testing.assert_allclose(found["scores"], seen["scores"], atol=1e-6)
    for text, starts, ends, answers, others in zip(TEXTS, *(
            found[name].numpy() for name in ("starts", "ends", "answers")),
            seen["answers"].numpy(), strict=True):
        assert [answer.decode() for answer in answers] == [
            text[start:end] for start, end in zip(starts, ends, strict=True)]
        assert [answer.decode().replace(" ", "") for answer in answers] == [
            other.decode().replace(" ", "") for other in others]
    none = ours.answer_tensors([], [])
    assert {name: value.shape[0] for name, value in none.items()} == dict.fromkeys(found, 0)
    with pytest.raises(UsageError, match="1 questions and 2 contexts; expected as many"):
        ours.answer_tensors(["a"], ["b", "c"])


@pytest.mark.long
def test_a_span_model_reads_as_its_reader_does_now():
    model = pair(QuestionAnswering, QuestionPreprocessor)[1]
    question, context = ["영화"], [" ".join(PIECES * 3)]
    before = model.answer_tensors(question, context)["scores"].numpy()
    model.preprocessor.resize(8)
    after = model.answer_tensors(question, context)["scores"].numpy()
    fresh = QuestionAnswering(CONFIG, seed=1,
                              preprocessor=QuestionPreprocessor(model.preprocessor.tokenizer,
                                                       **model.preprocessor.reading()))
    np.testing.assert_allclose(after, fresh.answer_tensors(question, context)["scores"], atol=1e-6)
    assert np.abs(after - before).max() > 1e-5


def test_what_is_compiled_reads_as_the_reader_does_now():
    model = Classifier(CONFIG, ["no", "yes"], seed=1,
                       preprocessor=TextPreprocessor(Tokenizer(VOCABULARY), 16))
    text = [" ".join(PIECES)]
    before = model.predict(text, verbose=0)
    model.preprocessor.resize(5)
    after = model.predict(text, verbose=0)
    np.testing.assert_allclose(after, model(text), atol=1e-6)
    assert np.abs(after - before).max() > 1e-5


def test_nothing_gives_nothing_of_the_right_shape(classifiers, embedders):
    for nothing in ([], (), np.array([], object), iter(()), pd.Series([], dtype=object)):
        assert classifiers[0].predict(nothing, verbose=0).shape == (0, 2)
        assert embedders[0].embed(nothing).shape == (0, 8)


@pytest.mark.parametrize(("wrong", "message"), [
    ("a text", r"texts: the string 'a text'; expected a list of strings; try \[text\]"),
    ([None], r"texts\[0\] is None; expected a string"),
    (["a", None], r"texts\[1\] is None"),
    (pd.Series(["a", np.nan]), r"texts\[1\] is nan of type float"),
    ([1, 2], r"texts\[0\] is 1 of type int"),
    (pd.DataFrame({"text": ["a"]}), "texts: a table; expected a column"),
    (["a", ("b", "c")], r"texts\[1\] is \('b', 'c'\)"),
])
def test_what_is_refused(classifiers, embedders, wrong, message):
    for take in (lambda texts: classifiers[0].predict(texts, verbose=0), classifiers[0],
                 *([] if isinstance(wrong, str) else [embedders[0].embed])):
        with pytest.raises(UsageError, match=message):
            take(wrong)


@pytest.mark.parametrize("size", [0, -1])
def test_batches_of_no_text_are_refused(classifiers, embedders, size):
    """A step of -1 left every vector at 0."""
    for call in (classifiers[1].classify, embedders[1].embed,
                 lambda texts, batch_size: embedders[1].rank("a", texts, batch_size),
                 lambda texts, batch_size: text_batches(
                     texts, [0] * len(texts), classifiers[1].preprocessor, batch_size, seed=1)):
        with pytest.raises(UsageError, match=f"batch_size={size}; expected at least 1"):
            call(TEXTS, batch_size=size)
