"""A teacher: an embedder whose vectors another one learns from."""

from bert_tf.errors import UsageError, explain
from bert_tf.tasks.base.ranks import Ranks
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.pretrained import Saved
from bert_tf.tasks.registry import model_classes


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
    known = model_classes().get(saved.task["task"], SentenceEmbedder)
    if issubclass(known, Ranks) and known is not SentenceEmbedder:
        # Its encoder alone would give vectors, of which nobody has learned anything.
        raise UsageError(explain(
            f"--teacher {loss.teacher}, of the task {known.saved_as!r}",
            "a model with a vector for each text", "its scores in the file"))
    teacher = saved.build(SentenceEmbedder.saved_as)
    teacher.need_preprocessor()
    if loss.loss == "vectors" and teacher.width != student.width:
        raise UsageError(explain(
            f"--teacher {loss.teacher} with vectors of {teacher.width} components, the model's "
            f"have {student.width}", "the same width", "--loss margin_mse, which needs scores "
            "alone"))
    return teacher
