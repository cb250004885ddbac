"""Another server's models over gRPC, as the protocols ask for them."""

import logging
import math
import time

import numpy as np

from bert_tf.errors import BertTfError
from bert_tf.serving.apis.backend import About
from bert_tf.serving.client import AsyncClient, RequestError
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError

_KNOWN_SECONDS = 30  # for which what a model says of itself is taken for what it is
_HEALTH_SECONDS = 5
_DESCRIBE = "describe"
_log = logging.getLogger(__name__)


class ClientBackend:
    """A `Backend`.

    Args:
        address: of the server, as of `Client`.
        models: their names: gRPC has no call that lists them.
        decoder: `Decoder`.
        limits: `Limits` of a request.
        metrics: `Metrics`.
        options: further ones of `AsyncClient`.
    """

    def __init__(self, address, models, decoder, limits, metrics, **options):
        self._clients = {name: AsyncClient(address, name, retries=2, **options)
                         for name in sorted(models)}
        self._decoder = decoder
        self._limits = limits
        self._metrics = metrics
        self._known = {}  # model: until when, `About`

    def names(self):
        """See `Backend`."""
        return list(self._clients)

    async def is_ready(self):
        """See `Backend`; asks the server."""
        for client in self._clients.values():
            try:
                states = await client.status(timeout=_HEALTH_SECONDS)
            except BertTfError:
                continue
            if any(each["state"] == "AVAILABLE" for each in states):
                return True
        return False

    async def about(self, name):
        """See `Backend`; asked anew after a while, since there may be another version."""
        client = self._clients.get(name)
        if client is None:
            raise error("no_model", name=name)
        until, known = self._known.get(name, (-math.inf, None))
        if time.monotonic() > until:
            told = await _asked(client.metadata())
            signatures = {key: tuple(each["inputs"]) for key, each in told["signatures"].items()}
            description = await _asked(client.describe()) if _DESCRIBE in signatures else {}
            known = About(name, told["version"], signatures, description)
            self._known[name] = time.monotonic() + _KNOWN_SECONDS, known
        return known

    async def run(self, name, signature, inputs, deadline):
        """See `Backend`."""
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        rows = await _asked(self._clients[name].predict(signature, timeout=left, **inputs))
        return {output: np.array([row[output] for row in rows]) for output in rows[0]}

    async def decode(self, function, data, *arguments, deadline=None):
        """See `Backend`."""
        return await self._decoder.run(function, data, *arguments, self._limits, deadline=deadline)

    def count(self, name, api, status, seconds):
        """See `Backend`."""
        self._metrics.request(name, api, "REST", status, seconds)

    async def close(self):
        """End the connections."""
        for client in self._clients.values():
            await client.close()
        self._decoder.close()


async def _asked(coroutine):
    """What the client answers; its errors as the gateway's clients may see them.

    They are not told where the server is, and that this one may not ask it is no fault of theirs.
    """
    try:
        return await coroutine
    except RequestError as problem:
        cause = problem.__cause__
        if isinstance(cause, ServingError) and cause.code not in (
                "UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"):
            raise cause from problem
        _log.error("%s", problem)
        raise error("no_server") from problem
    except BertTfError as problem:
        _log.error("%s", problem)
        raise error("rest_internal") from problem
