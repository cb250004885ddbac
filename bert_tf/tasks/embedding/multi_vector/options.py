"""What vectors of tokens are trained by, and how a command makes such a model."""

import dataclasses

from bert_tf.errors import UsageError, explain
from bert_tf.options import NATURAL, POSITIVE, Options, option
from bert_tf.tasks.embedding.options import EmbeddingLoss

LOSSES = ("in_batch", "margin_mse")  # those of scores alone


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
class MultiVectorLoss(EmbeddingLoss):
    """How a `MultiVectorEmbedder` is trained; its `compile` takes one as its loss, too.

    Texts are compared by MaxSim, whose scale is 1 where none is given: a sum over the query's
    tokens is not confined to -1 to 1.

    Raises:
        UsageError: another similarity, a loss that is not of scores, or widths of vectors.
    """

    def __post_init__(self):
        super().__post_init__()
        if self.similarity not in (None, "dot"):
            raise UsageError(explain(f"similarity={self.similarity!r} of vectors of tokens", "dot"))
        if self.loss not in (None, *LOSSES):
            raise UsageError(explain(f"--loss {self.loss} of vectors of tokens",
                                     " or ".join(LOSSES)))
        if self.matryoshka_widths:
            raise UsageError("matryoshka_widths of vectors of tokens; omit it")
        object.__setattr__(self, "similarity", "dot")
