"""Fill in the options of a distillation, and refuse those that make no sense together."""

from bert_tf.distill.config import OF_VECTORS, DistillConfig, refuse_layers
from bert_tf.errors import UsageError, explain

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
    options = options.replace(objectives=options.objectives or (
        OF_VECTORS if options.static else ("output",)))
    if options.static:
        refuse_layers("--static", options.objectives)
    if len(set(options.objectives)) < len(options.objectives):
        raise UsageError(explain(f"--objectives {' '.join(options.objectives)}", "each once"))
    if options.relation_heads and "relations" not in options.objectives:
        raise UsageError(f"--relation_heads {options.relation_heads} without the objective "
                         "relations; omit it, or add relations to --objectives")
    if options.temperature != DistillConfig.temperature and "output" not in options.objectives:
        raise UsageError(f"--temperature {options.temperature:g} without the objective output; "
                         "omit it, or add output to --objectives")
    return options.with_folders("teacher", "init").replace(
        learning_rate=options.learning_rate or _LEARNING_RATES.get(kind, 1e-4))
