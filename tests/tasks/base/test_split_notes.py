"""Warnings on the two sides of a split."""

from bert_tf.tasks.base.examples import TextExample
from bert_tf.tasks.base.label_counts import describe_labels, label_counts, similar_label_notes
from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.base.split_notes import split_notes
from bert_tf.tasks.question_answering.examples import SpanExample
from bert_tf.tasks.token_classification.examples import TagExample


def texts(*labels, begin="t"):
    return [TextExample(str(i), f"{begin}{i}", label=label, where=f"{begin} line {i}")
            for i, label in enumerate(labels)]


def test_nothing_to_say():
    assert split_notes(texts("a", "b"), texts("b", "a", begin="u")) == []
    assert split_notes(texts(1.0), texts(2.0, begin="u")) == []


def test_a_class_missing_on_either_side():
    assert split_notes(texts("a", "b"), texts("a", begin="u")) == [
        "no dev example has label 'b': the score does not cover that"]
    assert split_notes(texts(("a",), ("b", "a")), texts(("a", "c"), begin="u")) == [
        "no dev example has label 'b': the score does not cover that",
        "no train example has label 'c': it cannot be predicted"]


def test_many_missing_classes_are_cut_short():
    note, = split_notes(texts(*"abcdefgh"), texts("a", begin="u"))
    assert "label 'b', label 'c', label 'd', label 'e', label 'f' and 2 more" in note


def test_entities_and_questions():
    def tagged(word, tag):
        return [TagExample("0", (word,), (tag,), (False,))]

    assert split_notes(tagged("a", "B-x"), tagged("b", "O")) == [
        "no dev example has entity 'x': the score does not cover that"]
    answered = [SpanExample("0", "q", "c", (("c", 0),))]
    assert split_notes(answered, [SpanExample("1", "r", "c", (), True)]) == [
        "no dev example has a question with an answer: the score does not cover that",
        "no train example has a question without an answer: it cannot be predicted"]


def test_queries_of_another_form():
    alone = [QueryExample("0", "a")]
    assert split_notes(alone, [QueryExample("1", "b", ("c",), ("d",))]) == []


def test_labels_are_counted_and_alike_names_told():
    made = texts("neg", "Neg ", "neg", "0", "0.0", "1.0", "ｎｅｇ")
    assert label_counts(made) == {"neg": 2, "0": 1, "0.0": 1, "1.0": 1, "Neg ": 1, "ｎｅｇ": 1}
    assert [note.partition(": ")[2] for note in similar_label_notes(made)] == [
        "'neg' (2), 'Neg ' (1), 'ｎｅｇ' (1)", "'0' (1), '0.0' (1)"]
    assert describe_labels(made).startswith("'neg' 2, '0' 1, '0.0' 1")
    assert describe_labels(texts(*map(str, range(30)))).endswith(", and 10 more")
    assert describe_labels(texts(1.0, 2.5)) == "1 to 2.5, mean 1.75"
    assert label_counts(texts(("a", "b"), ("b",), ())) == {"b": 2, "a": 1, "no label": 1}
    tags = [TagExample("0", tuple("abc"), tags, (True, True, False))
            for tags in (("B-x", "I-x", "B-y"), ("O", "O", "O"))]
    assert label_counts(tags) == {"no entity": 1, "x": 1, "y": 1}
    assert label_counts([SpanExample("0", "q", "c", (("c", 0),))]) == {"answer": 1}


def test_queries_are_known_again_with_the_negatives_that_were_mined_for_them():
    train = [QueryExample("0", "q", ("p", "r"), where="line 1")]
    mined = [QueryExample("0", "q", ("r",), ("n",), where="line 2"),
             QueryExample("1", "q", ("n",), ("p",), where="line 3")]
    for one, other in ((train, mined), (mined, train)):
        *_, note = split_notes(one, other)
        assert note.startswith(f"1 of {len(other)} dev examples are also train examples")


def test_texts_on_both_sides():
    dev = texts("a", "b", begin="u") + texts("a", "b", "a")[1:]
    assert split_notes(texts("a", "b", "a"), dev) == [
        "2 of 4 dev examples are also train examples; the first: t line 1"]


def test_a_pair_and_its_mirror_image_are_the_same():
    trained = [QueryExample("0", "a", ("b",)), QueryExample("1", "c", ("d",))]
    measured = [QueryExample("0", "b", ("a",), where="line 2"), QueryExample("1", "b", ("d",))]
    assert split_notes(trained, measured) == [
        "1 of 2 dev examples are also train examples; the first: line 2"]
