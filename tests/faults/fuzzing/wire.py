"""What a server and a client read from the network, called without one."""

import asyncio
import dataclasses
import json
import zlib

from fuzzing.target import Bytes, Target, changed, json_seeds, write

_INPUTS = ({"text": "string"}, {"ids": "int32", "mask": "int64"}, {"x": "float32"},
           {"y": "float64"}, {"u": "uint64", "v": "uint8"}, {"flag": "bool"}, {"h": "half"})
BODIES = ({"instances": ["a", "b"]}, {"inputs": {"ids": [[1, 2]], "mask": [[1, 1]]}},
          {"signature_name": "s", "instances": [{"ids": [1], "mask": [2]}]},
          {"inputs": [1.5, -2, 3]}, {"instances": [{"b64": "YWI="}]}, {"inputs": [[True]]})
EXAMPLES = ({"examples": [{"text": "a", "bonus": 1.5, "n": [1, 2]}, {}],
             "context": {"c": {"b64": "YQ=="}}},)
_RAW = (b'{"instances": [NaN, Infinity, -Inf, 1e999]}', b'{"inputs": "\xff\\ud800"}',
        b'{"instances": [' + b"[" * 2000, b'{"inputs": 123456789012345678901234567890}')


def _signatures():
    import tensorflow as tf
    from tensorflow.core.protobuf import meta_graph_pb2

    signatures = []
    for types in _INPUTS:
        signatures.append(meta_graph_pb2.SignatureDef())
        for name, dtype in types.items():
            signatures[-1].inputs[name].dtype = tf.as_dtype(dtype).as_datatype_enum
            signatures[-1].outputs[name].dtype = tf.as_dtype(dtype).as_datatype_enum
    return signatures


def request_body(documents, data):
    """A body: bytes, or as the first byte says a document with changes."""
    kind = data.byte() % (len(documents) + 1)
    if kind == len(documents):
        return data.rest
    return json.dumps(changed(documents[kind], data)).encode("utf-8", "surrogatepass")


def _rest_json():
    """What is read is written, and read again as the same."""
    import numpy as np

    from bert_tf.serving.wire import rest_json, rest_text

    signatures = _signatures()

    def check(data):
        data = Bytes(data)
        types = {name: info.dtype for name, info in data.pick(signatures).inputs.items()}
        document = rest_text.parse(request_body(BODIES, data))
        inputs, row_form = rest_json.tensors_of(document, types)
        assert all(value.dtype == object or value.dtype.kind in "iufb" for value in inputs.values())
        if not inputs or any(not value.size for value in inputs.values()):
            return
        answer = json.loads(rest_json.write_predict(inputs, False).decode(
            "utf-8", "surrogateescape"))["outputs"]
        again, _ = rest_json.tensors_of({"inputs": answer}, types)
        for name, value in inputs.items():
            # Bytes that are no UTF-8 come back as themselves.
            np.testing.assert_array_equal(again[name], value)

    return check


def _rest_examples():
    import tensorflow as tf

    from bert_tf.serving.wire import rest_examples, rest_text
    from bert_tf.serving.wire.request import Limits

    def check(data):
        document = rest_text.parse(request_body(EXAMPLES, Bytes(data)))
        for example in rest_examples.examples_of(document, Limits(4096, 4096, 1024)):
            tf.train.Example.FromString(example)

    return check


class Core:
    """Models that answer what they are asked."""

    def __init__(self):
        self.signatures = {"serving_default": _signatures()[0], "s": _signatures()[1]}

    async def decode(self, function, data, *arguments, deadline=None):
        from bert_tf.serving.wire.request import Limits

        return function(data, *arguments, Limits(4096, 4096, 1024))

    def check(self, spec):
        self.metadata(spec)

    def input_types(self, spec):
        return {name: {alias: info.dtype for alias, info in signature.inputs.items()}
                for name, signature in self.signatures.items()}

    async def predict(self, spec, inputs, outputs=(), deadline=None):
        return dataclasses.replace(spec, version=1), inputs

    async def classify(self, spec, examples, deadline=None):
        return dataclasses.replace(spec, version=1), [[("a", 0.5)] for _ in examples]

    async def regress(self, spec, examples, deadline=None):
        return dataclasses.replace(spec, version=1), [0.5 for _ in examples]

    async def multi_inference(self, tasks, examples, deadline=None):
        return [("regress", dataclasses.replace(spec, version=1), [0.5]) for spec, _ in tasks]

    async def reload(self, config):
        from bert_tf.serving.server import wanted_versions

        wanted_versions.checked_configs(config)

    def metadata(self, spec):
        from bert_tf.serving.wire.messages import error

        if spec.name != "m":
            raise error("not_found", request=f"{spec.name}")
        return dataclasses.replace(spec, version=1), self.signatures

    def status(self, name, version=None, label=None):
        from bert_tf.serving.wire.messages import error

        raise error("no_versions", name=name)

    def models(self):
        return ["m"]

    def count(self, *facts):
        assert len(facts) == 5


def _rest():
    """Whole requests: any path, query, headers and body get a JSON answer that is no 500."""
    from bert_tf.serving.server.rest_server import RestApi, RestSettings

    async def beyond(scope, receive, send):
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    api = RestApi(beyond, Core(), RestSettings(max_body_bytes=4096))
    paths = (b"/v1/models/m:predict", b"/v1/models/m:classify", b"/v1/models/m/versions/1:regress",
             b"/v1/models/m/metadata", b"/v1/models/m", b"/v1/models", b"/V1/Models/%6D:Predict",
             b"/v1/models/m/labels/%ff:predict", b"/v1/models/m/versions/99999999999999999999")
    headers = ([], [(b"content-encoding", b"gzip")], [(b"content-length", b"99999999999999999999")],
               [(b"origin", b"http://a")], [(b"content-length", b"x")])
    loop = asyncio.new_event_loop()

    def check(data):
        data = Bytes(data)
        path = data.pick((*paths, None))
        if path is None:
            size = data.byte() % 64
            path, data.rest = b"/v1/" + data.rest[:size], data.rest[size:]
        given = data.pick(headers)
        scope = {"type": "http", "method": data.pick(("POST", "GET", "OPTIONS", "PUT")),
                 "path": path.decode("latin-1"), "raw_path": path, "headers": given,
                 "query_string": data.pick((b"", b"a=\xff"))}
        body = request_body((*BODIES, *EXAMPLES), data)
        if given == headers[1] and data.byte() % 2 == 0:
            pack = zlib.compressobj(wbits=31)
            body = pack.compress(body) + pack.flush()
        parts = [{"type": "http.request", "body": body[:7], "more_body": True},
                 {"type": "http.request", "body": body[7:], "more_body": False}]
        sent = []

        async def receive():
            return parts.pop(0)

        async def send(message):
            sent.append(message)

        loop.run_until_complete(api(scope, receive, send))
        start, answer = sent
        assert start["status"] in (200, 400, 404, 413, 501), (start, answer)
        if start["status"] != 200:
            assert set(json.loads(answer["body"].decode("utf-8", "surrogateescape"))) <= {"error"}

    return check


def _tensors():
    """`TensorProto`s read as TensorFlow reads them, or refused."""
    import numpy as np
    import tensorflow as tf
    from google.protobuf.message import DecodeError
    from tensorflow_serving.apis import predict_pb2

    from bert_tf.errors import BertTfError
    from bert_tf.serving.wire import protocol, tensor_proto

    def check(data):
        try:
            request = predict_pb2.PredictRequest.FromString(data)
        except DecodeError as error:
            raise BertTfError(str(error)) from error
        for name, value in tensor_proto.read_all(request.inputs).items():
            given = request.inputs[name]
            if value.size < 10_000 and not (given.dtype == tf.string and given.tensor_content):
                expected = tf.make_ndarray(given)
                if given.dtype == tf.string:  # where a value is left out this gives str
                    expected = np.where(expected == "", b"", expected)
                assert value.shape == expected.shape
                np.testing.assert_array_equal(value, expected)
                written = type(given)()
                tensor_proto.write(value, written)
                np.testing.assert_array_equal(tensor_proto.read_all({"x": written})["x"], value)
            if value.dtype.name in ("float32", "int32", "int64", "bool", "object") and (
                    value.size < 10_000):
                client = protocol.TensorProto.FromString(given.SerializeToString())
                np.testing.assert_array_equal(protocol.from_tensor(client), value)

    return check


def _client():
    """Answers of a server that lies."""
    import httpx

    from bert_tf.serving.client.address import Address
    from bert_tf.serving.client.grpc_wire import GrpcWire
    from bert_tf.serving.client.rest_wire import RestWire
    from bert_tf.serving.wire import protocol
    from bert_tf.serving.wire.request import Spec

    address = Address.parse("http://localhost:1")
    rest = RestWire(address, Spec("m"))
    grpc_wire = GrpcWire(Address.parse("localhost:1"), Spec("m"))
    signatures = [protocol.SignatureDefMap.FromString(_signature_map(signature)).signature_def["s"]
                  for signature in _signatures()[:4]]
    documents = ({"outputs": [["a"]]}, {"outputs": {"ids": [[1]], "mask": [[2]]}},
                 {"model_spec": {"version": "1"}, "metadata": {"signature_def": {
                     "signature_def": {"s": {"inputs": {"x": {"dtype": "DT_FLOAT"}}}}}}},
                 {"model_version_status": [{"version": "1", "state": "AVAILABLE"}]},
                 {"error": "no"})

    def check(data):
        data = Bytes(data)
        kind, signature = data.byte() % 6, data.pick(signatures)
        if kind < 3:
            answer = httpx.Response(data.pick((200, 400, 503, 404)),
                                    content=request_body(documents, data))
            request = (rest.predict("s", signature, {}), rest.metadata(), rest.status())[kind]
        else:
            answer = data.rest
            request = (grpc_wire.predict("s", signature, {}), grpc_wire.metadata(),
                       grpc_wire.status())[kind - 3]
        request.read(answer)

    return check


def _signature_map(signature):
    from tensorflow_serving.apis import get_model_metadata_pb2

    found = get_model_metadata_pb2.SignatureDefMap()
    found.signature_def["s"].CopyFrom(signature)
    return found.SerializeToString()


def _text_protos():
    from bert_tf.serving.server import text_protos
    from bert_tf.serving.server.batching import read_batching

    names = ("ModelServerConfig", "BatchingParameters", "MonitoringConfig", "SSLConfig")

    def check(data):
        data = Bytes(data)
        name = data.pick(names)
        path = write("text.config", data.rest)
        text_protos.read(path, name)
        if name == "BatchingParameters":
            read_batching(path)

    return check


def _served_models():
    from google.protobuf.message import DecodeError
    from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

    from bert_tf.errors import BertTfError
    from bert_tf.serving.server import wanted_versions

    def check(data):
        try:
            wanted = ModelServerConfig.FromString(data)
        except DecodeError as error:
            raise BertTfError(str(error)) from error
        wanted_versions.checked_configs(wanted)

    return check


def _addresses():
    from bert_tf.serving.client.address import Address

    def check(data):
        address = Address.parse(data.decode("utf-8", "replace"))
        assert address.host and 0 <= address.port < 65536

    return check


def request_seeds():
    import numpy as np
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    seeds = []
    for values in (["a", "bc"], [[1, 2]], [1.5], np.array([1], np.float16), [True], [2**40],
                   np.zeros((2, 0), np.int32), np.array([1, 2], np.uint8)):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "m"
        request.inputs["x"].CopyFrom(tf.make_tensor_proto(values))
        seeds.append(request.SerializeToString())
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(1.0, shape=[3, 4]))
    return (*seeds, request.SerializeToString())


def refused_by():
    from bert_tf.errors import BertTfError
    from bert_tf.serving.wire.request import ServingError

    return BertTfError, ServingError


_PROTOS = (b'\0model_config_list { config { name: "m" base_path: "/m" } }',
           b"\1max_batch_size { value: 8 } allowed_batch_sizes: 8",
           b'\2prometheus_config { enable: true path: "/metrics" }', b'\3server_key: "a"')
TARGETS = (
    Target("rest_json", _rest_json, (*(bytes([signature]) + seed for signature in range(7)
                                       for seed in json_seeds(BODIES)),
                                     *(b"\0" + bytes([len(BODIES)]) + raw for raw in _RAW)),
           500_000, refused=refused_by()),
    Target("rest_examples", _rest_examples, json_seeds(EXAMPLES), 300_000, refused=refused_by()),
    Target("rest", _rest, tuple(bytes([path, header, method, 0]) + seed for path in range(10)
                                for header in range(3) for method in range(2)
                                for seed in json_seeds(BODIES)[:3]), 300_000, refused=refused_by()),
    Target("tensors", _tensors, request_seeds, 350_000, refused=refused_by()),
    Target("client", _client, lambda: (*(bytes([kind, 0, 0]) + seed for kind in range(3)
                                         for seed in json_seeds(BODIES)[:6]),
                                       *(bytes([kind, 0]) + seed for kind in range(3, 6)
                                         for seed in request_seeds())),
           300_000, refused=refused_by()),
    Target("text_protos", _text_protos, _PROTOS, 250_000, refused=refused_by()),
    Target("served_models", _served_models, (b"\n\x0b\n\t\n\x01m\x12\x02/m\"\0",), 200_000,
           refused=refused_by()),
    Target("addresses", _addresses, (b"localhost:8500", b"https://[::1]:1", b"http://a@b:1"),
           200_000, refused=refused_by()),
)
