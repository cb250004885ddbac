"""Keras models that may be given text in place of token ids."""

import contextlib
import contextvars
import functools
import itertools
import types
import warnings

import keras
import numpy as np
import tensorflow as tf

from bert_tf.errors import NoTextError, UsageError, explain
from bert_tf.models.families import INPUTS
from bert_tf.models.pretrained import takes_no_text
from bert_tf.tasks.base.by_name import by_name
from bert_tf.tasks.base.mapped_batches import MappedBatches
from bert_tf.tasks.base.numbers_of import numbers_of
from bert_tf.tasks.base.text_batches import check_batched
from bert_tf.tasks.base.text_preprocessor import is_text
from bert_tf.tokenization.datasets import analysed_batches
from bert_tf.tokenization.morphemes import pretokenize

# Types that a single row may have: distinguished from columns, batches and arrays of ids.
_SCALARS = (str, bytes, int, float, type(None))
# Whether a step of Keras' runs, whose text is analysed: analysing it again would change some.
_in_step = contextvars.ContextVar("in_step", default=False)


class TakesText:
    """Mixin of Keras models with a `preprocessor` or None that may be given text.

    Text may be what a preprocessor takes, and in its place what `text_list` takes: lists, arrays,
    Series, generators of strings. Where the preprocessor's tokenizer is of morphemes, it is split
    into them here, which no graph can do; so is the text of a `tf.data.Dataset` but that of
    `text_batches`, which is, and of what is made from it alone, as by `take` or `map`. Batches of a
    generator, tuples, may begin with any of these, as may those of a Keras `PyDataset`.
    """

    preprocessor = None

    def __init_subclass__(cls, **options):
        """Count steps of a subclass's own as steps too."""
        super().__init_subclass__(**options)
        for name in ("train_step", "test_step", "predict_step"):
            if name in vars(cls):
                setattr(cls, name, _step()(vars(cls)[name]))

    @property
    def reader(self):
        """The name of `preprocessor` until 0.1, under which Keras finds it in files of then."""
        return self.preprocessor

    @reader.setter
    def reader(self, preprocessor):
        warnings.warn("reader is now preprocessor", DeprecationWarning, stacklevel=2)
        self.preprocessor = preprocessor

    def __call__(self, inputs, *args, **kwargs):
        """See Keras."""
        return super().__call__(self._as_called(inputs), *args, **kwargs)

    def train_step(self, data):
        """See Keras."""
        with _step():
            return super().train_step(data)

    def test_step(self, data):
        """See Keras."""
        with _step():
            return super().test_step(data)

    def predict_step(self, data):
        """See Keras."""
        with _step():
            return super().predict_step(data)

    @by_name
    def fit(self, x=None, y=None, **kwargs):
        """See Keras; labels and weights may be lists too."""
        held_out, kwargs = kwargs.get("validation_data"), _weighed(kwargs)
        if isinstance(held_out, (tuple, list)):
            held_out = kwargs["validation_data"] = self._arrays(*held_out)
        elif held_out is not None:
            held_out = kwargs["validation_data"] = self._prepared(held_out)
        x, y = self._arrays(x, y)
        self._note_ranks("train", x, y, kwargs.get("sample_weight"))
        if held_out is not None:
            self._note_ranks("test", held_out)
        elif kwargs.get("validation_split"):
            self._note_ranks("test", x, y, kwargs.get("sample_weight"))
        return super().fit(x, y, **kwargs)

    @by_name
    def evaluate(self, x=None, y=None, **kwargs):
        """See Keras; labels and weights may be lists too."""
        if kwargs.get("_use_cached_eval_dataset"):  # `fit` reads what it was given no second time
            return super().evaluate(x, y, **kwargs)
        (x, y), kwargs = self._arrays(x, y), _weighed(kwargs)
        self._note_ranks("test", x, y, kwargs.get("sample_weight"))
        return super().evaluate(x, y, **kwargs)

    def predict(self, x, *args, **kwargs):
        """See Keras; of no rows returns the outputs for none."""
        x = self._prepared(x)
        if all(tuple(getattr(part, "shape", ()))[:1] == (0,) for part in tf.nest.flatten(x)):
            return tf.nest.map_structure(np.asarray, self(x, training=False))
        self._note_ranks("predict", x)
        return super().predict(x, *args, **kwargs)

    def train_on_batch(self, x, y=None, sample_weight=None, *args, **kwargs):
        """See Keras; labels and weights may be lists too."""
        given = self._arrays(x, y, sample_weight)
        self._note_ranks("train", *given)
        return super().train_on_batch(*given, *args, **kwargs)

    def test_on_batch(self, x, y=None, sample_weight=None, *args, **kwargs):
        """See Keras; labels and weights may be lists too."""
        given = self._arrays(x, y, sample_weight)
        self._note_ranks("test", *given)
        return super().test_on_batch(*given, *args, **kwargs)

    def predict_on_batch(self, x):
        """See Keras, whose replicas all predict the whole batch: what the first one gives."""
        x = self._prepared(x)
        self._note_ranks("predict", x)
        outputs = super().predict_on_batch(x)
        replicas = self.distribute_strategy.num_replicas_in_sync
        return outputs if replicas == 1 else tf.nest.map_structure(
            lambda found: found[:len(found) // replicas], outputs)

    def fixed_in_graphs(self):
        """See `MadeAnew`; and the preprocessor with its options."""
        return *super().fixed_in_graphs(), self.preprocessor and (
            id(self.preprocessor), *self.preprocessor.reading().items())

    def _is_outdated(self, function):
        """See `MadeAnew`; so is one of other ranks: of two TensorFlow would make a graph that
        knows neither."""
        name = f"_ranks_of_{function}"
        known, given = getattr(self, name, {}), getattr(self, f"_given_to_{function}", {})
        outdated = super()._is_outdated(function) or any(
            known.get(kinds, ranks) != ranks for kinds, ranks in given.items())
        setattr(self, name, given if outdated else known | given)
        return outdated

    def _note_ranks(self, function, *given):
        """Keep the ranks of arrays, or of a dataset's batches, for `_is_outdated`, and their kinds:
        of other ones TensorFlow makes a graph beside the first."""
        for dataset in filter(lambda part: isinstance(part, tf.data.Dataset), given):
            check_batched(dataset)
        specs = [getattr(part, "element_spec", part) for part in given]
        arrays = [part for part in tf.nest.flatten(specs) if hasattr(part, "shape")]
        setattr(self, f"_given_to_{function}", {
            "".join(map(_kind, arrays)): [tf.TensorShape(array.shape).rank for array in arrays]})

    def _prepared(self, inputs):
        return text_tensors(inputs, getattr(self.preprocessor, "tokenizer", None))

    def _as_called(self, inputs):
        """Return the inputs of a call, prepared unless those of a step are already."""
        return inputs if _in_step.get() else self._prepared(inputs)

    def _arrays(self, texts, *columns):
        return (self._prepared(texts), *map(numbers_of, columns))

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """See Keras, which under a strategy takes the mean of the replicas' batches for a sample.

        Text has none, so that it is given the first replica's.
        """
        if iterator is not None and self._distribute_strategy is not None:
            _, _, batches = next(iter(iterator))
            data_batch = tf.nest.map_structure(
                lambda value: self._distribute_strategy.experimental_local_results(value)[0],
                next(batches))
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)

    def compute_output_spec(self, inputs, *args, **kwargs):
        """See Keras; text goes through the preprocessor's shapes."""
        if is_text(inputs) and self.preprocessor is not None:
            inputs = self.preprocessor.compute_output_spec(inputs)
        return super().compute_output_spec(inputs, *args, **kwargs)

    def read(self, inputs):
        """Return the token ids of `inputs`, which may be text where there is a `preprocessor`."""
        if not is_text(inputs):
            missing = [name for name in INPUTS if name not in inputs]
            if missing:
                raise UsageError(explain(f"inputs without {' and '.join(missing)}",
                                         "input_word_ids, input_mask and input_type_ids"))
            return {**inputs, **{name: tf.cast(inputs[name], tf.int32) for name in INPUTS}}
        self.need_preprocessor()
        return self.preprocessor(inputs)

    def need_preprocessor(self):
        """Raise UsageError unless the model has a preprocessor."""
        if self.preprocessor is None:
            if self.text_read_otherwise:
                raise NoTextError(takes_no_text(self.name, True))
            name = self.preprocessor_class.__name__
            raise UsageError(explain(f"{self.name} was given text and has no preprocessor",
                                     "input_word_ids, input_mask and input_type_ids",
                                     f"preprocessor={name}(tokenizer)"))

    def get_config(self):
        """See Keras."""
        preprocessor = self.preprocessor and keras.saving.serialize_keras_object(self.preprocessor)
        return {**super().get_config(), "preprocessor": preprocessor}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """See Keras; the preprocessor's tokenizer is yet to be loaded."""
        # Files of earlier versions say `reader`.
        preprocessor = config.pop("reader", None) or config.get("preprocessor")
        return super().from_config({**config, "preprocessor": preprocessor and
                                    keras.saving.deserialize_keras_object(preprocessor)})


@contextlib.contextmanager
def _step():
    token = _in_step.set(True)
    try:
        yield
    finally:
        _in_step.reset(token)


def _kind(array):
    """Return NumPy's letter for the kind of an array's type; of one that TensorFlow does not know,
    as of tables and of other libraries' tensors, `?`."""
    try:
        return np.dtype(tf.as_dtype(array.dtype).as_numpy_dtype).kind
    except (AttributeError, TypeError):
        return "?"


def _weighed(arguments):
    """Return arguments of `fit` or `evaluate` with an array of weights for a list of them."""
    return {name: numbers_of(value) if name == "sample_weight" else value
            for name, value in arguments.items()}


def _tensor(texts):
    return tf.constant(texts, tf.string)


def text_tensors(inputs, tokenizer=None, name="texts", make=_tensor):
    """Return a model's inputs with the texts in them as the tensors that Keras takes.

    Args:
        inputs: what holds texts, see `text_list`; a list or array of pairs of them; a tuple or a
            dict of what holds texts; a generator or a `PyDataset` of tuples that begin with one of
            these; or anything else, which is left as it is.
        tokenizer: says whether texts are to be split into morphemes, see `pretokenize`.
        name: what an error calls the texts.
        make: called with each list of str.

    Raises: as `pretokenize`.
    """
    if isinstance(inputs, dict):
        return {key: text_tensors(value, tokenizer, key, make)
                for key, value in inputs.items()} if is_text(inputs) else inputs
    if isinstance(inputs, tf.data.Dataset):
        return analysed_batches(inputs, tokenizer)
    if tf.is_tensor(inputs):
        # A graph's are none to look into; others stay as they are where nothing is to be done.
        if (not tf.executing_eagerly() or inputs.dtype != tf.string
                or make is _tensor and not getattr(tokenizer, "pretokenize", None)):
            return inputs
        return make(pretokenize(tokenizer, inputs, name=name))
    if isinstance(inputs, keras.utils.PyDataset):
        return MappedBatches(inputs, functools.partial(_read_batch, tokenizer=tokenizer))
    first, inputs = _first_of(inputs)
    if isinstance(first, _SCALARS):
        return make(pretokenize(tokenizer, inputs, name=name))
    if isinstance(inputs, types.GeneratorType) and isinstance(first, tuple):
        return (_read_batch(batch, tokenizer) for batch in inputs)
    if isinstance(inputs, np.ndarray) and isinstance(first, np.ndarray) and first.shape == (2,):
        first, inputs = list(first), inputs.tolist()
    if isinstance(inputs, list) and isinstance(first, (tuple, list)):
        if any(len(row) != 2 for row in inputs):
            raise UsageError(explain(f"{name}: a list of rows", "strings, or pairs of strings"))
        inputs = tuple(map(list, zip(*inputs, strict=True)))
    if isinstance(inputs, tuple):
        return tuple(text_tensors(value, tokenizer, name, make) for value in inputs)
    return inputs


def _read_batch(batch, tokenizer):
    """Return a batch as Keras takes it: a dict, or a tuple of inputs and, if any, labels and
    weights."""
    if isinstance(batch, dict):
        return text_tensors(batch, tokenizer)
    inputs, *columns = batch if isinstance(batch, (tuple, list)) else (batch,)
    return (text_tensors(inputs, tokenizer), *map(numbers_of, columns))


def _first_of(inputs):
    """Return `(first, inputs)`: what rows begin with, None where there are none.

    Of rows that can be gone through once, `inputs` begins anew; of what holds no rows `first` is
    an empty tuple.
    """
    if isinstance(inputs, str | bytes) or hasattr(inputs, "columns"):
        return None, inputs  # for `text_list` to refuse
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind not in "USO" or not hasattr(
            inputs, "__iter__") or isinstance(inputs, keras.KerasTensor):
        return (), inputs
    rows = iter(inputs)
    first = next(rows, None)
    if rows is inputs:
        inputs = (row for row in itertools.chain(() if first is None else (first,), rows))
    return first.item() if isinstance(first, np.generic) else first, inputs
