"""The options of an evaluation."""

import dataclasses
import os

from bert_tf.errors import UsageError
from bert_tf.finetune.config import AnswerOptions, TableOptions
from bert_tf.options import (
    FRACTION_ABOVE_0,
    POSITIVE,
    REQUIRED,
    Options,
    Range,
    WriteOptions,
    option,
)
from bert_tf.storage import files, hub

RETRIEVAL = "retrieval"
BM25 = "bm25"
_MEASURED = Range(int, lambda value: value >= 10, "a whole number of at least 10, for mrr@10")
_DATA = (".tsv", ".csv", ".jsonl", ".json", ".parquet", ".txt", ".conll")  # ends of its name
_TRAINED = "as the model was trained"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetrievalOptions(Options):
    """Where `--task retrieval` finds, and how."""

    corpus: tuple[str, ...] | None = option(
        None, "passages: tables, JSON, text; of --task retrieval", metavar="GLOB",
        otherwise="the passages in --data")
    qrels: str | None = option(
        None, "which passages are relevant to the queries in --data, as BEIR or TREC has it",
        metavar="FILE")
    reranker: str | None = option(
        None, "cross-encoder, or embedder, that ranks anew what was found", metavar="PATH")
    rerank: int | None = option(None, "passages of a query that it reads", POSITIVE, metavar="N",
                                otherwise=50)
    depth: int | None = option(None, "passages of a query that are found", _MEASURED, metavar="N",
                               otherwise=100)
    vector_weight: float | None = option(
        None, "fuse vectors and BM25 by scores scaled to 0 to 1: X of the vectors' and 1 - X of "
              "BM25's, and a third of the reranker's (default: by reciprocal ranks)",
        FRACTION_ABOVE_0, metavar="X")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateConfig(TableOptions, RetrievalOptions, AnswerOptions, WriteOptions):
    """What `bert_tf.evaluate` measures, and on what."""

    task: str | None = option(
        None, "a task by name, as of finetune, or retrieval (default: that of the run; so the "
              "columns)", metavar="NAME")
    model: str = option(
        REQUIRED, "folder of a finetune run, model folder, version of a SavedModel, or what "
                  "convert reads; of retrieval any embedder, of vectors or of weights or vectors "
                  "of tokens, or bm25 for none", metavar="PATH")
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
        folder, model = os.path.split(files.absolute(hub.repository(self.model) or self.model))
        if model.isdigit() or model == "model":  # a version, or the best model of a run
            model = f"{os.path.basename(folder)}_{model}"
        data = os.path.basename(self.data)
        data = data[:-3] if files.is_compressed(data) else data
        data = os.path.splitext(data)[0] if files.suffix(data) in _DATA else data
        name = f"{model}_{data}" + f"_{RETRIEVAL}" * (self.task == RETRIEVAL)
        return self.replace(output_dir=os.path.join("evaluations", name))

    def check(self):
        """Raise UsageError for options of retrieval with another task, or the reverse."""
        for field in dataclasses.fields(RetrievalOptions):
            if self.task != RETRIEVAL and getattr(self, field.name) is not None:
                raise UsageError(f"--{field.name} is for --task {RETRIEVAL}; omit it")
        if self.task == RETRIEVAL:
            self.check_type(RETRIEVAL, RETRIEVAL)
