"""Messages of gRPC to tensors and examples, and what they may hold."""

import pytest
import tensorflow as tf
from server_harness import predict_request
from tensorflow_serving.apis import inference_pb2, regression_pb2

from bert_tf.serving.wire import grpc_messages
from bert_tf.serving.wire.request import Limits, ServingError, Spec

LIMITS = Limits(rows=4, body_bytes=1 << 20, text_bytes=30_000)


def refusal(function, *arguments):
    with pytest.raises(ServingError) as refused:
        function(*arguments)
    return refused.value.code, refused.value.message


def message(texts):
    return predict_request("m", text=texts).SerializeToString()


def test_predict_messages():
    request = predict_request("m", text=["a"])
    request.output_filter.append("x")
    request.model_spec.version_label = ""
    data = request.SerializeToString()
    spec, _, outputs = grpc_messages.read_predict(data, LIMITS)
    assert spec == Spec("m", label="") == grpc_messages.first_spec(data) and outputs == ("x",)
    assert "5 rows; expected at most 4" in refusal(
        grpc_messages.read_predict, message(["a"] * 5), LIMITS)[1]
    assert grpc_messages.read_predict(message(["b" * 30_000]), LIMITS)[1]["text"].size == 1
    assert refusal(grpc_messages.read_predict, message(["a", "b" * 30_001]), LIMITS)[1] == (
        "input text holds a text of 30001 bytes; expected at most 30000")
    for damaged in (b"\xff", data[:-1], b"\x0a\xff\xff\xff\xff\xff"):
        assert refusal(grpc_messages.read_predict, damaged, LIMITS) == (
            "INVALID_ARGUMENT", "the request is damaged")
    assert grpc_messages.first_spec(b"") is None
    assert grpc_messages.first_spec(b"\x0a\xff\xff\xff\xff\xff") is None
    assert grpc_messages.first_spec(b"\x12\x00") is None


def test_examples_are_their_bytes():
    def example(text):
        feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))
        return tf.train.Example(features=tf.train.Features(feature={"text": feature}))

    made = regression_pb2.RegressionRequest()
    made.model_spec.name = "m"
    given = made.input.example_list_with_context
    given.context.CopyFrom(example(b"context"))
    given.examples.extend([example(b"a"), tf.train.Example()])
    spec, examples = grpc_messages.read_examples(made.SerializeToString(), LIMITS)
    values = [tf.train.Example.FromString(one).features.feature["text"].bytes_list.value
              for one in examples]
    assert spec == Spec("m") and values == [[b"a"], [b"context"]]
    given.examples.extend([tf.train.Example()] * 3)
    assert "5 rows" in refusal(grpc_messages.read_examples, made.SerializeToString(), LIMITS)[1]

    made = regression_pb2.RegressionRequest()
    made.input.example_list.examples.extend([example(b"a" * 30_000)])
    assert "expected at most 30000" in refusal(
        grpc_messages.read_examples, made.SerializeToString(), LIMITS)[1]

    made = regression_pb2.RegressionRequest()
    given = made.input.example_list_with_context
    given.context.CopyFrom(example(b"a" * (LIMITS.body_bytes // 3)))
    given.examples.extend([tf.train.Example()] * 4)
    assert "before every example makes 139" in refusal(
        grpc_messages.read_examples, made.SerializeToString(), LIMITS)[1]

    made = inference_pb2.MultiInferenceRequest()
    made.input.example_list.examples.add()
    made.tasks.add(method_name="x").model_spec.name = "m"
    assert grpc_messages.read_tasks(made.SerializeToString(), LIMITS) == (
        Spec("m"), [(Spec("m"), "x")], [b""])
    assert refusal(grpc_messages.read_tasks, b"", LIMITS)[1] == "the request has no examples"
