"""The options of a distillation."""

import dataclasses

from bert_tf.errors import UsageError, explain
from bert_tf.options import (
    ABOVE_0,
    FRACTION,
    FRACTION_ABOVE_0,
    NATURAL,
    POSITIVE,
    REQUIRED,
    Options,
    SeedOptions,
    TrainWriteOptions,
    option,
)
from bert_tf.training.run_options import RunOptions

OF_VECTORS = ("directions", "similarities")  # objectives of embedders
OF_OUTPUT = ("output", *OF_VECTORS)  # those for which the teacher runs once only
OBJECTIVES = (*OF_OUTPUT, "hidden", "relations")


def refuse_layers(student, objectives):
    """Raise UsageError where a student without layers is to learn what only layers can."""
    of_layers = [name for name in objectives if name not in OF_OUTPUT]
    if of_layers:
        raise UsageError(explain(f"{student} has no layers that could learn "
                                 f"{' and '.join(of_layers)}",
                                 attempt=f"--objectives {' or '.join(OF_OUTPUT)}"))


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
class DistillConfig(StudentOptions, RunOptions, SeedOptions, TrainWriteOptions):
    """What `bert_tf.distill` is to do."""

    teacher: str = option(
        REQUIRED, "model that is learned from: an embedder, a classifier, or an encoder, whose "
                  "vectors are the mean over a text's tokens", metavar="PATH")
    input: tuple[str, ...] = option(
        REQUIRED, "unlabelled text, a text a line (.txt, .jsonl with the field text, either also "
                  ".gz)", metavar="GLOB")
    objectives: tuple[str, ...] | None = option(
        None, "what of the teacher is learned: output, its vectors, or its probabilities at "
              "--temperature; directions, its vectors whatever their length; similarities, to "
              "which texts of a batch these are near; hidden, the states of its layers; relations, "
              "those between its last layer's queries, keys and values (default: output, with "
              "--static directions and similarities)", choices=OBJECTIVES)
    temperature: float = option(
        2.0, "by which a classifier's logits are divided for its soft labels", ABOVE_0,
        metavar="X")
    relation_heads: int | None = option(
        None, "heads that relations are computed in; divides both widths (default: the most heads "
              "of the teacher that do)", POSITIVE, metavar="N")
    max_seq_length: int | None = option(
        None, "tokens of a text, to which longer ones are truncated", POSITIVE, metavar="N",
        otherwise="128, or a model's own window where that is shorter")
    dev: float = option(
        0.02, "fraction of the texts that is held out; the best evaluation on them is kept",
        FRACTION_ABOVE_0, metavar="X")
    epochs: int = option(1, "passes over the text", POSITIVE, metavar="N")
    batch_size: int = option(64, "texts a step over all replicas", POSITIVE, metavar="N")
    learning_rate: float | None = option(
        None, "peak", ABOVE_0, metavar="X",
        otherwise="1e-4, of a narrower student 5e-4, of a static one 5e-3")
    dropout: float | None = option(
        None, "rate in the student", FRACTION, metavar="X", otherwise="the model's own")
    eval_every: int | None = option(
        None, "steps between evaluations, after each of which is a checkpoint", POSITIVE,
        metavar="N", otherwise="a tenth of all steps")
