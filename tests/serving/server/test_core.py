"""A request that runs in parts, and versions that come meanwhile; see `Core.predict`."""

import asyncio

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from small_model import save_small
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from bert_tf.serving.server.batching import Batching
from bert_tf.serving.server.config import Settings, parser
from bert_tf.serving.server.core import Core, _joined
from bert_tf.serving.wire.request import Spec


def models_in(folder):
    return text_format.Parse(f"""
        model_config_list {{ config {{
          name: "small" base_path: "{folder}" model_platform: "tensorflow"
          model_version_policy {{ all {{ }} }} }} }}""", ModelServerConfig())


def test_all_parts_of_a_request_are_answered_by_one_version(tmp_path, monkeypatch):
    for number in (1, 2):
        save_small(tmp_path, number, factor=number)
    models = models_in(tmp_path)
    texts = {"text": np.array([b"x"] * 5, object)}

    async def ask():
        core = Core(Settings(parser("").parse_args([]), models))
        try:
            await core.reload(models)
            versions = core._models.by_name["small"].versions
            while any(version.state != "AVAILABLE" for version in versions.values()):
                await asyncio.sleep(0.01)
            newest = versions[2]
            newest.state = "LOADING"
            run, sizes = core._batcher.run, []

            async def run_and_switch(signature, inputs, *arguments):
                sizes.append(len(inputs["text"]))
                answer = await run(signature, inputs, *arguments)
                newest.state = "AVAILABLE"
                return answer

            monkeypatch.setattr(core._batcher, "run", run_and_switch)
            answers = [await core.predict(Spec("small"), texts, ("score",), at_once=2)
                       for _ in range(2)]
            answers.append(await core.predict(Spec("small"), {"text": texts["text"][:0]},
                                              at_once=2))
            return sizes, [(spec.version, answer["score"].tolist()) for spec, answer in answers]
        finally:
            await core.close()

    sizes, answers = asyncio.run(ask())
    assert answers == [(1, [1.0] * 5), (2, [2.0] * 5), (2, [])]
    assert sizes == [2, 2, 1, 2, 2, 1, 0]


def test_parts_are_those_that_the_batcher_does_not_divide(tmp_path):
    """It joins outputs of one width alone."""
    module, models = tf.Module(), models_in(tmp_path)
    module.words = tf.function(lambda text: {"words": tf.strings.split(text).to_tensor()},
                               input_signature=[tf.TensorSpec([None], tf.string, "text")])
    tf.saved_model.save(module, str(tmp_path / "1"), signatures=module.words)

    async def ask():
        core = Core(Settings(parser("").parse_args([]), models, Batching(
            max_batch_size=4, split=True, execution_size=2)))
        try:
            await core.reload(models)
            return await core.predict(
                Spec("small"), {"text": np.array([b"a", b"b", b"c d"], object)}, at_once=128)
        finally:
            await core.close()

    _, answer = asyncio.run(ask())
    assert answer["words"].tolist() == [[b"a", b""], [b"b", b""], [b"c", b"d"]]


def test_parts_that_differ_in_width_are_padded():
    """As a graph pads what is as wide as its longest row: the terms of texts and their weights."""
    whole = _joined([np.array([[b"a", b"b"]], object), np.array([[b"c"], [b"d"]], object)])
    assert whole.tolist() == [[b"a", b"b"], [b"c", b""], [b"d", b""]]
    parts = [np.ones([2, 1, 4], np.float32), np.ones([1, 3, 4], np.float32)]
    padded = _joined(parts)
    assert padded.shape == (3, 3, 4) and padded.dtype == np.float32
    assert padded.sum((1, 2)).tolist() == [4, 4, 12]
    assert _joined([np.arange(2), np.arange(3)]).tolist() == [0, 1, 0, 1, 2]
