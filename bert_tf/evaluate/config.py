"""The options of an evaluation."""

import dataclasses
import os

from bert_tf.finetune.config import AnswerOptions, TableOptions
from bert_tf.options import REQUIRED, WriteOptions, option
from bert_tf.storage import files

_TRAINED = "as the model was trained"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateConfig(TableOptions, AnswerOptions, WriteOptions):
    """What `bert_tf.evaluate` measures, and on what."""

    task: str | None = option(
        None, "a task by name, as of finetune (default: that of the run; so the columns)",
        metavar="NAME")
    model: str = option(
        REQUIRED, "folder of a finetune run, model folder, or version of a SavedModel",
        metavar="PATH")
    data: str = option(REQUIRED, "labelled examples", metavar="FILE")
    output_dir: str | None = option(
        None, "folder for the results (default: named after the model and the data)",
        metavar="evaluations/NAME")
    max_query_length: int | None = AnswerOptions.redefined("max_query_length", None, _TRAINED)
    doc_stride: int | None = AnswerOptions.redefined("doc_stride", None, _TRAINED)
    max_answer_length: int | None = AnswerOptions.redefined("max_answer_length", None, _TRAINED)
    n_best: int | None = AnswerOptions.redefined("n_best", None, _TRAINED)
    null_threshold: float | None = AnswerOptions.redefined("null_threshold", None, _TRAINED)

    def named(self):
        """The same with an `output_dir`."""
        if self.output_dir is not None:
            return self
        folder, model = os.path.split(files.absolute(self.model))
        if model.isdigit():  # a version
            model = f"{os.path.basename(folder)}_{model}"
        data = os.path.basename(self.data).split(".")[0]
        return self.replace(output_dir=os.path.join("evaluations", f"{model}_{data}"))
