"""Queries and their texts as what an embedder learns from."""

import hashlib

import numpy as np
import tensorflow as tf

from bert_tf.data.tables import BadRow
from bert_tf.data.task_input import Features, Ragged, Shared, TaskInput, without_position
from bert_tf.data.text_copies import normal_form
from bert_tf.errors import UsageError, explain
from bert_tf.retrieval.prompts import PASSAGE, QUERY, prompted
from bert_tf.tasks.base.text_features import read_texts, truncated_rows
from bert_tf.tasks.embedding.check import KINDS, kind_of
from bert_tf.tasks.embedding.crops import RandomCrops
from bert_tf.tokenization.morphemes import pretokenize


class TextTable:
    """Different texts, each tokenized once.

    Args:
        prompts: of each `VectorModel` that reads them, for whom a text may be a query and a
            passage; the first one's are in `texts`.
    """

    def __init__(self, *prompts):
        self.prompts = prompts
        self.given = []  # `(kind, text)` of each row
        self._rows = {}

    def add(self, kind, text):
        """Return the row of a text; for its `kind` see `prompted`."""
        row = self._rows.setdefault(self._read(kind, text), len(self._rows))
        if row == len(self.given):
            self.given.append((kind, text))
        return row

    def same(self, kind, text):
        """Return what a text has in common with those of its role that differ from it in case,
        width and blanks alone: see `normal_form`."""
        return self._read(kind, normal_form(text))

    def _read(self, kind, text):
        return tuple(prompted(prompts, kind, text) for prompts in self.prompts)

    @property
    def texts(self):
        """The texts of the rows with their prompts, a list of str."""
        return [text for text, *_ in self._rows]

    @property
    def roles(self):
        """The role of each row, a list; all are of one where models read queries as passages."""
        return [None] * len(self._rows)

    def features(self, model):
        """Return `(rows, truncated)`: the Ragged of `read_texts` as the model reads them, and which
        rows are truncated."""
        preprocessor = model.preprocessor
        texts = {"text": pretokenize(preprocessor.tokenizer, self.texts, progress=True)}
        rows = read_texts(texts, preprocessor)
        return rows, truncated_rows(rows, texts, preprocessor)


class RoleTable(TextTable):
    """Different texts, each once in each of its roles: as a query, else as a passage."""

    def _read(self, kind, text):
        return *super()._read(kind, text), QUERY if kind == QUERY else PASSAGE

    @property
    def roles(self):
        """See `TextTable.roles`."""
        return [own for *_, own in self._rows]

    def rows_of(self, role):
        """Return the rows of a role, int64."""
        return np.array([row for row, own in enumerate(self.roles) if own == role], np.int64)


def firsts(keys):
    """Return for each of n keys the place of the first one that is equal, int64 `[n]`."""
    places = {}
    return np.array([places.setdefault(key, place) for place, key in enumerate(keys)], np.int64)


def _digest(parts):
    return hashlib.blake2b(b"".join(part.tobytes() for part in parts), digest_size=16).digest()


def query_features(examples, model, options, teacher=None, crops=None):
    """Return the `Features` of examples, a row for each positive.

    Args:
        examples: list of `QueryExample`, of one kind: labelled pairs, texts alone, or queries with
            positives.
        model: a `VectorModel` with a preprocessor.
        options: an `EmbeddingLoss`.
        teacher: a `SentenceEmbedder` whose vectors are learned from, or None.
        crops: `RandomCrops` of texts alone: a row for each pair that it draws.

    Returns:
        Features, in whose batches there are, beside `text_ids` `[b, k]` of the query, its positive
        and its hard negatives (a text alone is its own positive; texts that the model reads alike
        have one id), int32 `positive_ids` `[b, m]`, of all its positives and of its own text where
        that is a passage (of all spans of its text, where it is cropped), and, where examples have
        scores, float32 `scores` `[b, k - 1]`; with a teacher float32 `teacher` `[b, k, teacher's
        width]`.

    Raises:
        UsageError: the preprocessor reads texts in windows.
    """
    if model.preprocessor.window:
        raise UsageError(explain(f"training of vectors of texts read in windows "
                                 f"(long={model.preprocessor.long!r})", "long='head'"))
    table = model.table_class(model.prompts, *([] if teacher is None else [teacher.prompts]))
    labelled = any(example.is_labelled_pair for example in examples)
    alone = not any(example.positives for example in examples)
    # Texts alone are equals, but where roles are read otherwise: there each is read in both.
    by_role = issubclass(model.table_class, RoleTable)
    kinds = (None, None) if labelled or alone and not by_role else ("query", "passage")
    rows = []
    given = [(number, example, query, positives) for number, example in enumerate(examples)
             for query, *positives in (crops(example.query) if crops else [
                 (example.query, *(example.positives or [example.query]))])]
    for number, example, query, positives in given:
        query = table.add(kinds[0], query)
        positives = [table.add(kinds[1], text) for text in positives]
        negatives = [table.add(kinds[1], text)
                     for text in example.negatives[:options.negatives]]
        scores = example.scores or ()
        after = scores[len(positives):]
        for at, positive in enumerate(positives):
            rows.append((number, [query, positive, *negatives],
                         [*scores[at:at + 1], *after[:len(negatives)]]))
    read, truncated = table.features(model)
    lists = _padded([row for _, row, _ in rows], -1)
    example_of = np.array([number for number, *_ in rows], np.int64)
    read_alike = firsts((role, _digest([part[row] for part in read.values()]))
                        for row, role in enumerate(table.roles))
    ids = np.append(1 + read_alike, 0).astype(np.int32)  # 0 of none, whose row is -1
    positive_ids = _positive_ids(table, kinds[1], lists, ids, example_of if crops else None)
    if options.loss == "vectors" and alone:
        lists = lists[:, :1]  # nothing is learned from a text's second vector
    arrays = {"text_ids": ids[lists], "positive_ids": positive_ids}
    scores = _padded([scores for *_, scores in rows], 0, np.float32)
    if labelled or scores.shape[1] > 1:  # else they are of positives alone, of no use
        # A cosine is at most 1; other losses know of scores their order or their differences.
        arrays["scores"] = scores / max(1, scores.max()) if options.loss == "cosine" else scores
    count = len(set(example_of[np.isin(lists, truncated).any(axis=1)].tolist()))
    of_rows = {} if teacher is None else {"teacher": _teacher_vectors(table, teacher)}
    return Features({**read, **arrays}, example_of, truncated=count, lists=lists.astype(np.int64),
                    of_rows=of_rows)


def _positive_ids(table, kind, lists, ids, texts):
    """Return the Shared lists of `positive_ids`, one for each query.

    Args:
        table: a `TextTable`.
        kind: what its positives are to it.
        lists: int `[n, k]`, rows of the table: query, positive, hard negatives.
        ids: int32 `[texts + 1]`, of each row of the table, and 0 of none.
        texts: int `[n]`, of which text each row's two are spans; None where they are none.
    """
    queries, numbers = ids[lists[:, 0]].tolist(), ids[lists]
    found = {query: set() for query in queries}
    for query, positive in zip(queries, numbers[:, 1].tolist(), strict=True):
        found[query].add(positive)
    owners = {}  # of each text: the queries whose own it is, to which nothing is as similar
    for query, row in set(zip(queries, lists[:, 0].tolist(), strict=True)):
        owners.setdefault(table.same(kind, table.given[row][1]), []).append(query)
    for row in set(np.unique(lists[:, 1:]).tolist()) - {-1}:
        passage = int(ids[row])
        for query in (*owners.get(table.same(*table.given[row]), ()),
                      *([passage] if passage in found else [])):  # is read as that query
            found[query].add(passage)
    if texts is not None:  # spans of one text, which may overlap, are no negatives of each other
        spans = {}
        for text, row in zip(texts.tolist(), numbers.tolist(), strict=True):
            spans.setdefault(text, set()).update(row)
        for text, query in zip(texts.tolist(), queries, strict=True):
            found[query] |= spans[text]
    places = {query: place for place, query in enumerate(found)}
    return Shared(Ragged.of_rows(list(map(sorted, found.values()))),
                  [places[query] for query in queries])


def _padded(rows, fill, dtype=np.int32):
    """Return lists as one array, `fill` after the end of each."""
    padded = np.full((len(rows), max(map(len, rows))), fill, dtype)
    for at, row in enumerate(rows):
        padded[at, :len(row)] = row
    return padded


def _teacher_vectors(table, teacher):
    """Return the teacher's vectors of the texts in a table, float32 `[texts, width]`."""
    return teacher.embed([prompted(teacher.prompts, *given) for given in table.given])


def query_batches(examples, model, batch_size, seed, epochs=1, loss=None, crops=None):
    """Return batches of queries and their texts for `model.fit`.

        model.compile("adam", bert_tf.EmbeddingLoss())
        model.fit(bert_tf.query_batches(examples, model, 32, seed=1, epochs=3))

    Args:
        examples: list of `QueryExample`, such as `bert_tf.read_queries(path)` yields.
        model: the `VectorModel`, with a preprocessor.
        batch_size: queries of a batch, over all replicas.
        seed: of the order.
        epochs: passes over the examples, each in a different order; all are in the dataset.
        loss: an `EmbeddingLoss`, for its `negatives`, and for what `cosine` and `vectors` want of
            the data; None for the one that the model was compiled with.
        crops: of texts alone: so many pairs of random spans of each are to find each other, see
            `RandomCrops`; None for a text read twice, with other dropout.

    Returns: tf.data.Dataset of dicts, see `query_features`; the last batch of a pass is filled
        with rows whose `example_weights` are 0.

    Raises:
        BertTfError: a BadRow, which is raised itself, or examples of several kinds.
        UsageError: the model cannot learn from such examples, or by that loss.
    """
    examples = list(examples)
    for example in examples:
        if isinstance(example, BadRow):
            raise example
    kind = kind_of(examples)
    if kind == KINDS[0] and issubclass(model.table_class, RoleTable):
        raise UsageError(explain(f"{examples[0].where}: {kind} for {model.name}", KINDS[1]))
    if crops and kind != KINDS[2]:
        raise UsageError(explain(f"crops={crops} of {kind}", KINDS[2]))
    loss = model.training_loss if loss is None else model.check_loss(loss)
    features = query_features(examples, model, loss, crops=crops and RandomCrops(crops, seed))
    made = TaskInput(features, batch_size, seed, False, model.config.padding_id, epochs=epochs)
    count = tf.data.experimental.assert_cardinality(made.steps_per_epoch * epochs)
    return without_position(made.dataset()).apply(count)
