"""What the protocols of other servers are told of models that change."""

import asyncio
import types

import pytest

from bert_tf.serving.apis.backend import About, OutdatedError
from bert_tf.serving.server.core_backend import CoreBackend
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError, Spec


@pytest.mark.parametrize(("version", "refusal", "told"), [
    (2, "no_signature", OutdatedError), (2, "inputs", OutdatedError),
    (1, "no_signature", ServingError), (2, "deadline", ServingError),
    (None, "deadline", ServingError)])
def test_a_version_without_what_the_one_before_had(version, refusal, told):
    """It comes between what is known of a model and the request to it, which is tried anew."""
    problem = error(refusal, signature="count_tokens", given="text", wanted="text_a text_b")

    async def predict(*_, **__):
        raise problem

    def metadata(spec):
        if version is None:  # it was unloaded meanwhile, which is not what the request failed of
            raise error("not_found", request=f"Latest({spec.name})")
        return Spec(spec.name, version), {}

    core = types.SimpleNamespace(predict=predict, decode=None, metadata=metadata)
    with pytest.raises(told) as raised:
        asyncio.run(CoreBackend(core).run(About("m", 1, {}, {}), ("count_tokens",),
                                          {"text": ["a"]}, None))
    assert told is OutdatedError or raised.value is problem
