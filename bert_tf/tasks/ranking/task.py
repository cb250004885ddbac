"""Queries and passages: cross-encoders learn to rank them, other models are measured on it."""

import numpy as np

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.retrieval.metrics import DEPTH, chance_notes, metrics_of_ranks
from bert_tf.retrieval.prompts import prompted
from bert_tf.retrieval.ranking import cosines
from bert_tf.shapes import check_finite
from bert_tf.tasks.base.labelled import pooled_by
from bert_tf.tasks.base.task_type import SCORE_DIGITS, TaskType, served_answers, served_code
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.ranking.candidates import Candidates
from bert_tf.tasks.ranking.features import list_features, pair_features
from bert_tf.tasks.ranking.losses import LOSSES
from bert_tf.tasks.ranking.model import Ranker

_NEGATIVES = 7  # beside each positive in training
_DRAWN = 20  # candidates of a query that is measured and has no negatives of its own
_DRAWN_SEED = 0  # of them: whatever the seed of a training, all models are measured on the same


class Ranking(TaskType):
    """Tasks of a `Ranker`; cross-encoders that others trained and embedders are evaluated, too."""

    models = (Ranker,)
    answered_by = ("rank",)

    def __init__(self, task, options):
        super().__init__(task, options)
        if options.class_weights:
            raise UsageError(f"--class_weights with --task {task.name}: weights are for labels; "
                             "omit it")

    @classmethod
    def evaluates(cls, task, saved_task):
        """See `TaskType.evaluates`; a `Ranker` is saved as a classifier of one number."""
        return task.type == "ranking" and saved_task in ("classifier", "embedder")

    def check_model(self, about, where):
        """See `TaskType.check_model`."""
        ranks = about["task"] == "embedder" or about["task"] == "classifier" and (
            about.get("problem") == "regression")
        if not ranks:
            raise UsageError(explain(
                f"--task {self.task.name} with {where}, which gives no number to rank by",
                "a reranker, a cross-encoder of one number or an embedder",
                "bert_tf.finetune --task rank first"))

    def model_options(self, labels, tokenizer):
        """See `TaskType.model_options`."""
        options = self.options
        return "ranker", {
            "preprocessor": TextPreprocessor(tokenizer, options.max_seq_length, pair=True),
            "loss": check_choice("loss", options.loss or "listwise", LOSSES),
            **self.feature_options()}

    def encoder_options(self):
        """See `TaskType.encoder_options`; the vector that the head reads."""
        return pooled_by(self.options.pooling)

    def truncation(self, preprocessor):
        """See `TaskType.truncation`."""
        return "pairs of query and passage", preprocessor.seq_length

    def features(self, examples, model, training):
        """See `TaskType.features`: for training a list for each positive, else pairs."""
        if not training:
            return pair_features(self._candidates(examples), model.preprocessor)
        options, drawn = self.options, Candidates(examples, self.options.seed)
        lists = [list(drawn.lists(example, options.negatives or _NEGATIVES))
                 for example in examples]
        return list_features(
            [(example.query, texts) for example, own in zip(examples, lists, strict=True)
             for texts in own],
            model.preprocessor, np.repeat(np.arange(len(examples)), list(map(len, lists))))

    def predict(self, model, examples):
        """Return `{"id", "ranking", "ranks"}` for each query.

        `ranking` is a list of `{"text", "score"}`, the best candidates first, `ranks` those of the
        positives among all `candidates`. Of equal scores negatives come first: a model that scores
        all alike ranks nothing.
        """
        lists = self._candidates(examples)
        if hasattr(model, "embed"):
            queries, passages = _columns(lists)
            return self._lines(examples, lists, model.scores(queries, passages))
        features = self.features_to_predict(model, examples)
        scores = np.zeros(len(features), np.float32)
        for rows, logits, _ in self.outputs(model, features):
            scores[rows] = logits[:, 0]
        return self._lines(examples, lists, scores)

    def predict_served(self, signatures, about, examples):
        """See `TaskType.predict_served`; by the signature `rank`, else `embed`."""
        lists = self._candidates(examples)
        queries, passages = _columns(lists)
        if "rank" not in signatures:
            return self._lines(examples, lists, _cosines(signatures, about, queries, passages))
        scores = np.zeros(len(queries), np.float32)
        for row, answer in served_answers(signatures, "rank", {
                "query": queries, "passage": passages}, about):
            scores[row] = answer["score"]
        return self._lines(examples, lists, scores)

    def metrics(self, examples, predictions):
        """See `TaskType.metrics`: of the ranks of the positives among the candidates."""
        return metrics_of_ranks([line["ranks"] for line in predictions], cutoffs=())

    def notes(self, examples, predictions, metrics):
        """See `TaskType.notes`: rankings no better than by chance."""
        if all(line["ranking"][0]["score"] == line["ranking"][-1]["score"]
               for line in predictions):
            return ["all candidates have the same score, as by an untrained model"]
        return chance_notes(metrics, [(line["candidates"], len(line["ranks"]))
                                      for line in predictions])

    def _candidates(self, examples):
        """Return `(query, texts)` of each example: its positives, then negatives."""
        drawn = Candidates(examples, _DRAWN_SEED)
        return [(example.query, [*example.positives, *drawn.negatives(example, _DRAWN)])
                for example in examples]

    @staticmethod
    def _lines(examples, lists, scores):
        check_finite(scores, "the model gives scores")
        lines, start = [], 0
        for example, (_, texts) in zip(examples, lists, strict=True):
            own = scores[start:start + len(texts)]
            start += len(texts)
            relevant = np.arange(len(texts)) < len(example.positives)
            order = np.lexsort((relevant, -own))
            lines.append({
                "id": example.id, "candidates": len(texts),
                "ranks": (1 + np.flatnonzero(relevant[order])).tolist(),
                "ranking": [{"text": texts[place], "score": round(float(own[place]), SCORE_DIGITS)}
                            for place in order[:DEPTH]]})
        return lines


def _columns(lists):
    return ([query for query, texts in lists for _ in texts],
            [text for _, texts in lists for text in texts])


def _cosines(signatures, about, queries, passages):
    prompts = about.get("prompts") or {}
    queries, passages = ([prompted(prompts, kind, text) for text in column]
                         for kind, column in (("query", queries), ("passage", passages)))
    texts = list(dict.fromkeys([*queries, *passages]))
    vectors = {texts[row]: answer["embedding"] for row, answer in served_answers(
        signatures, "embed", {"text": texts}, about)}
    code = served_code(signatures)
    return cosines(*(code.decode(np.stack([vectors[text] for text in column]))
                     for column in (queries, passages)))


TYPE = Ranking
