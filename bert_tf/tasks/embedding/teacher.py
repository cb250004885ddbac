"""A teacher: an embedder whose vectors another one learns from."""

from bert_tf.errors import UsageError, explain
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.pretrained import from_pretrained


def load_teacher(loss, student):
    """Read the teacher that an `EmbeddingLoss` names; it reads text by its own tokenizer.

    Args:
        loss: an `EmbeddingLoss` with a teacher.
        student: the `SentenceEmbedder` that is trained.

    Raises:
        UsageError: it cannot teach the student.
        BertTfError: it cannot be read.
    """
    teacher = from_pretrained(loss.teacher, SentenceEmbedder.saved_as)
    teacher.need_preprocessor()
    if loss.loss == "vectors" and teacher.width != student.width:
        raise UsageError(explain(
            f"--teacher {loss.teacher} with vectors of {teacher.width} components, the model's "
            f"have {student.width}", "the same width", "--loss margin_mse, which needs scores "
            "alone"))
    return teacher
