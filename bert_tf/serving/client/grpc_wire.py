"""A client's requests over gRPC."""

import grpc
from google.protobuf.message import DecodeError

from bert_tf.serving.client.address import Request
from bert_tf.serving.wire import protocol
from bert_tf.serving.wire.request import ServingError

# Answers of any size; after a loss the connection is tried for again soon: gRPC would wait up to
# two minutes, in which every request fails; all servers behind a name are asked in turn.
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
            ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.lb_policy_name", "round_robin"))


class GrpcWire:
    """Makes `Request`s of one model.

    Args:
        address: an `Address`.
        spec: a `Spec`: the model, its version or label.
        asynchronous: a request's `send` gives an awaitable.
        api_key: that is shown to the server, or None.
    """

    errors = (grpc.RpcError,)

    def __init__(self, address, spec, asynchronous=False, api_key=None):
        self._spec = spec
        self._metadata = api_key and (("authorization", f"Bearer {api_key}"),)
        factory = grpc.aio if asynchronous else grpc
        # The address knows which one of the environment counts.
        options = (*_OPTIONS, ("grpc.enable_http_proxy", int(address.proxy is not None)))
        if address.proxy:
            options += (("grpc.http_proxy", address.proxy.url),)
        if address.tls:
            ca, certificate, key = address.tls.contents()
            credentials = grpc.ssl_channel_credentials(ca, key, certificate)
            channel = factory.secure_channel(address.target, credentials, options)
        else:
            channel = factory.insecure_channel(address.target, options)
        self._calls = {path: channel.unary_unary(path) for path in (
            protocol.PREDICT, protocol.GET_MODEL_METADATA, protocol.GET_MODEL_STATUS)}
        # Ends the connection; of an asynchronous wire an awaitable.
        self.close = channel.close

    def predict(self, name, signature, inputs):
        """Ask the signature `name`, a `SignatureDef`, for its outputs.

        Args:
            inputs: dict of arrays.

        Returns: a `Request` of the version that answered, None if it is not told, and a dict of
            arrays, strings as bytes.
        """
        def send(seconds):
            request = protocol.PredictRequest()
            request.model_spec.signature_name = name
            for key, array in inputs.items():
                request.inputs[key].CopyFrom(protocol.to_tensor(array))
            return self._send(protocol.PREDICT, request, seconds)

        def read(answer):
            response = _parse(protocol.PredictResponse, answer)
            version = response.model_spec.version.value if (
                response.model_spec.HasField("version")) else None
            return version, {key: protocol.from_tensor(tensor)
                             for key, tensor in response.outputs.items()}

        return Request(send, read)

    def metadata(self):
        """A `Request` of `(version, {name: SignatureDef})`."""
        def send(seconds):
            request = protocol.GetModelMetadataRequest(metadata_field=["signature_def"])
            return self._send(protocol.GET_MODEL_METADATA, request, seconds)

        def read(answer):
            response = _parse(protocol.GetModelMetadataResponse, answer)
            signatures = _parse(protocol.SignatureDefMap, response.metadata["signature_def"].value)
            return response.model_spec.version.value, dict(signatures.signature_def)

        return Request(send, read)

    def status(self):
        """A `Request` of a `GetModelStatusResponse`."""
        return Request(
            lambda seconds: self._send(protocol.GET_MODEL_STATUS, protocol.GetModelStatusRequest(),
                                       seconds),
            lambda answer: _parse(protocol.GetModelStatusResponse, answer))

    def refusal(self, error):
        """What one of `errors` says, as a `ServingError`."""
        return ServingError(error.code().name, error.details() or "")

    def _send(self, path, request, seconds):
        spec = request.model_spec
        spec.name = self._spec.name
        if self._spec.version is not None:
            spec.version.value = self._spec.version
        elif self._spec.label is not None:
            spec.version_label = self._spec.label
        return self._calls[path](request.SerializeToString(), timeout=seconds,
                                 metadata=self._metadata)


def _parse(message, data):
    try:
        return message.FromString(data)
    except DecodeError as error:
        raise ServingError("INTERNAL", f"the answer is no {message.DESCRIPTOR.name}") from error
