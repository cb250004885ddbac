"""Requests to models of morphemes: taken in turns, in time, and no further than the model reads."""

import asyncio
import threading
import time

import pytest
from fake_backend import model
from fake_models import LaterLoop
from server_harness import PATIENCE

from bert_tf.serving.apis import morphemes
from bert_tf.serving.apis.morphemes import analysed
from bert_tf.serving.wire.request import ServingError
from bert_tf.tokenization.morphemes import analyse

ABOUT = model("korean", pretokenize="morphemes", long="windows")
LONG = "나는 어제 영화를 봤다. " * 200  # several parts


@pytest.fixture
def steps(monkeypatch):
    """The first texts of the steps that were begun, an analyser that takes a step where it is let
    (`let.release()`), and a step for each part."""
    begun, let = [], threading.Semaphore(0)

    def slow(texts):
        if not texts:
            return []
        begun.append(texts[0])
        assert let.acquire(timeout=PATIENCE)
        return [text.upper() for text in texts]

    monkeypatch.setattr(morphemes, "analyse", slow)
    monkeypatch.setattr(morphemes, "_STEP", 1)
    yield begun, let
    let.release(1000)


async def begins(begun, number):
    """Wait until so many steps were begun."""
    async with asyncio.timeout(PATIENCE):
        while len(begun) < number:
            await asyncio.sleep(0)


def test_texts_are_what_analyse_makes_of_them():
    pytest.importorskip("kiwipiepy")
    texts = {"query": ["영화를", "영화를"], "passage": [LONG, "no Hangul"]}
    assert asyncio.run(analysed(ABOUT, texts, None)) == {
        name: analyse(column) for name, column in texts.items()}


def test_a_short_request_does_not_wait_for_all_of_a_long_one(steps):
    begun, let = steps

    async def both():
        long = asyncio.ensure_future(analysed(ABOUT, {"text": ["a" * 100_000]}, None))
        await begins(begun, 1)
        short = asyncio.ensure_future(analysed(ABOUT, {"text": ["b"]}, None))
        await asyncio.sleep(0)
        let.release(3)
        assert await short == {"text": ["B"]} and not long.done()
        long.cancel()

    asyncio.run(both())


@pytest.mark.parametrize("ends", ["its client goes", "its time ends"])
def test_nothing_more_of_a_request_is_analysed(steps, ends):
    begun, let = steps

    async def one():
        deadline = None if ends == "its client goes" else time.monotonic() + PATIENCE
        long = asyncio.ensure_future(analysed(ABOUT, {"text": ["a" * 100_000]}, deadline))
        await begins(begun, 1)
        if deadline is None:
            long.cancel()
        else:
            asyncio.get_running_loop().ahead += PATIENCE
        with pytest.raises((asyncio.CancelledError, ServingError)) as caught:
            await long
        let.release(1000)
        await analysed(ABOUT, {"text": ["b"]}, None)
        return caught.value

    with asyncio.Runner(loop_factory=LaterLoop) as runner:
        problem = runner.run(one())
    assert begun[0][0] == "a" and begun[1:] == ["b"]
    assert getattr(problem, "code", None) == (
        "DEADLINE_EXCEEDED" if ends == "its time ends" else None)


def test_what_the_model_does_not_read_is_not_analysed(steps):
    _, let = steps
    let.release(1000)
    about = model("head", pretokenize="morphemes", long="head")
    [text] = asyncio.run(analysed(about, {"text": ["a" * 1000]}, None))["text"]
    assert text == "A" * 128 + "a" * 872  # a window of 8 tokens
    [text] = asyncio.run(analysed(about, {"text": [" " * 1000 + "a" * 5]}, None))["text"]
    assert text == " " * 1000 + "A" * 5  # blanks are no tokens


def test_a_model_without_morphemes_takes_texts_as_they_are(steps):
    texts = {"text": ["a"]}
    assert asyncio.run(analysed(model("plain"), texts, None)) is texts
