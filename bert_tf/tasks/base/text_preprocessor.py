"""From text to a model's inputs, as a Keras layer."""


import keras
import tensorflow as tf

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.models.families import INPUTS
from bert_tf.tasks.base.preprocessor import Preprocessor
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.pair_template import PairTemplate, check_template
from bert_tf.tokenization.windows import cut_windows, stack_windows

LONG = ("head", "head_tail", "windows")


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
        pair: whether the model is about pairs, for which a server asks by `text_a` and `text_b`
            then; None where nothing says it, as of a published model. Text that a `Classifier`
            is trained on sets it, and so does a template.
        template: the texts before, between and after the two of a pair, as of `check_template`,
            for a model that is asked in words, as Qwen3-Reranker is; special tokens written there
            are these tokens, and no others are around. None where pairs stand as usual.

    Raises:
        UsageError: a pair where single texts are read, or the reverse, or an option out of range.
    """

    def __init__(self, tokenizer=None, seq_length=128, long="head", stride=None, pair=False,
                 template=None, **kwargs):
        super().__init__(seq_length, **kwargs)
        self.long = check_choice("long", long, LONG)
        self.stride = max(1, seq_length // 2) if stride is None else stride
        self.pair = True if template is not None else pair
        self.template = None if template is None else tuple(check_template(template))
        self._template = None
        self.check()
        self.use(tokenizer)

    def reading(self):
        """Return the options as plain values, for `task.json`."""
        return {"seq_length": self.seq_length, "long": self.long, "stride": self.stride,
                "pair": self.pair,
                **({} if self.template is None else {"template": list(self.template)})}

    def use(self, tokenizer):
        """See `Preprocessor.use`."""
        super().use(tokenizer)
        if self.template is not None and tokenizer is not None:
            self._template = PairTemplate(tokenizer, self.template)
            self.check()

    def check(self):
        """See `Preprocessor.check`; a window has space for a template."""
        super().check()
        if self.template is None:
            return
        if self.long != "head":
            raise UsageError(explain(f"long={self.long!r} with a template", "'head'"))
        if self._template is not None and self.seq_length < self._template.shortest:
            raise UsageError(explain(
                f"seq_length={self.seq_length} with a template of {self._template.size} tokens",
                f"{self._template.shortest} or more"))

    @property
    def window(self):
        """The length of the windows that a long text is read in, None where it is truncated."""
        return self.seq_length if self.long == "windows" else None

    def num_special(self, segments=1):
        """Return how many tokens there are beside those of one text, or of two."""
        if self._template is not None:
            return self._template.size
        return self.tokenizer.vocabulary.num_special(segments)

    def count(self, texts):
        """Count the tokens of one or two tensors string `[n]`, none of which is truncated: int64
        `[n]`."""
        if self._template is not None:
            return self._template.count(texts)
        return tf.add_n([self.tokenizer.tokenize(text).row_lengths() for text in texts]
                        ) + self.num_special(len(texts))

    def call(self, text):
        """Read a batch of texts or of pairs, at least one position each."""
        return {name: not_empty(ids) for name, ids in self._read(text).items()}

    def _read(self, text):
        self.need_tokenizer()
        if self._template is not None:
            texts = texts_of(text)
            if len(texts) != 2:
                raise UsageError(explain("single texts with a template", "pairs of texts"))
            return self._template.pack(texts, self.seq_length)
        segments = [self.tokenizer.tokenize(segment) for segment in texts_of(text)]
        if self.long == "head" or len(segments) == 2:
            if self.long != "head":
                raise UsageError(explain(f"a pair of texts with long={self.long!r}",
                                         "single texts, or long='head'"))
            return self._pack(segments)
        (pieces,) = segments
        size = self.seq_length - self.tokenizer.vocabulary.num_special()
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


def not_empty(ids):
    """Give a replica whose batch has no rows, and so no positions either, one row."""
    missing = tf.maximum(1 - tf.shape(ids)[1:], 0)
    before = tf.zeros([ids.shape.rank], tf.int32)
    return tf.pad(ids, tf.stack([before, tf.concat([[0], missing], axis=0)], axis=1))


def is_text(inputs):
    """Return whether a model's `inputs` are text rather than token ids."""
    if isinstance(inputs, dict):
        return "input_word_ids" not in inputs
    return True


def texts_of(inputs):
    """Return one or two string tensors `[b]` of the inputs of a model that takes text."""
    if isinstance(inputs, dict):
        names = ["text"] if "text" in inputs else ["text_a", "text_b"]
        # Labels and weights, which are numbers, are not for here.
        further = {name for name, value in inputs.items() if value.dtype == "string"} - {*names}
        if further or not inputs.keys() >= {*names}:
            raise UsageError(explain(f"inputs {sorted(inputs)}",
                                     "input_word_ids, input_mask and input_type_ids, or text "
                                     "alone, or text_a and text_b of a pair"))
        texts = [inputs[name] for name in names]
    else:
        texts = list(inputs) if isinstance(inputs, (list, tuple)) and all(
            tf.is_tensor(item) for item in inputs) else [inputs]
    for text in texts:
        if text.dtype != tf.string:
            raise UsageError(explain(f"a text of type {text.dtype.name}", "strings, or a dict of "
                                     "input_word_ids, input_mask and input_type_ids"))
    return [tf.reshape(text, [-1]) for text in texts]
