"""Tasks of questions about a text: SQuAD, KorQuAD, and custom tables."""

from bert_tf.tasks.question_answering.files import read_span_table, read_squad, read_squad_v1
from bert_tf.tasks.task import Task

_SPAN = {"type": "question_answering", "metrics": ("f1", "exact_match"), "monitor": ("f1", "max"),
         "seq_length": 384}

TASKS = (
    Task("squad_v1", read=read_squad_v1, **_SPAN),
    Task("squad_v2", read=read_squad, unanswerable=True, **_SPAN),
    Task("korquad", read=read_squad_v1, **_SPAN),
    Task("span", read=read_span_table, unanswerable=True, **_SPAN, columns={
        "text": "question", "text_b": "context", "label": "answer"}),
)
