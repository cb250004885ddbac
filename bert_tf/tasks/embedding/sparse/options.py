"""What weights of tokens are trained by: a loss of vectors, and how sparse they are to become."""

import dataclasses

from bert_tf.errors import UsageError, explain
from bert_tf.options import NOT_NEGATIVE, Options, option
from bert_tf.tasks.embedding.options import EmbeddingLoss

LOSSES = ("in_batch", "margin_mse")  # those of scalar products


@dataclasses.dataclass(frozen=True, kw_only=True)
class SparsityOptions(Options):
    """How few tokens are to weigh anything in a text."""

    GROUP = ("training of weights of tokens, --task sparse", None)
    TASKS = ("sparse",)

    query_flops: float | None = option(
        None, "weight of the FLOPS regularizer of queries (Paria et al. 2020), which rises "
              "quadratically in the first third of the steps: the higher, the fewer tokens",
        NOT_NEGATIVE, metavar="X", otherwise=5e-5)
    passage_flops: float | None = option(
        None, "the same of what is searched", NOT_NEGATIVE, metavar="X", otherwise=3e-5)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SparseLoss(EmbeddingLoss, SparsityOptions):
    """How a `SparseEmbedder` is trained; its `compile` takes one as its loss, too.

    Texts are compared by scalar products, whose scale is 1 where none is given.

    Raises:
        UsageError: another similarity, or a loss that is not of scalar products.
    """

    def __post_init__(self):
        super().__post_init__()
        if self.similarity not in (None, "dot"):
            raise UsageError(explain(f"similarity={self.similarity!r} of weights of tokens", "dot"))
        if self.loss not in (None, *LOSSES):
            raise UsageError(explain(f"--loss {self.loss} of weights of tokens",
                                     " or ".join(LOSSES)))
        object.__setattr__(self, "similarity", "dot")
