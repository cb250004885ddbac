"""Curves of training: losses, accuracies, learning rate and tokens a second of one or several runs.

    python -m bert_tf.visualize training --run runs/bert_tiny --output training.png
    python -m bert_tf.visualize training --run runs/mlm runs/electra --x tokens --smooth 9 \\
        --output objectives.png

A panel for every metric that any of the runs logs. Lines are the training's batches, markers the
evaluations on held-out examples, dashed lines across mark where a run was restarted; what it had
done after that point and made again is drawn once. With --smooth the line is a running median, the
logged values pale underneath. The same numbers as .json.
"""

import numpy as np

from bert_tf import cli
from bert_tf.errors import check_choice
from bert_tf.storage import files
from bert_tf.tasks.base.pictures import SUFFIXES, add_legend, new_figure, write_figure
from bert_tf.visualization.names import short_names
from bert_tf.visualization.training_runs import AXES, positions, read_run

OUTPUTS = (*SUFFIXES, ".json")
_COLUMNS = 3  # of panels
# The last panels; of these the first two are set, not measured: there is nothing to smooth.
_LAST = ("learning_rate", "loss_scale", "gradient_norm", "tokens_per_second")
_SET = _LAST[:2]
_X_LABELS = {"steps": "step", "tokens": "tokens read", "seconds": "seconds of training"}


def add_flags(parser):
    """Add the flags of `visualize training`."""
    add = parser.add_argument
    add("--run", nargs="+", required=True, metavar="PATH",
        help="run folders, or their metrics.jsonl")
    add("--x", choices=AXES, default="steps",
        help="what the runs are compared over; tokens and seconds need run folders of pretrain")
    add("--smooth", type=cli.positive, metavar="N",
        help="draw the running median of N logged values")
    add("--metric", nargs="+", metavar="NAME", help="metrics to draw (default: all)")


def metric_names(runs):
    """Return the metrics of runs, losses first, then accuracies and the like, then rates: list of
    str."""
    names = dict.fromkeys(name for run in runs for split in ("train", "eval")
                          for name in run[split] if name != "step")

    def rank(name):
        if name in _LAST:
            return 3 + _LAST.index(name)
        return 0 if name == "loss" else 1 if name.endswith("_loss") else 2

    return sorted(names, key=rank)


def curves(run, axis="steps", smooth=None):
    """Return what is drawn of a run.

    Args:
        run: of `read_run`.
        axis: `steps`, `tokens` or `seconds`, see `positions`.
        smooth: how many logged values a running median is of, or None.

    Returns: `{metric: {split: curve}}` for the splits `train` and `eval` that have it; a curve is
        a dict of `step` int64, `x` and `value` float64 `[points]` and, of what `train` measured
        and where requested, `smooth` float64 `[points]`.

    Raises: as `positions`.
    """
    found = {}
    for split in ("train", "eval"):
        x = positions(run, run[split]["step"], axis)
        for name, values in run[split].items():
            if name == "step":
                continue
            there = np.isfinite(values)
            curve = {"step": run[split]["step"][there], "x": x[there], "value": values[there]}
            if smooth and split == "train" and name not in _SET:
                curve["smooth"] = running_median(curve["value"], smooth)
            found.setdefault(name, {})[split] = curve
    return found


def running_median(values, size):
    """Return medians of `size` neighbours, float `[n]` -> float64 `[n]`; of fewer at both ends."""
    if not len(values):
        return np.zeros(0)
    size = min(size, 2 * len(values) + 1)  # from then on each median is of all values
    padded = np.pad(np.asarray(values, np.float64), ((size - 1) // 2, size // 2),
                    constant_values=np.nan)
    return np.nanmedian(np.lib.stride_tricks.sliding_window_view(padded, size), axis=1)


def draw_runs(runs, metrics=None, axis="steps", smooth=None):
    """Draw a panel for each metric as a figure.

    Args:
        runs: `{name: what read_run gave}`.
        metrics: names of metrics; None for all there are.
        axis, smooth: as of `curves`.

    Raises:
        UsageError: no run has such a metric; as `positions`.
    """
    from matplotlib.lines import Line2D
    from matplotlib.ticker import EngFormatter

    known = metric_names(runs.values())
    metrics = [check_choice("metric", name, known) for name in metrics or known]
    columns = min(_COLUMNS, len(metrics))
    rows = -(-len(metrics) // columns)
    figure = new_figure(0.8 + 4.2 * columns, 0.9 + 2.7 * rows)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for place, axes in enumerate(panels):
        axes.set_visible(place < len(metrics))
    for place, (axes, metric) in enumerate(zip(panels, metrics, strict=False)):
        axes.set_title(metric.replace("_", " "), parse_math=False)
        axes.grid(alpha=0.3)
        if place + columns >= len(metrics):  # the last of its column
            axes.set_xlabel(_X_LABELS[axis])
            axes.tick_params(labelbottom=True)
        if axis == "tokens":
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    for number, run in enumerate(runs.values()):
        _draw_run(panels, metrics, run, f"C{number % 10}", axis, smooth)
    for axes, metric in zip(panels, metrics, strict=False):
        if metric in _LAST:
            axes.set_ylim(bottom=0)
    lines = [Line2D([], [], color=f"C{number % 10}") for number in range(len(runs))]
    names = list(runs)
    if any(len(run["eval"]["step"]) for run in runs.values()):
        lines.append(Line2D([], [], color="grey", marker="o", linestyle="", markeredgecolor="k"))
        names.append("held out")
    if any(run["restarts"] for run in runs.values()):
        lines.append(Line2D([], [], color="grey", linestyle="--", linewidth=1))
        names.append("restart")
    add_legend(figure, lines, names)
    return figure


def _draw_run(panels, metrics, run, colour, axis, smooth):
    """Draw a run into the panels of the metrics that it has."""
    drawn = curves(run, axis, smooth)
    restarts = positions(run, sorted(set(run["restarts"])), axis)
    for axes, metric in zip(panels, metrics, strict=False):
        for split, curve in drawn.get(metric, {}).items():
            if split == "eval":
                axes.plot(curve["x"], curve["value"], color=colour, marker="o", linestyle="",
                          markeredgecolor="k", markersize=5, zorder=3)
                continue
            dot = "." if len(curve["x"]) == 1 else ""
            if "smooth" in curve:
                axes.plot(curve["x"], curve["value"], color=colour, alpha=0.25, linewidth=0.8)
            axes.plot(curve["x"], curve.get("smooth", curve["value"]), color=colour,
                      linewidth=1.3, marker=dot)
        for place in restarts if metric in drawn else ():
            axes.axvline(place, color=colour, linestyle="--", linewidth=0.9, alpha=0.8)


def show(arguments):
    """Draw into `arguments.output`; the lines to print."""
    runs = {name: read_run(path) for name, path in zip(
        short_names(arguments.run), arguments.run, strict=True)}
    known = metric_names(runs.values())
    metrics = [check_choice("metric", name, known) for name in arguments.metric or known]
    lines = []
    if arguments.output.endswith(".json"):
        files.write_json(arguments.output, {
            "x": arguments.x, "smooth": arguments.smooth,
            "runs": [_plain(name, run, metrics, arguments) for name, run in runs.items()]})
    else:
        lines = write_figure(arguments.output,
                             draw_runs(runs, metrics, arguments.x, arguments.smooth))
    return [*lines, *(line for name, run in runs.items()
                      for line in (*run["notes"], _summary(name, run)))]


def _plain(name, run, metrics, arguments):
    """Return a run for JSON."""
    drawn = curves(run, arguments.x, arguments.smooth)
    return {"name": name, **{key: run[key] for key in ("path", "restarts", "lost",
                                                       "tokens_per_step")},
            "metrics": {metric: {split: {key: values.tolist() for key, values in curve.items()}
                                 for split, curve in drawn[metric].items()}
                        for metric in metrics if metric in drawn}}


def _summary(name, run):
    steps = np.concatenate([run["train"]["step"], run["eval"]["step"]]).max()
    parts = [f"{name}: {steps:,} steps"]
    for split, name in (("train", "last loss"), ("eval", "held out")):
        losses = run[split].get("loss", np.zeros(0))
        if len(losses):
            parts.append(f"{name} {losses[-1]:.4f}")
    if run["restarts"]:
        parts.append(f"restarted at {', '.join(map(str, run['restarts']))}, {run['lost']} logged "
                     "lines made again")
    return ", ".join(parts)
