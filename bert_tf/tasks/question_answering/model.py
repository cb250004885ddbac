"""A span of the text as the answer to a question (Devlin et al. 2019, sections 4.2 and 4.3)."""

import functools
import math

import keras
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.layers.masks import padding_adder
from bert_tf.tasks.base.labelled import LabelledModel
from bert_tf.tasks.base.text_preprocessor import is_text
from bert_tf.tasks.question_answering.answers import answer, answers_to
from bert_tf.tasks.question_answering.preprocessor import QuestionPreprocessor


@keras.saving.register_keras_serializable("bert_tf")
@keras.saving.register_keras_serializable("bert_tf", "Span")  # in files of 0.1
class QuestionAnswering(LabelledModel):
    """An encoder that gives each token a logit of being the answer's first and its last.

    Call: a dict of int32 `input_word_ids`, `input_mask`, `input_type_ids` `[b, seq_length]` -> a
    dict of float32 `start_logits` and `end_logits` `[b, seq_length]`; of text, a dict of
    `question` and `context`, the logits of its windows. With a preprocessor `answer` gives the
    answers.

    Labels: int32 `start_positions` and `end_positions` `[b]` or `[b, 1]`; both 0, `[CLS]`,
    where there is no answer. The loss is the mean of both, each over the tokens of the sequence.
    In google-research/bert (`run_squad.py`) and Hugging Face transformers padding takes part in
    it, so that a loss there depends on the padding; here it does not.

    Args:
        encoder: a `ModelConfig` or an encoder, see `LabelledModel`.
        n_best: answers to a question.
        max_answer_length: tokens of an answer.
        null_threshold: how much more `[CLS]` may score than the best span before a question has no
            answer (SQuAD 2.0, Devlin et al. 2019, section 4.3); None where every question has one.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer seed of the initial weights, see `build_encoder`.
        preprocessor: a `QuestionPreprocessor`, or None where only token ids are taken.

    Raises:
        UsageError: an option out of range, or another preprocessor.
    """

    saved_as = "span"
    further_options = ("n_best", "max_answer_length", "null_threshold")
    preprocessor_class = QuestionPreprocessor
    objectives = ("span",)
    label_keys = {"start": "start_positions", "end": "end_positions"}
    loss_scales = {"start": 0.5, "end": 0.5}

    def __init__(self, encoder, n_best=20, max_answer_length=30, null_threshold=None, dtype=None,
                 seed=None, preprocessor=None, name="span", **kwargs):
        for option, value in (("n_best", n_best), ("max_answer_length", max_answer_length)):
            if type(value) is not int or value < 1:
                raise UsageError(explain(f"{option}={value!r}", "an integer from 1 on"))
        if null_threshold is not None and not (
                type(null_threshold) in (int, float) and math.isfinite(null_threshold)):
            raise UsageError(explain(f"null_threshold={null_threshold!r}", "a number or None"))
        if not isinstance(preprocessor, QuestionPreprocessor | None):
            raise UsageError(explain(f"question answering with a {type(preprocessor).__name__}",
                                     "a QuestionPreprocessor"))
        super().__init__(encoder, "span", 2, 0.0, dtype, seed, preprocessor, name=name, **kwargs)
        self.n_best = n_best
        self.max_answer_length = max_answer_length
        self.null_threshold = null_threshold

    def options(self):
        """See `Saved.options`."""
        return {"n_best": self.n_best, "max_answer_length": self.max_answer_length,
                "null_threshold": self.null_threshold}

    def call(self, batch, training=False):
        """Compute the logits of the first and of the last token, each float32 `[b, seq_length]`."""
        logits = self._logits(self.read(batch), "sequence_output", training)
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}

    def answer(self, question, context):
        """Answer questions, each from its context, as the exported model does.

        Args:
            question, context: str, or as many of each, of what `text_list` takes.

        Returns: for each question a dict of `answer`, `score`, `start` and `end`, None where the
            context does not answer it, `no_answer_score`, and `answers`, a list of dicts of the
            first four, best first; `context[start:end]` is the answer. Of two str one such dict.

        Raises:
            UsageError: the model has no preprocessor, or these are not as many texts.
        """
        if isinstance(question, str) and isinstance(context, str):
            return self.answer([question], [context])[0]
        found = {name: values.numpy() for name, values in
                 self.answer_tensors(question, context).items()}
        return [_plain({name: values[row] for name, values in found.items()})
                for row in range(len(found["has_answer"]))]

    def answer_tensors(self, question, context):
        """Answer questions as `answer` does; return tensors, see `answers.answers_from`."""
        self.need_preprocessor()
        threshold = self.null_threshold
        compiled = self._compiled_answer(self.preprocessor,
                                         tuple(self.preprocessor.reading().items()),
                                         self.n_best, self.max_answer_length, threshold is None,
                                         # Adapters are further variables, quantized kernels others.
                                         tuple((variable.path, variable.dtype)
                                               for variable in self.weights))
        return answers_to(
            lambda question, context: compiled(
                question, context,
                tf.constant(0.0 if threshold is None else threshold, tf.float32)),
            question, context, self.preprocessor.tokenizer)

    @functools.cached_property
    def _compiled_answer(self):
        """`answers.answer` as a graph, made once for each choice of what is fixed in it."""
        @functools.cache
        def compiled(preprocessor, reading, n_best, max_answer_length, always, variables):
            def answered(question, context, threshold):
                return answer(self, preprocessor, question, context, None if always else threshold)

            text = tf.TensorSpec([None], tf.string)
            return tf.function(answered, autograph=False,
                               input_signature=(text, text, tf.TensorSpec([], tf.float32)))

        return compiled

    def _batch(self, x, y, sample_weight):
        if is_text(x):  # of which there may be several windows, each with its own positions
            raise UsageError(explain(
                f"{self.name} was given text and labels", "windows of token ids, and their "
                "start_positions and end_positions", "bert_tf.finetune(task='span', …)"))
        return super()._batch(x, y, sample_weight)

    def loss_sums(self, outputs, batch):
        """See `Objective.loss_sums`."""
        return super().loss_sums(_of_tokens(outputs, batch), batch)

    def metric_sums(self, outputs, batch):
        """See `Objective.metric_sums`."""
        return super().metric_sums(_of_tokens(outputs, batch), batch)


def _plain(found):
    """One question's row of `answers.answers_from` as `QuestionAnswering.answer` has it."""
    answers = [{"answer": text.decode(), "score": float(score), "start": int(start),
                "end": int(end)}
               for text, score, start, end in zip(*(found[name] for name in (
                   "answers", "scores", "starts", "ends")), strict=True) if text]
    none = dict.fromkeys(("answer", "score", "start", "end"))
    return {**(answers[0] if found["has_answer"] and answers else none),
            "no_answer_score": float(found["no_answer_score"]), "answers": answers}


def _of_tokens(outputs, batch):
    """Return the logits `[b, seq_length]` without those of padding."""
    adder = padding_adder(batch["input_mask"])[:, 0, 0]  # [b, seq_length]
    return {name: logits + adder for name, logits in outputs.items()}
