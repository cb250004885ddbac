"""The wire messages against tensorflow-serving-api, tensors against TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import any_pb2
from tensorflow.core.example import example_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    regression_pb2,
)

from bert_tf.errors import BertTfError, UsageError
from bert_tf.serving.wire import protocol, tensor_proto

REAL = {
    protocol.PredictRequest: predict_pb2.PredictRequest,
    protocol.ExampleRequest: regression_pb2.RegressionRequest,
    protocol.MultiInferenceRequest: inference_pb2.MultiInferenceRequest,
    protocol.Example: example_pb2.Example,
    protocol.PredictResponse: predict_pb2.PredictResponse,
    protocol.GetModelMetadataRequest: get_model_metadata_pb2.GetModelMetadataRequest,
    protocol.GetModelMetadataResponse: get_model_metadata_pb2.GetModelMetadataResponse,
    protocol.SignatureDefMap: get_model_metadata_pb2.SignatureDefMap,
    protocol.GetModelStatusRequest: get_model_status_pb2.GetModelStatusRequest,
    protocol.GetModelStatusResponse: get_model_status_pb2.GetModelStatusResponse,
}


def _assert_same_fields(ours, real, seen):
    """Every field of ours is one of the real message: number, type, repetition, choice."""
    if ours.full_name in seen:
        return
    seen.add(ours.full_name)
    for field in ours.fields:
        other = real.fields_by_name[field.name]
        where = f"{real.full_name}.{field.name}"
        # An example is left as its bytes, which are the same on the wire.
        kind = field.TYPE_BYTES if where.partition(".ExampleList")[2] else other.type
        assert (field.number, field.type, field.is_repeated, field.is_packed) == (
            other.number, kind, other.is_repeated, other.is_packed), where
        # Of a oneof all fields of ours are in it, or one alone is known.
        if field.containing_oneof:
            assert field.containing_oneof.name == other.containing_oneof.name, where
        elif other.containing_oneof:
            assert sum(each.name in ours.fields_by_name
                       for each in other.containing_oneof.fields) == 1, where
        if field.message_type:
            assert (field.message_type.GetOptions().map_entry
                    == other.message_type.GetOptions().map_entry), where
            _assert_same_fields(field.message_type, other.message_type, seen)
        if field.enum_type:
            known = {value.name: value.number for value in other.enum_type.values}
            assert all(known[value.name] == value.number
                       for value in field.enum_type.values), where


def test_fields_are_those_of_tf_serving():
    seen = set()
    for ours, real in REAL.items():
        _assert_same_fields(ours.DESCRIPTOR, real.DESCRIPTOR, seen)
    assert seen >= {f"tensorflow.{name}" for name in protocol._MESSAGES} - {"tensorflow.Any"}


def test_a_request_is_the_same_bytes():
    requests = []
    for classes in (protocol.PredictRequest, predict_pb2.PredictRequest):
        request = classes(output_filter=["a", "b"])
        request.model_spec.name = "모델"
        request.model_spec.version.value = 3
        request.model_spec.signature_name = "fill_mask"
        requests.append(request)
    texts = np.array([["a", "네"]], object)
    requests[0].inputs["text"].CopyFrom(protocol.to_tensor(texts))
    requests[1].inputs["text"].CopyFrom(tf.make_tensor_proto(texts))
    ours, real = (request.SerializeToString(deterministic=True) for request in requests)
    assert ours == real


def test_metadata_and_status_are_read():
    signatures = get_model_metadata_pb2.SignatureDefMap()
    signature = signatures.signature_def["embed"]
    signature.inputs["text"].CopyFrom(meta_graph_pb2.TensorInfo(
        name="text:0", dtype=7, tensor_shape=tf.TensorShape([None]).as_proto()))
    real = get_model_metadata_pb2.GetModelMetadataResponse()
    packed = any_pb2.Any()
    packed.Pack(signatures)
    real.metadata["signature_def"].CopyFrom(packed)
    ours = protocol.GetModelMetadataResponse.FromString(real.SerializeToString())
    read = protocol.SignatureDefMap.FromString(ours.metadata["signature_def"].value)
    text = read.signature_def["embed"].inputs["text"]
    assert (protocol.dtype_name(text.dtype), text.tensor_shape.dim[0].size) == ("DT_STRING", -1)

    real = get_model_status_pb2.GetModelStatusResponse()
    real.model_version_status.add(version=7, state=30)
    status = protocol.GetModelStatusResponse.FromString(real.SerializeToString())
    assert status.model_version_status[0].version == 7


VALUES = [np.float32([[1.5, -2]]), np.float64([np.pi]), np.int32([[1], [-2]]), np.int64([2**40]),
          np.uint8([255]), np.uint16([65535]), np.uint32([2**31]), np.uint64([2**63]),
          np.int8([-1]), np.int16([-300]), np.array([True, False]), np.float16([0.1, 65504]),
          np.array([[b"\xff\x00", "한"]], object), np.zeros([2, 0, 3], np.float32), np.float32(3)]


@pytest.mark.parametrize("array", VALUES, ids=lambda array: f"{array.dtype}{array.shape}")
def test_tensors_are_tensorflows(array):
    tensor = protocol.to_tensor(array)
    real = tf.make_tensor_proto(array)
    theirs = tf.make_ndarray(type(real).FromString(tensor.SerializeToString()))
    expected = tf.make_ndarray(real)
    assert theirs.dtype == expected.dtype
    np.testing.assert_array_equal(theirs, expected)
    # What TensorFlow writes, which lists a single number in place of its bytes.
    ours = protocol.from_tensor(protocol.TensorProto.FromString(real.SerializeToString()))
    assert ours.shape == array.shape
    assert ours.dtype == (np.float32 if array.dtype == np.float16 else expected.dtype)
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("listed", [True, False])
def test_bfloat16_is_read_as_float32(listed):
    values = tf.constant([1.5, -3.140625, 1e30], tf.bfloat16)
    real = tf.make_tensor_proto(values)
    if listed:
        real.half_val.extend(np.frombuffer(real.tensor_content, np.uint16).tolist())
        real.tensor_content = b""
    ours = protocol.from_tensor(protocol.TensorProto.FromString(real.SerializeToString()))
    np.testing.assert_array_equal(ours, tf.cast(values, tf.float32).numpy())


def test_the_last_value_stands_for_the_rest():
    for values in ([7.0, 8.0], []):
        real = tf.make_tensor_proto(np.zeros(1, np.float32))
        del real.float_val[:]
        real.tensor_shape.dim[0].size = 4
        real.tensor_content = b""
        real.float_val.extend(values)
        ours = protocol.from_tensor(protocol.TensorProto.FromString(real.SerializeToString()))
        np.testing.assert_array_equal(ours, tf.make_ndarray(real))


def test_texts_in_tensor_content():
    """Where servers put them with --enable_serialization_as_tensor_content."""
    texts = np.array([[b"\xff\x00", b""], ["한".encode() * 100, b"a"]], object)
    tensor = protocol.TensorProto()
    tensor_proto.write(texts, tensor, as_content=True)
    theirs = tf.io.parse_tensor(tensor.SerializeToString(), tf.string).numpy()
    for read in (theirs, protocol.from_tensor(tensor)):
        np.testing.assert_array_equal(read, texts)
    tensor.tensor_content = tensor.tensor_content[:-1]
    with pytest.raises(BertTfError, match=r"shape \[2, 2\]: the strings are not as long"):
        protocol.from_tensor(tensor)


def test_damaged_tensors_are_refused():
    tensor = protocol.to_tensor(np.float32([1, 2]))
    tensor.tensor_content = tensor.tensor_content[:-1]
    with pytest.raises(BertTfError, match=r"shape \[2\] with 7 bytes"):
        protocol.from_tensor(tensor)
    tensor = protocol.to_tensor(np.array(["a", "b"], object))
    tensor.tensor_shape.dim[0].size = -1
    with pytest.raises(BertTfError, match="negative"):
        protocol.from_tensor(tensor)
    tensor.dtype = 8
    with pytest.raises(BertTfError, match="DT_<8>"):
        protocol.from_tensor(tensor)


def test_values_become_arrays_of_the_type_asked_for():
    assert protocol.as_array([1, 2], "DT_INT32").dtype == np.int32
    assert protocol.as_array([[1, 2.5]], "DT_FLOAT").dtype == np.float32
    assert protocol.as_array(["a", b"b"], "DT_STRING").tolist() == ["a", b"b"]
    for values, dtype in (([1.5], "DT_INT32"), ([2**40], "DT_INT32"), ([[1], [2, 3]], "DT_INT32"),
                          (["a"], "DT_FLOAT"), ([1], "DT_STRING"), ([1], "DT_RESOURCE")):
        with pytest.raises(UsageError):
            protocol.as_array(values, dtype)
    with pytest.raises(UsageError, match="half a surrogate pair"):
        protocol.to_tensor(np.array(["a\ud800"], object))
