"""Another server's models over gRPC, as the protocols ask for them."""

import asyncio
import itertools
import logging
import math
import time

import numpy as np

from bert_tf.errors import BertTfError, UsageError
from bert_tf.serving.apis.backend import About, OutdatedError
from bert_tf.serving.apis.refusal import Kind, refusal
from bert_tf.serving.client import AsyncClient, RequestError
from bert_tf.serving.client.diagnosis import diagnose
from bert_tf.serving.wire import parts
from bert_tf.serving.wire import results as wire_results
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import MISFITS, ServingError

_KNOWN_SECONDS = 30  # for which what a model says of itself is taken for what it is
_HEALTH_SECONDS = 5
_DIAGNOSIS_SECONDS = 1  # for finding out whether the server is gone
_SILENT_SECONDS = 10  # after which a line of the log may come again
_SILENT_LINES = 20  # the latest, for each model; each request may have its own, as of times
_DESCRIBE = "describe"
_PART = 128  # rows of ids that the server is asked at a time
# Codes that tell of the gateway and not of its client's request.
_OURS = ("UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED")
_UNAVAILABLE = "UNAVAILABLE"
_log = logging.getLogger(__name__)


class _Client(AsyncClient):
    _diagnosis, _asked_anew = None, 0.0

    async def answered(self, about, signature, inputs, deadline):
        """The rows that a signature answers, what the version that gave them says of itself, and
        its number, None where the rows may be of several.

        Raises:
            OutdatedError: another version lacks what the one that `about` is of had.
        """
        try:
            rows, results, description, version = await self._run(
                self.told(signature, **inputs), _left(deadline))
        except UsageError as problem:
            raise OutdatedError from problem
        except RequestError as problem:
            if problem.code in MISFITS and (
                    await self._run(self.hear(), _left(deadline)) != about.version):
                raise OutdatedError from problem
            raise
        return rows, description, version if wire_results.are_compared(results) else None

    async def is_gone(self, deadline):
        """Whether no server answers at the address, as far as is known by the deadline; all who ask
        within a second connect once."""
        if self._diagnosis is None or (
                self._diagnosis.done() and time.monotonic() > self._asked_anew):
            self._asked_anew = time.monotonic() + _DIAGNOSIS_SECONDS
            self._diagnosis = asyncio.ensure_future(
                asyncio.to_thread(diagnose, self._address, _DIAGNOSIS_SECONDS))
        done, _ = await asyncio.wait([self._diagnosis], timeout=_left(deadline))
        return any(task.result() for task in done)


class ClientBackend:
    """A `Backend`.

    Args:
        address: of the server, as of `Client`.
        models: their names: gRPC has no call that lists them.
        decoder: `Decoder`.
        limits: `Limits` of a request.
        metrics: `Metrics`.
        options: further ones of `AsyncClient`; how long a call may take is its deadline's.
    """

    def __init__(self, address, models, decoder, limits, metrics, **options):
        self._clients = {name: _Client(address, name, retries=2, timeout=math.inf,
                                       pretokenize="none", **options)
                         for name in sorted(models)}
        self._decoder = decoder
        self._limits = limits
        self._metrics = metrics
        self._known = {}  # model: until when, `About`
        self._silent = {}  # line of the log: until when it is not said again

    def names(self):
        """See `Backend`."""
        return list(self._clients)

    async def is_ready(self, name=None):
        """See `Backend`; asks the server."""
        asked = [asyncio.ensure_future(self._is_available(each))
                 for each in (self._clients if name is None else [name])]
        try:
            for answer in asyncio.as_completed(asked):
                if await answer:
                    return True
            return False
        finally:
            for task in asked:
                task.cancel()

    async def _is_available(self, name):
        try:
            states = await self._clients[name].status(timeout=_HEALTH_SECONDS)
        except BertTfError as problem:
            self._say(problem)
            return False
        return any(state["state"] == "AVAILABLE" for state in states)

    async def about(self, name, deadline):
        """See `Backend`; asked anew after a while, since there may be another version."""
        client = self._clients.get(name)
        if client is None:
            raise error("no_model", name=name)
        until, known = self._known.get(name, (-math.inf, None))
        if time.monotonic() > until:
            told = await self._asked(client, client.metadata(timeout=_left(deadline)), deadline)
            signatures = {key: tuple(each["inputs"]) for key, each in told["signatures"].items()}
            description = await self._asked(
                client, client.describe(timeout=_left(deadline)), deadline) if (
                    _DESCRIBE in signatures) else {}
            known = About(name, told["version"], signatures, description)
            self._known[name] = time.monotonic() + _KNOWN_SECONDS, known
        return known

    async def run(self, about, signatures, inputs, deadline):
        """See `Backend`."""
        of_texts = any(type(values) is list for values in inputs.values())
        # Rows of ids are as long as the model's window: of many a part at a time is copied.
        asked = parts.cut(inputs, None if of_texts else _PART)
        try:
            answers = await asyncio.gather(*(
                self._answers(about, signature, asked, deadline) for signature in signatures))
            told = [part for of_one in answers for part in of_one]
            if len({version for *_, version in told} - {None}) > 1 or any(
                    description != about.description for _, description, _ in told):
                raise OutdatedError
        except OutdatedError:
            self._known.pop(about.name, None)
            raise
        return {output: _column([row[output] for rows, *_ in of_one for row in rows])
                for of_one in answers for output, value in of_one[0][0][0].items()
                if not isinstance(value, str | bytes | list)}  # text, which no protocol reads

    async def _answers(self, about, signature, asked, deadline):
        client = self._clients[about.name]
        return [await self._asked(client, client.answered(about, signature, part, deadline),
                                  deadline) for part in asked]

    async def decode(self, function, data, *arguments, deadline=None):
        """See `Backend`."""
        return await self._decoder.run(function, data, *arguments, self._limits, deadline=deadline)

    def count(self, name, api, status, seconds):
        """See `Backend`."""
        self._metrics.request(name, api, "REST", status, seconds)

    async def _asked(self, client, coroutine, deadline):
        """What a coroutine of the client answers; its errors as the gateway's clients may see them.

        They are not told where the server is, and that it does not let the gateway in is no fault
        of theirs.
        """
        try:
            return await coroutine
        except RequestError as problem:
            cause = problem.__cause__
            if cause is None:  # it answered, but not as it should
                self._say(problem)
                raise error("not_now" if problem.code == _UNAVAILABLE
                            else "rest_internal") from problem
            told = isinstance(cause, ServingError)
            if told and cause.code not in (*_OURS, _UNAVAILABLE):
                raise cause from problem
            self._say(problem)
            # That in words of gRPC's, perhaps with an address, whether it is busy or gone.
            if told and cause.code == _UNAVAILABLE and not await client.is_gone(deadline):
                raise error("not_now") from problem
            raise refusal("no_server", Kind.UNHEALTHY) from problem
        except BertTfError as problem:
            self._say(problem)
            raise error("rest_internal") from problem

    def _say(self, problem):
        now, line = time.monotonic(), str(problem)
        self._silent = {each: until for each, until in self._silent.items() if until > now}
        if line not in self._silent:  # not at every request
            if len(self._silent) == _SILENT_LINES * len(self._clients):
                del self._silent[next(iter(self._silent))]
            self._silent[line] = now + _SILENT_SECONDS
            _log.error("%s", line)

    async def close(self):
        """End the connections."""
        for client in self._clients.values():
            await client.close()
        self._decoder.close()


def _left(deadline):
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _column(values):
    """The values of rows as an array; of rows with more and fewer of them these are padded."""
    sizes = {len(value) for value in values if np.ndim(value)}
    if len(sizes) > 1:
        longest = np.asarray(max(values, key=len))
        padding = np.zeros(longest.shape[1:], longest.dtype)
        values = list(zip(*itertools.zip_longest(*values, fillvalue=padding), strict=True))
    return np.array(values)
