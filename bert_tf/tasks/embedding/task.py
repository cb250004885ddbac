"""Vectors of texts: learned from queries and their texts, measured by the cosine of two."""

import numpy as np

from bert_tf.data.task_input import Features
from bert_tf.data.text_copies import normal_form
from bert_tf.errors import BertTfError, UsageError, explain, print_note
from bert_tf.retrieval.metrics import chance_notes, metrics_of_ranks
from bert_tf.retrieval.prompts import ROLES
from bert_tf.retrieval.search import of_length_1
from bert_tf.shapes import check_finite
from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.base.regression_metrics import regression_metrics
from bert_tf.tasks.base.task_type import SCORE_DIGITS, TaskType, served_answers, served_code
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.check import KINDS, kind_of, suited_loss
from bert_tf.tasks.embedding.crops import RandomCrops
from bert_tf.tasks.embedding.encoder import TextEncoder
from bert_tf.tasks.embedding.features import RoleTable, TextTable, firsts, query_features
from bert_tf.tasks.embedding.losses.table import check_widths
from bert_tf.tasks.embedding.metrics import similarity_metrics
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.embedding.options import EmbeddingLoss
from bert_tf.tasks.embedding.ranks import positive_ranks, products
from bert_tf.tasks.embedding.teacher import WITHOUT_LABELS, load_teacher

_CUTOFFS = (1, 10)  # of the recall
_MUCH_MISSING = 0.5  # of the texts of lists, from which on a note says it
_MANY_ALIKE = 0.1  # of the texts, from which on a note says that they are read as others
_ROUNDED = 1e-5  # of a component of a vector of length 1
_PROBED = 100  # texts alone that are read as queries and as passages before all are
_PAIRS, _QUERIES, _TEXTS = KINDS


class Embedding(TaskType):
    """The task `embed`; and tasks of pairs of texts with a model that predicts no labels.

    Labelled pairs are measured by the correlation of cosine and label; of a task with two labels,
    of which the last one means similar, by how the cosine separates them. Queries are measured by
    the ranks of their positives among all other texts of the examples.
    """

    models = (SentenceEmbedder, TextEncoder)
    answered_by = ("embed",)
    built_as = SentenceEmbedder.saved_as

    @classmethod
    def evaluates(cls, task, saved_task):
        """See `TaskType.evaluates`: pairs of texts, by any model that predicts no labels."""
        return task.pair and saved_task in (cls.built_as, *WITHOUT_LABELS)

    def __init__(self, task, options):
        super().__init__(task, options)
        if task.problem != "regression" and (task.labels or ("0", "1")) != ("0", "1"):
            raise UsageError(explain(
                f"--task {task.name} with a model without labels, whose vectors say only how "
                "similar two texts are", attempt="stsb, klue_sts, mrpc, qqp or pair, or "
                "bert_tf.finetune first"))
        if options.class_weights:
            raise UsageError(f"--class_weights with --task {task.name}, which has no labels; "
                             "omit it")
        self.loss = None  # the `EmbeddingLoss`, once the train examples are known
        self.same_vector = False  # whether all texts have one by the predictions made last
        self.kind = None  # one of `KINDS`, of the examples that are measured on

    def labels(self, train):
        """See `TaskType.labels`: none; a loss is chosen, and what it cannot learn is refused.

        What the file was found to hold is printed with it.
        """
        self.loss = suited_loss(self.options, train, self.models[0].loss_class)
        print(f"loss {self.loss.loss}, of {kind_of(train)}")
        return []

    def measure_on(self, examples):
        """See `TaskType.measure_on`."""
        if not isinstance(examples[0], QueryExample):
            return
        self.kind = kind_of(examples)
        if self.kind == _TEXTS:
            raise UsageError(explain(
                f"{examples[0].where}: {self.kind}, which vectors cannot be measured on",
                "pairs with a score, or queries with positives"))
        if self.kind == _PAIRS and len({example.scores[0] for example in examples}) < 2:
            raise BertTfError(explain(
                f"{examples[0].where}: all {len(examples)} examples have the score "
                f"{examples[0].scores[0]:g}, with which nothing correlates", "different ones"))

    @property
    def monitor(self):
        """See `TaskType.monitor`; of labelled pairs `spearman`."""
        return ("spearman", max) if self.kind == _PAIRS else super().monitor

    def check_model(self, about, where):
        """See `TaskType.check_model`: every model that `evaluates` takes fits."""
        if about["task"] not in WITHOUT_LABELS:
            super().check_model({"task": about["task"]}, where)

    def check_examples(self, examples, about, served):
        """See `TaskType.check_examples`."""
        self.measure_on(examples)

    def model_options(self, labels, tokenizer):
        """See `TaskType.model_options`; the beginning of each text is read."""
        options = {"preprocessor": TextPreprocessor(tokenizer, self.options.max_seq_length)}
        if self.options.pooling is not None:
            options["pooling"] = self.options.pooling
        if self.loss is not None:
            options["training_loss"] = self.loss
        return self.built_as, options

    def truncation(self, preprocessor):
        """See `TaskType.truncation`."""
        return "texts", preprocessor.seq_length

    def features(self, examples, model, training):
        """See `TaskType.features`: a row for each positive; for prediction one for each text."""
        if training:
            _tell_products(self.loss, model)
            check_widths(self.loss, model.width)
            _check_pooling(model)
            crops = self.options.crops and RandomCrops(self.options.crops, self.options.seed)
            if not crops:
                _check_dropout(examples, self.loss, model)
            teacher = load_teacher(self.loss, model) if self.loss.teacher else None
            features = query_features(examples, model, self.loss, teacher, crops)
            _tell_missing(features.lists)
            _tell_alike(features)
            return features
        table, rows = table_of(examples, model.table_class(model.prompts))
        read, truncated = table.features(model)
        longer = set(truncated.tolist())
        return Features(read, np.arange(len(table.texts)), model.preprocessor.window,
                        truncated=sum(not longer.isdisjoint(row) for row in rows))

    def predict(self, model, examples):
        """Return `{"id", "score"}` of each pair, the cosine; of queries `{"id", "score", "ranks"}`.

        `ranks` are those of the positives among all texts of the examples but the query's own,
        from 1; `score` is the highest cosine of a positive.
        """
        features = self.features_to_predict(model, examples)
        vectors = np.zeros((len(features), model.width), np.float32)
        for rows, found, _ in self.outputs(model, features):
            vectors[rows] = found
        table, rows = table_of(examples, TextTable(model.prompts))
        return self._lines(examples, table, rows, vectors)

    def predict_served(self, signatures, about, examples):
        """See `TaskType.predict_served`; by the signature `embed`."""
        table, rows = table_of(examples, TextTable(about.get("prompts") or {}))
        vectors = [None] * len(table.texts)
        for row, answer in served_answers(signatures, "embed", {"text": table.texts}, about):
            vectors[row] = answer["embedding"]
        if vectors[0].ndim != 1:
            raise UsageError(explain("a SavedModel with a vector for each token",
                                     "another --pooling at export than none"))
        return self._lines(examples, table, rows, served_code(signatures).decode(np.stack(vectors)))

    def _lines(self, examples, table, rows, vectors):
        """Return what `predict` does of the vectors of all texts in a table."""
        check_finite(vectors, "the model gives vectors")
        vectors = of_length_1(vectors)
        self.same_vector = len(vectors) > 1 and np.ptp(vectors, axis=0).max() < _ROUNDED
        return lines_of(examples, table, rows, vectors)

    def metrics(self, examples, predictions):
        """See `TaskType.metrics`: of ranks, correlations, or of how the cosine separates two."""
        if "ranks" in predictions[0]:
            return metrics_of_ranks([line["ranks"] for line in predictions], _CUTOFFS)
        truth = [_label(example) for example in examples]
        scores = [line["score"] for line in predictions]
        if self.task.problem == "regression" or isinstance(examples[0], QueryExample):
            # A cosine is on another scale: errors would mean nothing.
            metrics = regression_metrics(truth, scores)
            return {name: metrics[name] for name in ("spearman", "pearson")}
        labels = self.task.labels or sorted(set(truth))
        if len(labels) != 2:
            raise BertTfError(explain(f"{len(labels)} labels to be predicted by similarity", "two"))
        return similarity_metrics([label == labels[-1] for label in truth], scores)

    def notes(self, examples, predictions, metrics):
        """See `TaskType.notes`: the same vector for all texts, ranks no better than by chance."""
        scores = {line["score"] for line in predictions}
        if self.same_vector and len(scores) == 1:
            return [f"every cosine is {scores.pop():g}: all texts have the same vector"]
        if "ranks" not in predictions[0]:
            return []
        texts = {normal_form(text) for example in examples for text in example.texts[1:]}
        return chance_notes(metrics, [(len(texts), len(line["ranks"])) for line in predictions])


def _tell_products(loss, model):
    """Say where vectors learn by other similarities than those that they are compared by."""
    by_products = loss.similarity == "dot" or loss.loss == "margin_mse" and not loss.similarity
    if type(loss) is not EmbeddingLoss or not by_products:
        return
    if loss.matryoshka_widths or not model.pooling.normalize:  # first components are shorter than 1
        print_note(f"--loss {loss.loss} is of dot products here; models are chosen, and vectors "
                   "searched, by cosines")


def _tell_missing(lists):
    """Say where most texts of the batches are none, as a row with many hard negatives has them."""
    share = np.mean(lists < 0)
    if share > _MUCH_MISSING:
        print_note(f"a row has {lists.shape[1] - 2} hard negatives and most have fewer: "
                   f"{share:.0%} of the texts of a batch are empty; try --negatives N to leave "
                   "some out")


def _tell_alike(features):
    """Say where the model reads many texts as it reads others, so that they are no negatives."""
    present = features.lists >= 0
    texts, read = (len(np.unique(rows[present])) for rows in (
        features.lists, features.rows["text_ids"]))
    if texts - read > _MANY_ALIKE * texts:
        print_note(f"the model reads {texts:,} different texts as {read:,}: others differ only "
                   "after --max_seq_length, in unknown words, in case or in blanks")


def _check_pooling(model):
    """Refuse to train vectors of a token that has seen no other."""
    config = model.config
    if getattr(model, "pooling", None) is not None and config.attention == "causal" and (
            model.pooling.pooling in ("cls", "cls_pooled") and not config.bilstm):
        raise UsageError(explain(f"--pooling {model.pooling.pooling} of an encoder that reads left "
                                 "to right, whose first token has seen no other",
                                 "--pooling sep or mean"))


def _check_dropout(examples, loss, model):
    """Refuse texts alone where nothing tells a text's two vectors apart."""
    config = model.config
    if kind_of(examples) == _TEXTS and loss.loss == "in_batch" and not (
            config.hidden_dropout_prob or config.attention_probs_dropout_prob
            or _reads_by_role(model, [example.query for example in examples[:_PROBED]])):
        raise UsageError(explain(f"{_TEXTS} and a model without dropout, which is all that "
                                 "makes a text's two vectors differ",
                                 attempt="--dropout 0.1, or --crops 8"))


def _reads_by_role(model, texts):
    """Return whether the model reads any of the texts otherwise as a query than as a passage."""
    table = model.table_class(model.prompts)
    if not isinstance(table, RoleTable):
        return False
    if getattr(model, "query_table", None) is not None:
        return True
    rows = [[table.add(role, text) for role in ROLES] for text in texts]
    read, _ = table.features(model)
    return any(not np.array_equal(part[query], part[passage])
               for part in read.values() for query, passage in rows)


def _label(example):
    """Return the label of a pair."""
    if isinstance(example, QueryExample):
        return example.scores[0]
    if example.label is None:
        raise BertTfError(explain(f"{example.where}: no label", "one in every example"))
    return example.label


def table_of(examples, table):
    """Return `(table, rows)`: an empty `TextTable` with the texts of examples, and of each example
    the rows of its texts, a list."""
    rows = []
    for example in examples:
        is_query = isinstance(example, QueryExample) and not example.is_labelled_pair
        first, *others = example.texts
        rows.append([table.add("query" if is_query else None, first),
                     *(table.add("passage" if is_query else None, other) for other in others)])
    return table, rows


def lines_of(examples, table, rows, vectors, compare=products):
    """Return what `predict` does of vectors.

    Texts are one where they differ in case, width and blanks alone, whatever the model reads of
    them: of fewer texts the metrics of a model that reads less would be better.

    Args:
        examples: list of `Example`.
        table, rows: of `table_of`.
        vectors: of the texts in the table.
        compare: as of `positive_ranks`.
    """
    def similarity(query, text):
        return round(float(compare(vectors[[query]], vectors[[text]])[0, 0]), SCORE_DIGITS)

    if not isinstance(examples[0], QueryExample) or examples[0].is_labelled_pair:
        return [{"id": example.id, "score": similarity(*row)}
                for example, row in zip(examples, rows, strict=True)]
    same = [table.same(*given) for given in table.given]
    first = firsts(same).tolist()
    rows = [[first[row] for row in own] for own in rows]
    texts = sorted({text for row in rows for text in row[1:]})
    place, positives = {row: at for at, row in enumerate(texts)}, {}
    for example, (query, *others) in zip(examples, rows, strict=True):
        positives.setdefault(query, {}).update(dict.fromkeys(others[:len(example.positives)]))
    # A query's own text, which is nearest to it, is no answer unless it is its positive.
    places_of = {same[row]: [at] for row, at in place.items()}
    own_texts = [places_of.get(table.same("passage", table.given[query][1]), [])
                 for query in positives]
    ranks = dict(zip(positives, positive_ranks(
        vectors[list(positives)], vectors[texts],
        [[place[row] for row in own] for own in positives.values()],
        own_texts, compare), strict=True))
    return [{"id": example.id, "ranks": ranks[query],
             "score": max(similarity(query, text) for text in positives[query])}
            for example, (query, *_) in zip(examples, rows, strict=True)]


TYPE = Embedding
