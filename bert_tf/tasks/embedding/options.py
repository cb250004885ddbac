"""What vectors are trained by: the options of a loss."""

import dataclasses

from bert_tf.errors import UsageError, explain
from bert_tf.options import ABOVE_0, POSITIVE, Options, option

SIMILARITIES = ("cosine", "dot")
SCORE_LOSSES = ("in_batch", "margin_mse")  # those of scores alone


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingLoss(Options):
    """How vectors are trained; `SentenceEmbedder.compile` takes one as its loss, too.

    Raises:
        UsageError: the options do not fit each other.
    """

    GROUP = ("training of vectors, --task embed", None)
    TASKS = ("embedding",)

    loss: str | None = option(
        None, "what is minimised: in_batch, triplet, cosine, cosent, angle, margin_mse or vectors",
        metavar="NAME", otherwise="cosent of pairs with a score, else in_batch")
    similarity: str | None = option(
        None, "of two vectors", choices=SIMILARITIES,
        otherwise="cosine; dot for the loss margin_mse")
    scale: float | None = option(
        None, "factor of similarities before a softmax, 1 / temperature", ABOVE_0, metavar="X",
        otherwise="20, for dot products 1")
    two_sided: bool = option(
        False, "in_batch: a positive is also to find its query among those of the batch")
    margin: float | None = option(
        None, "triplet: by how much further away negatives should be, in Euclidean distance",
        ABOVE_0, metavar="X", otherwise=1)
    matryoshka_widths: tuple[int, ...] | None = option(
        None, "the loss is that of the whole vectors and also of their first N components "
              "(Kusupati et al. 2022)", POSITIVE, metavar="N")
    matryoshka_weights: tuple[float, ...] | None = option(
        None, "weight of the loss at each of these widths; whole vectors whose width is not "
              "among them weigh 1", ABOVE_0, metavar="X", otherwise="1 each")
    negatives: int | None = option(
        None, "hard negatives beside each positive, the first ones of a query", POSITIVE,
        metavar="N", otherwise="all")
    teacher: str | None = option(
        None, "model folder of an embedder whose vectors (loss vectors) or scores (margin_mse, of "
              "files without) are learned", metavar="PATH")

    def __post_init__(self):
        super().__post_init__()
        widths, weights = self.matryoshka_widths, self.matryoshka_weights
        if weights and len(weights) != len(widths or ()):
            raise UsageError(explain(
                f"{len(weights)} matryoshka_weights for {len(widths or ())} matryoshka_widths",
                "a weight for each width"))
        if widths and len(set(widths)) < len(widths):
            raise UsageError(explain(f"matryoshka_widths={widths}", "different widths"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreLoss(EmbeddingLoss):
    """Base of the losses of models whose texts have no vector of their own, but scores.

    The scale is 1 where none is given.

    Raises:
        UsageError: another similarity, a loss that is not of scores, or widths of vectors.
    """

    OF = ""  # what there is of a text, for messages

    def __post_init__(self):
        super().__post_init__()
        if self.similarity not in (None, "dot"):
            raise UsageError(explain(f"similarity={self.similarity!r} of {self.OF}", "dot"))
        if self.loss not in (None, *SCORE_LOSSES):
            raise UsageError(explain(f"--loss {self.loss} of {self.OF}",
                                     " or ".join(SCORE_LOSSES)))
        if self.matryoshka_widths:
            raise UsageError(f"matryoshka_widths of {self.OF}; omit it")
        object.__setattr__(self, "similarity", "dot")
