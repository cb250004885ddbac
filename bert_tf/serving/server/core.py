"""What every protocol calls: models behind the names and errors of TensorFlow Serving."""

import time

import numpy as np

from bert_tf.serving.server import inference
from bert_tf.serving.server.batcher import Batcher
from bert_tf.serving.server.codec import Decoder
from bert_tf.serving.server.metrics import Metrics
from bert_tf.serving.server.model_store import ModelStore
from bert_tf.serving.server.models import Models
from bert_tf.serving.server.signature import DEFAULT_SIGNATURE
from bert_tf.serving.wire import parts
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import Spec


class Core:
    """The models of one server; all methods belong into its event loop.

    Texts are object arrays of bytes; a deadline is a value of `time.monotonic()`, or None. All
    methods raise `ServingError`.

    Args:
        settings: `bert_tf.serving.server.config.Settings`.

    Attributes:
        metrics: `Metrics`.
    """

    def __init__(self, settings):
        self._check_names = settings.flags.enable_signature_method_name_check
        self.metrics = Metrics()
        self._models = Models()
        self._store = ModelStore(self._models, settings, self.metrics)
        self._batcher = Batcher(settings.batching, self.metrics,
                                settings.flags.grpc_max_threads)
        self._decoder = Decoder()
        self._limits = settings.limits

    async def decode(self, function, data, *arguments, deadline=None):
        """What `function(data, *arguments, limits)` of `wire` makes of a request's bytes."""
        return await self._decoder.run(function, data, *arguments, self._limits,
                                       deadline=deadline)

    def check(self, spec):
        """Refuse a request whose model is not there, before more of it is read."""
        self._models.find(spec)

    def input_types(self, spec):
        """`{signature: {input: number of its DataType}}` of the version that would answer."""
        return self._models.find(spec).loaded.input_types

    async def predict(self, spec, inputs, outputs=(), deadline=None, also=(), at_once=None):
        """Run a signature.

        Args:
            spec: `Spec` of model, version and signature.
            inputs: `{name: np.ndarray}`, with the batch as the first axis.
            outputs: names of the outputs to give; () for all.
            also: names of further signatures that are given the same inputs, as one request.
            at_once: rows that the version is given at a time, part by part; None gives it all.

        Returns: the `Spec` with the version that answered and the signature's name, and
            `{name: np.ndarray}`.
        """
        version = self._models.find(spec)
        name = spec.signature or DEFAULT_SIGNATURE
        signature = version.loaded.signature(name, *also)
        if self._check_names:
            _check_predict_name(signature)
        outputs = tuple(outputs)
        inputs = signature.checked(inputs, outputs)
        with version.used():
            started = time.monotonic()
            answers = [await self._batcher.run(signature, part, outputs, version.batching, deadline)
                       for part in _parts(inputs, at_once, version.batching)]
            answer = answers[0] if len(answers) == 1 else {
                key: _joined([each[key] for each in answers]) for key in answers[0]}
            self.metrics.runtime(spec.name, "Predict", time.monotonic() - started)
        return _answered(spec, version, name), answer

    async def classify(self, spec, examples, deadline=None):
        """Classify serialized `tf.Example`: `(Spec, [[(label, score), …] per example])`."""
        return await self._infer("classify", spec, examples, deadline)

    async def regress(self, spec, examples, deadline=None):
        """Regress on serialized `tf.Example`: `(Spec, [value per example])`."""
        return await self._infer("regress", spec, examples, deadline)

    async def multi_inference(self, tasks, examples, deadline=None):
        """Several signatures of one version on the same examples.

        Args:
            tasks: `[(Spec, method name), …]`, the names as of `MultiInferenceRequest`.
            examples: serialized `tf.Example`.

        Returns: `[(kind, Spec, answer), …]`, the kind `classify` or `regress`.
        """
        if not all(spec.name for spec, _ in tasks) or not tasks:
            raise error("no_name")
        if len({spec.name for spec, _ in tasks}) > 1:
            raise error("two_models")
        # The version is the first task's, as in RunMultiInferenceWithServerCore.
        version = self._models.find(tasks[0][0])
        seen, results = set(), []
        with version.used():
            for spec, method_name in tasks:
                name = spec.signature or DEFAULT_SIGNATURE
                if name in seen:
                    raise error("signature_twice", signature=name)
                seen.add(name)
                method = inference.method(method_name)
                answer = await self._infer_with(method, version, name, examples, deadline)
                results.append((method.kind, _answered(spec, version, name), answer))
        self.metrics.examples(tasks[0][0].name, len(examples))
        return results

    async def _infer(self, kind, spec, examples, deadline):
        version = self._models.find(spec)
        name = spec.signature or DEFAULT_SIGNATURE
        with version.used():
            started = time.monotonic()
            answer = await self._infer_with(
                inference.METHODS[kind], version, name, examples, deadline)
            self.metrics.runtime(spec.name, kind.capitalize(), time.monotonic() - started)
        self.metrics.examples(spec.name, len(examples))
        return _answered(spec, version, name), answer

    async def _infer_with(self, method, version, name, examples, deadline):
        signature = method.signature(version.loaded, name, self._check_names)
        inputs = method.inputs(signature, examples)
        outputs = await self._batcher.run(signature, inputs, (), version.batching, deadline)
        return method.answer(signature, len(examples), outputs)

    def folder(self, spec):
        """The `Spec` with the version that would answer, and the path of the version's folder."""
        version = self._models.find(spec)
        return _answered(spec, version, spec.signature), version.path

    def metadata(self, spec):
        """The `Spec` with the version, and `{signature name: SignatureDef}` of it."""
        version = self._models.find(spec)
        return _answered(spec, version, spec.signature), version.loaded.definitions

    def status(self, name, version=None):
        """The `Version`s of a model, highest first, or the one that is named.

        A label names none here, as in TensorFlow Serving.
        """
        return self._models.status(name, version)

    def count(self, name, api, entrypoint, status, seconds):
        """Count a request that was answered, as of `Metrics.request`.

        Not one for a model that is not there: such names would fill the memory.
        """
        if status == "OK" or name in self._models.by_name:
            self.metrics.request(name, api, entrypoint, status, seconds)

    def folders(self):
        """Paths of the folders of all versions that answer."""
        return [version.path for model in self._models.by_name.values()
                for version in model.versions.values() if version.state == "AVAILABLE"]

    def models(self):
        """Sorted names of the configured models."""
        return sorted(self._models.by_name)

    async def reload(self, config):
        """Let a `ModelServerConfig` take the place of the present one; wait for what is new."""
        await self._store.reload(config)

    async def configure(self, config):
        """As `reload`, without waiting for versions."""
        await self._store.configure(config)

    async def close(self):
        """Stop looking for versions and let the threads end."""
        await self._store.close()
        self._batcher.close()
        self._decoder.close()


def _joined(parts):
    """One array of several, along the first axis; what is as wide as its longest row, such as the
    terms of texts, is padded, with zeros or empty strings, as graphs pad it."""
    widths = np.max([part.shape[1:] for part in parts], axis=0)
    return np.concatenate([np.pad(
        part, [(0, 0), *((0, width - own) for width, own in zip(widths, part.shape[1:],
                                                                strict=True))],
        constant_values=b"" if part.dtype == object else 0) for part in parts])


def _parts(inputs, at_once, batching):
    """The inputs, or parts of at most `at_once` rows that the batches of a version can hold."""
    if at_once is None:
        return [inputs]
    if batching:
        at_once = min(at_once, batching.execution_size)  # of more it joins only one width
    return parts.cut(inputs, at_once)


def _answered(spec, version, name):
    return Spec(spec.name, version.number, signature=name)


def _check_predict_name(signature):
    method = signature.definition.method_name
    if method.removeprefix("tensorflow/serving/") not in ("predict", "classify", "regress"):
        raise error("predict_method", signature=signature.name, method=method)
