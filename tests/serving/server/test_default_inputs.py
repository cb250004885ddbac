"""Inputs that a signature has defaults for: gRPC may leave them out, JSON may not."""

import httpx
import pytest
import tensorflow as tf
from server_harness import PATIENCE, arrays, refused
from small_model import BATCHING


def save_with_defaults(base_path, batching=""):
    """A version whose factor is 2 and whose word is "y", unless a request says otherwise."""
    def specs(rank):
        return [tf.TensorSpec([None], tf.int32, "x"),
                tf.TensorSpec([None] * rank, tf.int32, "factor"),
                tf.TensorSpec([None] * rank, tf.string, "word")]

    def repeat(x, factor, word):
        return {"product": x * factor, "word": tf.broadcast_to(word, tf.shape(x))}

    factors, words = (tf.constant(2), tf.constant([2])), (tf.constant("y"), tf.constant(["y"]))

    @tf.function(input_signature=specs(0))
    def one(x, factor=factors[0], word=words[0]):
        return repeat(x, factor, word)

    @tf.function(input_signature=specs(1))
    def rows(x, factor=factors[1], word=words[1]):
        return repeat(x, factor, word)

    module = tf.Module()
    module.functions = [one, rows]
    tf.saved_model.save(module, f"{base_path}/1", {"serving_default": one, "rows": rows})
    if batching:
        with open(f"{base_path}/1/batching_params.pbtxt", "w") as stream:
            stream.write(batching)


@pytest.fixture(scope="module")
def served(shared_models):
    """`(server, name of a model that runs requests alone, of one that merges them)`."""
    before = type(shared_models.config)()
    before.CopyFrom(shared_models.config)
    alone = shared_models.add(save=save_with_defaults)
    merging = shared_models.add(save=save_with_defaults, batching=BATCHING)
    names = alone.name, merging.name
    shared_models.reload()
    yield shared_models.server, *names
    shared_models.config.CopyFrom(before)
    shared_models.reload()


@pytest.mark.parametrize("given, product, word", [
    ({}, [6, 10], b"y"), ({"factor": 3}, [9, 15], b"y"), ({"word": "z"}, [6, 10], b"z"),
    ({"factor": 3, "word": "z"}, [9, 15], b"z")])
def test_what_a_request_leaves_out_has_the_signature_s_value(served, given, product, word):
    server, alone, _ = served
    outputs = arrays(server.predict(alone, x=[3, 5], **given))
    assert (outputs["product"].tolist(), outputs["word"].tolist()) == (product, [word] * 2)


def test_defaults_are_merged_as_what_is_given(served):
    server, _, merging = served
    assert arrays(server.predict(merging, "rows", x=[3]))["product"].tolist() == [6]
    with refused("INVALID_ARGUMENT"):  # a default of one row, and two rows
        server.predict(merging, "rows", x=[3, 5])
    with refused("INVALID_ARGUMENT"):  # no row at all
        server.predict(merging, x=[3])


@pytest.mark.parametrize("given", [
    {}, {"factor": 3}, {"factor": 3, "word": "z"}, {"x": [3], "more": 1},
    {"x": [3], "factor": 3, "word": "z", "more": 1}])
def test_inputs_without_defaults_and_names_that_are_none(served, given):
    server, alone, _ = served
    with refused("INVALID_ARGUMENT", "factor.*word|word.*factor"):
        server.predict(alone, **given)
    with refused("INVALID_ARGUMENT"):
        server.predict(alone, x=[3], factor="z")


def test_json_names_all_inputs(served):
    server, alone, _ = served
    for body, status in (({"inputs": {"x": [3], "factor": 3, "word": "z"}}, 200),
                         ({"inputs": {"x": [3], "factor": 3}}, 400),
                         ({"inputs": [3]}, 400), ({"instances": [{"x": 3, "factor": 3}]}, 400)):
        answer = httpx.post(f"{server.rest}/v1/models/{alone}:predict", json=body,
                            timeout=PATIENCE)
        assert answer.status_code == status, answer.text
