"""Fill in the options of an adaptation, and refuse those that make no sense together."""

from bert_tf.errors import UsageError, explain
from bert_tf.storage.export_dirs import export_dir_beside
from bert_tf.training.config import RATES
from bert_tf.training.run_options import check_apart

_DEFAULTS = {"train_steps": 10_000, "format": "full_sentences"}
_RATE = 3e-4


def complete(options):
    """Fill in what depends on no file, and refuse contradictions before any work.

    Args:
        options: `AdaptConfig`.

    Returns: `AdaptConfig`.

    Raises:
        UsageError: options contradict each other, or there is nothing to do.
    """
    if not options.drop_unused:
        for name, usual in (("keep_at_least", 1), ("keep_characters", False)):
            if getattr(options, name) != usual:
                raise UsageError(explain(f"--{name} without --drop_unused, which leaves pieces "
                                         "out", attempt=f"--drop_unused --{name}"))
    values = {name: value for name, value in _DEFAULTS.items() if getattr(options, name) is None}
    if options.learning_rate is None:
        values["learning_rate"] = _RATE * RATES.get(options.optimizer, 1)
    if not options.batch_size and not options.batch_tokens:
        values["batch_size"] = 32
    options = options.replace(**values)
    if not (options.train_steps or options.new_pieces or options.drop_unused):
        raise UsageError(explain("nothing to do", "--new_pieces, --drop_unused or --train_steps "
                                                  "above 0"))
    if options.only_new_pieces:
        if not (options.new_pieces and options.train_steps):
            raise UsageError(explain("--only_new_pieces without new pieces to train",
                                     "--new_pieces and --train_steps above 0"))
        if options.ema_decay:
            raise UsageError(explain("--only_new_pieces with --ema_decay, which averages whole "
                                     "tables", attempt="leaving one out"))
    check_apart(options.output_dir, "model", options.model)
    return options.replace(export_dir=export_dir_beside(options.output_dir, options.export_dir))
