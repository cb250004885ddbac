"""From text to the inputs of a `TokenClassifier`, and which token represents which word."""

import keras
import tensorflow as tf

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.tasks.base.preprocessor import Preprocessor
from bert_tf.tasks.base.text_preprocessor import not_empty, texts_of
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.units import UNITS, CharacterPieces, split_units
from bert_tf.tokenization.windows import cut_windows


@keras.saving.register_keras_serializable("bert_tf")
@keras.saving.register_keras_serializable("bert_tf", "WordReader")  # in files of 0.1
class WordPreprocessor(Preprocessor):
    """Splits text into units and those into pieces, inside the graph.

    Call: string `[b]` or `[b, 1]` -> a dict of windows and of the units in them:

    | key | type, shape | what |
    |---|---|---|
    | `input_word_ids`, `input_mask`, `input_type_ids` | int32 `[w, seq_length]` | see `pack` |
    | `rows` | int64 `[w]` | the text that a window is of, ascending |
    | `num_units` | int64 `[b]` | units of each text |
    | `unit_starts`, `unit_ends` | int64 `[u]` | its first character and the one after its last |
    | `unit_places` | int64 `[u, 2]` | window and position of its first piece |

    A text longer than a window is read in several, which overlap; each unit is tagged in the one
    that shows most around its first piece, so that none is lost. A unit of which nothing is left
    by the tokenizer, such as a control character, is none.

    Args:
        tokenizer: as `load_tokenizer` gives it.
        seq_length: the window in tokens, special ones counted.
        unit: what has a tag: a `word`, as the tokenizer splits text, or a `character` that is not
            white space. Of WordPiece, characters are separate pieces (`CharacterPieces`).
        stride: tokens from one window's start to the next one's; default half of the window.

    Raises:
        UsageError: an option out of range.
    """

    def __init__(self, tokenizer=None, seq_length=128, unit="word", stride=None, **kwargs):
        super().__init__(seq_length, **kwargs)
        self.unit = check_choice("unit", unit, UNITS)
        self.stride = max(1, seq_length // 2) if stride is None else stride
        self.check()
        self.use(tokenizer)

    def reading(self):
        """Return the options as plain values, for `task.json`."""
        return {"seq_length": self.seq_length, "unit": self.unit, "stride": self.stride}

    def call(self, text, breaks=None):
        """Read texts; `breaks`: where a unit begins in any case, as of `split_units`."""
        self.need_tokenizer()
        texts = texts_of(text)
        if len(texts) > 1:
            raise UsageError(explain("a pair of texts to tag", "single texts"))
        units = split_units(texts[0], self.unit, breaks)
        pieces = self.pieces(units)
        kept = pieces.row_lengths() > 0
        unit_rows = tf.boolean_mask(units.starts.value_rowids(), kept)

        # Pieces of a text after each other, whatever unit they are of.
        counts = tf.math.unsorted_segment_sum(pieces.row_lengths(), units.starts.value_rowids(),
                                              units.starts.nrows())
        tokens = tf.RaggedTensor.from_row_lengths(pieces.values, counts, validate=False)
        size = self.seq_length - 2
        rows, _, windows = cut_windows(tokens, size, self.stride)
        # The windows of a text have cores of `stride` tokens one after the other, with a margin
        # on both sides, but that the first and the last reach to the text's ends.
        position = (tf.boolean_mask(pieces.row_starts(), kept)
                    - tf.gather(tokens.row_starts(), unit_rows))
        number = tf.math.floordiv(position - (size - self.stride) // 2, self.stride)
        num_windows = tf.math.bincount(tf.cast(rows, tf.int32), dtype=tf.int64,
                                       minlength=tf.size(counts), maxlength=tf.size(counts))
        number = tf.clip_by_value(number, 0, tf.gather(num_windows, unit_rows) - 1)
        window = tf.gather(tf.cumsum(num_windows, exclusive=True), unit_rows) + number
        packed = pack(self.tokenizer.vocabulary, [windows], self.seq_length, fixed=False)
        return {**{name: not_empty(ids) for name, ids in packed.items()}, "rows": rows,
                "num_units": tf.math.unsorted_segment_sum(tf.ones_like(unit_rows), unit_rows,
                                                          tf.size(counts)),
                "unit_starts": tf.boolean_mask(units.starts.values, kept),
                "unit_ends": tf.boolean_mask(units.ends.values, kept),
                "unit_places": tf.stack([window, int(self.tokenizer.vocabulary.initial_token)
                                         + position - number * self.stride], axis=1)}

    def pieces(self, units):
        """Return the pieces of each of `Units`: RaggedTensor int32 `[all units, (pieces)]`."""
        if self._characters is not None:
            return self._characters(units.text, units.inside)
        # Byte-level BPE has the blank before a word as a part of it; others overlook it.
        return self.tokenizer.tokenize(
            tf.strings.join([tf.where(units.spaced, " ", ""), units.text]))

    def use(self, tokenizer):
        """See `Preprocessor.use`."""
        super().use(tokenizer)
        of_characters = self.unit == "character" and isinstance(tokenizer, Tokenizer)
        self._characters = CharacterPieces(tokenizer) if of_characters else None
