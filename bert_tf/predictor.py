"""What a model at a path says of texts, whatever its task: ours, of other formats, a SavedModel."""

import contextlib
import functools
import itertools
import json

import numpy as np

from bert_tf.converters.own_folder import own_path
from bert_tf.data.task_input import by_length
from bert_tf.errors import BertTfError, UsageError, check_choice, explain
from bert_tf.layers.layer_norm import computed_by
from bert_tf.models.find import SERVED, find_model
from bert_tf.saved_model.constant_kernels import with_constant_kernels
from bert_tf.saved_model.served_layer_norm import served_layer_norm
from bert_tf.saved_model.served_model import load_served
from bert_tf.saved_model.signatures import DEFAULT, description, signatures
from bert_tf.saved_model.source import find_source
from bert_tf.serving.client.rows import in_original, rows_of
from bert_tf.serving.wire.results import outputs_of, plain, results_by_name
from bert_tf.storage import checksums
from bert_tf.tasks.registry import answering_signatures
from bert_tf.tokenization.morphemes import analyse
from bert_tf.tokenization.texts import text_list

_BATCH_CHARACTERS = 1 << 14  # of the texts that are predicted together
_CHARACTERS = 8  # of a token at most, by which the length of a truncated text is estimated
# Inputs of a signature in the order in which people name them.
_INPUTS = (("text",), ("text_a", "text_b"), ("question", "context"), ("query", "passage"))
_FLAT = ("label", "span")  # kinds of results whose parts are columns of their own
_TRUNCATED = ("label", "number", "relevance", "vector", "candidates")  # read to the window alone
_FINITE = ("label", "number", "relevance", "vector")


class Predictor:
    """Results of texts by a model, as columns.

        predictor = bert_tf.Predictor("runs/reviews")
        predictor(["A fine film.", "Dull."])   # {"label": ["good", "bad"], "score": …, …}

    The graph is the one that `bert_tf.export` writes. Texts of like length share a batch.

    Args:
        model: folder of a finetune run, model folder, version of a SavedModel, or what convert
            reads.
        task: a task, as of finetune, or a signature of the model, such as `fill_mask`; None for
            what the model is for.
        dtype: what it computes in, `float32` or `bfloat16`; None for float32, of a SavedModel as
            exported.
        strategy: a `tf.distribute.Strategy` whose replicas get a batch each, such as
            `MirroredStrategy` of several GPUs; None for one device.

    Attributes:
        signature: the name of the signature that answers.
        inputs: the names of the texts that it takes, such as `("text_a", "text_b")`.
        columns: the names of the columns that it gives.

    Raises:
        UsageError: the model has no such task or takes no text.
        BertTfError: a file is missing or damaged.
    """

    def __init__(self, model, task=None, dtype=None, strategy=None):
        served = find_model(model).kind in SERVED
        if served and dtype is not None:
            raise UsageError(explain(f"dtype={dtype!r} of the SavedModel {model}",
                                     attempt="an export with that dtype"))
        with strategy.scope() if strategy else contextlib.nullcontext():
            known = _exported(model) if served else _built(model, dtype or "float32")
        self.signature = known.choose(model, task)
        self.inputs = known.inputs[self.signature]
        self._results = known.results[self.signature]
        self._pretokenize = known.described.get("pretokenize")
        self._most = known.most_characters(self._results)
        self._at_once = strategy.num_replicas_in_sync if strategy else 1
        function = known.function(self.signature)
        self._ask = _on_replicas(strategy, function) if strategy else _on_one(
            function, known.specs[self.signature])
        self._kept = known  # its variables
        [[self._probe]] = self._rows([{name: ["a"] for name in self.inputs}])
        self.columns = list(self._values(self._probe))

    @classmethod
    def shared(cls, model, task=None, dtype=None):
        """Return the `Predictor` that all of this process share, made at the first call.

        For functions that Spark, Beam and their like send to workers and read anew for each task.
        """
        return _shared(cls, model, task, dtype)

    def __call__(self, texts, done=None):
        """Predict.

        Args:
            texts: what `text_list` takes, where the model reads single texts; else a dict of as
                many by each name of `inputs`.
            done: called with the number of rows of each batch that is finished.

        Returns: `{column: list}`, in the order of the texts: str, int, float, None, lists and dicts
            of these; a vector is an array, a column of vectors an array `[n, width]`.

        Raises:
            UsageError: there are not as many of each, or something is no text.
            BertTfError: a result is not finite.
        """
        texts = self._listed(texts)
        count = len(texts[self.inputs[0]])
        read = {name: analyse(column) for name, column in texts.items()
                } if self._pretokenize else texts
        sizes = sum(np.minimum([len(text) for text in column], self._most)
                    for column in read.values()) if count else np.zeros(0)
        found = {name: [None] * count for name in self.columns}
        batches = iter(by_length(sizes, _BATCH_CHARACTERS))
        while group := list(itertools.islice(batches, self._at_once)):
            answers = self._rows([{name: [column[place] for place in places]
                                   for name, column in read.items()} for places in group])
            for places, rows in zip(group, answers, strict=True):
                for place, row in zip(places, rows, strict=True):
                    if self._pretokenize:
                        own, analysed = ({name: column[place] for name, column in of.items()}
                                         for of in (texts, read))
                        row = in_original(row, self._results, own, analysed)
                    for name, value in self._values(row).items():
                        found[name][place] = value
                if done is not None:
                    done(len(places))
        return {name: self._column(name, values) for name, values in found.items()}

    def schema(self):
        """Return the columns as a `pyarrow.Schema`."""
        import pyarrow as pa

        types = {}
        for name, result in self._results.items():
            types |= _arrow_types(pa, name, result, self._probe)
        return pa.schema([(name, types[name]) for name in self.columns])

    @property
    def vector(self):
        """The name of the column of vectors, one for each text; None where there is none."""
        return next((name for name, result in self._results.items() if result["kind"] == "vector"
                     and self._probe[result["value"]].ndim == 1), None)

    def _listed(self, texts):
        if not isinstance(texts, dict):
            if len(self.inputs) > 1:
                raise UsageError(explain("texts for a model of pairs",
                                         f"a dict of {' and '.join(self.inputs)}"))
            texts = {self.inputs[0]: texts}
        if set(texts) != set(self.inputs):
            raise UsageError(explain(f"texts {', '.join(texts)}", " and ".join(self.inputs)))
        texts = {name: text_list(texts[name], name) for name in self.inputs}
        if len(set(map(len, texts.values()))) > 1:
            raise UsageError(explain(" and ".join(f"{len(column)} of {name}" for name, column in
                                                  texts.items()), "as many of each"))
        return texts

    def _rows(self, batches):
        """Ask for batches, one for each replica; return for each a dict of outputs of every row."""
        return [rows_of(self._checked(outputs), self._results) for outputs in self._ask(batches)]

    def _checked(self, outputs):
        outputs = {name: value.numpy() for name, value in outputs.items()}
        for name, result in self._results.items():
            for output in outputs_of(result) if result["kind"] in _FINITE else ():
                values = outputs[output]
                if values.dtype.kind == "f" and not np.isfinite(values).all():
                    raise BertTfError(explain(f"the model gives a {name} that is not finite",
                                              "a model that was trained without overflow"))
        return outputs

    def _values(self, row):
        """Return the columns of one row."""
        values = {}
        for name, result in self._results.items():
            value = plain(result, row)
            values |= value if result["kind"] in _FLAT else {name: value}
        return values

    def _column(self, name, values):
        return np.stack(values) if values and name == self.vector else values


@functools.lru_cache(4)
def _shared(kind, *arguments):
    return kind(*arguments)


def _tensors(texts):
    """Return a dict of lists of str as one of string tensors `[n]`."""
    import tensorflow as tf

    return {name: tf.constant(column, tf.string) for name, column in texts.items()}


def _on_one(function, specs):
    """Return a function from a list of one batch, a dict of lists, to that of its outputs."""
    import tensorflow as tf

    if not isinstance(function, tf.types.experimental.ConcreteFunction):
        with computed_by(served_layer_norm):
            function = function.get_concrete_function(**specs)
    function = with_constant_kernels(function)
    return lambda batches: [function(**_tensors(texts)) for texts in batches]


def _on_replicas(strategy, function):
    """Return the same for a batch, or none, for each replica."""
    import tensorflow as tf

    @tf.function(autograph=False, reduce_retracing=True)
    def run(texts):
        with computed_by(served_layer_norm):
            return strategy.run(lambda texts: function(**texts), args=(texts,))

    def ask(batches):
        tensors = [_tensors(texts) for texts in batches]
        texts = strategy.experimental_distribute_values_from_function(
            lambda replica: tensors[min(replica.replica_id_in_sync_group, len(tensors) - 1)])
        outputs = {name: strategy.experimental_local_results(value)
                   for name, value in run(texts).items()}
        return [{name: values[number] for name, values in outputs.items()}
                for number in range(len(batches))]

    return ask


class _Known:
    """A model's signatures of text: what is common to a folder and a SavedModel.

    Attributes:
        described: dict, see `signatures.description`.
        specs: `{signature: {input: TensorSpec}}`, of those that take nothing but text.
        inputs: `{signature: names of its inputs}` of these, in their usual order.
        results: `{signature: {name: result}}` of these.
        function: function from a signature's name to what computes it: a `ConcreteFunction`, or a
            `tf.function`.
    """

    def __init__(self, described, specs, results, function, reading, owner=None):
        self.described, self.function, self.reading, self.owner = (
            described, function, reading, owner)
        self.specs = {name: inputs for name, inputs in specs.items()
                      if name != DEFAULT and _in_order(inputs) and any(
                          result["kind"] != "json" for result in results.get(name, {}).values())}
        self.inputs = {name: _in_order(inputs) for name, inputs in self.specs.items()}
        self.results = {name: {key: result for key, result in results[name].items()
                               if result["kind"] != "json"} for name in self.specs}
        self._default = next((name for name in self.specs
                              if results[name] == results.get(DEFAULT)), None)

    def choose(self, model, task):
        """Return the signature that a task, or the lack of one, stands for."""
        if not self.inputs:
            raise UsageError(explain(f"{model} takes no text", "a model with a tokenizer"))
        if task is None:
            return self._default or next(iter(self.inputs))
        if task in self.inputs:
            return task
        for name in answering_signatures(task):
            if name in self.inputs:
                return name
        return check_choice(f"the task of {model}", task, self.inputs)

    def most_characters(self, results):
        """Return how many characters of a text count: what is after them is truncated anyway."""
        window = self.described.get("seq_length")
        head = (self.reading or {}).get("long", "head") == "head"
        if window and head and all(result["kind"] in _TRUNCATED for result in results.values()):
            return window * _CHARACTERS
        return np.iinfo(np.int64).max


def _in_order(inputs):
    """Return the names of a signature's texts in their usual order; None where it takes others."""
    return next((names for names in _INPUTS if set(names) == set(inputs)), None)


def _built(path, dtype):
    """Return what is known of a model folder, or of what `convert` reads."""
    import tensorflow as tf

    with own_path(path) as folder:
        source = find_source(folder)
        served = load_served(source.model_folder, dtype, source.seq_length)
    rows = signatures(served)

    def function(name):
        return tf.function(functools.partial(rows[name].function, served), autograph=False)

    preprocessor = getattr(served.model, "preprocessor", None)
    return _Known(description(served), {name: row.inputs for name, row in rows.items()},
                  {name: row.results for name, row in rows.items()}, function,
                  preprocessor and preprocessor.reading(), served)


def _exported(path):
    """Return what is known of a version of a SavedModel, whoever wrote it."""
    import tensorflow as tf

    loaded = tf.saved_model.load(checksums.opened(find_model(path).path))
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
    return _Known(described, specs, results, lambda name: loaded.signatures[name],
                  described.get("reading"), loaded)


def _arrow_types(pa, name, result, row):
    """Return `{column: type}` of a result; `row` is any row of outputs, for widths and labels."""
    text, number, place = pa.string(), pa.float32(), pa.int32()
    kind = result["kind"]
    if kind == "label":
        return {"label": text, "score": number, "probabilities": pa.struct(
            [(label, number) for label in row[result["labels"]]]), "chosen": pa.list_(text)}
    if kind == "span":
        return {result.get("name", "text"): text, "score": number, "start": place, "end": place}
    if kind == "vector":
        *counts, width = row[result["value"]].shape
        vector = pa.list_(pa.from_numpy_dtype(row[result["value"]].dtype), width)
        return {name: pa.list_(vector) if counts else vector}
    if kind in ("spans", "tokens"):
        types = {"text": text, "label": text, "score": number, "start": place, "end": place,
                 "id": place, "vector": pa.list_(number)}
        order = ("text", "label", "start", "end", "score") if kind == "spans" else (
            "text", "id", "score", "vector")
        return {name: pa.list_(pa.struct([
            (result.get("name", part) if part == "text" else part, types[part])
            for part in order if part in result]))}
    if kind == "candidates":
        return {name: pa.list_(pa.list_(pa.struct([("token", text), ("score", number)])))}
    return {name: text if kind == "continuation" else number}
