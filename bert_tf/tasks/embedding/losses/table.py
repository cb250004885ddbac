"""The losses by name, and what each needs of a batch."""

import collections.abc
import dataclasses

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.tasks.embedding.losses.distillation import margin_mse, vectors
from bert_tf.tasks.embedding.losses.in_batch import in_batch
from bert_tf.tasks.embedding.losses.matryoshka import matryoshka
from bert_tf.tasks.embedding.losses.pair_scores import angle, cosent, cosine
from bert_tf.tasks.embedding.losses.triplet import triplet


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss and what it needs.

    Attributes:
        compute: called with a `VectorBatch` and an `EmbeddingLoss`, gives a float32 scalar.
        needs: what of the examples, see `check`.
        heeds: names of the options of `EmbeddingLoss` that not every loss heeds.
        compares: whether it compares pairs of a batch, so that of one pair alone it is 0.
    """

    compute: collections.abc.Callable
    needs: str
    heeds: tuple[str, ...] = ()
    compares: bool = False


LOSSES = {
    "in_batch": Loss(in_batch, "pairs", ("similarity", "scale", "two_sided", "negatives"),
                     compares=True),
    "triplet": Loss(triplet, "negatives", ("margin", "negatives")),
    "cosine": Loss(cosine, "scores"),
    "cosent": Loss(cosent, "scores", ("scale",), compares=True),
    "angle": Loss(angle, "scores", ("scale",), compares=True),
    "margin_mse": Loss(margin_mse, "margins", ("similarity", "negatives", "teacher")),
    "vectors": Loss(vectors, "vectors", ("negatives", "teacher")),
}


def find_loss(options):
    """Return the `Loss` that an `EmbeddingLoss` names.

    Raises:
        UsageError: there is none of that name.
    """
    return LOSSES[check_choice("loss", options.loss or "in_batch", LOSSES)]


def compute_loss(batch, options):
    """Compute the loss of a `VectorBatch`, float32 scalar, also at all `matryoshka_widths`.

    Raises:
        UsageError: nothing can be learned by it from such batches.
    """
    if options.loss is None and batch.is_labelled:
        options = dataclasses.replace(options, loss="cosent")
    loss = find_loss(options)
    _check(batch, options, loss)
    loss = loss.compute
    return matryoshka(loss, batch, options) if options.matryoshka_widths else loss(batch, options)


def _check(batch, options, loss):
    """Refuse batches, whose shapes say it, of which a loss is 0 or cannot be computed."""
    size, texts, *_, width = batch.vectors.shape
    no_negatives = texts == 2 and "no hard negatives"
    no_scores = batch.scores is None and "no scores"
    lacking = {
        "pairs": batch.is_labelled and "scored pairs, of which it heeds no score",
        "scores": no_scores,
        "negatives": no_negatives,
        "margins": no_negatives or batch.teacher is None and no_scores,
        "vectors": batch.teacher is None and "no teacher's vectors",
    }[loss.needs]
    if loss.compares and size == 1 and texts == 2:
        lacking = lacking or "one pair, which it has nothing to compare with"
    if lacking:
        raise UsageError(explain(f"loss={options.loss or 'in_batch'!r} of batches with {lacking}",
                                 "a loss and examples that suit each other"))
    check_widths(options, width)


def check_widths(options, width):
    """Raise UsageError where the options of a loss do not fit vectors of so many components."""
    widths = options.matryoshka_widths or ()
    odd = [each for each in (*widths, width) if each % 2]
    if options.loss == "angle" and odd:  # halves are real and imaginary parts
        raise UsageError(explain(f"--loss angle of vectors of {odd[0]} components", "even widths"))
    if max(widths, default=0) > width:
        raise UsageError(explain(f"--matryoshka_widths {max(widths)} of vectors of {width} "
                                 "components", f"at most {width}"))
