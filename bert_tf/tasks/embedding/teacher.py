"""A teacher: an embedder whose vectors another one learns from."""

from bert_tf.errors import UsageError, explain
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.pretrained import Saved

# Models, as saved, that have no labels: their encoder makes vectors.
WITHOUT_LABELS = ("encoder", "pretraining", "language_model", "replaced_tokens")


def load_teacher(loss, student):
    """Read the teacher that an `EmbeddingLoss` names; it reads text by its own tokenizer.

    Args:
        loss: an `EmbeddingLoss` with a teacher.
        student: the `SentenceEmbedder` that is trained.

    Raises:
        UsageError: it cannot teach the student.
        BertTfError: it cannot be read.
    """
    saved = Saved.read(loss.teacher)
    task = saved.task["task"]
    if task not in (SentenceEmbedder.saved_as, *WITHOUT_LABELS):
        # Its encoder alone would give vectors, of which nobody has learned anything.
        raise UsageError(explain(
            f"--teacher {loss.teacher}, of the task {task!r}",
            "a model with a vector for each text", "its scores in the file"))
    teacher = saved.build(SentenceEmbedder.saved_as)
    teacher.need_preprocessor()
    if loss.loss == "vectors" and teacher.width != student.width:
        raise UsageError(explain(
            f"--teacher {loss.teacher} with vectors of {teacher.width} components, the model's "
            f"have {student.width}", "the same width", "--loss margin_mse, which needs scores "
            "alone"))
    return teacher
