"""Questions on Korean text cut into morphemes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.tasks.question_answering.analysed import analysed_spans
from bert_tf.tasks.question_answering.examples import SpanExample
from bert_tf.tokenization.morphemes import analysed_places, original_offsets

CONTEXT = "임종석은 1989년에 학교를 나왔다."


def _example(context, *answers):
    return SpanExample("1", "누가 나왔나?", context, tuple(
        (answer, context.index(answer)) for answer in answers), where="here")


def test_answers_move_with_their_text():
    example = _example(CONTEXT, "임종석", "학교", "1989년", "나왔다.")
    (made,) = analysed_spans([example])
    assert made.context == "임종석 은 1989 년 에 학교 를 나왔 다 ."
    assert made.question == "누 가 나왔 나 ?"
    assert made.answers == (("임종석", 0), ("학교", 15), ("1989 년", 6), ("나왔 다 .", 20))
    assert (made.id, made.where) == ("1", "here")
    assert analysed_spans([_example("없다")])[0].answers == ()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_an_answer_leads_back_to_the_original(data):
    start = data.draw(st.integers(0, len(CONTEXT) - 1))
    end = data.draw(st.integers(start + 1, len(CONTEXT)))
    example = SpanExample("1", "", CONTEXT, ((CONTEXT[start:end], start),))
    (made,) = analysed_spans([example])
    ((text, place),) = made.answers
    assert made.context[place:place + len(text)] == text
    assert text[0] == CONTEXT[start] and text[-1] == CONTEXT[end - 1]
    offsets = original_offsets(CONTEXT, made.context)
    assert (offsets[place], offsets[place + len(text)]) == (start, end)
    assert analysed_places(offsets, start) == place
    assert analysed_places(offsets, end, are_ends=True) == place + len(text)
