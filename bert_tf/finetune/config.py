"""The options of a fine-tuning, and those that an evaluation shares with it.

Defaults are those of the BERT paper's appendix A.3 where it names any.
"""

import dataclasses
import math

from bert_tf.data.table_options import ColumnOptions
from bert_tf.errors import UsageError, explain
from bert_tf.options import (
    ABOVE_0,
    FRACTION,
    POSITIVE,
    REQUIRED,
    UP_TO_1,
    Options,
    Range,
    SeedOptions,
    TrainWriteOptions,
    option,
)
from bert_tf.storage import files
from bert_tf.tasks.embedding.multi_vector.options import LateInteractionOptions
from bert_tf.tasks.embedding.options import EmbeddingLoss
from bert_tf.tasks.embedding.sparse.options import SparsityOptions
from bert_tf.tokenization.options import TextOptions
from bert_tf.training.run_options import RunOptions

SCRATCH = "scratch"
OF_VECTORS = ("max", "mean_max")  # poolings that heads of labels and scores do not read
_FINITE = Range(float, math.isfinite, "a number")


def _freeze(text):
    if text in ("embeddings", "all"):
        return text
    if text.isdecimal():
        return int(text)
    raise UsageError(explain(text, "embeddings, a number of layers, or all"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions(ColumnOptions):
    """Where a table of labelled examples has what, and what of it is skipped."""

    skip_bad_rows: bool = option(False, "skip invalid examples, and count them")

    def read_examples(self, task, path):
        """Read the examples of a `Task` in a file: `(examples, number of those skipped)`."""
        from bert_tf.tasks.base.read_examples import read_examples

        skipped = [] if self.skip_bad_rows else None
        examples = read_examples(task, path, self.columns(), self.form(), skipped)
        return examples, len(skipped or ())


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerOptions(Options):
    """How answers are found in a text."""

    TASKS = ("question_answering",)

    max_query_length: int | None = option(
        None, "tokens of a question, which is truncated to them", POSITIVE,
        otherwise="64, or a third of a --max_seq_length below 192")
    doc_stride: int | None = option(
        None, "tokens from one window of a long text to the next, where answers are sought",
        POSITIVE, otherwise="a third of --max_seq_length")
    max_answer_length: int | None = option(None, "tokens of an answer", POSITIVE, otherwise=30)
    n_best: int | None = option(None, "answers that are compared", POSITIVE, otherwise=20)
    null_threshold: float | None = option(
        None, "score difference from which on there is no answer rather than the best one", _FINITE,
        otherwise="tuned on --dev")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions(Options):
    """How a model learns from labelled examples."""

    epochs: tuple[int, ...] = option(
        (3,), "passes over the training text; of several values the best is searched", POSITIVE,
        metavar="N")
    learning_rate: tuple[float, ...] | None = option(
        None, "peak; of several values the best is searched, with one seed each", ABOVE_0,
        metavar="X", otherwise="5e-05; with --lora_rank 5e-4")
    seeds: int = option(
        1, "trainings with seeds from --seed on; the best is kept, mean and deviation are "
           "reported", POSITIVE, metavar="N")
    batch_size: int = option(32, "examples a step over all replicas", POSITIVE, metavar="N")
    accumulate_steps: int | None = option(
        None, "micro-batches that a batch is split into, for less memory; of --task embed, sparse "
              "and multi_vector by gradient caching (Gao et al. 2021): the loss stays that of the "
              "whole batch",
        POSITIVE, metavar="N", otherwise=1)
    dropout: float | None = option(
        None, "rate in the encoder and in front of the head", FRACTION, metavar="X",
        otherwise="the model's own")
    patience: int | None = option(
        None, "stop after so many epochs that were no better than the best", POSITIVE, metavar="N")
    class_weights: bool = option(
        False, "weigh examples so that every label weighs the same in the loss")
    freeze: str | int | None = option(
        None, "keep the embeddings, or them and the N lowest layers, or the encoder as they are",
        metavar="embeddings|N|all", parse=_freeze)
    lora_rank: int | None = option(
        None, "train additions of rank N to the queries' and values' kernels, and the head, alone "
              "(LoRA, Hu et al. 2021); the model is saved with them added",
        POSITIVE, metavar="N")
    layer_decay: float | None = option(
        None, "the learning rate of a layer is X times that of the one above; ELECTRA: 0.8",
        UP_TO_1, metavar="X")
    padding_free: bool | None = option(
        None, "compute real tokens only; what dropout draws depends on the parts then that a batch "
              "is computed in: replicas, micro-batches, halves where there are cores for them",
        otherwise="of --task embed, unless there is a GPU")
    gradient_checkpointing: bool = option(
        False, "recompute the layers' activations in the backward pass instead of keeping them: "
               "the same result in less memory and more time")
    bucket: bool = option(
        True, "batches of examples of about the same length; not of --task embed, whose negatives "
              "are of any length")


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputOptions(TextOptions):
    """How text becomes inputs."""

    max_seq_length: int | None = option(
        None, "tokens of an example, [CLS] and [SEP] counted", POSITIVE, metavar="N",
        otherwise="128, of --task rank, embed, sparse and multi_vector 256, for answers 384; at "
                  "most what the model has")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongTextOptions(Options):
    """What is read of long texts."""

    TASKS = ("classification",)

    long: str = option(
        "head", "what is read of a text longer than --max_seq_length: its beginning, beginning and "
                "end, or all of it in windows", choices=("head", "head_tail", "windows"))
    stride: int | None = option(
        None, "tokens from one window to the next with --long windows", POSITIVE, metavar="N",
        otherwise="half of a window")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TagOptions(Options):
    """What a tag is of."""

    TASKS = ("token_classification",)

    unit: str | None = option(
        None, "what a tag is of; character suits Korean", choices=("word", "character"),
        otherwise="as in the task's files")


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueryOptions(Options):
    """How queries and the texts that match them are learned from."""

    TASKS = ("ranking", "embedding", "sparse", "multi_vector")

    loss: str | None = option(
        None, "what is minimised; of --task rank listwise, the positive against its negatives, or "
              "binary, each passage by itself; of --task embed in_batch, triplet, cosine, cosent, "
              "angle, margin_mse or vectors; of --task sparse and multi_vector in_batch or "
              "margin_mse",
        metavar="NAME", otherwise="listwise; of embed cosent for pairs with a score, else in_batch")
    negatives: int | None = option(
        None, "hard negatives beside each positive; of --task rank drawn from other queries where "
              "the file has none", POSITIVE, metavar="N",
        otherwise="7; of embed, sparse and multi_vector all that the file has")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolingOptions(Options):
    """How the vectors of a text's tokens become one."""

    TASKS = ("embedding", "classification", "ranking")

    pooling: str | None = option(
        None, "the vector of a text, which --task embed trains and by which labels and scores of "
              "texts are predicted: the mean of its tokens' vectors, the first token, what the "
              "pooler makes of it, the last token; of --task embed also their largest values, or "
              "mean and largest values",
        choices=("mean", "cls", "cls_pooled", "sep", *OF_VECTORS),
        otherwise="the model's own; of --task embed else mean")


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorOptions(EmbeddingLoss):
    """How a model learns vectors of texts."""

    GROUP = EmbeddingLoss.GROUP
    TASKS = EmbeddingLoss.TASKS

    crops: int | None = option(
        None, "of texts alone: N pairs of random spans of each are to find each other (Izacard et "
              "al. 2022)", POSITIVE, metavar="N",
        otherwise="a text is read twice, with other dropout")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureOptions(Options):
    """A BiLSTM on frozen layers (BERT paper, section 5.3)."""

    TASKS = ("classification", "token_classification")

    features: tuple[int, ...] | None = option(
        None, "train a BiLSTM on these layers of the frozen encoder, 0 the embeddings, -1 the "
              "last layer (BERT paper, section 5.3)", metavar="LAYER")
    combine: str = option("concat", "how several --features become one vector",
                          choices=("concat", "weighted_sum"))
    lstm_size: int = option(
        768, "width of the BiLSTM over --features, half of it from each direction", POSITIVE,
        metavar="N")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneConfig(TableOptions, TrainingOptions, InputOptions, LongTextOptions, TagOptions,
                     AnswerOptions, QueryOptions, PoolingOptions, VectorOptions,
                     SparsityOptions, LateInteractionOptions, FeatureOptions, RunOptions,
                     SeedOptions, TrainWriteOptions):
    """What `bert_tf.finetune` is to do."""

    task: str = option(REQUIRED, "task, one of those above", metavar="NAME")
    train: str = option(REQUIRED, "train examples", metavar="FILE")
    dev: str | float = option(
        REQUIRED, "dev examples, on which models are compared, or the fraction of --train to hold "
                  "out", metavar="FILE|FRACTION")
    test: str | None = option(
        None, "test examples, on which only the best model is measured, once, at the end",
        metavar="FILE")
    init: str = option(
        SCRATCH, "model or run folder, a checkpoint of any format that convert reads, or scratch: "
                 "initial weights", metavar="PATH")
    config: str | None = option(
        None, "with --init scratch: model_config.json, an official bert_config.json or a model "
              "folder that the sizes come from (default: the preset tiny)", metavar="PATH")
    vocab: str | None = option(
        None, "with --init scratch: WordPiece vocabulary, or folder with a tokenizer of any kind "
              "(default: that beside --config, else learned from the text of --train)",
        metavar="PATH")
    multi_label: bool = option(False, "a text has any number of labels, separated by commas")

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "dev", str(self.dev))  # as on the command line

    def dev_share(self):
        """`dev` as the fraction to hold out, or None where it names a file."""
        try:
            share = float(self.dev)
        except ValueError:
            return None
        if files.exists(self.dev):
            return None
        if not 0 < share < 1:
            raise UsageError(explain(f"--dev {self.dev}", "a file, or a fraction between 0 and 1"))
        return share
