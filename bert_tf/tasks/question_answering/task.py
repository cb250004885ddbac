"""Answers to questions about a text."""

import os
import types

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.storage import files
from bert_tf.tasks.base.character_batches import batches_by_length, sizes_of
from bert_tf.tasks.base.task_type import SCORE_DIGITS, TaskType
from bert_tf.tasks.question_answering.answers import answers_to
from bert_tf.tasks.question_answering.features import span_features
from bert_tf.tasks.question_answering.metrics import (
    best_null_threshold,
    character_f1,
    korquad_metrics,
    squad_metrics,
)
from bert_tf.tasks.question_answering.model import QuestionAnswering
from bert_tf.tasks.question_answering.preprocessor import QuestionPreprocessor
from bert_tf.tokenization.morphemes import HANGUL

WRONG_ANSWERS = "wrong_answers.jsonl"
_OF_PREPROCESSOR = ("doc_stride", "max_query_length")
_OF_MODEL = ("n_best", "max_answer_length", "null_threshold")


class QuestionAnsweringType(TaskType):
    """Tasks of a `QuestionAnswering` model.

    Answers are those of the graph that is served. Where a question may have no answer, the
    threshold that decides is tuned on the dev examples, unless `--null_threshold` gives it, and
    stored in the model. Where answers hold Hangul, whose particles make other words of the same
    answer, what is best is told by F1 over characters.
    """

    models = (QuestionAnswering,)
    answered_by = ("answer",)

    def __init__(self, task, options):
        super().__init__(task, options)
        self.measures_rows = task.columns is not None  # else its files are no tables
        self._by_characters = False  # until the examples are known
        for name, value in (("class_weights", options.class_weights),
                            ("features", options.features is not None)):
            if value:
                raise UsageError(f"--{name} with --task {task.name}: it is for labels, not for "
                                 "answers; omit it")
        if options.null_threshold is not None and not task.unanswerable:
            raise UsageError(explain(f"--null_threshold with --task {task.name}, where every "
                                     "question has an answer", attempt="--task squad_v2"))

    def labels(self, train):
        """Return none; check that there are answers to train on.

        Raises:
            BertTfError: a question without its answer, or no answer at all.
        """
        for example in train:
            if not example.answers and not self.task.unanswerable:
                raise BertTfError(explain(f"{example.where}: no answer",
                                          "one in every train example"))
        if not any(example.answers for example in train):
            raise BertTfError(explain(f"none of {len(train)} questions has an answer",
                                      "some with answers"))
        return []

    def measure_on(self, examples):
        """See `TaskType.measure_on`."""
        self._by_characters = self._is_korean(examples)

    def check_examples(self, examples, about, served):
        """See `TaskType.check_examples`."""
        self.measure_on(examples)

    @property
    def monitor(self):
        """See `TaskType.monitor`."""
        return ("character_f1", max) if self._by_characters else super().monitor

    def _is_korean(self, examples):
        return self.task.name != "korquad" and any(
            HANGUL.search(text) for example in examples for text, _ in example.answers)

    def model_options(self, labels, tokenizer):
        """See `TaskType.model_options`; texts are read by `max_seq_length`, `doc_stride` …"""
        given = self._given(_OF_PREPROCESSOR)
        preprocessor = QuestionPreprocessor(tokenizer, self.options.max_seq_length, **given)
        threshold = {"null_threshold": 0.0} if self.task.unanswerable else {}
        return "span", {"preprocessor": preprocessor, **threshold, **self._given(_OF_MODEL)}

    def truncation(self, preprocessor):
        """See `TaskType.truncation`: questions; contexts are read in windows."""
        return "questions", preprocessor.max_query_length

    def features(self, examples, model, training):
        """See `TaskType.features`: a row a window, with the answers for training."""
        return span_features(examples, model.preprocessor, training)

    def notes(self, examples, predictions, metrics):
        """See `TaskType.notes`: answers that take no look at the question."""
        predicted = {line["answer"] for line in predictions}
        if len(predicted) == 1 and len({example.answers for example in examples}) > 1:
            what = (f"answered {predicted.pop()!r}" if any(predicted)
                    else "predicted to have no answer")
            return [f"every question is {what}, as by an untrained model"]
        name = "character_f1" if self._is_korean(examples) else "f1"
        if name == "f1" and not metrics.get("has_answer_f1", metrics["f1"]) and any(
                example.answers for example in examples):
            return ["no predicted answer has a word of the labelled one, as by an untrained model"]
        unanswered = 100 * sum(not example.answers for example in examples) / len(examples)
        return [] if metrics[name] > unanswered else [
            f"{name} {metrics[name]:.4f} is no better than that of answering no question "
            f"({unanswered:.4f})"]

    def predict(self, model, examples):
        """Return a line a question, see `answer_line`; as `model.answer` answers it."""
        for name, value in self._given(_OF_MODEL).items():
            setattr(model, name, value)
        reading = model.preprocessor.reading()
        if {**reading, **self._given(_OF_PREPROCESSOR)} != reading:
            model.preprocessor = QuestionPreprocessor(
                model.preprocessor.tokenizer, **{**reading, **self._given(_OF_PREPROCESSOR)})
        return _answered(model.answer_tensors, examples, model.null_threshold)

    def tuned(self, model, examples, predictions):
        """Choose the threshold of having no answer. See `TaskType.tuned`."""
        if not self.task.unanswerable or self.options.null_threshold is not None:
            return predictions
        best = {line["id"]: line["answers"][0]["text"] if line["answers"] else ""
                for line in predictions}
        scores = {line["id"]: line["no_answer_score"] for line in predictions}
        model.null_threshold = best_null_threshold(
            examples, best, scores, character_f1 if self._is_korean(examples) else None)
        return [decided(line, model.null_threshold) for line in predictions]

    def predict_served(self, signatures, about, examples):
        """See `TaskType.predict_served`."""
        def ask(question, context):
            return answers_to(lambda question, context: signatures["answer"](
                question=question, context=context), question, context,
                types.SimpleNamespace(pretokenize=about.get("pretokenize")))

        threshold = self.options.null_threshold
        if threshold is None:
            threshold = about.get("null_threshold")
        return _answered(ask, examples, threshold)

    def prediction(self, example, row):
        """See `TaskType.prediction`."""
        return {"id": example.id, "answer": row["answer"] or ""}

    def metrics(self, examples, predictions):
        """Return `{"exact_match", "f1", …}` of `squad_metrics` or `korquad_metrics`, in percent, as
        the task is measured; of answers in Hangul also `character_f1`."""
        answers = {line["id"]: line["answer"] for line in predictions}
        if self.task.name == "korquad":
            return korquad_metrics(examples, answers)
        further = {}
        if self._by_characters or self._is_korean(examples):
            further["character_f1"] = character_f1(examples, answers)
        return {**squad_metrics(examples, answers, version=2 if self.task.unanswerable else 1),
                **further}

    def report(self, examples, predictions, folder):
        """Write `wrong_answers.jsonl`: questions that were not answered exactly, the surest
        first."""
        lines = []
        for example, line in zip(examples, predictions, strict=True):
            if self.metrics([example], [line])["exact_match"] < 100:
                lines.append({"id": example.id, "question": example.question,
                              "right": [text for text, _ in example.answers],
                              "answer": line["answer"], "score": line["score"],
                              "where": example.where})
        lines.sort(key=lambda line: -line["score"])
        files.write_json_lines(os.path.join(folder, WRONG_ANSWERS), lines)

    def _given(self, names):
        """Return the options among `names` that were given."""
        return {name: getattr(self.options, name) for name in names
                if getattr(self.options, name) is not None}


def answer_line(example, found, null_threshold):
    """Return a line of predictions.jsonl.

    Args:
        example: a `SpanExample`.
        found: of this question, arrays, what `answers.answers_from` gives.
        null_threshold: None or a float.

    Returns:
        `{"id", "answer", "score", "no_answer_score", "answers"}`; `answers` are
        `{"text", "start", "end", "score"}`, best first, with characters of the context; `answer`
        is the first of them or, where the question has none, "", and `score` its probability.
    """
    answers = [{"text": text.decode(), "start": int(start), "end": int(end),
                "score": round(float(score), SCORE_DIGITS)}
               for text, start, end, score in zip(*(found[name] for name in (
                   "answers", "starts", "ends", "scores")), strict=True) if text]
    return decided({"id": example.id, "no_answer_score": float(found["no_answer_score"]),
                    "answers": answers}, null_threshold)


def decided(line, null_threshold):
    """Return an `answer_line` with the `answer` that the threshold leaves, and its `score`."""
    answers = line["answers"]
    none = not answers or (null_threshold is not None and line["no_answer_score"] > null_threshold)
    missing = max(0.0, 1 - sum(answer["score"] for answer in answers))
    return {"id": line["id"], "answer": "" if none else answers[0]["text"],
            "score": round(missing, SCORE_DIGITS) if none else answers[0]["score"],
            "no_answer_score": line["no_answer_score"], "answers": answers}


def _answered(ask, examples, null_threshold):
    """Return a line for every example, of what `ask(questions, contexts)` answers, lists of str
    each."""
    lines = [None] * len(examples)
    sizes = sizes_of([[example.context for example in examples]])
    for rows in batches_by_length(sizes, progress=True):
        found = ask([examples[row].question for row in rows],
                    [examples[row].context for row in rows])
        found = {name: value.numpy() for name, value in found.items()}
        for index, row in enumerate(rows):
            own = {name: values[index] for name, values in found.items()}
            lines[row] = answer_line(examples[row], own, null_threshold)
    return lines


TYPE = QuestionAnsweringType
