"""A server as a process of its own, and calls to it over the wire.

The embedded server, or with TENSORFLOW_MODEL_SERVER=/path/to/binary that one: tests that use this
alone say the same of both.
"""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import grpc
import numpy as np
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("TENSORFLOW_MODEL_SERVER")
PATIENCE = 300  # seconds until something that must happen is taken not to
_RESERVED = []  # sockets


def free_ports(number):
    """Ports on which nothing listens; as long as this process lives, no other is given them."""
    made = [socket.socket() for _ in range(number)]
    for one in made:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # who is told it may take it
        one.bind(("127.0.0.1", 0))
    _RESERVED.extend(made)
    return [one.getsockname()[1] for one in made]


def wait_until(condition, what):
    """Wait until `condition()` is true, and return what it returned."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {PATIENCE} s: {what}"
        time.sleep(0.02)
    return value


def predict_request(model, /, **inputs):
    """A `PredictRequest`; inputs are lists, arrays or `TensorProto`s."""
    request = predict_pb2.PredictRequest(model_spec={"name": model})
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(value if isinstance(value, tensor_pb2.TensorProto)
                                      else tf.make_tensor_proto(value))
    return request


def command(*flags):
    """The command line of the server."""
    return [BINARY, *flags] if BINARY else [sys.executable, "-m", "bert_tf.serve", *flags]


def launch(*flags):
    """The server as a process, its output in one pipe."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "2"}
    return subprocess.Popen(command(*flags), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, env=environment)


class Server:
    """A running server.

    Args:
        flags: of `tensorflow_model_server` without the ports, such as `"--model_name=m"`.
        channel: makes the channel of an address; default one in the clear.

    Attributes:
        address, rest: `host:port` of gRPC, URL of the REST API.
        predictions, models, health: stubs of the services.
    """

    def __init__(self, *flags, channel=grpc.insecure_channel):
        self.port, self.rest_port = free_ports(2)
        self.address = f"localhost:{self.port}"
        self.rest = f"http://localhost:{self.rest_port}"
        self.process = launch(f"--port={self.port}", f"--rest_api_port={self.rest_port}", *flags)
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.channel = channel(self.address)
        self.predictions = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)
        try:
            wait_until(self._is_ready, "the server answers")
        except BaseException:
            self.process.kill()
            raise

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def output(self):
        return "".join(self.lines)

    def _is_ready(self):
        if self.process.poll() is not None:
            self._reader.join()
            raise AssertionError(f"the server ended at once:\n{self.output}")
        with contextlib.suppress(grpc.RpcError):
            response = self.health.Check(health_pb2.HealthCheckRequest(), timeout=5)
            return response.status == health_pb2.HealthCheckResponse.SERVING
        return False

    def stop(self):
        """SIGTERM; returns the exit code once the process has ended."""
        self.channel.close()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self._reader.join()
        return code

    # What most tests ask.

    def request(self, model, signature="", version=None, label=None, outputs=(), **inputs):
        """A `PredictRequest`; inputs are lists or arrays."""
        request = predict_request(model, **inputs)
        request.output_filter.extend(outputs)
        request.model_spec.signature_name = signature
        if version is not None:
            request.model_spec.version.value = version
        if label is not None:
            request.model_spec.version_label = label
        return request

    def predict(self, *arguments, timeout=PATIENCE, **inputs):
        """The response to `request(…)`."""
        return self.predictions.Predict(self.request(*arguments, **inputs), timeout=timeout)

    def status(self, model, version=None):
        """`{version: (state, error code, error message)}`."""
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = model
        if version is not None:
            request.model_spec.version.value = version
        response = self.models.GetModelStatus(request, timeout=PATIENCE)
        states = get_model_status_pb2.ModelVersionStatus.State
        return {one.version: (states.Name(one.state), one.status.error_code,
                              one.status.error_message)
                for one in response.model_version_status}

    def wait_for(self, model, **states):
        """Wait until versions have states: `wait_for("m", v1="AVAILABLE", v2="END")`."""
        wanted = {int(name[1:]): state for name, state in states.items()}

        def reached():
            with contextlib.suppress(grpc.RpcError):
                status = self.status(model)
                return all(status.get(version, ("",))[0] == state
                           for version, state in wanted.items())
            return False

        wait_until(reached, f"{model}: {wanted}")

    def reload(self, config):
        """`HandleReloadConfigRequest` with a `ModelServerConfig`."""
        request = model_management_pb2.ReloadConfigRequest(config=config)
        return self.models.HandleReloadConfigRequest(request, timeout=PATIENCE)


def arrays(response):
    """The outputs of a `PredictResponse` as arrays."""
    return {name: tf.make_ndarray(proto) for name, proto in response.outputs.items()}


@contextlib.contextmanager
def refused(code, pattern=""):
    """The call in the block fails with a gRPC code and a message in which a pattern is found."""
    try:
        yield
    except grpc.RpcError as error:
        assert error.code() == getattr(grpc.StatusCode, code), error
        assert re.search(pattern, error.details()), error.details()
    else:
        raise AssertionError(f"was not refused with {code}")


class Held:
    """The path that makes the signature `hold` of a small model wait.

    Args:
        folder: a temporary one.
    """

    def __init__(self, folder):
        self.path = str(pathlib.Path(folder) / "held")
        for end in ("runs", "goes"):
            os.mkfifo(f"{self.path}.{end}")

    def wait(self):
        """Return when a request runs."""
        self._open("runs")

    def release(self):
        """Let it go on."""
        self._open("goes")

    def _open(self, end):
        with open(f"{self.path}.{end}", "rb") as stream:
            assert stream.read() == b"x"


def texts(*values):
    """An object array of bytes."""
    result = np.empty(len(values), object)
    result[:] = [value.encode() for value in values]
    return result
