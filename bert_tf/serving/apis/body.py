"""A request's body, as an ASGI server hands it over, in bounded memory."""

import contextlib

from bert_tf.serving.wire.messages import error

_MOST_HELD = 1 << 30  # bytes of bodies of all clients that arrive or are decoded


class Bodies:
    """Reads the bodies of one server's requests.

    Args:
        limit: bytes of a body; a larger one raises `TooLargeError`.
    """

    def __init__(self, limit):
        self._limit = limit
        self._held = 0  # bytes of bodies that are not decoded yet

    @contextlib.asynccontextmanager
    async def read(self, scope, receive):
        """The body as it came, and whether it is gzip; it counts as held until the block ends.

        Raises:
            ServingError: it is too large or of another coding, the client went, or too much of
                others is held.
        """
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._limit:
            raise error("rest_too_large", limit=self._limit)
        parts, size, more = [], 0, True
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise error("rest_disconnected")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                self._held += len(parts[-1])
                if size > self._limit:
                    raise error("rest_too_large", limit=self._limit)
                if self._held > _MOST_HELD:
                    raise error("rest_busy")
                more = message.get("more_body", False)
            yield b"".join(parts), _is_gzip(headers)
        finally:
            self._held -= size


def _is_gzip(headers):
    """Whether a body is gzip, where it is not as it was; refuse other codings."""
    coding = headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip"):  # which is its older name
        raise error("rest_coding", coding=coding)
    return coding.endswith("gzip")
