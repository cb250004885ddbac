"""What models that give texts vectors have in common: batches of texts, how they are trained."""

import functools

import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.retrieval.prompts import prompted
from bert_tf.tasks.base.ranks import Ranks, beside
from bert_tf.tasks.base.takes_text import text_tensors
from bert_tf.tasks.base.text_model import TextModel
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.check import check_options
from bert_tf.tasks.embedding.features import TextTable
from bert_tf.tasks.embedding.losses.table import compute_loss
from bert_tf.tasks.embedding.losses.vector_batch import VectorBatch
from bert_tf.tasks.embedding.options import EmbeddingLoss

TASK = "embedding"  # name of the loss in what is logged


class VectorModel(Ranks, TextModel):
    """Base of the models that give each text a vector, and learn from queries and their texts.

    A subclass has `prompts`, a dict, and `similarities`, or `scores`.

    Args:
        encoder, dtype, seed, preprocessor: see `TextModel`.
        training_loss: a `loss_class`, or a dict of its options; None for its defaults.
    """

    tasks = (TASK,)
    objectives = ()  # what signatures give needs no head that may be missing
    metric_names = ()
    whole_batch_loss = True
    loss_class = EmbeddingLoss  # of `training_loss`
    batch_class = VectorBatch  # what the loss is computed of
    table_class = TextTable  # of different texts, as they are read
    preprocessor_class = TextPreprocessor

    def __init__(self, encoder, dtype, seed, preprocessor, training_loss, **kwargs):
        super().__init__(encoder, dtype, seed, preprocessor, **kwargs)
        self.training_loss = (self.check_loss(training_loss) if isinstance(
            training_loss, EmbeddingLoss) else self.loss_class(**(training_loss or {})))

    def get_config(self):
        """See Keras; what the model is trained by is part of a `.keras` file."""
        return {**super().get_config(), "training_loss": self.training_loss.to_dict()}

    def compile(self, optimizer="rmsprop", loss=None, **kwargs):
        """See Keras; `loss` may also be an `EmbeddingLoss`, without one it is `training_loss`."""
        if isinstance(loss, EmbeddingLoss):
            self.training_loss, loss = self.check_loss(loss), None
        super().compile(optimizer, loss, **kwargs)

    def check_loss(self, loss):
        """Return `loss` if the model can be trained by it; else raise UsageError."""
        if type(loss) is not self.loss_class:
            raise UsageError(explain(f"{loss!r} for {self.name}", self.loss_class.__name__))
        check_options(loss)
        return loss

    def _batch(self, x, y, sample_weight):
        if not (isinstance(x, dict) and "text_ids" in x):
            raise UsageError(explain(f"{self.name} was compiled without a loss of Keras' and given "
                                     "no text_ids", "batches of query_batches"))
        return super()._batch(x, y, sample_weight)

    def loss_weights(self, batch):
        """See `Objective.loss_weights`: the number of queries."""
        weights = batch.get("example_weights")
        rows = tf.cast(tf.shape(batch["text_ids"])[0], tf.float32)
        return {TASK: rows if weights is None else tf.reduce_sum(weights)}

    def loss_sums(self, outputs, batch):
        """See `Objective.loss_sums`; the loss of the vectors of all replicas.

        What is returned is this replica's share: the loss times all weights, by the replicas.
        """
        gathered = self.batch_class.gathered(outputs, batch)
        loss = self.loss_of(gathered, batch) * tf.reduce_sum(gathered.weights)
        context = tf.distribute.get_replica_context()
        return {TASK: loss / (context.num_replicas_in_sync if context else 1)}

    def loss_of(self, gathered, batch):
        """Compute the loss of a `VectorBatch`, float32 scalar.

        Args:
            gathered: of all replicas.
            batch: this replica's.
        """
        return compute_loss(gathered, self.training_loss)

    def metric_sums(self, outputs, batch):
        """See `Objective.metric_sums`: none."""
        return {}

    def similarities(self, texts, firsts, seconds, batch_size):
        """Return float `[N]`: how alike texts are.

        Args:
            texts: list of str.
            firsts, seconds: N places in `texts` each.
            batch_size: see `Ranks.scores`.
        """
        raise NotImplementedError

    def scores(self, queries, passages, batch_size=None):
        """See `Ranks.scores`: how alike the texts are, each after its prompt."""
        queries, passages = beside(queries, passages)
        queries, passages = ([prompted(self.prompts, kind, text) for text in column]
                             for kind, column in (("query", queries), ("passage", passages)))
        texts = list(dict.fromkeys([*queries, *passages]))
        place = {text: index for index, text in enumerate(texts)}
        return self.similarities(texts, *([place[text] for text in column]
                                          for column in (queries, passages)), batch_size)

    def columns_of(self, texts, prompt):
        """Return one or two arrays of as many str: the texts that `embed` is given.

        Args:
            texts: what `text_list` takes, a list of `(text_a, text_b)`, or a tuple of two lists.
            prompt: name of one of `prompts`, which comes before each text; None for none.
        """
        objects = functools.partial(np.array, dtype=object)
        columns = text_tensors(texts, make=objects)
        columns = columns if isinstance(columns, tuple) else (columns,)
        if not all(isinstance(column, np.ndarray) for column in columns):
            raise UsageError(explain("inputs that are not texts", "strings, or pairs of strings"))
        if len(set(map(len, columns))) > 1:
            raise UsageError(explain(" and ".join(f"{len(column)} texts" for column in columns),
                                     "as many second texts as first ones"))
        if prompt is not None:
            before = self.prompts[check_choice("prompt", prompt, list(self.prompts))]
            columns = (objects([before + _text(text) for text in columns[0]]), *columns[1:])
        # After the prompt, which is part of what is read.
        return text_tensors(columns, self.preprocessor and self.preprocessor.tokenizer,
                            make=objects)


def _text(text):
    return text.decode() if isinstance(text, bytes) else text
