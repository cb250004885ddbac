"""A server whose one model does what a test says, over gRPC and REST; nothing of ours is in it."""

import contextlib
import functools
import http.server
import json
import ssl
import threading
from concurrent import futures

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

MODEL = "m"


class Refusal(Exception):
    """`Refusal(grpc.StatusCode, http status, text)`: what the server answers with."""


def numbers(signature, inputs):
    """Vectors that tell which text they are of: a text must be a number."""
    return {"embedding": np.float32([[float(text), 1] for text in inputs["text"]])}


_USED = set()  # ports of gRPC


class ScriptedServer:
    """Serves `MODEL`.

    Attributes:
        answer: function of a signature's name and its inputs, arrays (strings as bytes), that
            gives its outputs or raises a `Refusal`; called by many threads.
        signatures: `{name: (inputs, outputs)}`, both `{name: (tf.DType, shape)}`.
        requests: number of Predict requests so far.
        version: of the model.
    """

    def __init__(self, answer=numbers, signatures=None):
        self.answer = answer
        self.signatures = signatures or {
            "embed": ({"text": (tf.string, [None])}, {"embedding": (tf.float32, [None, 2])})}
        self.requests = 0
        self.version = 3
        self._lock = threading.Lock()

    def predict(self, signature, inputs):
        with self._lock:
            self.requests += 1
        return self.answer(signature, inputs)

    def signature_defs(self):
        found = get_model_metadata_pb2.SignatureDefMap()
        for name, sides in self.signatures.items():
            for side, tensors in zip(("inputs", "outputs"), sides, strict=True):
                for key, (dtype, shape) in tensors.items():
                    getattr(found.signature_def[name], side)[key].CopyFrom(
                        meta_graph_pb2.TensorInfo(name=f"{key}:0", dtype=dtype.as_datatype_enum,
                                                  tensor_shape=tf.TensorShape(shape).as_proto()))
        return found

    @contextlib.contextmanager
    def running(self, protocol, tls=None):
        """The address, while the server runs.

        Args:
            protocol: `grpc` or `rest`.
            tls: paths of a PEM key and certificate.
        """
        if protocol == "rest":
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _rest_handler(self))
            if tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(tls[1], tls[0])
                server.socket = context.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            try:
                yield f"{'https' if tls else 'http'}://localhost:{server.server_port}"
            finally:
                server.shutdown()
                server.server_close()
                thread.join()
            return
        server = grpc.server(futures.ThreadPoolExecutor(16))
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(_Prediction(self),
                                                                            server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(_Status(), server)
        if tls:
            key, certificate = (path.read_bytes() for path in tls)
            credentials = grpc.ssl_server_credentials([(key, certificate)])
            add_port = functools.partial(server.add_secure_port, "localhost:0", credentials)
        else:
            add_port = functools.partial(server.add_insecure_port, "127.0.0.1:0")
        # Clients of this process share the connection to an address, also one that is being closed.
        while (port := add_port()) in _USED:
            pass
        _USED.add(port)
        server.start()
        try:
            yield f"localhost:{port}"
        finally:
            server.stop(None).wait()


class _Prediction(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, scripted):
        self._scripted = scripted

    def Predict(self, request, context):  # noqa: N802
        inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
        try:
            outputs = self._scripted.predict(request.model_spec.signature_name, inputs)
        except Refusal as refusal:
            code, _, text = refusal.args
            context.abort(code, text)
        response = predict_pb2.PredictResponse(
            outputs={name: tf.make_tensor_proto(array) for name, array in outputs.items()})
        response.model_spec.version.value = self._scripted.version
        return response

    def GetModelMetadata(self, request, context):  # noqa: N802
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.version.value = self._scripted.version
        response.metadata["signature_def"].Pack(self._scripted.signature_defs())
        return response


class _Status(model_service_pb2_grpc.ModelServiceServicer):
    def GetModelStatus(self, request, context):  # noqa: N802
        response = get_model_status_pb2.GetModelStatusResponse()
        version = response.model_version_status.add(version=3, state=30)
        version.status.error_message = ""
        return response


def _rest_handler(scripted):
    from google.protobuf import json_format

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):  # noqa: N802
            if self.path.endswith("/metadata"):
                told = json_format.MessageToDict(scripted.signature_defs(),
                                                 preserving_proto_field_name=True,
                                                 always_print_fields_with_no_presence=True)
                body = {"model_spec": {"name": MODEL, "signature_name": "",
                                       "version": str(scripted.version)},
                        "metadata": {"signature_def": told}}
            else:
                body = {"model_version_status": [{
                    "version": "3", "state": "AVAILABLE",
                    "status": {"error_code": "OK", "error_message": ""}}]}
            self._send(200, body)

        def do_POST(self):  # noqa: N802
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            inputs = {name: np.array([value.encode() if isinstance(value, str) else value
                                      for value in values])
                      for name, values in body["inputs"].items()}
            try:
                outputs = scripted.predict(body["signature_name"], inputs)
            except Refusal as refusal:
                _, status, text = refusal.args
                self._send(status, {"error": text})
                return
            plain = {name: _decoded(array.tolist()) for name, array in outputs.items()}
            self._send(200, {"outputs": plain if len(plain) > 1 else next(iter(plain.values()))})

        def _send(self, status, body):
            data = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogateescape")
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # nobody waits
                self.wfile.write(data)

        def log_message(self, *_):
            pass

    return Handler


def _decoded(value):
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
