"""What weights of tokens are trained by: a loss of vectors, and how sparse they are to become."""

import dataclasses

from bert_tf.options import NOT_NEGATIVE, Options, option
from bert_tf.tasks.embedding.options import ScoreLoss


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
class SparseLoss(ScoreLoss, SparsityOptions):
    """How a `SparseEmbedder` is trained; its `compile` takes one as its loss, too.

    Texts are compared by scalar products. Errors are those of `ScoreLoss`.
    """

    OF = "weights of tokens"
