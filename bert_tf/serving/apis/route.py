"""A route of a protocol: how its body is read and what answers it."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Route(NamedTuple):
    """A path and method of a protocol.

    Attributes:
        api: its name in metrics.
        read: `(body, packed, limits)` gives what is asked, with the `model` that it names or None;
            plain data both, since it may run in another process.
        answer: coroutine function `(call, asked)` of an `Answer`.
        task: what a model must do that the request does not name.
    """

    api: str
    read: Callable
    answer: Callable
    task: str | None = None


class Answer(NamedTuple):
    """What is answered.

    Attributes:
        document: for `rest_text.dump`.
        headers: fields of the head, pairs of bytes.
        size: bytes of arrays in the document: large ones are written in a thread.
    """

    document: Any
    headers: tuple = ()
    size: int = 0
