"""Different texts by their roles, as what a model with vectors of tokens reads."""

import numpy as np

from bert_tf.retrieval.prompts import ROLES
from bert_tf.tasks.base.text_features import in_place, read_texts, truncated_rows
from bert_tf.tasks.embedding.features import RoleTable
from bert_tf.tokenization.morphemes import pretokenize

_NAMES = ("input_word_ids", "input_type_ids", "input_mask", "vector_mask")


class ReaderTable(RoleTable):
    """Different texts, which a model's `RoleReader`s read; these put the prompts before them."""

    def _read(self, kind, text):
        return text, *super()._read(kind, text)[1:]

    def features(self, model):
        """See `TextTable.features`."""
        texts = pretokenize(model.preprocessor.tokenizer, self.texts, progress=True)
        groups, truncated, read = [], [], []
        for role in ROLES:
            rows, reader = self.rows_of(role), model.reader(role)
            own = {"text": [texts[row] for row in rows]}
            found = read_texts(own, reader, _NAMES)
            groups.append(rows)
            read.append(found)
            truncated.append(rows[truncated_rows(found, own, reader)])
        lengths = np.zeros(len(texts), np.int64)
        for rows, found in zip(groups, read, strict=True):
            lengths[rows] = found["input_word_ids"].lengths
        return {name: in_place(groups, lengths, [found[name].values for found in read])
                for name in _NAMES}, np.concatenate(truncated)
