"""What one HTTP connection may cost: uvicorn's protocol, which has no bounds of its own, with them.

Heads are bounded in bytes and in number of fields, requests in bytes, in number and in the time
that they take to arrive, answers in the time that a client may leave a part unread; and so are
connections. What a client that has gone asked for is computed no further.
What is overridden and read here is no public interface: setup.cfg names one uvicorn and one
httptools, and `test_http_limits.py` fails where a bound does not hold with another.
"""

import asyncio
import json

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 << 10  # of the request line and the header fields
MOST_FIELDS = 100
MOST_PIPELINED = 16  # requests that wait for the answer to one before them
HEAD_SECONDS = 20  # from a connection, or a request's first byte, to the end of its head
BODY_SECONDS = 120  # from there to the end of the request
UNREAD_SECONDS = 60  # that a part of an answer may wait for its client
PART_BYTES = 1 << 20  # of an answer
LINGER_SECONDS = 5  # that a refused client has to read why, before the connection ends
_REASONS = {400: "Bad Request", 408: "Request Timeout", 413: "Content Too Large",
            431: "Request Header Fields Too Large", 503: "Service Unavailable"}


def bounded(max_connections, max_body_bytes):
    """The protocol class of a server.

    Args:
        max_connections: at the same time; beyond them the answer is 503.
        max_body_bytes: of a request; framed as chunks it may take twice as many.
    """
    return type("BoundedProtocol", (_Bounded,), {
        "max_connections": max_connections, "most_bytes": MOST_HEAD_BYTES + 2 * max_body_bytes})


class _Bounded(HttpToolsProtocol):
    max_connections = most_bytes = None

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._timer = self._unread = None
        self._answering = self._task = None  # uvicorn's cycle that is answered, and what does it
        self._in_head = True  # until a request's header fields are complete
        self._in_request = False
        self._size = 0  # bytes of the request so far
        self._is_repeated = False  # what the parser says was said before
        self._refusal = None  # (status, message) instead of what uvicorn would say
        self._is_refused = False  # what still comes is not looked at

    def connection_made(self, transport):
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(503, f"more than {self.max_connections} connections")
            self.transport.close()
        else:
            self._expect_within(HEAD_SECONDS)

    def connection_lost(self, exc):
        self._forget()
        self.resume_writing()
        super().connection_lost(exc)
        self._give_up()

    def data_received(self, data):
        if self._is_refused:
            return
        if not self._in_request and self._timer is None:
            self._expect_within(HEAD_SECONDS)
        self._size += len(data)
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.send_400_response("invalid HTTP request")
        if self._is_refused or self.transport.is_closing():
            return
        if self._in_head and self._size > MOST_HEAD_BYTES:
            self._refuse(431, f"a head of more than {MOST_HEAD_BYTES} bytes")
        elif self._size > self.most_bytes:
            self._refuse(413, f"a request of more than {self.most_bytes} bytes")

    def _parse(self, data):
        while True:
            try:
                return self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._stay_with_http_1()
                data = data[upgrade.args[0]:]

    def _stay_with_http_1(self):
        """Go on with a request that asks for another protocol, such as h2c (RFC 9110, 7.8).

        The parser leaves all that follows its head to that protocol. A new one that gets the
        fields which say how long the body is reads it.
        """
        head = [b"POST / HTTP/" + self.parser.get_http_version().encode()]
        head += [name + b": " + value for name, value in self.headers
                 if name in (b"content-length", b"transfer-encoding")]
        if not self.cycle.keep_alive:
            head.append(b"connection: close")
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
        self._is_repeated = True
        self.parser.feed_data(b"\r\n".join(head) + b"\r\n\r\n")
        self._is_repeated = False

    def on_message_begin(self):
        if self._is_repeated:
            return
        self._unset_keepalive_if_required()
        self._in_head = self._in_request = True
        self._size = 0
        self._expect_within(HEAD_SECONDS)
        super().on_message_begin()

    def on_url(self, url):
        if not self._is_repeated:
            super().on_url(url)

    def on_header(self, name, value):
        if self._is_repeated:
            return
        if len(self.headers) >= MOST_FIELDS:
            self._raise(431, f"more than {MOST_FIELDS} header fields")
        super().on_header(name, value)

    def on_headers_complete(self):
        if self._is_repeated:
            return
        head = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if head > MOST_HEAD_BYTES:
            self._raise(431, f"a head of more than {MOST_HEAD_BYTES} bytes")
        if len(self.pipeline) >= MOST_PIPELINED:
            self._raise(400, f"more than {MOST_PIPELINED} requests before the first is answered")
        self._in_head = False
        self._expect_within(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self):
        if self.parser.should_upgrade():
            return  # only the head is there: `_stay_with_http_1`
        self._forget()
        self._in_head, self._in_request, self._size = True, False, 0
        super().on_message_complete()
        if self.cycle.response_complete:  # uvicorn waits no more for who was answered before
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _start_asgi_task(self, cycle, app):
        self._answering, self._task = cycle, None

        async def answer(scope, receive, send):
            async def send_in_parts(message):
                # The system drops an answer where more comes after the connection's end.
                while not cycle.keep_alive and cycle.more_body and not cycle.disconnected:
                    await receive()
                rest = memoryview(message.get("body", b""))
                while len(rest) > PART_BYTES:  # each waits until the one before is on its way
                    await send({**message, "body": rest[:PART_BYTES], "more_body": True})
                    rest = rest[PART_BYTES:]
                await send({**message, "body": rest})

            self._task = asyncio.current_task()
            try:
                if not cycle.disconnected:
                    await app(scope, receive, send_in_parts)
            except asyncio.CancelledError:
                if not cycle.disconnected:
                    raise

        super()._start_asgi_task(cycle, answer)

    def _give_up(self):
        """End what works on an answer that nobody reads any more."""
        cycle = self._answering
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            if self._task is not None:
                self._task.cancel()

    def pause_writing(self):
        self._unread = self._unread or self.loop.call_later(UNREAD_SECONDS, self.transport.abort)
        super().pause_writing()

    def resume_writing(self):
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def send_400_response(self, msg):
        """What uvicorn calls once a callback raised or the parser gave up."""
        self._refuse(*(self._refusal or (400, msg)))

    def _raise(self, status, message):
        self._refusal = status, message
        raise ValueError(message)

    def _refuse(self, status, message):
        """Answer, unless another answer is on its way, and end the connection.

        Not at once: the system drops an answer that was not read where more comes after it.
        """
        cycle = self._answering  # of this request, or while its head arrives of one before
        answered = cycle is not None and cycle.response_started and not (
            self._in_head and cycle.response_complete)
        if not answered:
            body = json.dumps({"error": message}).encode()
            self.transport.write(
                b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n%s" % (status, _REASONS[status].encode(), len(body),
                                                 body))
        self._give_up()
        self._forget()
        self._is_refused = True
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _expect_within(self, seconds):
        self._forget()
        self._timer = self.loop.call_later(
            seconds, self._refuse, 408, f"the request did not arrive within {seconds} seconds")

    def _forget(self):
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
