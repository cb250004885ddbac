"""The log of a training run, read from its `metrics.jsonl`."""

import json
import math
import os

import numpy as np

from bert_tf.errors import BertTfError, UsageError, check_choice, explain
from bert_tf.models.find import MASKED_LM, examples_path
from bert_tf.storage import files, manifest

AXES = ("steps", "tokens", "seconds")
_METRICS = "metrics.jsonl"
_LARGEST = 1e300
_LINE = '{"step": 10, "split": "train", "loss": 6.5, …} or {"restart": 10}'


def read_run(path):
    """Read the lines of a run that count: of what was made again after a restart the later ones.

    Args:
        path: run folder, or a `metrics.jsonl`.

    Returns: dict of `path`, of the file; `train` and `eval`, each a dict of `step` int64 and every
        metric float64 `[lines]`, nan where a line has none; `restarts`, list of the steps that the
        run went back to; `lost`, how many lines were made again; `tokens_per_step`, float, what a
        step reads on average (batch size by the mean tokens of an example, as the run folder has
        them), or None; `notes`, list of str: what was skipped.

    Raises:
        BertTfError: the file is missing, empty or damaged; the line is named. A last line that is
            truncated is skipped.
        UsageError: a folder of no single run.
    """
    path = _metrics_file(path)
    lines, notes = list(files.read_lines(path)), []
    kept, restarts, lost = {"train": [], "eval": []}, [], 0
    for number, text in enumerate(lines, 1):
        where = f"{path} line {number}"
        try:
            line = json.loads(text)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                notes.append(f"{where} is truncated and skipped")
                break
            raise BertTfError(explain(f"{where}: invalid JSON", _LINE)) from error
        _check(line, where)
        if "restart" in line:
            restarts.append(line["restart"])
            for split, rows in kept.items():
                kept[split] = [row for row in rows if row["step"] <= line["restart"]]
                lost += len(rows) - len(kept[split])
            continue
        rows = kept[line.pop("split")]
        if rows and line["step"] <= rows[-1]["step"]:
            raise BertTfError(explain(f"{where}: step {line['step']} after {rows[-1]['step']}",
                                      'a line {"restart": …} between'))
        rows.append(line)
    if not any(len(row) > 1 for rows in kept.values() for row in rows):
        raise BertTfError(explain(f"{path} holds no metrics", "the lines of a training"))
    first = os.path.join(os.path.dirname(path), MASKED_LM)
    if files.exists(os.path.join(first, _METRICS)):
        notes.append(f"the steps before, of masked tokens alone, are those of --run {first}")
    return {"path": path, **{split: _columns(rows) for split, rows in kept.items()},
            "restarts": restarts, "lost": lost,
            "tokens_per_step": _tokens_per_step(os.path.dirname(path)), "notes": notes}


def _metrics_file(path):
    if not files.is_folder(path):
        return path
    inside = os.path.join(path, _METRICS)
    trials = os.path.join(path, "trials")
    first = os.path.join(path, MASKED_LM)
    if not files.exists(inside) and files.exists(os.path.join(first, _METRICS)):
        raise UsageError(explain(f"{path} is in its first training", attempt=f"--run {first}"))
    if not files.exists(inside) and files.list_folder(trials):
        raise UsageError(explain(f"{path} holds several trainings", "one run",
                                 os.path.join(trials, files.list_folder(trials)[0])))
    return inside


def _check(line, where):
    """Raise BertTfError unless a line is one of a training's."""
    def is_step(value):
        return type(value) is int and 0 <= value < 2**53

    def is_metric(name, value):  # that can be drawn
        return name.isprintable() and (value is None or type(value) in (int, float)
                                       and not _LARGEST < abs(value) < math.inf)

    if isinstance(line, dict):
        if {"restart"} <= set(line) <= {"restart", "note"} and is_step(line["restart"]):
            return
        if ("restart" not in line and is_step(line.get("step"))
                and line.get("split") in ("train", "eval")
                and all(name == "split" or is_metric(name, value)
                        for name, value in line.items())):
            return
    raise BertTfError(explain(f"{where}: not a line of metrics", _LINE))


def _columns(rows):
    names = dict.fromkeys(name for row in rows for name in row if name != "step")
    return {"step": np.array([row["step"] for row in rows], np.int64),
            **{name: np.array([row.get(name) for row in rows], np.float64) for name in names}}


def _tokens_per_step(folder):
    """Return the real tokens of a step on average; None where the folder does not say."""
    paths = [os.path.join(folder, "train_config.json"), examples_path(folder)]
    if not all(map(files.exists, paths)):
        return None
    config, made = files.read_json_object(paths[0]), manifest.read(paths[1])
    try:
        return config["batch_size"] * made["splits"]["train"]["mean_tokens"]
    except (KeyError, TypeError) as error:
        raise BertTfError(explain(f"{paths[0]} or {paths[1]} lacks {error}",
                                  "the files of a pre-training run")) from error


def positions(run, steps, axis):
    """Return where finished steps of a run lie on an axis.

    Args:
        run: of `read_run`.
        steps: integers `[n]`.
        axis: `steps`; `tokens`, real ones read until then; `seconds`, the time it took to train
            what counts, by the logged rates: without evaluations, checkpoints and what was lost.

    Returns: float64 `[n]`.

    Raises:
        UsageError: the run does not tell, or there is no such axis.
    """
    steps = np.asarray(steps, np.float64)
    if check_choice("x", axis, AXES) == "steps":
        return steps
    if run["tokens_per_step"] is None:
        raise UsageError(explain(
            f"--x {axis} with {run['path']}, beside which is no train_config.json or no "
            "data/manifest.json", "the folder of a pre-training run", "--x steps"))
    tokens = steps * run["tokens_per_step"]
    if axis == "tokens":
        return tokens
    rates = run["train"].get("tokens_per_second", np.zeros(0))
    known = rates > 0
    if not known.any():
        raise UsageError(explain(f"--x seconds with {run['path']}", "a run that logs its "
                                                                    "tokens_per_second"))
    # A rate holds for the steps since the last one; the last one for all that follow.
    ends = run["train"]["step"][known] * run["tokens_per_step"]
    seconds = np.cumsum(np.diff(ends, prepend=0) / rates[known])
    after = np.maximum(tokens - ends[-1], 0) / rates[known][-1]
    return np.interp(tokens, [0, *ends], [0, *seconds]) + after
