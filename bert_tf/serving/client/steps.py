"""How a client's methods ask: signatures, batches, morphemes, and attempts."""

import asyncio
import contextlib
import functools
import itertools
import json
import math
import textwrap
import time

import numpy as np
import tenacity

from bert_tf.errors import BertTfError, UsageError, check_choice, explain
from bert_tf.serving.client.address import Address
from bert_tf.serving.client.diagnosis import diagnose
from bert_tf.serving.wire import protocol
from bert_tf.serving.wire import results as wire_results
from bert_tf.serving.wire import rows as wire_rows
from bert_tf.serving.wire.key_file import KEY
from bert_tf.serving.wire.request import MISFITS, ServingError, Spec
from bert_tf.tokenization.morphemes import MORPHEMES, analyse
from bert_tf.tokenization.texts import text_list

_DESCRIBE = "describe"  # the signature that tells what a client must know
# Inputs that are read as language.
_TEXTS = ("text", "text_a", "text_b", "question", "context", "query", "passage")
_IDS = ("input_word_ids", "input_mask", "input_type_ids")  # inputs of a row for each text
_KNOWN_SECONDS = 5.0  # after which REST, whose answers name no version, is asked for it again
VERSIONS = 3  # that may follow one another while a call is answered
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0  # seconds between attempts
_MOST_SECONDS = 1e8  # years; gRPC takes much more for nothing, and sockets refuse it
_DIAGNOSIS_SECONDS = 5.0  # for finding out why there is no answer


class RequestError(BertTfError):
    """The server refused a request or did not answer; `code` is gRPC's name for how."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Steps:
    """One model on one server; generators that yield what is to be done and get what came of it.

    They yield lists of `Request`s, for whose results, in their order, it is waited, and functions,
    which may take long. So each is written once, for clients that wait and those that do not.
    Arguments: see `Methods`.
    """

    _asynchronous = False
    _closed = False

    def __init__(self, address, model, *, version=None, label=None, timeout=60.0, retries=5,
                 batch_size=32, concurrency=4, pretokenize=None, pad_to=None, tls=None,
                 api_key=None):
        self._address = Address.parse(address, tls)
        if api_key is not None and not KEY.fullmatch(api_key):  # which is not shown
            raise UsageError(explain("an api_key with blanks or other characters than ASCII",
                                     "letters, digits and signs"))
        self._api_key = api_key
        if version is not None and label is not None:
            raise UsageError(explain(f"version={version} and label={label!r}", "one of them"))
        for name, value, least in (("retries", retries, 0), ("batch_size", batch_size, 1),
                                   ("concurrency", concurrency, 1), ("pad_to", pad_to, 1)):
            if value is not None and value < least:
                raise UsageError(explain(f"{name}={value}", f"at least {least}"))
        if timeout is None or not timeout > 0:
            raise UsageError(explain(f"timeout={timeout}", "seconds above 0, math.inf for any"))
        if version is not None and not -2**63 <= version < 2**63:
            raise UsageError(explain(f"version={version}", "a number of 64 bits"))
        if pretokenize is not None:
            check_choice("pretokenize", pretokenize, (MORPHEMES, "none"))
        self._spec = Spec(model, version, label)
        self._timeout = timeout
        self._retries = retries
        self._batch_size = batch_size
        self._concurrency = concurrency
        self._pretokenize = pretokenize
        self._pad_to = pad_to
        self._signatures = {}  # name: SignatureDef, as last heard of
        self._version = None  # as last heard of
        self._known_until = -math.inf  # from when on it is heard of anew
        self._heard = {}  # version: its signatures
        self._descriptions = {}  # version: what its `describe` tells; {} where it is not there
        self._reached = False  # whether the server ever answered

    @functools.cached_property
    def _wire(self):
        # Made at the first request, when the event loop of an asynchronous one runs.
        if self._address.rest:
            from bert_tf.serving.client.rest_wire import RestWire as Wire
        else:
            from bert_tf.serving.client.grpc_wire import GrpcWire as Wire
        return Wire(self._address, self._spec, self._asynchronous, self._api_key)

    def rows(self, name, **inputs):
        """Rows that the signature `name` answers, offsets being those of the texts as given."""
        return (yield from self.told(name, **inputs))[0]

    def values(self, name, **inputs):
        """The plain values of the results of each row that the signature `name` answers."""
        rows, results, *_ = yield from self.told(name, **inputs)
        return [{key: wire_results.plain(result, row) for key, result in results.items()}
                for row in rows]

    def told(self, name, **inputs):
        """As `rows`: them, the results by name, the description of the version that answered, and
        its number, which over REST is the one that was served before and after.

        Raises:
            RequestError: versions answer in turn whose answers do not go together.
        """
        signature = yield from self._signature(name, inputs.keys())
        if inputs.keys() != signature.inputs.keys():
            raise UsageError(explain(f"inputs {' '.join(inputs)} for the signature {name!r}",
                                     " ".join(sorted(signature.inputs))))
        inputs |= _padded({key: inputs[key] for key in _IDS if key in inputs}, self._pad_to)
        # What `describe` is given is no text.
        texts = {key: text_list(inputs[key], key) for key in _TEXTS if key in inputs
                 and name != _DESCRIBE and len(signature.inputs[key].tensor_shape.dim) == 1}
        inputs = {**inputs, **texts}
        arrays = {key: _batched(key, values, signature.inputs[key])
                  for key, values in inputs.items()}
        if len({len(array) for array in arrays.values()}) > 1:
            sizes = ", ".join(f"{len(array)} of {key}" for key, array in arrays.items())
            raise UsageError(explain(sizes, "as many of each"))
        for _ in range(VERSIONS):
            description = yield from self.described()
            known = self._version
            results = _results(name, signature, description)
            analysed = yield from self._analysed(texts, description)
            versions, rows = yield from self._answered(name, signature, results, {**arrays, **{
                key: np.array(column, object) for key, column in (analysed or {}).items()}})
            compared = wire_results.are_compared(results)
            if compared and not versions and len(rows) > self._batch_size:
                versions = {known, (yield from self.hear())}
            if not self._are_described(versions, description):
                yield from self.hear()  # another version has taken the place of the known one
                if _DESCRIBE in self._signatures:
                    yield from self.description()
            if self._are_described(versions, description) and not (
                    compared and len(versions) > 1):
                break
        else:
            raise self._in_turn()
        if analysed is not None:
            rows = [wire_rows.in_original(row, results, *(
                        {key: values[index] for key, values in each.items()}
                        for each in (texts, analysed)))
                    for index, row in enumerate(rows)]
        return rows, results, description, next(iter(versions), known)

    def _in_turn(self):
        return RequestError("UNAVAILABLE", explain(
            f"{self._address.text}, model {self._spec.name}: several versions answer in turn",
            "one of them", "version="))

    def _answered(self, name, signature, results, arrays):
        """What is asked in batches: the versions that answered, as far as known, and the rows."""
        count = len(next(iter(arrays.values())))
        answers = yield [self._wire.predict(name, signature, {
            key: array[start:start + self._batch_size] for key, array in arrays.items()})
            for start in range(0, count, self._batch_size)]
        rows = [row for _, outputs in answers for row in wire_rows.rows_of(outputs, results)]
        if len(rows) != count:
            raise RequestError("INTERNAL", f"{self._address.text}, model {self._spec.name}: "
                                           f"{len(rows)} rows in answer to {count}")
        return {version for version, _ in answers} - {None}, rows

    def _are_described(self, versions, description):
        return all(self._descriptions.get(version) == description for version in versions)

    def _signature(self, name, inputs=None):
        """The `SignatureDef`; it is heard of the model unless one that has the inputs is known."""
        yield from self._known()
        known = self._signatures.get(name)
        if known is None or inputs is not None and inputs != known.inputs.keys():
            yield from self.hear()
        if name not in self._signatures:
            raise UsageError(explain(f"the model {self._spec.name} has no signature {name!r}",
                                     f"one of {' '.join(sorted(self._signatures))}"))
        return self._signatures[name]

    def _known(self):
        """Hear of the signatures, unless what is known of them holds."""
        if time.monotonic() > self._known_until:
            yield from self.hear()

    def hear(self):
        """Ask for the signatures; the model's version."""
        [(version, signatures)] = yield [self._wire.metadata()]
        # Those with underscores are TensorFlow's own, such as the one that initializes tables.
        signatures = {name: signature for name, signature in signatures.items()
                      if not name.startswith("__")}
        if self._heard.get(version, signatures) != signatures:
            self._descriptions.pop(version, None)  # it is of an earlier one of that number
        self._heard[version] = self._signatures = signatures
        self._version = version
        self._known_until = time.monotonic() + (_KNOWN_SECONDS if self._address.rest else math.inf)
        return version

    def _analysed(self, texts, description):
        """Texts split into morphemes; None for a model that takes text as it is."""
        pretokenize = self._pretokenize or description.get("pretokenize")
        if not texts or pretokenize in (None, "none"):
            return None
        return (yield lambda: {key: analyse(column) for key, column in texts.items()})

    def description(self):
        """What the signature `describe` tells, a dict."""
        signature = yield from self._signature(_DESCRIBE)
        text = _batched("text", [""], signature.inputs["text"])
        versions, [row] = yield from self._answered(_DESCRIBE, signature, {}, {"text": text})
        # Perhaps another one than that of the signatures.
        self._version = version = next(iter(versions), self._version)
        self._descriptions[version] = told = self._document(row.get("description"))
        return told

    def _document(self, text):
        """The dict that a text in JSON holds."""
        with contextlib.suppress(TypeError, ValueError):
            if isinstance(told := json.loads(text), dict):
                return told
        raise RequestError("INTERNAL", explain(
            f"{self._address.text}, model {self._spec.name}: {_DESCRIBE} answers {text!r:.99}",
            "a JSON object"))

    def described(self):
        """The same, asked for once of each version; of a model without that signature nothing."""
        version = self._version
        if version not in self._descriptions and _DESCRIBE in self._signatures:
            # Whoever asks at the same time asks again, and does not go on without an answer.
            return (yield from self.description())
        return self._descriptions.setdefault(version, {})

    def _read(self, request, answer):
        self._reached = True
        return request.read(answer)

    def _refusal(self, error, begun):
        """What a wire's error means: what to raise. No server, or another one, is not tried again.

        Args:
            begun: `time.monotonic()` when it was first asked.
        """
        refusal = self._wire.refusal(error)
        if refusal.code == "UNAVAILABLE" and not self._reached:
            found = diagnose(self._address, _DIAGNOSIS_SECONDS)
            if found:
                waited = time.monotonic() - begun
                received, *advice = found
                return RequestError(refusal.code, explain(
                    f"{received} (waited {waited:.1f} s)", *advice))
        return refusal

    def _attempts(self, kind, end):
        """Tenacity's `kind` of attempts, which end at a time."""
        return kind(
            retry=tenacity.retry_if_exception(
                lambda error: isinstance(error, ServingError) and error.code == "UNAVAILABLE"),
            wait=tenacity.wait_exponential_jitter(_FIRST_WAIT, _LONGEST_WAIT, jitter=_FIRST_WAIT),
            stop=(tenacity.stop_after_attempt(self._retries + 1)
                  | tenacity.stop_before_delay(max(end - time.monotonic(), 0))),
            reraise=True)

    def _left(self, end):
        seconds = end - time.monotonic()
        if seconds <= 0:
            raise ServingError("DEADLINE_EXCEEDED", "the time for the call is over")
        return min(seconds, _MOST_SECONDS)

    @contextlib.contextmanager
    def _explained(self):
        closed = UsageError(explain("a client that is closed", attempt="a new one"))
        if self._closed:
            raise closed
        try:
            yield
        except (Exception, asyncio.CancelledError) as error:
            # gRPC ends an awaited call whose channel is closed as if its task were cancelled.
            cancelled = (isinstance(error, asyncio.CancelledError)
                         and asyncio.current_task().cancelling())
            if self._closed and not cancelled:
                raise closed from error
            if not isinstance(error, ServingError):
                raise
            if error.code in MISFITS:
                self._known_until = -math.inf
            proxy = f" through {self._address.proxy}" if self._address.proxy else ""
            raise RequestError(error.code, f"{self._address.text}{proxy}, model {self._spec.name}: "
                                           f"{error.message} ({error.code})") from error


def _results(name, signature, description):
    """What the outputs of a signature mean, `{name: result}`."""
    described = description.get("results")
    if described is None:
        return wire_results.results_by_name(signature.outputs)
    return described.get(name, {})


def _padded(ids, length):
    """Ids and masks whose rows have one length: 0s after them, which a mask leaves out.

    Args:
        ids: dict of rows by name.
        length: None for that of the longest row.

    Raises:
        UsageError: a row is longer, or of another length than the same row of another input.
    """
    try:
        sizes = {name: [len(row) for row in rows] for name, rows in ids.items()}
    except TypeError:  # no rows: `_batched` says so
        return ids
    for name, found in sizes.items():
        if found != (expected := next(iter(sizes.values()))):
            raise UsageError(explain(f"{name} with rows of {_listed(found)} ids",
                                     f"as of {next(iter(sizes))}: {_listed(expected)}"))
    longest = max(itertools.chain.from_iterable(sizes.values()), default=0)
    if length is not None and longest > length:
        raise UsageError(explain(f"a row of {longest} ids", f"up to pad_to={length}"))
    length = length or longest
    return {name: [row if len(row) == length else [*row, *[0] * (length - len(row))]
                   for row in rows] for name, rows in ids.items()}


def _listed(sizes):
    return textwrap.shorten(", ".join(map(str, sizes)), 40, placeholder=" …")


def _batched(name, values, info):
    """Rows of an input as an array of its type."""
    try:
        array = protocol.as_array(values, protocol.dtype_name(info.dtype))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error
    rank = len(info.tensor_shape.dim)
    if array.ndim == 0 or not info.tensor_shape.unknown_rank and array.ndim != rank:
        raise UsageError(explain(f"{name} with {array.ndim} axes", f"{rank}, the first the rows"))
    return array
