"""What the trainings of `finetune.py` came to: metrics, means over seeds, and the table of all."""

import statistics

from finetune_rows import ROWS, RUN_SIDES, SIDES

from bert_tf.finetune.results import spread
from bert_tf.tasks.base.regression_metrics import regression_metrics
from bert_tf.tasks.classification.metrics import classification_metrics
from bert_tf.tasks.question_answering.metrics import squad_metrics
from bert_tf.tasks.registry import find_task
from bert_tf.tasks.token_classification.metrics import tagging_metrics


def labels_of(row, train):
    """Names of the labels of a task; none of a number and of answers."""
    found = find_task(row.task)
    if found.type == "question_answering" or found.problem == "regression":
        return []
    if found.labels:
        return list(found.labels)
    if found.type == "classification":
        return sorted({example.label for example in train})
    kinds = {tag[2:] for example in train for tag in example.tags if tag != "O"}
    return ["O", *(f"{begin}-{kind}" for kind in sorted(kinds) for begin in "BI")]


def measure(row, examples, predictions, labels):
    """The metrics of predictions, by the code that measures ours."""
    found = find_task(row.task)
    if found.type == "token_classification":
        return tagging_metrics([list(example.tags) for example in examples],
                               [line["tags"] for line in predictions])
    if found.type == "question_answering":
        return squad_metrics(examples, {line["id"]: line["answer"] for line in predictions},
                             {line["id"]: line["no_answer_score"] for line in predictions})
    gold = [example.label for example in examples]
    if found.problem == "regression":
        return regression_metrics(gold, [line["score"] for line in predictions])
    return classification_metrics(gold, [line["label"] for line in predictions], labels)


def offsets(predictions, examples):
    """Whether what is cut from a text is what its offsets say: `{"cut", "cut_wrong"}`."""
    found = [(getattr(example, "context", None) or example.text, each)
             for example, line in zip(examples, predictions, strict=True)
             for each in (line.get("answers") or line.get("entities") or ())]
    wrong = sum(text[each["start"]:each["end"]] != each["text"] for text, each in found)
    return {"cut": len(found), "cut_wrong": wrong} if found else {}


def summary(runs, search):
    """What a side came to."""
    mean, deviation = spread(runs)
    found = {"mean": mean, "deviation": deviation,
             "seconds": statistics.fmean(run["seconds"] for run in runs)}
    if search:
        every = [*search, *(run for run in runs if run not in search)]
        found |= {
            "learning_rate": runs[0]["learning_rate"], "epochs": runs[0]["epochs"],
            "wall": statistics.fmean(run["wall"] for run in runs),
            "seconds_an_epoch": statistics.fmean(run["seconds"] / run["epochs"] for run in every)}
    return {**found, "runs": runs, "search": search}


def said(name, metrics):
    """The published metrics of a row in words."""
    return ", ".join(f"{metric} {metrics[metric]:.4f}"
                     for metric in find_task(ROWS[name].task).metrics)


def table(results):
    """All rows as a table for RESULTS.md."""
    lines = ["| row | metric | ours | transformers | n-grams | rates | seconds | ratio |",
             "|---|---|---|---|---|---|---|---|"]
    for name, sides in results.items():
        trained = [sides[side] for side in RUN_SIDES if side in sides]
        for metric in find_task(ROWS[name].task).metrics:
            cells = [f"{sides[side]['mean'][metric]:.4f} ± {sides[side]['deviation'][metric]:.4f}"
                     if side in sides else "" for side in SIDES]
            if metric == find_task(ROWS[name].task).monitor[0]:
                cells += [", ".join(f"{side['learning_rate']:g}" for side in trained),
                          ", ".join(f"{side['seconds']:.0f}" for side in trained)]
                cells += [f"{ratio(sides):.2f}" if ratio(sides) else ""]
            else:
                cells += [""] * 3
            lines.append(f"| {name} | {metric} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ratio(sides):
    """Our seconds an epoch, training and evaluation, of the peer's; None without it."""
    if not {"ours", "peer"} <= set(sides):
        return None
    return sides["ours"]["seconds_an_epoch"] / sides["peer"]["seconds_an_epoch"]
