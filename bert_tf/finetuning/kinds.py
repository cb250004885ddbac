"""The kinds of tasks: how examples become features, and logits become answers, by `Task.kind`.

A kind is a `Kind` with

    text_fields, models                         those of an example that hold text; tasks of models
    __init__(task, options)                     data.tasks.Task; the flags
    labels(train) -> list[str]                  names of the labels; [] where there are none
    model_options(labels, tokenizer)            (task for from_pretrained, its further arguments)
    features(examples, model, training)         data.task_input.Features; training: with labels
    given(example) -> dict                      of predictions.jsonl: the text, and what is right
    predict(model, examples) -> list[dict]      and what the model tells, with the example's id
    metrics(examples, predictions) -> dict      floats, among them the one that is monitored
    report(examples, predictions, folder)       pictures and tables for people, into that folder;
                                                gives lines that are printed, or nothing
"""

import importlib

KINDS = {"text": ("text_kind", "TextKind"), "span": ("span_kind", "SpanKind"),
         "tag": ("tag_kind", "TagKind")}
_NO_LABELS = ("embedder", "encoder", "pretraining", "language_model", "replaced_tokens")


def make_kind(task, options, model_task=None):
    """The kind of `task`, with `options`, the flags of `finetune` or `evaluate`.

    `model_task` is what the model to be measured was saved for: one that knows no labels can still
    tell how alike two texts are.
    """
    module, name = KINDS[task.kind]
    if task.pair and model_task in _NO_LABELS:
        module, name = "vector_kind", "VectorKind"
    return getattr(importlib.import_module(f"bert_tf.finetuning.{module}"), name)(task, options)
