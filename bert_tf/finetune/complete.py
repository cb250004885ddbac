"""Fill in the options of a fine-tuning, and refuse those that make no sense together."""

from dataclasses import fields

from bert_tf.errors import UsageError, explain
from bert_tf.finetune.config import OF_VECTORS, SCRATCH, FeatureOptions

_RATE, _LORA_RATE = 5e-5, 5e-4  # the latter as Hu et al. 2021 have it of RoBERTa, appendix D.1


def complete(options):
    """Fill in what depends on other options, and refuse contradictions before any work.

    Args:
        options: `FinetuneConfig`.

    Returns:
        `(options, task)`: those with all filled in that depends on no file, and the `Task`.

    Raises:
        UsageError: options contradict each other or the task.
    """
    from bert_tf.tasks.registry import find_task

    task = find_task(options.task, options.multi_label)
    scratch = options.init == SCRATCH
    for name in ("config", "vocab", "lower_case", "strip_accents"):
        if not scratch and getattr(options, name) is not None:
            raise UsageError(f"--{name} beside --init {options.init}, which brings its own; leave "
                             f"--{name} out, or use --init scratch")
    if scratch:
        for name in ("features", "freeze", "lora_rank"):
            if getattr(options, name) is not None:
                raise UsageError(f"--{name} with --init scratch: nothing of the encoder was "
                                 f"learned; leave --{name} out, or name a model with --init")
    if options.lora_rank and options.freeze is not None:
        raise UsageError(f"--freeze {options.freeze} with --lora_rank {options.lora_rank}, which "
                         "keeps the whole encoder as it is but for its additions; leave --freeze "
                         "out")
    if options.features:
        refuse_encoder_options(options, "--features")
    options.check_type(task.name, task.type)
    if options.pooling in OF_VECTORS and task.type != "embedding":
        raise UsageError(explain(f"--pooling {options.pooling} with --task {task.name}",
                                 "mean, cls, cls_pooled or sep"))
    if options.stride and options.long != "windows":
        raise UsageError(explain(f"--stride {options.stride} with --long {options.long}",
                                 attempt="--long windows"))
    if not options.features:
        for field in fields(FeatureOptions):
            value = getattr(options, field.name)
            if value != field.default:
                raise UsageError(f"--{field.name} {value} is for --features, which are not asked "
                                 f"for; leave --{field.name} out")
    if options.seed + options.seeds > 2**31:
        raise UsageError(explain(f"--seeds {options.seeds} from --seed {options.seed} on",
                                 "seeds below 2**31", f"--seed {2**31 - options.seeds}"))
    if options.learning_rate is None:
        options = options.replace(
            learning_rate=(_LORA_RATE if options.lora_rank else _RATE,))
    options.dev_share()
    return options.with_folders(*(() if scratch else ("init",))), task


def refuse_encoder_options(options, what):
    """Raise UsageError where options are about an encoder that `what` does not train."""
    for name in ("freeze", "lora_rank", "layer_decay", "pooling"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} beside {what}: the whole encoder stays as it is, and a "
                             f"BiLSTM reads its layers; leave --{name} out")
