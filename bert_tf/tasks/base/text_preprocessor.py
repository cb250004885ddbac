"""From text to a model's inputs, as a Keras layer: a model that holds one takes text itself."""

import itertools
import warnings

import keras
import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.models.families import INPUTS
from bert_tf.tasks.base.preprocessor import Preprocessor
from bert_tf.tokenization.datasets import analysed_batches
from bert_tf.tokenization.morphemes import pretokenize
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.windows import cut_windows, stack_windows

LONG = ("head", "head_tail", "windows")
# Types that a single row may have: distinguished from columns, batches and arrays of ids.
_SCALARS = (str, bytes, int, float, type(None))


@keras.saving.register_keras_serializable("bert_tf")
@keras.saving.register_keras_serializable("bert_tf", "TextReader")  # in files of 0.1
class TextPreprocessor(Preprocessor):
    """Tokenizes and packs text inside the graph.

    Call: string `[b]` or `[b, 1]`, or a dict of `text`, or of `text_a` and `text_b`, or a pair
    `(text_a, text_b)` -> a dict of int32 `input_word_ids`, `input_mask`, `input_type_ids`
    `[b, seq_length]`, padded to the longest row of the batch; with `long="windows"`
    `[b, windows, seq_length]`.

    Args:
        tokenizer: as `load_tokenizer` gives it. Where it has `pretokenize`, texts must come split
            into morphemes (`bert_tf.analyse`), which no graph can do.
        seq_length: the window in tokens, special ones counted.
        long: what becomes of a text longer than the window. `head`: its beginning is kept;
            `head_tail`: a quarter of the window from the beginning, the rest from the end (Sun et
            al. 2019, "How to Fine-Tune BERT for Text Classification?", section 5.3.1); `windows`:
            all of it, in windows that overlap. The last two are for single texts.
        stride: tokens from one window's start to the next one's; default half of the window.
        pair: whether the model is about pairs; a server asks for `text_a` and `text_b` then.

    Raises:
        UsageError: a pair where single texts are read, or an option out of range.
    """

    def __init__(self, tokenizer=None, seq_length=128, long="head", stride=None, pair=False,
                 **kwargs):
        super().__init__(seq_length, **kwargs)
        self.long = check_choice("long", long, LONG)
        self.stride = max(1, seq_length // 2) if stride is None else stride
        self.pair = pair
        self.check()
        self.use(tokenizer)

    def reading(self):
        """Return the options as plain values, for `task.json`."""
        return {"seq_length": self.seq_length, "long": self.long, "stride": self.stride,
                "pair": self.pair}

    def limits(self):
        """See `Preprocessor.limits`."""
        return {"stride": self.seq_length - 2}

    def call(self, text):
        """Read a batch of texts or of pairs, at least one position each."""
        return {name: not_empty(ids) for name, ids in self._read(text).items()}

    def _read(self, text):
        self.need_tokenizer()
        segments = [self.tokenizer.tokenize(segment) for segment in texts_of(text)]
        if self.long == "head" or len(segments) == 2:
            if self.long != "head":
                raise UsageError(explain(f"a pair of texts with long={self.long!r}",
                                         "single texts, or long='head'"))
            return self._pack(segments)
        (pieces,) = segments
        size = self.seq_length - 2
        if self.long == "head_tail":
            head = size // 4
            length = pieces.row_lengths()[:, tf.newaxis]
            position = tf.cast(tf.ragged.range(pieces.row_lengths()), length.dtype)
            kept = (position < head) | (position >= length - (size - head))
            return self._pack([tf.ragged.boolean_mask(pieces, kept)])
        rows, _, windows = cut_windows(pieces, size, self.stride)
        return {name: stack_windows(rows, values, pieces.nrows(),
                                    self.tokenizer.vocabulary.pad_id
                                    if name == "input_word_ids" else 0)
                for name, values in self._pack([windows]).items()}

    def _pack(self, segments):
        return pack(self.tokenizer.vocabulary, segments, self.seq_length, fixed=False)

    def compute_output_spec(self, text):
        """Return the shapes, which Keras needs before the tokenizer of a file is read."""
        batch = tf.nest.flatten(text)[0].shape[0]
        shape = (batch, None, None) if self.long == "windows" else (batch, None)
        return {name: keras.KerasTensor(shape, "int32") for name in INPUTS}


class TakesText:
    """Mixin of Keras models with a `preprocessor`, a `TextPreprocessor` or None, that may be given
    text.

    Text may be what a preprocessor takes, and in its place what `text_list` takes: lists, arrays,
    Series, generators of strings. Where the preprocessor's tokenizer is of morphemes, it is split
    into them here, which no graph can do; so is the text of a `tf.data.Dataset` but that of
    `text_batches`, which is.
    """

    preprocessor = None

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
        return super().__call__(self._prepared(inputs), *args, **kwargs)

    def fit(self, x=None, y=None, *args, **kwargs):
        """See Keras; labels may be a list too."""
        held_out = kwargs.get("validation_data")
        if isinstance(held_out, (tuple, list)):
            kwargs["validation_data"] = (*self._arrays(*held_out[:2]), *held_out[2:])
        elif held_out is not None:
            kwargs["validation_data"] = self._prepared(held_out)
        return super().fit(*self._arrays(x, y), *args, **kwargs)

    def evaluate(self, x=None, y=None, *args, **kwargs):
        """See Keras; labels may be a list too."""
        return super().evaluate(*self._arrays(x, y), *args, **kwargs)

    def predict(self, x, *args, **kwargs):
        """See Keras; of no texts returns the outputs for none."""
        x = self._prepared(x)
        if all(tf.is_tensor(part) and part.dtype == tf.string and part.shape[0] == 0
               for part in tf.nest.flatten(x)):
            return tf.nest.map_structure(np.asarray, self(x, training=False))
        return super().predict(x, *args, **kwargs)

    def predict_on_batch(self, x):
        """See Keras."""
        return super().predict_on_batch(self._prepared(x))

    def make_train_function(self, force=False):
        """See Keras."""
        return super().make_train_function(force or self._reads_anew("train"))

    def make_test_function(self, force=False):
        """See Keras."""
        return super().make_test_function(force or self._reads_anew("test"))

    def make_predict_function(self, force=False):
        """See Keras."""
        return super().make_predict_function(force or self._reads_anew("predict"))

    def _reads_anew(self, function):
        """Return whether the preprocessor, or one of its options, changed since `function` was
        made.

        What it does is fixed in the graph that Keras keeps.
        """
        now = self.preprocessor and (id(self.preprocessor), *self.preprocessor.reading().items())
        name = f"_reading_of_{function}"
        before = getattr(self, name, now)
        setattr(self, name, now)
        return now != before

    def _prepared(self, inputs):
        return text_tensors(inputs, getattr(self.preprocessor, "tokenizer", None))

    def _arrays(self, texts, labels):
        return (self._prepared(texts),
                np.asarray(labels) if isinstance(labels, list) else labels)

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
        """Return the token ids of `inputs`, which may be text where the model has a
        `preprocessor`."""
        if not is_text(inputs):
            return inputs
        if self.preprocessor is None:
            raise UsageError(explain(f"{self.name} was given text and has no preprocessor",
                                     "input_word_ids, input_mask and input_type_ids",
                                     "preprocessor=TextPreprocessor(tokenizer)"))
        return self.preprocessor(inputs)

    def get_config(self):
        """See Keras."""
        preprocessor = self.preprocessor and keras.saving.serialize_keras_object(self.preprocessor)
        return {**super().get_config(), "preprocessor": preprocessor}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """See Keras; the preprocessor's tokenizer is yet to be loaded."""
        # Files of earlier versions have `reader`.
        preprocessor = config.pop("reader", None) or config.get("preprocessor")
        return super().from_config({**config, "preprocessor": preprocessor and
                                    keras.saving.deserialize_keras_object(preprocessor)})


def not_empty(ids):
    """Give a replica whose batch has no rows, and so no positions either, one row."""
    missing = tf.maximum(1 - tf.shape(ids)[1:], 0)
    before = tf.zeros([ids.shape.rank], tf.int32)
    return tf.pad(ids, tf.stack([before, tf.concat([[0], missing], axis=0)], axis=1))


def _tensor(texts):
    return tf.constant(texts, tf.string)


def text_tensors(inputs, tokenizer=None, name="texts", make=_tensor):
    """Return a model's inputs with the texts in them as the tensors that Keras takes.

    Args:
        inputs: what holds texts, see `text_list`; a list of pairs of texts; a tuple or a dict of
            what holds texts; or anything else, which is left as it is.
        tokenizer: its `pretokenize` decides whether texts are split into morphemes.
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
    first, inputs = _first_of(inputs)
    if isinstance(first, _SCALARS):
        return make(pretokenize(tokenizer, inputs, name=name))
    if isinstance(inputs, list) and isinstance(first, (tuple, list)):
        if any(len(row) != 2 for row in inputs):
            raise UsageError(explain(f"{name}: a list of rows", "strings, or pairs of strings"))
        inputs = tuple(map(list, zip(*inputs, strict=True)))
    if isinstance(inputs, tuple):
        return tuple(text_tensors(value, tokenizer, name, make) for value in inputs)
    return inputs


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


def is_text(inputs):
    """Return whether a model's `inputs` are text rather than token ids."""
    if isinstance(inputs, dict):
        return "input_word_ids" not in inputs
    return True


def texts_of(inputs):
    """Return one or two string tensors `[b]` of the inputs of a model that takes text."""
    if isinstance(inputs, dict):
        names = [name for name in ("text", "text_a", "text_b") if name in inputs]
        if names not in (["text"], ["text_a", "text_b"]):
            raise UsageError(explain(f"inputs {sorted(inputs)}",
                                     "input_word_ids, input_mask and input_type_ids, or text, "
                                     "or text_a and text_b"))
        texts = [inputs[name] for name in names]
    else:
        texts = list(inputs) if isinstance(inputs, (list, tuple)) and all(
            tf.is_tensor(item) for item in inputs) else [inputs]
    for text in texts:
        if text.dtype != tf.string:
            raise UsageError(explain(f"a text of type {text.dtype.name}", "strings, or a dict of "
                                     "input_word_ids, input_mask and input_type_ids"))
    return [tf.reshape(text, [-1]) for text in texts]
