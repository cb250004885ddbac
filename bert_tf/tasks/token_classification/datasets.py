"""Tasks of tagged words or characters: CoNLL columns, KLUE-NER, custom tables."""

from bert_tf.tasks.task import Task
from bert_tf.tasks.token_classification.files import (
    KLUE_TAGS,
    read_conll,
    read_klue,
    read_tag_table,
)

_TAG = {"type": "token_classification", "metrics": ("f1", "precision", "recall", "accuracy"),
        "monitor": ("f1", "max")}

TASKS = (
    Task("klue_ner", read=read_klue, labels=KLUE_TAGS, **_TAG),
    Task("conll", read=read_conll, **_TAG),
    Task("tag", read=read_tag_table, columns={"text": "text", "label": "tags"}, **_TAG),
)
