"""What one HTTP client can cost: heads, bodies, time and connections of a bounded server."""

import asyncio
import configparser
import contextlib
import importlib.metadata
import json
import pathlib
import socket
import threading
import time
import urllib.request

import pytest
import uvicorn
from fake_models import LaterLoop

from bert_tf.serving.server import http_limits
from bert_tf.serving.server.http_limits import MOST_FIELDS, MOST_HEAD_BYTES, bounded

PATIENCE = 60
LARGE = 32 << 20  # bytes of an answer that no socket's buffers hold


async def echo(scope, receive, send):
    """Answers with the size of the body; at /large with much more."""
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    body = b"x" * LARGE if scope["path"] == "/large" else b"%d" % size
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def hasty(scope, receive, send):
    """Answers without a look at the body."""
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": b"0"})


@contextlib.contextmanager
def running(app=echo, max_connections=8, max_body_bytes=10_000, log_level="critical", **options):
    """The port of a server in a thread, whose event loop is a `LaterLoop`."""
    config = uvicorn.Config(app, http=bounded(max_connections, max_body_bytes), lifespan="off",
                            log_level=log_level, log_config=None, ws="none", **options)
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext

    def serve():
        with asyncio.Runner(loop_factory=LaterLoop) as runner:
            runner.run(server.serve([listening]))

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.force_exit = server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A client that is refused has all the time to send the rest and to read the answer."""
    monkeypatch.setattr(http_limits, "LINGER_SECONDS", PATIENCE)


@pytest.fixture(scope="module")
def port():
    with running() as port:
        yield port


def connected(port):
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def until_the_end(connection):
    """All that comes until the server ends the connection."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(1 << 20):
            said += data
    return said


def answer(connection):
    """Status and message of the next answer."""
    with connection.makefile("rb") as stream:
        while (status := int(stream.readline().split(b" ")[1])) == 100:
            stream.readline()
        fields = {}
        while line := stream.readline().strip():
            name, _, value = line.partition(b": ")
            fields[name] = value
        return status, json.loads(stream.read(int(fields[b"content-length"])))["error"]


def told(port, *pieces):
    """The answer to bytes; those that the server does not take any more are kept."""
    with connected(port) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                connection.sendall(piece)
        return answer(connection)


def asks(connection, request=b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc"):
    """Whether a request is answered with 200 and a body of one byte, and the connection stays."""
    connection.sendall(request)
    said = b""
    while b"\r\n\r\n" not in said[:-1] and (data := connection.recv(1 << 16)):
        said += data
    return said.startswith(b"HTTP/1.1 200")


def wait_for_room(port):
    """Return when the server takes a connection again."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with connected(port) as another, contextlib.suppress(ConnectionError):
            if asks(another):
                return
    raise AssertionError("the server does not let go of a connection")


def test_one_version_is_named_of_what_has_no_public_interface():
    """The tests below are of these; another one comes with them, and on purpose."""
    wanted = configparser.ConfigParser()
    wanted.read(pathlib.Path(__file__).parents[3] / "setup.cfg")
    serving = wanted["options.extras_require"]["serving"].split()
    for name in ("uvicorn", "httptools"):
        assert f"{name}=={importlib.metadata.version(name)}" in serving


@pytest.mark.parametrize("pieces", [
    [b"GET /" + b"a" * (MOST_HEAD_BYTES + 1) + b" HTTP/1.1\r\nhost: a\r\n\r\n"],
    [b"GET / HTTP/1.1\r\nhost: " + b"a" * 40_000, b"a" * 40_000 + b"\r\n\r\n"],
    [b"GET / HTTP/1.1\r\nx: ", *[b"a" * 10_000] * 100],  # a field without end
    [b"GET / HTTP/1.1\r\n" + b"".join(b"x%d: a\r\n" % n for n in range(MOST_FIELDS + 1)) + b"\r\n"],
    [b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
     + b"".join(b"x%d: a\r\n" % n for n in range(MOST_FIELDS + 1)) + b"\r\n"]])
def test_heads(port, pieces):
    status, message = told(port, *pieces)
    assert status == 431 and ("bytes" in message or "fields" in message)


def test_a_head_just_below_the_bounds(port):
    with connected(port) as connection:
        assert asks(connection, b"GET / HTTP/1.1\r\n" + b"".join(
            b"x%d: %s\r\n" % (n, b"a" * 600) for n in range(MOST_FIELDS)) + b"\r\n")
        assert asks(connection) and asks(connection)


def test_a_request_that_goes_on_and_on(port):
    """Behind the last chunk fields may stand, which uvicorn collects without end."""
    status, message = told(port, b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
                           b"0\r\nx: ", *[b"a" * 10_000] * 100)
    assert status == 413 and "bytes" in message


@pytest.mark.parametrize("noise", [b"\0\xff\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                                   b"GET /\xff HTTP/1.1\r\nhost: a\r\n\r\n"])
def test_what_is_no_http(port, noise):
    assert told(port, noise)[0] == 400


def test_clients_that_send_slowly(monkeypatch):
    monkeypatch.setattr(http_limits, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(http_limits, "BODY_SECONDS", 0.2)
    with running() as port:
        for begun in (b"", b"GET / HTTP/1.1\r\nhost: a\r\n",
                      b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nab"):
            status, message = told(port, begun)
            assert status == 408 and "did not arrive within 0.2 seconds" in message
        monkeypatch.setattr(http_limits, "HEAD_SECONDS", PATIENCE)
        monkeypatch.setattr(http_limits, "BODY_SECONDS", PATIENCE)
        with connected(port) as connection:
            assert asks(connection)
            monkeypatch.setattr(http_limits, "HEAD_SECONDS", 0.2)
            connection.sendall(b"\r\n")  # which may stand before a request
            assert answer(connection)[0] == 408


def test_a_connection_that_was_refused_ends(port, monkeypatch):
    monkeypatch.setattr(http_limits, "LINGER_SECONDS", 0.1)
    with connected(port) as connection:
        connection.sendall(b"\0\xff\r\n\r\n")
        assert until_the_end(connection).startswith(b"HTTP/1.1 400")


def test_a_client_that_does_not_read(monkeypatch):
    monkeypatch.setattr(http_limits, "UNREAD_SECONDS", 0.2)
    with running(max_connections=1) as port, connected(port) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
        size = len(connection.recv(1))
        wait_for_room(port)
        # What is in the buffers still comes, then the end.
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(1 << 20):
                size += len(data)
        assert size < LARGE


def test_a_client_that_reads_slowly(monkeypatch):
    """For longer than an answer may wait, but no part of it waits for so long."""
    monkeypatch.setattr(http_limits, "UNREAD_SECONDS", PATIENCE)
    loops = []

    async def noted(scope, receive, send):
        loops.append(asyncio.get_running_loop())
        await echo(scope, receive, send)

    with running(noted) as port, connected(port) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)  # little is on its way
        connection.sendall(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
        size = 0
        while size < LARGE:
            size += len(data := connection.recv(LARGE // 64))
            assert data, size
            loops[0].ahead += 2 * PATIENCE * len(data) / LARGE


def test_connections():
    with running(max_connections=3) as port, contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(port)) for _ in range(3)]
        assert all(map(asks, held))
        assert told(port) == (503, "more than 3 connections")
        held[0].close()
        wait_for_room(port)


def test_what_comes_after_an_answer_is_bounded_too():
    """An application may answer before it has read all: its answer is the only one."""
    with running(hasty) as port, connected(port) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9000000\r\n\r\n")
            for _ in range(100):
                connection.sendall(b"a" * 10_000)
            connection.shutdown(socket.SHUT_WR)
        said = until_the_end(connection)
        assert said.count(b"HTTP/1.1") == 1 and said.endswith(b"\r\n\r\n0")


def test_an_answer_reaches_who_sends_all_first_and_lets_the_connection_end():
    """As urllib does, which does not look before it has sent everything."""
    size = 16 << 20  # more than is on its way
    with (running(hasty, max_body_bytes=size) as port,
          urllib.request.urlopen(f"http://127.0.0.1:{port}", b"a" * size, PATIENCE) as told):
        assert told.status == 200 and told.headers["connection"] == "close"


def test_an_idle_connection_ends_also_if_its_request_came_after_the_answer():
    with running(hasty, timeout_keep_alive=0.2) as port, connected(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.sendall(b"abc")
        until_the_end(connection)


def test_an_application_that_is_under_way_when_its_client_is_refused(caplog):
    """Its own answer, which nobody reads, is no error."""
    with running(log_level="error") as port:
        for after in (b"\0\xff", b"GET / HTTP/1.1\r\nx: " + b"a" * 200_000):
            with connected(port) as connection, contextlib.suppress(ConnectionError):
                connection.sendall(b"GET /large HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n"
                                   b"content-length: 3\r\n\r\nabc" + after)
                connection.shutdown(socket.SHUT_WR)
                until_the_end(connection)
    assert not caplog.records


@pytest.mark.parametrize("is_refused", [False, True])
def test_what_nobody_waits_for_is_worked_on_no_more(is_refused, caplog):
    begun, ended = threading.Event(), threading.Event()

    async def endless(scope, receive, send):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with running(endless, log_level="error") as port, connected(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert begun.wait(PATIENCE)
        if is_refused:
            connection.sendall(b"\0")
            assert answer(connection)[0] == 400
        else:
            connection.close()
        assert ended.wait(PATIENCE)
    assert not caplog.records


UPGRADE = (b"host: a\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n"
           b"http2-settings: AAEAAEAAAAIAAAAB\r\n")  # as of Java's HttpClient and curl --http2
BODIES = [(b"", b"", b"0"),
          (b"content-length: 12\r\n", b"GET / HTTP/1", b"12"),
          (b"transfer-encoding: chunked\r\n", b"4\r\nabcd\r\n3\r\nefg\r\n0\r\nx: y\r\n\r\n", b"7")]


@pytest.mark.parametrize("part", [1, 7, 10_000])  # bytes that are sent at once
@pytest.mark.parametrize("fields, body, size", BODIES)
def test_a_client_that_would_rather_have_another_protocol(port, fields, body, size, part):
    """It is answered in this one, and so are the requests after it."""
    request = b"POST / HTTP/1.1\r\n" + UPGRADE + fields + b"\r\n" + body
    last = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    with connected(port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        everything = 3 * request + last
        for start in range(0, len(everything), part):
            connection.sendall(everything[start:start + part])
        answers = until_the_end(connection).split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert [each.partition(b"\r\n\r\n")[2] for each in answers] == [size, size, size, b"0"]


@pytest.mark.parametrize("closing", [
    b"GET / HTTP/1.0\r\n" + UPGRADE + b"\r\n",
    b"GET / HTTP/1.1\r\nconnection: close\r\n" + UPGRADE + b"\r\n"])
def test_the_end_of_a_connection_that_asks_for_another_protocol(port, closing):
    with connected(port) as connection:
        connection.sendall(closing + b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert until_the_end(connection).count(b"HTTP/1.1 200") == 1


def test_bounds_hold_also_where_another_protocol_is_asked_for(port, monkeypatch):
    head = b"POST / HTTP/1.1\r\n" + UPGRADE
    status, message = told(port, head + b"transfer-encoding: chunked\r\n\r\n",
                           *[b"1000\r\n" + b"a" * 4096 + b"\r\n"] * 100)
    assert status == 413 and "bytes" in message
    assert told(port, head + b"transfer-encoding: chunked\r\n\r\nno size\r\n")[0] == 400
    assert told(port, b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n")[0] == 400
    monkeypatch.setattr(http_limits, "BODY_SECONDS", 0.2)
    assert told(port, head + b"content-length: 3\r\n\r\na")[0] == 408


def test_requests_before_the_first_is_answered():
    """Whoever does not wait for answers is told so, instead of being remembered."""
    begun = []

    async def never(scope, receive, send):
        begun.append(scope)
        await asyncio.Event().wait()

    one = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
    with running(never) as port:
        status, message = told(port, one * (2 + http_limits.MOST_PIPELINED))
        assert status == 400 and message == "more than 16 requests before the first is answered"
        assert len(begun) <= 1  # the refusal may come before it begins
    with running() as port, connected(port) as connection:
        connection.sendall(one * (1 + http_limits.MOST_PIPELINED))
        said = b""
        while said.count(b"HTTP/1.1 200") < 1 + http_limits.MOST_PIPELINED:
            assert (data := connection.recv(1 << 16)), said
            said += data
