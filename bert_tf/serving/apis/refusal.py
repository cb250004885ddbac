"""What a request of these protocols is refused with; each protocol says it in its own form."""

import enum

from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError


class Kind(enum.Enum):
    """Why; protocols have codes and names of their own for some of these."""

    FIELD = "a field is wrong"
    EMPTY = "there is no input, or one without text"
    TOO_MANY = "more inputs than a request may have"
    TOO_LONG = "more tokens than the model or the server takes"
    NO_MODEL = "there is no such model"
    UNFIT = "the model cannot do this"
    NO_KEY = "no key, or a wrong one"
    UNHEALTHY = "no model can be asked"


class Refusal(ServingError):
    """A refused request.

    Args:
        code, message: as of `ServingError`.
        kind: `Kind`.
        field: name of the one that is wrong, or None.
    """

    def __init__(self, code, message, kind=Kind.FIELD, field=None):
        super().__init__(code, message)
        self.kind = kind
        self.field = field

    def __reduce__(self):
        return type(self), (self.code, self.message, self.kind, self.field)


class MethodRefusal(Refusal):
    """A path that is asked by another method of HTTP than `method`."""

    http_status = 405

    def __init__(self, method):
        said = error("wrong_method", method=method)
        super().__init__(said.code, said.message)
        self.method = method

    def __reduce__(self):
        return type(self), (self.method,)


def refusal(name, kind=Kind.FIELD, field=None, /, **values):
    """The `Refusal` with a message of `wire.messages`, whose `{field}` is the field."""
    said = error(name, **{"field": field, **values})
    return Refusal(said.code, said.message, kind, field)


def kind_of(problem):
    """The `Kind` of any `ServingError`."""
    if isinstance(problem, Refusal):
        return problem.kind
    return Kind.NO_MODEL if problem.code == "NOT_FOUND" else Kind.FIELD
