"""How queries and passages become token ids, and which of their tokens have a vector."""

import dataclasses

import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.retrieval.prompts import PASSAGE, QUERY, ROLES, prompted
from bert_tf.tasks.base.text_preprocessor import not_empty
from bert_tf.tokenization.packing import pack

_LEAST = 3  # tokens of a text, special ones counted


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a `MultiVectorEmbedder` reads of a text, by its role.

    Attributes: those of the model's options.
    """

    query_length: int
    expansion: int
    attends_expansion: bool
    skiplist: list
    prompts: dict

    def check(self, longest):
        """Raise UsageError where an option is out of range, of a model of so many positions."""
        for name, least, most in (("query_length", _LEAST, longest),
                                  ("expansion", 0, self.query_length)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise UsageError(explain(f"{name}={value!r}", f"{least} to {most}"))
        if isinstance(self.skiplist, str) or not all(
                isinstance(token, str) for token in self.skiplist):
            raise UsageError(explain(f"skiplist={self.skiplist!r}", "a list of tokens"))

    def reader(self, preprocessor, role):
        """Return the `RoleReader` of a `TextPreprocessor`'s texts of a role."""
        if preprocessor.long != "head":
            raise UsageError(explain(f"long={preprocessor.long!r} with a vector for each token",
                                     "'head'"))
        return RoleReader(self, preprocessor, role)


class RoleReader:
    """Reads texts of one role; called as a `TextPreprocessor` is.

    Call: a dict of `text`, string `[n]` -> int32 `[n, longest]`: `input_word_ids`, `input_mask`,
    `input_type_ids` and `vector_mask`, 1 where a token has a vector.

    Args:
        reading: a `Reading`.
        preprocessor: a `TextPreprocessor`, whose window is that of passages.
        role: one of `ROLES`.
    """

    long = "head"

    def __init__(self, reading, preprocessor, role):
        preprocessor.need_tokenizer()
        self.reading, self.role = reading, role
        self.tokenizer = preprocessor.tokenizer
        self.seq_length = reading.query_length if role == QUERY else preprocessor.seq_length
        self._marker, self._prompt = marker_of(prompted(reading.prompts, role, ""), self.tokenizer)
        vocabulary = self.tokenizer.vocabulary
        self._skipped = [vocabulary.id(token) for token in reading.skiplist
                         if _is_known(token, vocabulary)]

    def tokenize(self, text):
        """Return the tokens of string `[n]` after the prompt, RaggedTensor int32."""
        text = tf.strings.join([self._prompt, text]) if self._prompt else text
        ids = self.tokenizer.tokenize(text)
        if self._marker is None:
            return ids
        return tf.concat([tf.fill([ids.nrows(tf.int32), 1], self._marker), ids], 1)

    def count(self, texts):
        """See `TextPreprocessor.count`."""
        (text,) = texts
        return self.tokenize(text).row_lengths() + self.tokenizer.vocabulary.num_special()

    def described(self):
        """Return what a client counts a text's tokens by, as plain values: `seq_length`, the text
        `prompt` before it, and the number of `special_tokens`."""
        special = self.tokenizer.vocabulary.num_special() + (self._marker is not None)
        return {"seq_length": self.seq_length, "prompt": self._prompt, "special_tokens": special}

    def __call__(self, inputs):
        vocabulary = self.tokenizer.vocabulary
        read = pack(vocabulary, [self.tokenize(inputs["text"])], self.seq_length, fixed=False)
        read = {name: not_empty(ids) for name, ids in read.items()}
        if self.role == QUERY:
            return self._expanded(read, vocabulary)
        skipped = tf.reduce_any(
            read["input_word_ids"][..., tf.newaxis] == tf.constant(self._skipped, tf.int32), -1)
        return {**read, "vector_mask": tf.where(skipped, 0, read["input_mask"])}

    def _expanded(self, read, vocabulary):
        """Put [MASK] after the end of short queries: it has vectors, whether or not others see it.

        Khattab and Zaharia 2020, "ColBERT", section 3.2, query augmentation.
        """
        width = self.reading.expansion
        missing = tf.maximum(width - tf.shape(read["input_mask"])[1], 0)
        read = {name: tf.pad(ids, [[0, 0], [0, missing]]) for name, ids in read.items()}
        mask = read["input_mask"]
        position = tf.range(tf.shape(mask)[1])
        added = (mask == 0) & (position < width)
        ids = tf.where(added, vocabulary.mask_id, tf.where(mask > 0, read["input_word_ids"],
                                                           vocabulary.pad_id))
        vectors = tf.where(added, 1, mask)
        return {**read, "input_word_ids": ids, "vector_mask": vectors,
                "input_mask": vectors if self.reading.attends_expansion else mask}


def marker_of(prompt, tokenizer):
    """Return `(id or None, text)`: the token that a prompt begins with, and the rest of it.

    A token that its own name in a text would not give, such as `[unused0]`, is meant where the
    prompt, or its first word, is the name.
    """
    for token in (prompt, *prompt.split(None, 1)[:1]):
        if _is_known(token, tokenizer.vocabulary):
            with tf.init_scope():
                [ids] = tokenizer.tokenize([token]).to_list()
            marker = tokenizer.vocabulary.id(token)
            return (None, prompt) if ids == [marker] else (marker, prompt.removeprefix(token))
    return None, prompt


def _is_known(token, vocabulary):
    return vocabulary.id(token) != vocabulary.unk_id or token == vocabulary.special_tokens[1]


def role_of(inputs):
    """Return `(role, texts)` of the inputs of a model: those of no role are passages.

    Raises:
        UsageError: pairs of texts, or texts of several roles.
    """
    if isinstance(inputs, dict):
        names = [name for name in (*ROLES, "text") if name in inputs]
        if len(names) != 1 or len(inputs) != 1:
            raise UsageError(explain(f"inputs {sorted(inputs)}", "query, passage or text, "
                                     "or input_word_ids, input_mask and input_type_ids"))
        return (QUERY if names == [QUERY] else PASSAGE), inputs[names[0]]
    return PASSAGE, inputs
