"""How the client asks: batches, retries, deadlines, padding."""

import contextlib
import itertools
import math
import signal
import socket
import threading

import grpc
import numpy as np
import pytest
import tensorflow as tf
from scripted_server import MODEL, Refusal, ScriptedServer, numbers
from server_harness import PATIENCE

from bert_tf.errors import UsageError
from bert_tf.serving.client import Client, RequestError, steps


@pytest.fixture
def soon(monkeypatch):
    """What is unavailable is asked again without waiting."""
    monkeypatch.setattr(steps, "_FIRST_WAIT", 0.001)


def _sizes(server, then=numbers):
    """Notes how many texts each request has."""
    sizes = []

    def answer(signature, inputs):
        sizes.append(len(inputs["text"]))
        return then(signature, inputs)

    server.answer = answer
    return sizes


def test_long_lists_go_in_batches_and_keep_their_order(protocol, ask):
    server = ScriptedServer()
    lock, together = threading.Lock(), threading.Barrier(3)
    running, most, started = 0, 0, itertools.count()

    def answer(signature, inputs):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if next(started) < together.parties:
            together.wait(PATIENCE)  # these are there at the same time
        outputs = numbers(signature, inputs)
        with lock:
            running -= 1
        return outputs

    server.answer = answer
    sizes = _sizes(server, answer)
    with server.running(protocol) as address:
        vectors = ask(address, "embed", [str(number) for number in range(100)],
                      of={"batch_size": 8, "concurrency": 3})
    np.testing.assert_array_equal(vectors[:, 0], np.arange(100))
    assert vectors.dtype == np.float32
    assert sorted(sizes) == [4] + [8] * 12
    assert most == 3


def test_one_text_gives_one_result_and_none_no_request(protocol, ask):
    server = ScriptedServer()
    with server.running(protocol) as address:
        assert ask(address, "embed", "7").tolist() == [7, 1]
        assert server.requests == 1
        assert len(ask(address, "embed", [])) == 0
        assert server.requests == 1


def test_text_that_is_no_utf8(protocol, ask):
    """TensorFlow Serving writes its bytes into the JSON."""
    server = ScriptedServer(lambda signature, inputs: {"tail": np.array([b"a\xff"], object)}, {
        "cut": ({"text": (tf.string, [None])}, {"tail": (tf.string, [None])})})
    with server.running(protocol) as address:
        assert ask(address, "predict", "cut", text=["a"]) == [{"tail": "a\ufffd"}]


def _unavailable(times):
    """An answer that is refused so many times."""
    count = itertools.count()

    def answer(signature, inputs):
        if next(count) < times:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, 503, "the queue is full")
        return numbers(signature, inputs)
    return answer


def test_what_is_unavailable_is_asked_again(protocol, ask, soon):
    server = ScriptedServer(_unavailable(2))
    with server.running(protocol) as address:
        assert ask(address, "embed", ["5"]).tolist() == [[5, 1]]
    assert server.requests == 3


def test_not_for_ever(protocol, ask, soon):
    server = ScriptedServer(_unavailable(1000))
    with (server.running(protocol) as address,
          pytest.raises(RequestError, match="model m: the queue is full") as error):
        ask(address, "embed", ["5"], of={"retries": 2})
    assert error.value.code == "UNAVAILABLE"
    assert server.requests == 3


@pytest.mark.parametrize(("code", "status"), [
    (grpc.StatusCode.INVALID_ARGUMENT, 400), (grpc.StatusCode.NOT_FOUND, 404),
    (grpc.StatusCode.DEADLINE_EXCEEDED, 504), (grpc.StatusCode.UNIMPLEMENTED, 501)])
def test_what_else_is_wrong_is_told_at_once(protocol, ask, code, status):
    def answer(signature, inputs):
        raise Refusal(code, status, "말이 안 돼요")

    server = ScriptedServer(answer)
    with (server.running(protocol) as address,
          pytest.raises(RequestError, match="말이 안 돼요") as error):
        ask(address, "embed", ["5"])
    assert error.value.code == code.name
    assert server.requests == 1


def test_the_first_failure_ends_the_call(protocol, ask):
    def answer(signature, inputs):
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, 400, "no")

    server = ScriptedServer(answer)
    with (server.running(protocol) as address,
          pytest.raises(RequestError, match="no")):
        ask(address, "embed", ["5"] * 500, of={"batch_size": 1, "concurrency": 2})
    assert server.requests < 500


def _hangs(server, other):
    """Let the text 0 wait, once it is there together with the text 1, for which `other()` is done.

    Returns: `(an event that ends this, a list that then has something in it)`.
    """
    both, over, ended = threading.Barrier(2), threading.Event(), []

    def answer(signature, inputs):
        both.wait(PATIENCE)
        if inputs["text"][0] == b"1":
            other()
        ended.append(over.wait(PATIENCE))
        return numbers(signature, inputs)

    server.answer = answer
    return over, ended


def test_a_failure_is_told_without_waiting_for_what_is_under_way(protocol, ask):
    def refuse():
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, 400, "no")

    server = ScriptedServer()
    over, ended = _hangs(server, refuse)
    with server.running(protocol) as address:
        with pytest.raises(RequestError, match="no"):
            ask(address, "embed", ["0", "1"], of={"batch_size": 1, "timeout": math.inf})
        assert not ended
        over.set()


def test_ctrl_c_ends_a_call_at_once(protocol):
    server = ScriptedServer()
    main = threading.main_thread().ident
    over, ended = _hangs(server, lambda: signal.pthread_kill(main, signal.SIGINT))
    with server.running(protocol) as address:
        with (pytest.raises(KeyboardInterrupt),
              Client(address, MODEL, batch_size=1, timeout=math.inf) as client):
            client.embed(["0", "1"])
        assert not ended
        over.set()


@pytest.mark.parametrize("text", ["", "[1]"])
def test_a_description_that_is_none(protocol, ask, text):
    def answer(signature, inputs):
        return {"description": np.array([text.encode()], object)}

    signatures = {"describe": ({"text": (tf.string, [None])}, {"description": (tf.string, [None])})}
    with (ScriptedServer(answer, signatures).running(protocol) as address,
          pytest.raises(RequestError, match="describe answers .*; expected a JSON object")):
        ask(address, "describe")


@pytest.mark.parametrize("of", ["requests", "the call"])
def test_deadlines(protocol, ask, of):
    over = threading.Event()

    def answer(signature, inputs):
        over.wait(PATIENCE)
        return numbers(signature, inputs)

    with ScriptedServer(answer).running(protocol) as address:
        with pytest.raises(RequestError) as error:
            if of == "requests":
                ask(address, "embed", ["5"], of={"timeout": 0.5})
            else:
                ask(address, "embed", ["5"], timeout=0.5)
        over.set()
    assert error.value.code == "DEADLINE_EXCEEDED"


@pytest.mark.parametrize("seconds", [1e10, math.inf])
def test_no_deadline(protocol, ask, seconds):
    with ScriptedServer().running(protocol) as address:
        assert ask(address, "embed", "5", of={"timeout": seconds}, timeout=seconds)[0] == 5


@pytest.mark.parametrize("slow", ["headers", "body"])
def test_an_answer_that_comes_byte_by_byte_ends_at_the_deadline(ask, slow):
    over, ended = threading.Event(), threading.Event()
    body = b'{"model_version_status": []}'.ljust(400)
    headers = b"HTTP/1.1 200 OK\r\nx: %b\r\ncontent-length: %d\r\n\r\n" % (body, len(body))

    def trickle():
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):  # the client goes
            connection.recv(1 << 16)
            connection.sendall(headers if slow == "body" else b"")
            for byte in body if slow == "body" else headers:
                over.wait(0.05)
                connection.sendall(bytes([byte]))
            ended.set()
            over.wait(PATIENCE)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=trickle)
        thread.start()
        # On a machine that is busy the time may be over before anything is asked.
        with pytest.raises(RequestError, match="Timeout: |time for the call") as error:
            ask(f"http://127.0.0.1:{listening.getsockname()[1]}", "status", timeout=0.5)
        assert not ended.is_set()
        over.set()
        socket.create_connection(listening.getsockname()).close()  # for who still waits for one
        thread.join(PATIENCE)
    assert error.value.code == "DEADLINE_EXCEEDED"


IDS = ("input_word_ids", "input_mask")


def _echo_server():
    """Answers each row of ids with itself, and notes how long the rows were."""
    lengths = []

    def answer(signature, inputs):
        lengths.append(inputs["input_word_ids"].shape[1])
        return {"ids": inputs["input_word_ids"] * 10 + inputs["input_mask"]}

    server = ScriptedServer(answer, {"embed_ids": (
        {name: (tf.int32, [None, None]) for name in IDS}, {"ids": (tf.int32, [None, None])})})
    return server, lengths


@pytest.mark.parametrize(("pad_to", "length"), [(None, 3), (5, 5)])
def test_rows_of_ids_are_padded_to_one_length(protocol, ask, pad_to, length):
    server, lengths = _echo_server()
    with server.running(protocol) as address:
        rows = ask(address, "predict", "embed_ids", input_word_ids=[[2, 7, 3], [4], [5, 6]],
                   input_mask=[[1, 1, 1], np.ones(1, int), [1, 1]],
                   of={"batch_size": 1, "pad_to": pad_to})
    assert lengths == [length] * 3  # whatever else is in a request's batch
    assert [row["ids"].tolist() for row in rows] == [
        row + [0] * (length - len(row)) for row in ([21, 71, 31], [41], [51, 61])]


def test_ids_that_cannot_be_padded(protocol, ask):
    server, lengths = _echo_server()
    with server.running(protocol) as address:
        for ids, mask, pad_to, message in (
                ([[1, 2]], [[1]], None, "input_mask with rows of 1 ids; expected as of"),
                ([[1, 2]], [[1, 1]], 1, "a row of 2 ids; expected up to pad_to=1"),
                ([1, 2], [1, 1], None, "input_word_ids with 1 axes"),
                ([[1.5], [1, 2]], [[1], [1, 1]], None, "input_word_ids: float64 values")):
            with pytest.raises(UsageError, match=message):
                ask(address, "predict", "embed_ids", input_word_ids=ids, input_mask=mask,
                    of={"pad_to": pad_to})
    assert not lengths
