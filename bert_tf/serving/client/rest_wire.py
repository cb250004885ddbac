"""A client's requests over REST: https://www.tensorflow.org/tfx/serving/api_rest."""

import asyncio
import base64
import concurrent.futures
import json
import os
import threading
import time
import urllib.parse

import httpx
import numpy as np
from google.protobuf import json_format

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.serving.client.address import Request
from bert_tf.serving.wire import protocol
from bert_tf.serving.wire.request import HTTP_STATUS, ServingError

# Of several codes with one status the first; then what HTTP servers and proxies say themselves.
_CODES = {status: code for code, status in reversed(HTTP_STATUS.items())} | {
    408: "DEADLINE_EXCEEDED", 413: "RESOURCE_EXHAUSTED", 502: "UNAVAILABLE"}
_LATE = "the answer is not complete in time"
_SHOWN = 300  # characters of an answer that is no JSON


class RestWire:
    """Makes `Request`s of one model, as `GrpcWire` does.

    Args:
        address: an `Address`.
        spec: a `Spec`: the model, its version or label.
        asynchronous: a request's `send` gives an awaitable.
        api_key: that is shown to the server, or None.
    """

    errors = (httpx.HTTPError,)

    def __init__(self, address, spec, asynchronous=False, api_key=None):
        scheme = "https" if address.tls else "http"
        path = f"/v1/models/{urllib.parse.quote(spec.name, safe='')}"
        if spec.version is not None:
            path += f"/versions/{spec.version}"
        elif spec.label is not None:
            path += f"/labels/{urllib.parse.quote(spec.label, safe='')}"
        self._url = f"{scheme}://{address.target}{path}"
        try:
            httpx.URL(self._url).host  # noqa: B018 - decodes it, as sending does
        except (httpx.InvalidURL, UnicodeError) as error:
            raise UsageError(explain(f"the address {address.text!r}: {error}", "the name of a host",
                                     "http://localhost:8501")) from error
        self._asynchronous = asynchronous
        # The address knows which proxy of the environment counts. How many connections there are is
        # the caller's to bound.
        self._make = lambda: (httpx.AsyncClient if asynchronous else httpx.Client)(
            headers=api_key and {"authorization": f"Bearer {api_key}"},
            verify=address.tls.context() if address.tls else True,
            proxy=address.proxy and address.proxy.url, trust_env=False,
            limits=httpx.Limits(max_connections=None))
        try:
            self._made = os.getpid(), self._make()
        except (ValueError, ImportError, httpx.InvalidURL) as error:
            raise UsageError(explain(f"{address.proxy}: {error}", "http://host:port",
                                     "naming the server in no_proxy")) from error
        self._ask = self._ask_asynchronously if asynchronous else self._ask_waiting

    @property
    def _http(self):
        # Over connections that a fork's processes share each would read the answers of the others.
        if self._made[0] != os.getpid():
            self._made = os.getpid(), self._make()
        return self._made[1]

    def close(self):
        """End the connections; of an asynchronous wire an awaitable of that."""
        return self._http.aclose() if self._asynchronous else self._http.close()

    def predict(self, name, signature, inputs):
        """As of `GrpcWire`."""
        def send(seconds):
            body = json.dumps({"signature_name": name, "inputs": inputs}, ensure_ascii=False,
                              separators=(",", ":"), default=_jsonable)
            return self._ask(seconds, "POST", f"{self._url}:predict", content=body.encode())

        def read(answer):
            outputs = _field(_parse(answer), "outputs")
            # Of a single one the value alone is sent.
            if len(signature.outputs) == 1:
                outputs = dict.fromkeys(signature.outputs, outputs)
            return None, {key: _array(key, _field(outputs, key), info)
                          for key, info in signature.outputs.items()}

        return Request(send, read)

    def metadata(self):
        """As of `GrpcWire`."""
        def read(answer):
            body = _parse(answer)
            signatures = _message(_field(_field(body, "metadata"), "signature_def"),
                                  protocol.SignatureDefMap)
            version = _field(_field(body, "model_spec"), "version")
            if not isinstance(version, str | int) or not str(version).isdecimal():
                raise ServingError("INTERNAL", f"the answer has the version {version!r}")
            return int(version), dict(signatures.signature_def)

        return Request(lambda seconds: self._ask(seconds, "GET", f"{self._url}/metadata"), read)

    def status(self):
        """As of `GrpcWire`."""
        return Request(lambda seconds: self._ask(seconds, "GET", self._url),
                       lambda answer: _message(_parse(answer), protocol.GetModelStatusResponse))

    # httpx applies a timeout to each read apart, and to looking up a name none: who sends a byte
    # now and then would be waited for.

    def _ask_waiting(self, seconds, *request, **content):
        end, answered = time.monotonic() + seconds, concurrent.futures.Future()

        def ask():
            try:
                with self._http.stream(*request, timeout=seconds, **content) as answer:
                    parts = []
                    for part in answer.iter_bytes():
                        parts.append(part)
                        if time.monotonic() > end:  # nobody waits any more
                            raise httpx.ReadTimeout(_LATE)
                answered.set_result(httpx.Response(answer.status_code, content=b"".join(parts)))
            except Exception as error:
                answered.set_exception(error)

        threading.Thread(target=ask, daemon=True).start()
        try:
            return answered.result(seconds)
        except TimeoutError as error:
            raise httpx.ReadTimeout(_LATE) from error

    async def _ask_asynchronously(self, seconds, *request, **content):
        try:
            async with asyncio.timeout(seconds):
                return await self._http.request(*request, timeout=seconds, **content)
        except TimeoutError as error:
            raise httpx.ReadTimeout(_LATE) from error

    def refusal(self, error):
        """What one of `errors` says, as a `ServingError`: a broken connection may be tried anew."""
        late = isinstance(error, httpx.TimeoutException)
        return ServingError("DEADLINE_EXCEEDED" if late else "UNAVAILABLE",
                            f"{type(error).__name__}: {error}")


def _jsonable(value):
    """What `json` does not know: arrays, and bytes as TF Serving takes them."""
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value.tolist()


def _parse(answer):
    """The JSON object in a response.

    Raises:
        ServingError: it tells an error, or is none.
    """
    try:
        # Text that is no UTF-8 comes as its bytes.
        body = json.loads(answer.content.decode("utf-8", "surrogateescape"))
    except ValueError:
        body = None
    if answer.is_success and isinstance(body, dict):
        return body
    if isinstance(body, dict) and "error" in body:
        message = str(body["error"])
    else:
        message = (f"the answer, status {answer.status_code}, is no JSON object: "
                   f"{answer.text[:_SHOWN]!r}")
    code = "INTERNAL" if answer.is_success else _CODES.get(answer.status_code, "UNKNOWN")
    raise ServingError(code, message)


def _field(body, name):
    if not isinstance(body, dict) or name not in body:
        raise ServingError("INTERNAL", f"the answer has no field {name!r}")
    return body[name]


def _message(body, message):
    """A protobuf message from the JSON form of it."""
    try:
        return json_format.ParseDict(body, message(), ignore_unknown_fields=True)
    # The latter two of what is no object, and of a name with half of a surrogate pair.
    except (json_format.ParseError, TypeError, SystemError) as error:
        raise ServingError("INTERNAL", f"the answer is no {message.DESCRIPTOR.name}: "
                                       f"{error}") from error


def _array(name, value, info):
    """Nested lists as an array; strings as bytes."""
    dtype = protocol.dtype_name(info.dtype)
    shape = info.tensor_shape
    rank = None if shape.unknown_rank else len(shape.dim)
    try:
        if dtype == "DT_STRING":
            array = np.array(value, object)
            array = np.frompyfunc(_string, 1, 1)(array) if array.size else array
        else:
            array = protocol.as_array(value, dtype)
            array = array.astype(np.float32) if dtype == "DT_HALF" else array
        if rank and not array.size:
            # JSON does not tell the sizes after one that is 0.
            array = array.reshape(array.shape + (0,) * (rank - array.ndim))
        if rank not in (None, array.ndim):
            raise ValueError(f"{array.ndim} axes")
        return array
    except (BertTfError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise ServingError("INTERNAL", f"the output {name!r} is no {dtype} of {rank} axes: "
                                       f"{error}") from error


def _string(value):
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value.encode("utf-8", "surrogateescape")
