"""Files that a fine-tuning or an evaluation writes: results.json, predictions.jsonl, a report."""

import json
import math
import os
import statistics

from bert_tf.saved_model.source import RESULTS, read_results
from bert_tf.storage import checksums, files

PREDICTIONS = "predictions.jsonl"
TEST = "test"  # folder of predictions and report of --test
REPORT = "report"  # folder of pictures and tables for people


def spread(records):
    """Return the mean and sample standard deviation of each metric over trials.

    Args:
        records: of finished trials with `metrics`, see `Trial.finish`; at least one.

    Returns: `(mean, deviation)`, each `{metric: float}`, of the metrics that all trials have; of
        one trial the deviation is 0.
    """
    measured = [record["metrics"] for record in records]
    columns = {name: [metrics[name] for metrics in measured] for name in measured[0]
               if all(name in metrics for metrics in measured)}
    deviation = {name: statistics.stdev(values) if len(values) > 1 else 0.0
                 for name, values in columns.items()}
    return {name: statistics.fmean(values) for name, values in columns.items()}, deviation


def write_measured(task_type, examples, predictions, folder):
    """Write `predictions.jsonl` and the task's `report/`.

    A line of predictions is the example's `id`, what the model was given and its label (see
    `Example.given`), and what `TaskType.predict` predicts of it. What the report states of itself
    is printed.
    """
    files.write_json_lines(os.path.join(folder, PREDICTIONS), (
        {"id": example.id, **example.given(), **line}
        for example, line in zip(examples, predictions, strict=True)))
    for line in task_type.report(examples, predictions,
                            files.make_folder(os.path.join(folder, REPORT))) or ():
        print(line)


def first_prediction(folder):
    """Read the first line of `predictions.jsonl` in a folder, a dict."""
    return json.loads(next(iter(files.read_lines(os.path.join(folder, PREDICTIONS)))))


def described(task_type, labels):
    """Return what a preprocessor of the metrics must know: `{"monitor", "positive_label"}` for
    `results.json`.

    `positive_label` is the one of two labels that `f1` is about, else None.
    """
    return {"monitor": task_type.monitor[0],
            "positive_label": task_type.positive_label(labels)}


def about_f1(results):
    """Return a line that says which label `f1` is about, of what `described` gives; else none."""
    positive = results.get("positive_label")
    return [] if positive is None else [f"f1 is of the label {positive!r}"]


def write_results(folder, results, made=(PREDICTIONS, REPORT)):
    """Write `results.json`; what is no finite number is null there, as JSON has none.

    Args:
        folder: of a run.
        results: what it came to.
        made: names in `folder`, of files and of folders of files, that belong to the results.
            Those that are there are listed as `files`, so that `missing` knows them.
    """
    listed = [name for entry in made for name in (
        [os.path.join(entry, name) for name in files.list_folder(os.path.join(folder, entry))]
        or [entry]) if files.is_file(os.path.join(folder, name))]
    checksums.write_sealed(os.path.join(folder, RESULTS),
                           {**_plain(results), "files": sorted(listed)})


def missing(folder):
    """Return the names of files that belong to the `results.json` in `folder` and are missing.

    Raises:
        BertTfError: `results.json` is missing or damaged.
    """
    return [name for name in read_results(folder).get("files", ())
            if not files.exists(os.path.join(folder, name))]


def _plain(value):
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shown(metrics, deviation=None):
    """Format metrics in one line: `mcc 0.3381 ± 0.0120, accuracy …`."""
    return ", ".join(f"{name} {value:.4f}"
                     + (f" ± {deviation[name]:.4f}" if deviation else "")
                     for name, value in metrics.items())
