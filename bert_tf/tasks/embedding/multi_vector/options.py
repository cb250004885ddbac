"""What vectors of tokens are trained by, and how a command makes such a model."""

import dataclasses

from bert_tf.options import NATURAL, POSITIVE, Options, option
from bert_tf.tasks.embedding.options import EmbeddingLoss, ScoreLoss


@dataclasses.dataclass(frozen=True, kw_only=True)
class LateInteractionOptions(Options):
    """How texts become vectors of tokens."""

    GROUP = ("vectors of tokens, --task multi_vector", None)
    TASKS = ("multi_vector",)

    dim: int | None = option(None, "components of a token's vector", POSITIVE, metavar="N",
                             otherwise="the model's own, else 128")
    query_length: int | None = option(
        None, "tokens that are read of a query; --max_seq_length is of passages", POSITIVE,
        metavar="N", otherwise="the model's own, else 32")
    expansion: int | None = option(
        None, "tokens to which shorter queries are filled up with [MASK], 0 for none", NATURAL,
        metavar="N", otherwise="the model's own, else --query_length")
    scale: float | None = EmbeddingLoss.redefined(
        "scale", None, "20, for dot products and --task multi_vector 1")
    two_sided: bool = EmbeddingLoss.redefined("two_sided", False)
    teacher: str | None = EmbeddingLoss.redefined("teacher", None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiVectorLoss(ScoreLoss):
    """How a `MultiVectorEmbedder` is trained; its `compile` takes one as its loss, too.

    Texts are compared by MaxSim, a sum over the query's tokens, which is not confined to -1 to 1.
    Errors are those of `ScoreLoss`.
    """

    OF = "vectors of tokens"
