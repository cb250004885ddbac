"""The options of a distillation."""

import dataclasses

from bert_tf.options import (
    FRACTION,
    FRACTION_ABOVE_0,
    NATURAL,
    POSITIVE,
    REQUIRED,
    Options,
    Range,
    SeedOptions,
    TrainWriteOptions,
    option,
)
from bert_tf.training.config import DTYPES, STRATEGIES

OBJECTIVES = ("output", "hidden", "relations")
_ABOVE_0 = Range(float, lambda value: 0 < value < float("inf"), "a number above 0")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudentOptions(Options):
    """What the student is; without any of these, half of the teacher's layers."""

    GROUP = ("student", "what the student is (default: every second layer of the teacher)")

    num_hidden_layers: int | None = option(
        None, "so many of the teacher's layers, evenly spaced, the last one among them; of a "
              "narrower student, new ones", POSITIVE, metavar="N")
    keep_layers: tuple[int, ...] | None = option(
        None, "these layers of the teacher, counted from 0", NATURAL, metavar="LAYER")
    hidden_size: int | None = option(
        None, "width of a narrower student with new layers; of a static one, of its vectors",
        POSITIVE, metavar="N")
    static: bool = option(
        False, "a table with a vector for each token, whose mean is the text's: no layers at all; "
               "of embedders")
    init: str | None = option(
        None, "model or run folder that the student's encoder starts from, instead of the teacher",
        metavar="PATH")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistillConfig(StudentOptions, SeedOptions, TrainWriteOptions):
    """What `bert_tf.distill` is to do."""

    teacher: str = option(
        REQUIRED, "model that is learned from: an embedder, a classifier, or an encoder, whose "
                  "vectors are the mean over a text's tokens", metavar="PATH")
    input: tuple[str, ...] = option(
        REQUIRED, "unlabelled text, a text a line (.txt, .jsonl with the field text, either also "
                  ".gz)", metavar="GLOB")
    output_dir: str = option(REQUIRED, "run folder", metavar="DIR")
    objectives: tuple[str, ...] = option(
        ("output",), "what of the teacher is learned: output, its vectors, or its probabilities at "
                     "--temperature; hidden, the states of its layers; relations, those between "
                     "its last layer's queries, keys and values", choices=OBJECTIVES)
    temperature: float = option(
        2.0, "by which a classifier's logits are divided for its soft labels", _ABOVE_0,
        metavar="X")
    relation_heads: int | None = option(
        None, "heads that relations are computed in; divides both widths (default: the most heads "
              "of the teacher that do)", POSITIVE, metavar="N")
    max_seq_length: int | None = option(
        None, "tokens of a text, to which longer ones are truncated", POSITIVE, metavar="N",
        otherwise="128; at most what both models have")
    dev: float = option(
        0.02, "fraction of the texts that is held out; the best evaluation on them is kept",
        FRACTION_ABOVE_0, metavar="X")
    epochs: int = option(1, "passes over the text", POSITIVE, metavar="N")
    batch_size: int = option(64, "texts a step over all replicas", POSITIVE, metavar="N")
    learning_rate: float | None = option(
        None, "peak", _ABOVE_0, metavar="X",
        otherwise="1e-4, of a narrower student 5e-4, of a static one 5e-3")
    warmup_ratio: float = option(
        0.1, "fraction of the steps in which the learning rate rises", FRACTION, metavar="X")
    weight_decay: float = option(
        0.01, "decoupled; biases and LayerNorm are excluded",
        Range(float, lambda value: 0 <= value < float("inf"), "a number of at least 0"),
        metavar="X")
    dropout: float | None = option(
        None, "rate in the student", FRACTION, metavar="X", otherwise="the model's own")
    eval_every: int | None = option(
        None, "steps between evaluations, after each of which is a checkpoint", POSITIVE,
        metavar="N", otherwise="a tenth of all steps")
    dtype: str = option("float32", "what layers compute in; weights stay float32", choices=DTYPES)
    strategy: str = option(
        "mirrored", "tf.distribute strategy",
        choices=tuple(name for name in STRATEGIES if name != "multi_worker"))
    num_devices: int = option(1, "logical CPU devices, where there is no GPU", POSITIVE,
                              metavar="N")
    export_dir: str | None = option(
        None, "where the SavedModel goes (default: named as the run folder)",
        metavar="saved_models/NAME")
