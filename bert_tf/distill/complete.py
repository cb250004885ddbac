"""Fill in the options of a distillation, and refuse those that make no sense together."""

import os

from bert_tf.errors import UsageError, explain
from bert_tf.storage import files

_LEARNING_RATES = {"static": 5e-3, "hidden_size": 5e-4}


def complete(options):
    """Fill in what depends on other options, and refuse contradictions before any work.

    Args:
        options: `DistillConfig`.

    Returns: the same with all filled in that depends on no file.

    Raises:
        UsageError: options contradict each other.
    """
    kinds = [name for name in ("keep_layers", "static", "init") if getattr(options, name)]
    if len(kinds) > 1:
        raise UsageError(explain(f"--{kinds[0]} beside --{kinds[1]}", "one kind of student"))
    kind = kinds[0] if kinds else "hidden_size" if options.hidden_size else None
    if options.num_hidden_layers and kind in ("keep_layers", "static", "init"):
        raise UsageError(explain(f"--num_hidden_layers beside --{kind}, which says how many",
                                 attempt="omitting --num_hidden_layers"))
    if options.hidden_size and kind in ("keep_layers", "init"):
        raise UsageError(explain(f"--hidden_size beside --{kind}, which says how wide",
                                 attempt="omitting --hidden_size"))
    if options.static and options.objectives != ("output",):
        raise UsageError(explain("--static has no layers that could learn "
                                 f"{' and '.join(options.objectives)}",
                                 attempt="--objectives output"))
    if len(set(options.objectives)) < len(options.objectives):
        raise UsageError(explain(f"--objectives {' '.join(options.objectives)}", "each once"))
    named = os.path.join("saved_models", files.base_name(options.output_dir))
    export = options.export_dir or named
    if files.resolved(export) == files.resolved(options.output_dir):
        raise UsageError(explain(f"--export_dir {export} is the run folder",
                                 attempt=f"--export_dir {named}"))
    folder = files.resolved(options.output_dir)
    for name in ("teacher", "init"):
        path = getattr(options, name)
        if path and f"{files.resolved(path)}{os.sep}".startswith(folder + os.sep):
            raise UsageError(explain(f"--output_dir {options.output_dir} holds the model of "
                                     f"--{name}", attempt="another output folder"))
    return options.replace(export_dir=export, learning_rate=options.learning_rate
                           or _LEARNING_RATES.get(kind, 1e-4))
