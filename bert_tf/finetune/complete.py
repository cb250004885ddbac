"""Fill in the options of a fine-tuning, and refuse those that make no sense together."""

import os
from dataclasses import fields

from bert_tf.errors import UsageError, explain
from bert_tf.finetune.config import (
    SCRATCH,
    AnswerOptions,
    FeatureOptions,
    QueryOptions,
    VectorOptions,
)
from bert_tf.storage import files, hub


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
    if scratch and (options.freeze is not None or options.features):
        name = "--features" if options.features else f"--freeze {options.freeze}"
        raise UsageError(f"{name} with --init scratch: nothing of the encoder was learned")
    for name in ("freeze", "layer_decay"):
        if options.features and getattr(options, name) is not None:
            raise UsageError(f"--{name} beside --features, which keep the whole encoder as it is; "
                             f"leave --{name} out")
    if options.features and task.type == "question_answering":
        raise UsageError(f"--features with --task {task.name}: they are for labels of texts and "
                         "of words; leave them out")
    if task.type != "classification" and options.long != "head":
        raise UsageError(f"--long {options.long} is for texts with labels, which --task "
                         f"{task.name} is not about; leave it out")
    if options.stride and options.long != "windows":
        raise UsageError(explain(f"--stride {options.stride} with --long {options.long}",
                                 attempt="--long windows"))
    if task.type != "question_answering":
        _refuse(options, fields(AnswerOptions), f"is for answers in a text, not for --task "
                                                f"{task.name}")
    if task.type not in ("ranking", "embedding"):
        _refuse(options, fields(QueryOptions), "is for queries and the texts that match them, not "
                                               f"for --task {task.name}")
    if task.type != "embedding":
        known = [field.name for field in fields(QueryOptions)]
        _refuse(options, [field for field in fields(VectorOptions) if field.name not in known],
                f"is for vectors of texts, not for --task {task.name}")
    if task.type != "token_classification":
        _refuse(options, [field for field in fields(options) if field.name == "unit"],
                f"is for tags, not for --task {task.name}")
    if not options.features:
        _refuse(options, fields(FeatureOptions), "is for --features, which are not asked for")
    options.dev_share()
    named = os.path.join("saved_models", files.base_name(options.output_dir))
    export = options.export_dir or named
    if files.resolved(export) == files.resolved(options.output_dir):
        raise UsageError(explain(f"--export_dir {export} is the run folder",
                                 attempt=f"--export_dir {named}"))
    folder = files.resolved(options.output_dir)
    start = None if scratch else files.resolved(hub.repository(options.init) or options.init)
    if start and f"{start}{os.sep}".startswith(folder + os.sep):
        raise UsageError(explain(f"--output_dir {options.output_dir} holds the model of --init",
                                 attempt="another output folder"))
    return options.replace(export_dir=export), task


def _refuse(options, refused, why):
    """Raise UsageError about the first of the fields `refused` that is not its default."""
    for field in refused:
        value = getattr(options, field.name)
        if value != field.default:
            raise UsageError(f"--{field.name} {value} {why}; leave it out")
