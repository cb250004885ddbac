"""A target: a function of bytes, what it may raise, and inputs from which a fuzzer begins."""

import atexit
import copy
import dataclasses
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Callable

from bert_tf.errors import BertTfError

_MOST_CHANGES, _MOST_PLACES = 6, 500  # of a document
_LONGEST_MESSAGE = 20_000  # characters of an error
# What stands in a JSON document where another value belongs.
_ODD = (None, True, False, 0, 1, -1, 2, 7, 0.5, 2**31, 2**63, -2**63, 10**30, 1e308, float("nan"),
        float("inf"), "", "a", "\ud800", "\0", "가", "../x", "/etc/passwd", "1", "true", [], {},
        [[]], [None], {"": {}}, {"b64": "YQ"}, [1, "a"], "x" * 300)


@dataclasses.dataclass(frozen=True)
class Target:
    """What is fed to a part of the package.

    Attributes:
        name: of the target.
        make: imports the part and returns the function of bytes; what that raises beside `refused`
            is a crash.
        seeds: inputs from which others are made, or a function that makes them.
        runs: executions of a whole run.
        longest: bytes of an input.
        refused: what a part may say of an input that it does not take.
    """

    name: str
    make: Callable[[], Callable[[bytes], None]]
    seeds: tuple[bytes, ...] | Callable[[], tuple[bytes, ...]]
    runs: int
    longest: int = 512
    refused: tuple[type[Exception], ...] = (BertTfError,)

    def checked(self):
        """`make()`, which returns silently where an input is refused in few words."""
        function = self.make()

        def check(data):
            try:
                function(data)
            except self.refused as error:
                assert len(str(error)) < _LONGEST_MESSAGE, str(error)[:200]

        return check


class Bytes:
    """Decisions taken from bytes, one after the other; zeros after their end."""

    def __init__(self, data):
        self.rest = data

    def byte(self):
        """The next byte as a number."""
        value, self.rest = (self.rest[0], self.rest[1:]) if self.rest else (0, b"")
        return value

    def pick(self, values):
        """One of `values`."""
        return values[self.byte() % len(values)]

    def number(self, size=2):
        """An unsigned number of so many bytes."""
        value, self.rest = self.rest[:size], self.rest[size:]
        return int.from_bytes(value, "little")

    def texts(self):
        """The rest as text, NUL parting one from the next; what is not UTF-8 becomes U+FFFD."""
        return self.rest.decode("utf-8", "replace").split("\0")


def changed(document, data):
    """The JSON value `document` with values put in, taken out or renamed as `data` (`Bytes`) says.

    Every byte string gives one; the empty one, `document` itself.
    """
    document = copy.deepcopy(document)
    for _ in range(_MOST_CHANGES):
        places = [*_places(document)] if data.rest else []
        if not 0 < len(places) < _MOST_PLACES:
            break
        holder, key = places[data.number() % len(places)]
        action = data.byte() % 6
        if action == 0:
            del holder[key]
        elif action == 1 and isinstance(holder, dict):
            holder[data.pick(("", "a", "../x", "\ud800", "family", "0"))] = holder.pop(key)
        elif action == 2:
            other, name = places[data.number() % len(places)]
            holder[key] = copy.deepcopy(other[name])
        elif action == 3:
            holder[key] = data.number(data.byte() % 5)
        elif action == 4:
            size = data.byte() % 16
            holder[key], data.rest = data.rest[:size].decode("utf-8", "replace"), data.rest[size:]
        else:
            holder[key] = copy.deepcopy(data.pick(_ODD))
    return document


def _places(value):
    """`(holder, key)` of everything within a JSON value."""
    if isinstance(value, dict | list):
        for key in [*value] if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


@functools.cache
def folder():
    """A folder for what is read from files."""
    made = tempfile.mkdtemp(prefix="fuzz-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def write(name, data):
    """Write bytes, or a value as JSON, to a file of `folder()`; returns its path."""
    path = os.path.join(folder(), name)
    if not isinstance(data, bytes):
        data = json.dumps(data).encode()
    with open(path, "wb") as stream:
        stream.write(data)
    return path


def bytes_or_json(documents, data):
    """What a JSON file holds: as the first byte says `data` itself, or a document with changes."""
    data = Bytes(data)
    kind = data.byte() % (len(documents) + 1)
    return data.rest if kind == len(documents) else changed(documents[kind], data)


def json_seeds(documents):
    """Seeds for `bytes_or_json`: every document unchanged, both ways, and small changes."""
    plain = [bytes([kind]) for kind in range(len(documents))]
    whole = [bytes([len(documents)]) + json.dumps(document).encode() for document in documents]
    edits = [bytes([kind, place, 0, action, 3, 3, 3]) for kind in range(len(documents))
             for place in range(12) for action in (0, 2, 3, 5)]
    return (*plain, *whole, *edits)
