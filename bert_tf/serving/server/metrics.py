"""What the server counts, in Prometheus's text format, under TensorFlow Serving's names.

Names are those of `servables/tensorflow/util.cc` and `batching/batching_session.cc`, where
`/tensorflow/serving/request_count` is written `:tensorflow:serving:request_count`
(`util/prometheus_exporter.cc`). Times are in microseconds.
"""

import functools
import re

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

CONTENT_TYPE = CONTENT_TYPE_LATEST
_PREFIX = ":tensorflow:serving:"
_TOTAL = b"request_example_count"  # the one counter whose name ends in _total there as well
# The library ends the name of every counter so.
_UNWANTED_TOTAL = re.compile(rb"^((?:# (?:HELP|TYPE) )?:[\w:]+(?<!" + _TOTAL + rb"))_total(?=[ {])",
                             re.MULTILINE)


def _exponential(first, growth, number):
    """Upper bounds of buckets, as `monitoring::Buckets::Exponential` makes them."""
    return tuple(first * growth ** power for power in range(number - 1))


_LATENCY = _exponential(10, 1.8, 33)
_SIZES = _exponential(1, 2, 15)
_BATCH_SIZES = _exponential(1, 2, 14)


@functools.lru_cache(1024)
def _of(metric, *labels):
    """What counts for some labels; the library would look for it under a lock each time."""
    return metric.labels(*labels)


class Metrics:
    """Counters of one server."""

    def __init__(self):
        disable_created_metrics()
        self._registry = CollectorRegistry()
        self._requests = self._counter("request_count", "Requests.", ("model_name", "status"))
        self._examples = self._counter(_TOTAL.decode(), "tf.Examples.", ("model",))
        self._runs = self._counter("batching_session:wrapped_run_count", "Batches.")
        self._warm_up_records = self._counter(
            "model_warmup_records_read", "Requests that a version was warmed up with.",
            ("model_path", "status"))
        self._latency = self._histogram(
            "request_latency", "Time of a request.", ("model_name", "API", "entrypoint"), _LATENCY)
        self._runtimes = self._histogram(
            "runtime_latency", "Time in TensorFlow, with waiting to be merged.",
            ("model_name", "API", "runtime"), _LATENCY)
        self._example_counts = self._histogram(
            "request_example_counts", "tf.Examples of a request.", ("model",), _SIZES)
        self._queuing = self._histogram(
            "batching_session:queuing_latency", "Time that a request waited to be merged.",
            ("thread_pool_name",), _exponential(100, 1.2, 52))
        self._merged = self._histogram(
            "batching_session:merged_requests", "Requests in a batch; not TensorFlow Serving's.",
            ("thread_pool_name",), _SIZES)
        self._input_sizes, self._processed_sizes = (self._histogram(
            f"batching_session:{name}_batch_size", about, (), _BATCH_SIZES) for name, about in (
                ("input", "Rows of a request."), ("processed", "Rows of a batch, as filled up.")))
        self._padding_sizes = self._histogram(
            "batching_session:padding_size", "Rows that fill a batch up.",
            ("execution_batch_size",), _BATCH_SIZES)
        self._loads = Counter(  # which the C++ loader of TensorFlow counts there
            ":tensorflow:cc:saved_model:load_attempt_count", "Attempts to load a version.",
            ("model_path", "status"), registry=self._registry)
        self._warm_ups = self._histogram(
            "model_warmup_latency", "Time to warm a version up.", ("model_path", "status"),
            _LATENCY)

    def _histogram(self, name, about, labels, buckets):
        return Histogram(_PREFIX + name, about, labels, registry=self._registry, buckets=buckets)

    def _counter(self, name, about, labels=()):
        return Counter(_PREFIX + name, about, labels, registry=self._registry)

    def request(self, model, api, entrypoint, status, seconds):
        """A request was answered.

        Args:
            model: its name.
            api: `Predict`, `Classify` …
            entrypoint: `GRPC` or `REST`.
            status: name of the gRPC code, `OK` if it went well.
            seconds: that it took.
        """
        _of(self._requests, model, status).inc()
        if status == "OK":
            _of(self._latency, model, api, entrypoint).observe(seconds * 1e6)

    def runtime(self, model, api, seconds):
        """A model computed an answer, for `Predict`, `Classify` or `Regress`."""
        _of(self._runtimes, model, api, "TF1").observe(seconds * 1e6)  # a session's name there

    def examples(self, model, number):
        """A request brought a number of `tf.Example`."""
        _of(self._examples, model).inc(number)
        _of(self._example_counts, model).observe(number)

    def batch(self, thread_pool, sizes, filled, waits):
        """A batch starts.

        Args:
            thread_pool: name of the threads.
            sizes: rows of each request in it.
            filled: its rows with those that fill it up.
            waits: seconds that each request waited.
        """
        self._runs.inc()
        _of(self._merged, thread_pool).observe(len(sizes))
        self._processed_sizes.observe(filled)
        _of(self._padding_sizes, str(filled)).observe(filled - sum(sizes))
        queuing = _of(self._queuing, thread_pool)
        for size, seconds in zip(sizes, waits, strict=True):
            self._input_sizes.observe(size)
            queuing.observe(seconds * 1e6)

    def load(self, path, status):
        """It was tried to load a version: `success` or `fail`."""
        _of(self._loads, path, status).inc()

    def warm_up(self, path, status, seconds, records):
        """A version was warmed up with so many records."""
        _of(self._warm_up_records, path, status).inc(records)
        _of(self._warm_ups, path, status).observe(seconds * 1e6)

    def text(self):
        """All of them, bytes."""
        return _UNWANTED_TOTAL.sub(rb"\1", generate_latest(self._registry))
