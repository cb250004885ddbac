"""Requests in bytes: what they may hold, and large ones that a process of its own decodes."""

import asyncio
import gzip
import json
import os
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from server_harness import PATIENCE
from tensorflow_serving.apis import inference_pb2, predict_pb2, regression_pb2

from bert_tf.serving.server import decoder
from bert_tf.serving.server.decoder import AT_ONCE, Decoder
from bert_tf.serving.wire import decoding, rest_text
from bert_tf.serving.wire.request import ServingError, Spec

LIMITS = decoding.Limits(rows=4, body_bytes=1 << 20)
SIGNATURES = {"serving_default": {"text": 7}, "ids": {"ids": 3}}


@pytest.fixture
def decode():
    """`decode(function, data, …)` by a `Decoder`."""
    made = Decoder()

    def run(*arguments, **options):
        return asyncio.run(made.run(*arguments, **options))

    yield run
    made.close()


def refusal(function, *arguments):
    with pytest.raises(ServingError) as refused:
        function(*arguments)
    return refused.value.code, refused.value.message


def request(text, **fields):
    made = predict_pb2.PredictRequest(**fields)
    made.model_spec.name = "m"
    made.inputs["text"].CopyFrom(tf.make_tensor_proto(text))
    return made.SerializeToString()


def process(data):
    """What a decoder is asked for here: which process runs it."""
    return os.getpid()


def dies(data):
    os._exit(1)


def hangs(data):
    time.sleep(600)  # ended long before


def fails(data):
    raise ServingError("OUT_OF_RANGE", f"{len(data)} bytes")


def breaks(data):
    raise ZeroDivisionError("/secret/path")


def takes_too_much(data):
    return bytearray(decoder._MOST_MEMORY)


def test_large_requests_are_decoded_in_another_process(decode, monkeypatch):
    assert decode(process, bytes(AT_ONCE)) == os.getpid()
    medium = decode(process, bytes(AT_ONCE + 1))
    large = decode(process, bytes(2 << 20))
    assert len({os.getpid(), medium, large}) == 3
    assert decode(process, bytes(AT_ONCE + 1)) == medium  # which stays
    with pytest.raises(ServingError, match="20000 bytes") as refused:
        decode(fails, bytes(20_000))
    assert refused.value.code == "OUT_OF_RANGE"
    with pytest.raises(ServingError, match="its log says why") as refused:
        decode(breaks, bytes(20_000))
    with pytest.raises(ServingError, match="too much memory"):
        decode(takes_too_much, bytes(20_000))
    assert decode(process, bytes(AT_ONCE + 1)) == medium

    with pytest.raises(ServingError, match="too much memory"):  # the system ended it, maybe
        decode(dies, bytes(20_000))
    monkeypatch.setattr(decoder, "_MOST_SECONDS", 0.5)
    with pytest.raises(ServingError) as refused:
        decode(hangs, bytes(20_000))
    assert refused.value.code == "DEADLINE_EXCEEDED"
    monkeypatch.undo()
    with pytest.raises(ServingError) as refused:
        decode(hangs, bytes(20_000), deadline=time.monotonic() + 0.5)
    assert refused.value.code == "DEADLINE_EXCEEDED"
    assert decode(process, bytes(AT_ONCE + 1)) != medium

    texts = ["네", "b" * 20_000]
    spec, inputs, outputs = decode(decoding.predict_message, request(texts), LIMITS)
    assert (spec, outputs) == (Spec("m"), ())
    assert inputs["text"].tolist() == [text.encode() for text in texts]
    with pytest.raises(decoding.TooLargeError):
        decode(decoding.predict_json, gzip.compress(os.urandom(40_000) * 100, 1), True, SIGNATURES,
               LIMITS)


def test_a_small_request_passes_larger_ones_that_wait():
    """In place of the process functions of this one, which tell when they run."""
    begun, goes, order = threading.Event(), threading.Event(), []

    def hold(data):
        begun.set()
        assert goes.wait(PATIENCE)

    def note(data):
        order.append(len(data) >> 20)

    async def run():
        made = Decoder()
        made._large.call = lambda function, data, arguments, deadline: function(data)
        try:
            held = asyncio.ensure_future(made.run(hold, bytes(9 << 20)))
            await asyncio.to_thread(begun.wait, PATIENCE)
            waiting = [asyncio.ensure_future(made.run(note, bytes(size << 20)))
                       for size in (8, 3, 5, 3, 2)]
            await asyncio.sleep(0)  # all of them wait now
            waiting[2].cancel()
            await asyncio.wait([waiting[2]])  # before the thread may take it
            goes.set()
            await asyncio.gather(held, *waiting, return_exceptions=True)
        finally:
            goes.set()
            made.close()

    asyncio.run(run())
    assert order == [2, 3, 3, 8]


def test_what_waits_ends_with_the_decoder():
    begun, goes = threading.Event(), threading.Event()

    def hold(data):
        begun.set()
        assert goes.wait(PATIENCE)

    async def run():
        made = Decoder()
        made._large.call = lambda function, data, arguments, deadline: function(data)
        both = [asyncio.ensure_future(made.run(hold, bytes(size << 20))) for size in (2, 3)]
        await asyncio.to_thread(begun.wait, PATIENCE)
        made.close()
        goes.set()
        return await asyncio.gather(*both, return_exceptions=True)

    first, second = asyncio.run(run())
    assert first is None and isinstance(second, asyncio.CancelledError)


def test_predict_messages():
    message = request(["a"], output_filter=["x"], model_spec={"version_label": "", "name": "m"})
    spec, _, outputs = decoding.predict_message(message, LIMITS)
    assert spec == Spec("m", label="") == decoding.first_spec(message) and outputs == ("x",)
    assert "5 rows; expected at most 4" in refusal(
        decoding.predict_message, request(["a"] * 5), LIMITS)[1]
    for damaged in (b"\xff", message[:-1], b"\x0a\xff\xff\xff\xff\xff"):
        assert refusal(decoding.predict_message, damaged, LIMITS) == (
            "INVALID_ARGUMENT", "the request is damaged")
    assert decoding.first_spec(b"") is None
    assert decoding.first_spec(b"\x0a\xff\xff\xff\xff\xff") is None
    assert decoding.first_spec(b"\x12\x00") is None


def test_examples_are_their_bytes():
    def example(text):
        feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))
        return tf.train.Example(features=tf.train.Features(feature={"text": feature}))

    made = regression_pb2.RegressionRequest()
    made.model_spec.name = "m"
    given = made.input.example_list_with_context
    given.context.CopyFrom(example(b"context"))
    given.examples.extend([example(b"a"), tf.train.Example()])
    spec, examples = decoding.examples_message(made.SerializeToString(), LIMITS)
    values = [tf.train.Example.FromString(one).features.feature["text"].bytes_list.value
              for one in examples]
    assert spec == Spec("m") and values == [[b"a"], [b"context"]]
    given.examples.extend([tf.train.Example()] * 3)
    assert "5 rows" in refusal(decoding.examples_message, made.SerializeToString(), LIMITS)[1]

    made = inference_pb2.MultiInferenceRequest()
    made.input.example_list.examples.add()
    made.tasks.add(method_name="x").model_spec.name = "m"
    assert decoding.tasks_message(made.SerializeToString(), LIMITS) == (
        Spec("m"), [(Spec("m"), "x")], [b""])
    assert refusal(decoding.tasks_message, b"", LIMITS)[1] == "the request has no examples"


@pytest.mark.parametrize("key", ["instances", "inputs"])
def test_json(key):
    body = json.dumps({key: ["네", "b"]}).encode()
    for given, packed in ((body, False), (gzip.compress(body), True)):
        name, inputs, by_rows = decoding.predict_json(given, packed, SIGNATURES, LIMITS)
        assert (name, by_rows) == ("", key == "instances")
        assert inputs["text"].tolist() == ["네".encode(), b"b"]
    for value in (["a"] * 5, {"text": ["a"] * 5}):
        if key == "instances" and type(value) is dict:
            continue
        body = json.dumps({key: value}).encode()
        assert "5 rows" in refusal(decoding.predict_json, body, False, SIGNATURES, LIMITS)[1]
    body = json.dumps({"examples": [{"a": 1}] * 5}).encode()
    assert "5 rows" in refusal(decoding.examples_json, body, False, LIMITS)[1]


def test_the_number_of_values_is_bounded_before_they_are_made(monkeypatch):
    monkeypatch.setattr(rest_text, "_MOST_VALUES", 10)
    monkeypatch.setattr(rest_text, "_MOST", 10)
    assert rest_text.parse(b'{"a": ["%s"]}' % (b'[,\\"' * 100))  # in a text they are no values
    assert refusal(rest_text.parse, b'{"a": [%s0]}' % (b"0," * 11))[1] == (
        "JSON of more than 10 values")
    assert "lists and objects" in refusal(rest_text.parse, b'{"a": %s' % (b"[" * 10))[1]
    monkeypatch.setattr(rest_text, "_MOST_BEYOND", 100)
    assert np.isnan(rest_text.parse(b'{"a": NaN}')["a"])
    assert "at most 100" in refusal(rest_text.parse, b'{"a": NaN}' + b" " * 100)[1]
    assert rest_text.parse(b'{"a": 1}' + b" " * 100) == {"a": 1}
