"""The losses by name, and what each needs of a batch."""

import collections.abc
import dataclasses

from bert_tf.errors import check_choice
from bert_tf.tasks.embedding.losses.angle import angle
from bert_tf.tasks.embedding.losses.cosent import cosent
from bert_tf.tasks.embedding.losses.cosine import cosine
from bert_tf.tasks.embedding.losses.distillation import margin_mse, vectors
from bert_tf.tasks.embedding.losses.in_batch import in_batch
from bert_tf.tasks.embedding.losses.matryoshka import matryoshka
from bert_tf.tasks.embedding.losses.triplet import triplet


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss and what it needs.

    Attributes:
        compute: called with a `VectorBatch` and an `EmbeddingLoss`, gives a float32 scalar.
        needs: what of the examples, see `check`.
        heeds: names of the options of `EmbeddingLoss` that not every loss heeds.
    """

    compute: collections.abc.Callable
    needs: str
    heeds: tuple[str, ...] = ()


LOSSES = {
    "in_batch": Loss(in_batch, "pairs", ("similarity", "scale", "two_sided", "negatives")),
    "triplet": Loss(triplet, "negatives", ("margin", "negatives")),
    "cosine": Loss(cosine, "scores"),
    "cosent": Loss(cosent, "scores", ("scale",)),
    "angle": Loss(angle, "scores", ("scale",)),
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
    """Compute the loss of a `VectorBatch`, float32 scalar, also at all `matryoshka_widths`."""
    loss = find_loss(options).compute
    return matryoshka(loss, batch, options) if options.matryoshka_widths else loss(batch, options)
