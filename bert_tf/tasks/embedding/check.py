"""Whether a loss can learn anything from train examples, and which suits them."""

import dataclasses

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.tasks.embedding.losses.table import LOSSES, find_loss
from bert_tf.tasks.embedding.options import EmbeddingLoss

KINDS = ("labelled pairs", "queries with positives", "texts alone")


def kind_of(examples):
    """Return which of `KINDS` all `QueryExample`s of a list are.

    Raises:
        BertTfError: they are of several, or there are none.
    """
    if not examples:
        raise BertTfError("no examples")

    def kind(example):
        return KINDS[0 if example.is_labelled_pair else 1 if example.positives else 2]

    first = kind(examples[0])
    for example in examples:
        if kind(example) != first:
            raise BertTfError(explain(f"{example.where}: {kind(example)} among {first}",
                                      "one of these in a file"))
    return first


def suited_loss(options, examples, kind_of_loss=EmbeddingLoss):
    """Return an `EmbeddingLoss` with its loss chosen by the train examples where none is given.

    Args:
        options: has the fields of an `EmbeddingLoss`, `batch_size` and `crops`.
        examples: list of `QueryExample`.
        kind_of_loss: the class, or one derived from it.

    Raises:
        UsageError: the loss does not suit the examples, or an option the loss.
        BertTfError: nothing can be learned from the examples.
    """
    kind = kind_of(examples)
    loss = kind_of_loss(**options.shared_with(kind_of_loss))
    if loss.loss is None:
        loss = dataclasses.replace(loss, loss="cosent" if kind == KINDS[0] else "in_batch")
    check_options(loss)
    _NEEDS[find_loss(loss).needs](loss, kind, examples)
    if options.crops and (kind != KINDS[2] or loss.loss != "in_batch"):
        raise UsageError(f"--crops with {kind} and --loss {loss.loss}: it is for {KINDS[2]} and "
                         "in_batch; omit it")
    rows = sum(max(options.crops or 1, len(example.positives)) for example in examples)
    if options.batch_size > rows:
        raise UsageError(explain(f"--batch_size {options.batch_size} with {rows} train examples",
                                 "batches no larger than the data", f"--batch_size {rows}"))
    if find_loss(loss).compares and not any(example.negatives for example in examples):
        _check_others(loss, options, kind, examples)
    return loss


def _check_others(loss, options, kind, examples):
    """Refuse examples that have nothing beside them in a batch, of which the loss is always 0."""
    if options.batch_size < 2:
        raise UsageError(explain(f"--batch_size 1 with --loss {loss.loss}, which compares a pair "
                                 "with others of its batch", "at least 2"))
    if kind == KINDS[1] and len({text for example in examples for text in example.positives}) < 2:
        raise BertTfError(explain(f"all {len(examples)} train examples have one positive, so that "
                                  "no query has a negative", "different ones, or hard negatives"))


def check_options(loss):
    """Refuse an `EmbeddingLoss` with an option that its loss does not heed, or an unknown loss."""
    known = {name for each in LOSSES.values() for name in each.heeds}
    for name in sorted(known - set(find_loss(loss).heeds)):
        if getattr(loss, name):
            heeding = [other for other, each in LOSSES.items() if name in each.heeds]
            raise UsageError(f"--{name} with --loss {loss.loss or 'in_batch'}: it is for "
                             f"{', '.join(heeding)}; omit it")


def _need_pairs(loss, kind, examples):
    if kind == KINDS[0]:
        raise UsageError(explain(f"--loss {loss.loss} with {kind}", "queries with positives, or "
                                 "texts alone", "--loss cosent"))
    if len(examples) < 2:
        raise BertTfError(explain(f"{len(examples)} train example", "two or more, each of which "
                                  "has the others for negatives"))


def _need_scores(loss, kind, examples):
    if kind != KINDS[0]:
        raise UsageError(explain(f"--loss {loss.loss} with {kind}", "pairs with a score",
                                 "--loss in_batch, or --label_column"))
    scores = {example.scores[0] for example in examples}
    if len(scores) < 2:
        raise BertTfError(explain(f"all {len(examples)} train examples have the score "
                                  f"{scores.pop():g}", "different ones"))


def _need_negatives(loss, kind, examples):
    for example in examples:
        if not example.negatives:
            raise UsageError(explain(f"{example.where}: no hard negative, for --loss {loss.loss}",
                                     "a column negative", "--loss in_batch"))


def _need_margins(loss, kind, examples):
    _need_negatives(loss, kind, examples)
    for example in examples:
        if example.scores is not None and loss.teacher:
            raise UsageError(explain(f"{example.where}: scores, beside --teacher {loss.teacher}",
                                     "one of them", "omitting --teacher"))
        if example.scores is None and not loss.teacher:
            raise UsageError(explain(f"{example.where}: no scores, for --loss {loss.loss}",
                                     "a column scores",
                                     "--teacher PATH" if type(loss) is EmbeddingLoss
                                     else "--loss in_batch"))


def _need_vectors(loss, kind, examples):
    if not loss.teacher:
        raise UsageError(explain(f"--loss {loss.loss} without a teacher", attempt="--teacher PATH"))


_NEEDS = {"pairs": _need_pairs, "scores": _need_scores, "negatives": _need_negatives,
          "margins": _need_margins, "vectors": _need_vectors}
