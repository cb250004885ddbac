"""What a request names and may hold, and how it fails: the words that every protocol shares."""

import dataclasses
from typing import NamedTuple

# gRPC's code -> the HTTP status that TF Serving's REST API gives for it
# (model_servers/http_server.cc: `ToHTTPStatusCode`).
HTTP_STATUS = {
    "CANCELLED": 499, "UNKNOWN": 500, "INVALID_ARGUMENT": 400, "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404, "ALREADY_EXISTS": 409, "PERMISSION_DENIED": 403, "UNAUTHENTICATED": 401,
    "RESOURCE_EXHAUSTED": 429, "FAILED_PRECONDITION": 400, "ABORTED": 409, "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501, "INTERNAL": 500, "UNAVAILABLE": 503, "DATA_LOSS": 500}
# What a version says to whom has heard of another one's signatures, too.
MISFITS = ("INVALID_ARGUMENT", "FAILED_PRECONDITION")


@dataclasses.dataclass(frozen=True)
class Spec:
    """Which model is asked: TF Serving's `ModelSpec`.

    Attributes:
        name: of the model.
        version: its number; None for the latest that is available, unless a `label` is given.
        label: a name that the configuration gives to a version.
        signature: `""` for `serving_default`.
    """

    name: str
    version: int | None = None
    label: str | None = None
    signature: str = ""


class Limits(NamedTuple):
    """What a request may hold.

    Attributes:
        rows: of a tensor, and examples.
        body_bytes: of a body, once it is unpacked.
        text_bytes: of one text, and of a serialized example.
    """

    rows: int
    body_bytes: int
    text_bytes: int


class ServingError(Exception):
    """A request that is answered with an error.

    Args:
        code: of gRPC, a key of `HTTP_STATUS`.
        message: for people.
    """

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def http_status(self):
        """The status of an answer over HTTP."""
        return HTTP_STATUS[self.code]

    def __reduce__(self):  # pickled where another process raised it
        return type(self), (self.code, self.message)


class TooLargeError(ServingError):
    """A body of more bytes than are taken; HTTP has a status of its own for it."""

    http_status = 413
