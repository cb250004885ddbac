"""What a protocol's file declares of its paths, and what answers them.

Such a file has `ROUTES`, `{(method, path): Route or View}`, for a path that does what its model is
for `{task: Route}`; `OF_MODEL`, whether `/models/NAME` may stand before its paths; and
`refused(problem)`, the status and body for a `ServingError`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Route(NamedTuple):
    """Something that a model is asked.

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


class View(NamedTuple):
    """Something that is told without a body.

    Attributes:
        answer: coroutine function `(apis, name, deadline)` of an `Answer`: the `Apis`, the model
            that the path names or None, and as of `Backend.run`.
    """

    answer: Callable


class Answer(NamedTuple):
    """What is answered.

    Attributes:
        document: for `rest_text.dump`, or a function without arguments that makes it.
        headers: fields of the head, pairs of bytes.
        size: bytes in memory of what the document has much of: a large one is made and written in
            a thread, where others are answered meanwhile.
    """

    document: Any
    headers: tuple = ()
    size: int = 0
