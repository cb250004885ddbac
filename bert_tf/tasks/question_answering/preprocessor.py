"""From a question and a context to a model's inputs: windows that know where they come from."""

import keras
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.tasks.base.preprocessor import Preprocessor
from bert_tf.tasks.base.text_preprocessor import not_empty
from bert_tf.tokenization.base import valid_text
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.windows import cut_windows

_MAX_QUERY_LENGTH = 64  # as in run_squad.py


@keras.saving.register_keras_serializable("bert_tf")
@keras.saving.register_keras_serializable("bert_tf", "QuestionReader")  # in files of 0.1
class QuestionPreprocessor(Preprocessor):
    """Tokenizes questions and contexts inside the graph (google-research/bert `run_squad.py`).

    Call: a dict of string `[b]` `question` and `context`, or the pair of them -> a dict of windows
    `[CLS] question [SEP] part of the context [SEP]`, padded to the longest of the batch:

    | key | type, shape | what |
    |---|---|---|
    | `input_word_ids`, `input_mask`, `input_type_ids` | int32 `[w, seq_length]` | see `pack` |
    | `rows` | int64 `[w]` | the question that a window is of, ascending |
    | `starts`, `ends` | int64 `[w, seq_length]` | bytes of the context; 0 outside of it |
    | `is_context` | bool `[w, seq_length]` | whether a token is of the context |
    | `opens`, `closes` | bool `[w, seq_length]` | the first, the last piece of a character |
    | `max_context` | bool `[w, seq_length]` | whether no window shows more around this token |

    A context longer than a window is shown in several, which overlap; each has at least one. A
    question longer than `max_query_length` loses its end. Contexts are UTF-8; what is not becomes
    U+FFFD, and the offsets are of that text.

    Args:
        tokenizer: as `load_tokenizer` gives it.
        seq_length: the window in tokens, question and special ones counted.
        doc_stride: tokens of the context from one window's start to the next one's, where so many
            fit beside the question; default a third of the window.
        max_query_length: tokens of a question; default 64, or a third of a window below 192.

    Raises:
        UsageError: an option out of range.
    """

    def __init__(self, tokenizer=None, seq_length=384, doc_stride=None, max_query_length=None,
                 **kwargs):
        super().__init__(seq_length, **kwargs)
        self.doc_stride = max(1, seq_length // 3) if doc_stride is None else doc_stride
        self.max_query_length = (min(_MAX_QUERY_LENGTH, seq_length // 3)
                                 if max_query_length is None else max_query_length)
        self.use(tokenizer)
        self.check()

    def reading(self):
        """Return the options as plain values, for `task.json`."""
        return {"seq_length": self.seq_length, "doc_stride": self.doc_stride,
                "max_query_length": self.max_query_length}

    def limits(self):
        """See `Preprocessor.limits`: a window has a token of the context at least."""
        # Of a tokenizer yet to come the least that there may be.
        separators = 1 if self.tokenizer is None else self.tokenizer.vocabulary.pair_separators
        return {"max_query_length": self.seq_length - 2 - separators - 1,
                "doc_stride": self.seq_length}

    def call(self, inputs):
        """Read a batch of questions, each about its context."""
        self.need_tokenizer()
        question, context = questions_of(inputs)
        vocabulary = self.tokenizer.vocabulary
        query = self.tokenizer.tokenize(question)[:, :self.max_query_length]
        pieces, starts, ends = self.tokenizer.tokenize_with_offsets(valid_text(context))
        before = vocabulary.initial_token + vocabulary.pair_separators + query.row_lengths()
        size = self.seq_length - vocabulary.final_separator - before  # of the context
        # Every token of all contexts has a number, and so has what it comes from.
        numbers = pieces.with_values(tf.range(tf.size(pieces.values, tf.int64)))
        rows, _, windows = cut_windows(numbers, size, tf.minimum(size, self.doc_stride))
        packed = pack(vocabulary, [tf.gather(query, rows),
                                   windows.with_values(tf.gather(pieces.values, windows.values))],
                      self.seq_length, fixed=False)
        packed = {name: not_empty(ids) for name, ids in packed.items()}

        inside = tf.ragged.range(windows.row_lengths()).values
        window = windows.value_rowids()
        places = tf.stack([window, tf.gather(tf.gather(before, rows), window) + inside], axis=1)
        shape = tf.shape(packed["input_word_ids"], tf.int64)

        def spread(values):
            return tf.scatter_nd(places, values, shape)

        opens, closes = _changes(starts, ends, starts, 1), _changes(starts, ends, ends, -1)
        return {**packed, "rows": rows, "is_context": spread(tf.ones_like(inside, tf.bool)),
                "max_context": spread(_max_context(windows, inside, tf.size(pieces.values))),
                **{name: spread(tf.gather(values, windows.values)) for name, values in (
                    ("starts", starts.values), ("ends", ends.values),
                    ("opens", opens), ("closes", closes))}}


def questions_of(inputs):
    """Return `(question, context)`, string `[b]` each, of the inputs of a question answering model.

    Raises:
        UsageError: something else.
    """
    if isinstance(inputs, dict):
        if set(inputs) != {"question", "context"}:
            raise UsageError(explain(f"inputs {sorted(inputs)}", "input_word_ids, input_mask and "
                                     "input_type_ids, or question and context"))
        inputs = inputs["question"], inputs["context"]
    if not isinstance(inputs, (list, tuple)) or len(inputs) != 2:
        raise UsageError(explain("a question without a context", "a pair (question, context) or a "
                                 "dict of both"))
    return tuple(tf.reshape(tf.convert_to_tensor(text, tf.string), [-1]) for text in inputs)


def _changes(starts, ends, offsets, shift):
    """Return bool `[all tokens]`: whether `offsets` differ from those of a token's neighbour.

    A token of no character, such as a blank that the tokenizer adds, is no neighbour and not true.
    """
    real = ends.values > starts.values
    places = tf.range(tf.size(offsets.values))
    edge = places == (0 if shift > 0 else tf.size(places) - 1)
    values, rows = tf.where(real, offsets.values, -1), offsets.value_rowids()
    return real & (edge | (values != tf.roll(values, shift, 0)) | (rows != tf.roll(rows, shift, 0)))


def _max_context(windows, inside, num_tokens):
    """Return bool `[all tokens of all windows]`: whether no window shows more context of the token.

    The context of a token in a window is the lesser of those to its left and to its right, and a
    hundredth of the window's length; of equal windows the first counts (`run_squad.py`,
    `_check_is_max_context`). So each token has it in one window.

    Args:
        windows: RaggedTensor int64 `[w, (tokens)]` of the tokens' numbers.
        inside: int64, the position in its window of each.
        num_tokens: how many tokens there are.
    """
    window = windows.value_rowids()
    length = tf.gather(windows.row_lengths(), window)
    context = 100 * tf.minimum(inside, length - 1 - inside) + length
    rank = context * windows.nrows() - window
    return rank == tf.gather(tf.math.unsorted_segment_max(rank, windows.values, num_tokens),
                             windows.values)
