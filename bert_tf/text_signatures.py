"""The signatures of a model at a path that take text: of a folder, of other formats, a SavedModel.

A folder has the graphs that its export would hold, traced when they are asked for.
"""

import contextlib
import functools
import json
import os

from bert_tf.converters.own_folder import own_path
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.layers.inference import for_inference
from bert_tf.models.find import EXTRA, SERVED, find_model
from bert_tf.models.pretrained import TASK
from bert_tf.saved_model.constant_kernels import with_constant_kernels
from bert_tf.saved_model.ops import check_processor
from bert_tf.saved_model.served_layer_norm import served_layer_norm
from bert_tf.saved_model.served_model import load_served
from bert_tf.saved_model.signatures import DEFAULT, description, signatures
from bert_tf.saved_model.source import find_source
from bert_tf.serving.wire.results import results_by_name
from bert_tf.storage import checksums, files
from bert_tf.tasks.registry import answering_signatures

# Inputs of a signature in the order in which people name them.
_INPUTS = (("text",), ("text_a", "text_b"), ("question", "context"), ("query", "passage"))


class NoSignature(UsageError):
    """A model that answers other tasks than what it is asked for."""


class TextSignatures:
    """Signatures that take nothing but text and say what their outputs mean.

    Args:
        path: of the model, for messages.
        described: dict, see `signatures.description`.
        specs: `{signature: {input: TensorSpec}}`.
        results: `{signature: {name: result}}`.
        function: function from a signature's name to what computes it: a `ConcreteFunction`, or a
            `tf.function`.
        reading: options of the model's preprocessor, or None.
        owner: what holds the variables.

    Attributes:
        specs, results: of those signatures, without results that are JSON.
        inputs: `{signature: names of its inputs}`, in their usual order.
        long: what becomes of long texts, see `TextPreprocessor`.
    """

    def __init__(self, path, described, specs, results, function, reading, owner):
        self.path, self.described, self.function, self.owner = path, described, function, owner
        self.long = (reading or {}).get("long", "head")
        kept = {name: {key: result for key, result in results.get(name, {}).items()
                       if result["kind"] != "json"} for name in specs}
        self.specs = {name: inputs for name, inputs in specs.items()
                      if name != DEFAULT and _in_order(inputs) and kept[name]}
        self.inputs = {name: _in_order(inputs) for name, inputs in self.specs.items()}
        self.results = {name: kept[name] for name in self.specs}
        self._default = next((name for name in self.specs
                              if results[name] == results.get(DEFAULT)), None)

    def choose(self, task=None):
        """Return the name of the signature that a task, or the lack of one, stands for.

        Raises:
            NoSignature: the model has none for this task.
            UsageError: it takes no text, or there is no such task.
        """
        if not self.inputs:
            raise UsageError(explain(f"{self.path} takes no text", "a model with a tokenizer"))
        if task is None:
            return self._default or next(iter(self.inputs))
        if task in self.inputs:
            return task
        answering = answering_signatures(task)
        for name in answering:
            if name in self.inputs:
                return name
        if answering:
            raise NoSignature(explain(f"the task {task} of {self.path}, which has no signature for "
                                      "it", f"one of {', '.join(self.inputs)}"))
        return check_choice(f"the task of {self.path}", task, self.inputs)


def read_signatures(path, dtype="float32", strategy=None):
    """Return the `TextSignatures` of a model.

    Args:
        path: model or run folder, what `convert` reads, or a version of a SavedModel.
        dtype: what it computes in, unless it is a SavedModel.
        strategy: a `tf.distribute.Strategy` whose replicas have its variables, or None.

    Raises:
        UsageError, BertTfError: as of `find_model` and `load_served`.
    """
    with strategy.scope() if strategy else contextlib.nullcontext():
        if find_model(path).kind in SERVED:
            return _exported(path)
        return _built(path, dtype)


def _built(path, dtype):
    import tensorflow as tf

    with own_path(path) as folder:
        source = find_source(folder)
        served = load_served(source.model_folder, dtype, source.seq_length)
    rows = signatures(served)

    def function(name):
        return tf.function(functools.partial(rows[name].function, served), autograph=False)

    preprocessor = getattr(served.model, "preprocessor", None)
    return TextSignatures(path, description(served),
                          {name: row.inputs for name, row in rows.items()},
                          {name: row.results for name, row in rows.items()}, function,
                          preprocessor and preprocessor.reading(), served)


def _exported(path):
    """Return those of a version of a SavedModel, whoever wrote it."""
    import tensorflow as tf

    version = checksums.opened(find_model(path).path)
    check_processor(version)
    loaded = tf.saved_model.load(version)
    described = {}
    if "describe" in loaded.signatures:
        answer = loaded.signatures["describe"](text=tf.constant([""]))["description"].numpy()
        described = json.loads(answer[0])
    specs = {name: function.structured_input_signature[1]
             for name, function in loaded.signatures.items()}
    specs = {name: inputs for name, inputs in specs.items()
             if all(spec.dtype == tf.string for spec in inputs.values())}
    results = described.get("results") or {
        name: results_by_name(loaded.signatures[name].structured_outputs) for name in specs}
    task = os.path.join(version, EXTRA, TASK)
    about = files.read_json_object(task) if files.exists(task) else {}
    return TextSignatures(path, described, specs, results, lambda name: loaded.signatures[name],
                          about.get("reading"), loaded)


def _in_order(inputs):
    """Return the names of a signature's texts in their usual order; None where it takes others."""
    return next((names for names in _INPUTS if set(names) == set(inputs)), None)


def on_one(function, specs):
    """Return a function from a list of one batch, a dict of lists, to that of its outputs."""
    import tensorflow as tf

    if not isinstance(function, tf.types.experimental.ConcreteFunction):
        with for_inference(served_layer_norm):
            function = function.get_concrete_function(**specs)
    function = with_constant_kernels(function)
    return lambda batches: [function(**_tensors(texts)) for texts in batches]


def on_replicas(strategy, function):
    """Return the same for a batch, or none, for each replica."""
    import tensorflow as tf

    def on_replica(texts):
        # Here: replicas are threads, which have no context variables of the one that made them.
        with for_inference(served_layer_norm):
            return function(**texts)

    @tf.function(autograph=False, reduce_retracing=True)
    def run(texts):
        return strategy.run(on_replica, args=(texts,))

    def ask(batches):
        tensors = [_tensors(texts) for texts in batches]
        texts = strategy.experimental_distribute_values_from_function(
            lambda replica: tensors[min(replica.replica_id_in_sync_group, len(tensors) - 1)])
        outputs = {name: strategy.experimental_local_results(value)
                   for name, value in run(texts).items()}
        return [{name: values[number] for name, values in outputs.items()}
                for number in range(len(batches))]

    return ask


def _tensors(texts):
    """Return a dict of lists of str as one of string tensors `[n]`."""
    import tensorflow as tf

    return {name: tf.constant(column, tf.string) for name, column in texts.items()}
