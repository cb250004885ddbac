"""A weight of each token of the vocabulary for a text: learned sparse vectors (SPLADE)."""

import keras
import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.layers.mlm_head import MaskedLMHead
from bert_tf.layers.query_table import QueryTable
from bert_tf.layers.term_pooling import ACTIVATIONS, POOLINGS, pool_terms
from bert_tf.models.families import INPUTS
from bert_tf.retrieval.ranking import product
from bert_tf.tasks.base.lists import each_row
from bert_tf.tasks.embedding.features import RoleTable
from bert_tf.tasks.embedding.losses.table import compute_loss
from bert_tf.tasks.embedding.model import special_ids_of
from bert_tf.tasks.embedding.sparse.flops import regularizer
from bert_tf.tasks.embedding.sparse.options import SparseLoss
from bert_tf.tasks.embedding.vector_model import VectorModel

_BATCH_SIZE = 32  # see `SparseEmbedder.sparse`


@keras.saving.register_keras_serializable("bert_tf")
class SparseEmbedder(VectorModel):
    """An encoder whose masked-LM head says how much each token of the vocabulary weighs in a text.

    Call: text where there is a `preprocessor`, else a dict of int32 `input_word_ids`, `input_mask`,
    `input_type_ids` `[b, seq_length]` -> float32 `[b, vocab_size]`, most of it 0 once it is
    trained: see `pool_terms`. All real tokens count, `[CLS]` and `[SEP]` too. Of a long text read
    in windows (`[b, windows, seq_length]`) those of all windows. Two texts are as similar as the
    scalar product of their weights says.

        model = bert_tf.from_pretrained(folder, "sparse_embedder")
        model.sparse("A man eats.", top_k=3)  # {"eat": …, "man": …, …}

    Any model that predicts masked tokens becomes one, with the weights of its head.

    Args:
        encoder: a `ModelConfig` or an encoder: of `build_encoder`, `from_pretrained`, `from_live`.
        pooling: `max` or `sum` over the tokens.
        act: `relu`, or `log1p_relu`, which takes the logarithm twice.
        prompts: `{name: text}`, what `sparse` may put before each text, such as `"query: "`.
        query_table: whether queries are weighed by a table in place of the encoder, see
            `QueryTable`; or its option, `{"special_ids": ids}`, which else are `[CLS]` and `[SEP]`
            of the preprocessor's tokenizer.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer seed of the initial weights, see `build_encoder`.
        preprocessor: a `TextPreprocessor`, or None where only token ids are taken.
        training_loss: a `SparseLoss`, where `compile` is given none.

    Raises:
        UsageError: an option is unknown, or the family has no such head.
    """

    saved_as = "sparse_embedder"
    objectives = ("terms",)
    required_options = ("pooling", "act")
    further_options = ("prompts", "query_table")
    whole_table = True  # is multiplied by
    metric_names = ("query_terms", "passage_terms")
    loss_class = SparseLoss
    table_class = RoleTable
    needed_head = "cls/predictions/"  # never made anew: see `from_pretrained`

    def __init__(self, encoder, pooling="max", act="relu", dtype=None, seed=None,
                 preprocessor=None, name="sparse_embedder", prompts=None, training_loss=None,
                 query_table=None, **kwargs):
        super().__init__(encoder, dtype, seed, preprocessor, training_loss, name=name, **kwargs)
        config = self.config
        if config.family == "static" or config.masked_lm_head == "tied":
            raise UsageError(explain(f"weights of tokens by a model of family {config.family!r}, "
                                     "which has no masked-LM head", "another family"))
        self.pooling = check_choice("pooling", pooling, POOLINGS)
        self.act = check_choice("act", act, ACTIVATIONS)
        self.prompts = dict(prompts or {})
        self.masked_lm_head = MaskedLMHead.of_model(config, seed, self.dtype_policy)
        # Built here for its path, as in `Pretrainer`.
        with keras.name_scope("cls"):
            self.masked_lm_head.build((None, None, config.hidden_size))
        self.query_table = self._make_table(query_table)
        self.supports_jit = False  # logits are computed in parts, of a number that no shape says
        self.built = True

    def _make_table(self, given):
        if not given:
            return None
        if given is True:
            self.need_preprocessor()
            given = {"special_ids": special_ids_of(self.preprocessor.tokenizer)}
        table = QueryTable(self.config.vocab_size, **given, name="query", dtype="float32")
        with keras.name_scope("cls"):
            table.build()
        return table

    @property
    def width(self):
        """The length of a vector: tokens of the vocabulary."""
        return self.config.vocab_size

    def options(self):
        """See `Saved.options`."""
        return {"pooling": self.pooling, "act": self.act,
                **({"prompts": self.prompts} if self.prompts else {}),
                **({"query_table": {"special_ids": list(self.query_table.special_ids)}}
                   if self.query_table else {})}

    def call(self, inputs, training=False):
        """Compute weights float32 `[b, vocab_size]`."""
        inputs = self.read(inputs)
        if len(inputs["input_word_ids"].shape) == 2:
            return self._weights(inputs, training)
        by_table = "text_ids" in inputs and self.query_table is not None
        read = {name: inputs[name][:, 1:] for name in INPUTS} if by_table else inputs
        weights = each_row(read, lambda rows: self._weights(rows, training))
        if by_table:
            queries = self.query_weights({name: inputs[name][:, 0] for name in INPUTS})
            return tf.concat([queries[:, tf.newaxis], weights], 1)
        if "text_ids" in inputs:
            return weights
        over_windows = tf.reduce_max if self.pooling == "max" else tf.reduce_sum
        return over_windows(weights, 1)

    def query_weights(self, inputs):
        """Compute the weights of queries, float32 `[b, vocab_size]`: by the table where there is
        one, else as `call` does."""
        inputs = self.read(inputs)
        if self.query_table is None:
            return self(inputs)
        ids, mask = (tf.reshape(inputs[name], [tf.shape(inputs[name])[0], -1])  # of all windows
                     for name in ("input_word_ids", "input_mask"))
        return self.query_table(ids, mask)

    def _weights(self, inputs, training):
        # As a served model's `embed` calls it, so that one graph of the encoder is in a version.
        outputs = self.backbone({name: inputs[name] for name in INPUTS}, training=training,
                                encoder_outputs=True)
        hidden, table, bias = self.masked_lm_head.decoded(
            outputs["sequence_output"], self.backbone.embeddings.table(), training)
        return pool_terms(hidden, inputs["input_mask"], table,
                          tf.zeros(table.shape[:1]) if bias is None else bias, self.pooling,
                          self.act, training)

    def loss_of(self, gathered, batch):
        """See `VectorModel.loss_of`: with the FLOPS regularizer; where a batch has `progress`, how
        much of the training is done, that rises."""
        loss = self.training_loss
        return compute_loss(gathered, loss) + regularizer(gathered, loss, batch.get("progress"))

    def metric_sums(self, outputs, batch):
        """See `Objective.metric_sums`: tokens that weigh anything in a query, and in a passage."""
        weights = batch.get("example_weights")
        present = tf.cast(batch["text_ids"] > 0, tf.float32)
        present = present if weights is None else present * weights[:, tf.newaxis]
        counts = tf.math.count_nonzero(outputs, -1, dtype=tf.float32) * present
        parts = {"query_terms": slice(0, 1), "passage_terms": slice(1, None)}
        return {name: (tf.reduce_sum(counts[:, part]), tf.reduce_sum(present[:, part]))
                for name, part in parts.items()}

    def similarities(self, texts, firsts, seconds, batch_size):
        """See `VectorModel.similarities`: the scalar product of the weights."""
        weights = self.sparse(texts, batch_size=batch_size)
        queries = weights if self.query_table is None else self.sparse(
            texts, batch_size=batch_size, queries=True)
        return np.array([product(queries[first], weights[second])
                         for first, second in zip(firsts, seconds, strict=True)], np.float32)

    def sparse(self, texts, top_k=None, batch_size=None, prompt=None, queries=False):
        """Return the tokens that weigh anything in each text, in the order of the texts.

        Args:
            texts: a str, what `text_list` takes, a list of `(text_a, text_b)`, or a tuple of two
                lists.
            top_k: tokens of a text at most, the heaviest; None for all.
            batch_size: texts of a batch; texts of similar length share one. None for 32: each has
                a weight for every token of the vocabulary, however short it is.
            prompt: name of one of `prompts`, which comes before each text.
            queries: whether the texts are queries, which a model with a `query_table` weighs by it.

        Returns: for each text a dict of float by token, heaviest first; of a str that of the one
            text.

        Raises:
            UsageError: the model takes no text, there is no such prompt, `top_k` is not 1 to the
                size of the vocabulary, or `batch_size` is below 1.
        """
        if isinstance(texts, str):
            return self.sparse([texts], top_k, batch_size, prompt, queries)[0]
        self.need_preprocessor()
        tokenizer = self.preprocessor.tokenizer
        num_tokens = min(len(tokenizer.vocabulary), self.width)  # tables may have further rows
        if top_k is not None and not 1 <= top_k <= num_tokens:
            raise UsageError(explain(f"top_k={top_k}", f"1 to {num_tokens}, the vocabulary"))
        columns = self.columns_of(texts, prompt)
        found = [None] * len(columns[0])
        by_table = queries and self.query_table is not None
        compute = (lambda batch: self.query_weights(batch).numpy()) if by_table else None
        batch_size = _BATCH_SIZE if batch_size is None else batch_size
        for rows, weights in self.outputs_by_length(columns, batch_size, compute):
            for row, of_text in zip(rows, weights[:, :num_tokens], strict=True):
                ids = np.flatnonzero(of_text)  # what is no number, too
                ids = ids[np.argsort(-of_text[ids], kind="stable")][:top_k]
                tokens = tokenizer.tokens(tf.constant(ids, tf.int32)).numpy()
                found[row] = {token.decode(errors="replace"): weight for token, weight in zip(
                    tokens, of_text[ids].tolist(), strict=True)}
        return found
