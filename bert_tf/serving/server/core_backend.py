"""The server's own models, as the protocols of other servers ask for them."""

import json

import numpy as np

from bert_tf.serving.apis.backend import About, OutdatedError
from bert_tf.serving.wire.request import MISFITS, ServingError, Spec

_DESCRIBE = "describe"  # the signature that tells what a client must know
_PART = 128  # rows of a request that a model is asked at a time


class CoreBackend:
    """A `Backend`.

    Args:
        core: `Core`.
    """

    def __init__(self, core):
        self._core = core
        self._known = {}  # model: the definitions of the version, `About`
        self.decode = core.decode

    def names(self):
        """See `Backend`."""
        return self._core.models()

    async def is_ready(self, name=None):
        """See `Backend`."""
        return any(state.state == "AVAILABLE"
                   for each in (self.names() if name is None else [name])
                   for state in self._states(each))

    def _states(self, name):
        try:
            return self._core.status(name)
        except ServingError:  # it has no versions yet
            return []

    async def about(self, name, deadline):
        """See `Backend`; asked once of each version."""
        spec, definitions = self._core.metadata(Spec(name))
        known = self._known.get(name)
        if known is None or known[0] is not definitions:
            description = {}
            if _DESCRIBE in definitions:
                _, told = await self._core.predict(
                    Spec(name, spec.version, signature=_DESCRIBE),
                    {"text": np.array([b""], object)}, deadline=deadline)
                description = json.loads(told["description"][0])
            signatures = {key: tuple(each.inputs) for key, each in definitions.items()}
            known = self._known[name] = (
                definitions, About(name, spec.version, signatures, description))
        return known[1]

    async def run(self, about, signatures, inputs, deadline):
        """See `Backend`."""
        arrays = {key: _bytes(values) if type(values) is list else values
                  for key, values in inputs.items()}
        spec, also = Spec(about.name, signature=signatures[0]), signatures[1:]
        # Part by part: others are answered meanwhile, and no batch is too small for a request.
        try:
            answered, outputs = await self._core.predict(spec, arrays, deadline=deadline, also=also,
                                                         at_once=_PART)
        except ServingError as problem:
            if problem.code in MISFITS:
                newest, _ = self._core.metadata(Spec(about.name))
                if newest.version != about.version:
                    raise OutdatedError from problem  # it lacks what the version before had
            raise
        if answered.version != about.version:
            raise OutdatedError
        return outputs

    def count(self, name, api, status, seconds):
        """See `Backend`."""
        self._core.count(name, api, "REST", status, seconds)


def _bytes(texts):
    array = np.empty(len(texts), object)
    encoded = {text: text.encode() for text in set(texts)}  # a query is there once for each text
    array[:] = [encoded[text] for text in texts]
    return array
