"""What a model at a path says of texts, whatever its task: ours, of other formats, a SavedModel."""

import contextlib
import functools
import itertools

import numpy as np

from bert_tf import side_by_side
from bert_tf.data.processes import in_threads
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.models.find import SERVED, find_model
from bert_tf.serving.wire.results import outputs_of, plain
from bert_tf.serving.wire.rows import in_original, rows_of
from bert_tf.tasks.base.character_batches import batches_by_length, sizes_of
from bert_tf.text_signatures import on_one, on_replicas, read_signatures
from bert_tf.tokenization.morphemes import analyse
from bert_tf.tokenization.texts import text_list

_FLAT = ("label", "span")  # kinds of results whose parts are columns of their own
# Tokens that a text counts for at least: it has a weight for each of the vocabulary; queries are
# filled up.
_LEAST = {"terms": 128, "vectors": 32}
# Kinds of texts that are read to the window alone.
_TRUNCATED = ("label", "number", "relevance", "terms", "vector", "vectors", "candidates")
_FINITE = ("label", "number", "relevance", "terms", "vector", "vectors")


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
        num_threads: batches that are computed side by side, by a thread each. On CPUs that gives
            more texts a second where operations have one core each:
            `tf.config.threading.set_intra_op_parallelism_threads(1)`, before TensorFlow computes
            anything. The results are the same. None: 1, unless bert_tf has set TensorFlow's threads
            in this process, as to train.

    Attributes:
        signature: the name of the signature that answers.
        inputs: the names of the texts that it takes, such as `("text_a", "text_b")`.
        columns: the names of the columns that it gives.
        described: what the model says of itself, a dict, see `saved_model.signatures.description`.

    Raises:
        UsageError: the model has no such task or takes no text; or there is more than one thread
            beside a strategy.
        BertTfError: a file is missing or damaged.
    """

    def __init__(self, model, task=None, dtype=None, strategy=None, num_threads=None):
        served = find_model(model).kind in SERVED
        if served and dtype is not None:
            raise UsageError(explain(f"dtype={dtype!r} of the SavedModel {model}",
                                     attempt="an export with that dtype"))
        if num_threads is None:
            num_threads = 1 if strategy else side_by_side.at_once()
        if num_threads < 1 or (num_threads > 1 and strategy):
            raise UsageError(explain(f"num_threads={num_threads}", "1 with a strategy" if strategy
                                     else "at least 1"))
        self._num_threads = num_threads
        known = read_signatures(model, dtype or "float32", strategy)
        self.signature = known.choose(task)
        self.inputs = known.inputs[self.signature]
        self._results = known.results[self.signature]
        self.described = known.described
        self._pretokenize = known.described.get("pretokenize")
        self._window = self._truncated_to(known)
        kind = "pair_tokens" if len(self.inputs) > 1 else "text_tokens"
        self._added = known.described.get(kind) or 0
        self._least = max((_LEAST.get(result["kind"], 0) for result in self._results.values()),
                          default=0)
        self._at_once = strategy.num_replicas_in_sync if strategy else 1
        function = known.function(self.signature)
        self._ask = on_replicas(strategy, function) if strategy else on_one(
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

    def __call__(self, texts, done=None, progress=False):
        """Predict.

        Args:
            texts: what `text_list` takes, where the model reads single texts; else a dict of as
                many by each name of `inputs`.
            done: called with the number of rows of each batch that is finished.
            progress: show a bar where it takes long.

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
        sizes = sizes_of(read.values(), self._window, self._added, self._least)
        found = {name: [None] * count for name in self.columns}
        with contextlib.closing(self._answered(read, sizes, progress)) as answered:
            for places, rows in answered:
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

    def _truncated_to(self, known):
        """Return to how many tokens texts are truncated, or None."""
        window, kinds = known.described.get("seq_length"), {
            result["kind"] for result in self._results.values()}
        if window and known.long == "head" and kinds <= set(_TRUNCATED):
            return window
        return None

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

    def _answered(self, read, sizes, progress):
        """Yield the places of the texts of each batch, and a dict of outputs for each of them."""
        batches = batches_by_length(sizes, progress=progress)
        groups = iter(lambda: list(itertools.islice(batches, self._at_once)), [])

        def answer(group):
            return self._rows([{name: [column[place] for place in places]
                                for name, column in read.items()} for places in group])

        with contextlib.closing(in_threads(groups, answer, self._num_threads)) as answered:
            for group, answers in answered:
                yield from zip(group, answers, strict=True)

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
        if name != self.vector:
            return values
        vector = self._values(self._probe)[name]
        return np.reshape(np.asarray(values, vector.dtype), (-1, *vector.shape))


@functools.lru_cache(4)
def _shared(kind, *arguments):
    return kind(*arguments)


def _arrow_types(pa, name, result, row):
    """Return `{column: type}` of a result; `row` is any row of outputs, for widths and labels."""
    text, number, place = pa.string(), pa.float32(), pa.int32()
    kind = result["kind"]
    if kind == "label":
        return {"label": text, "score": number, "probabilities": pa.struct(
            [(label, number) for label in row[result["labels"]]]), "chosen": pa.list_(text)}
    if kind == "span":
        return {result.get("name", "text"): text, "score": number, "start": place, "end": place}
    if kind in ("vector", "vectors"):
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
    if kind == "terms":
        return {name: pa.map_(text, number)}
    if kind == "candidates":
        written = [("text", text)] * ("written" in result)
        return {name: pa.list_(pa.list_(pa.struct([("token", text), ("score", number), *written])))}
    return {name: text if kind == "continuation" else number}
