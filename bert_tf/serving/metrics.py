"""What the server counts, in Prometheus's text format, under TensorFlow Serving's names.

Names are those of `servables/tensorflow/util.cc` and `batching/batching_session.cc`, where
`/tensorflow/serving/request_count` is written `:tensorflow:serving:request_count`
(`util/prometheus_exporter.cc`). Times are in microseconds.
"""

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric

CONTENT_TYPE = CONTENT_TYPE_LATEST
_PREFIX = ":tensorflow:serving:"


def _exponential(first, growth, number):
    """Upper bounds of buckets, as `monitoring::Buckets::Exponential` makes them."""
    return tuple(first * growth ** power for power in range(number - 1))


_LATENCY = _exponential(10, 1.8, 33)
_SIZES = _exponential(1, 2, 15)


class Metrics:
    """Counters of one server."""

    def __init__(self):
        disable_created_metrics()
        self._registry = CollectorRegistry()
        self._requests = _Counter("request_count", "Requests.", ("model_name", "status"))
        self._examples = _Counter("request_example_count_total", "tf.Examples.", ("model",))
        for counter in (self._requests, self._examples):
            self._registry.register(counter)
        self._latency = self._histogram(
            "request_latency", "Time of a request.", ("model_name", "API", "entrypoint"), _LATENCY)
        self._example_counts = self._histogram(
            "request_example_counts", "tf.Examples of a request.", ("model",), _SIZES)
        self._queuing = self._histogram(
            "batching_session:queuing_latency", "Time that a request waited to be merged.",
            ("thread_pool_name",), _exponential(100, 1.2, 52))
        self._batch_sizes = self._histogram(
            "batching_session:merged_requests", "Requests in a batch; not TensorFlow Serving's.",
            ("thread_pool_name",), _SIZES)
        self._warm_ups = self._histogram(
            "model_warmup_latency", "Time to warm a version up.", ("model_path", "status"),
            _LATENCY)

    def _histogram(self, name, about, labels, buckets):
        return Histogram(_PREFIX + name, about, labels, registry=self._registry, buckets=buckets)

    def request(self, model, api, entrypoint, status, seconds):
        """A request was answered.

        Args:
            model: its name.
            api: `Predict`, `Classify` …
            entrypoint: `GRPC` or `REST`.
            status: name of the gRPC code, `OK` if it went well.
            seconds: that it took.
        """
        self._requests.add((model, status))
        if status == "OK":
            self._latency.labels(model, api, entrypoint).observe(seconds * 1e6)

    def examples(self, model, number):
        """A request brought a number of `tf.Example`."""
        self._examples.add((model,), number)
        self._example_counts.labels(model).observe(number)

    def batch(self, thread_pool, size, waits):
        """A batch of `size` requests starts, which waited so many seconds each."""
        self._batch_sizes.labels(thread_pool).observe(size)
        queuing = self._queuing.labels(thread_pool)
        for seconds in waits:
            queuing.observe(seconds * 1e6)

    def warm_up(self, path, status, seconds):
        """A version was warmed up."""
        self._warm_ups.labels(path, status).observe(seconds * 1e6)

    def text(self):
        """All of them, bytes."""
        return generate_latest(self._registry)

    def app(self, app, path):
        """An ASGI application that answers `path` with the metrics and passes the rest on."""
        async def wrapped(scope, receive, send):
            if scope["type"] != "http" or scope["path"] != path:
                await app(scope, receive, send)
                return
            body = self.text()
            await send({"type": "http.response.start", "status": 200, "headers": [
                (b"content-type", CONTENT_TYPE.encode()), (b"content-length", b"%d" % len(body))]})
            await send({"type": "http.response.body", "body": body})
        return wrapped


class _Counter:
    """A counter under its plain name: the library's own ends every name in `_total`."""

    def __init__(self, name, about, labels):
        self._name, self._about, self._labels = _PREFIX + name, about, labels
        self._values = {}

    def add(self, labels, number=1):
        self._values[labels] = self._values.get(labels, 0) + number

    def collect(self):
        metric = Metric(self._name, self._about, "unknown")
        for labels, value in self._values.items():
            metric.add_sample(self._name, dict(zip(self._labels, labels, strict=True)), value)
        yield metric
