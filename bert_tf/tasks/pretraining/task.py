"""Models that are pre-trained on text without labels; their heads are not fine-tuned."""

from bert_tf.tasks.base.task_type import TaskType
from bert_tf.tasks.pretraining.language_model import LanguageModel
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens


class Pretraining(TaskType):
    """The models of `bert_tf.pretrain`; no task by name has this type."""

    models = (Pretrainer, LanguageModel, ReplacedTokens)


TYPE = Pretraining
