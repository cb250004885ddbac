"""A vector for each token of a text: late interaction (ColBERT)."""

import string

import keras
import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.layers.dense import Dense
from bert_tf.layers.quantized import in_float32
from bert_tf.models.families import INPUTS
from bert_tf.retrieval.prompts import PASSAGE, QUERY, ROLES
from bert_tf.retrieval.token_vectors import TokenVectors, max_sims
from bert_tf.tasks.base.lists import each_row
from bert_tf.tasks.base.ranks import beside
from bert_tf.tasks.base.text_preprocessor import is_text, texts_of
from bert_tf.tasks.embedding.multi_vector.batch import MultiVectorBatch
from bert_tf.tasks.embedding.multi_vector.features import ReaderTable
from bert_tf.tasks.embedding.multi_vector.options import MultiVectorLoss
from bert_tf.tasks.embedding.multi_vector.reading import Reading, role_of
from bert_tf.tasks.embedding.vector_model import VectorModel

_QUERY_LENGTH = 32


@keras.saving.register_keras_serializable("bert_tf")
class MultiVectorEmbedder(VectorModel):
    """An encoder whose hidden states, projected to `dim` and each of length 1, are vectors of the
    tokens of a text.

    Khattab and Zaharia 2020, "ColBERT: Efficient and Effective Passage Search via Contextualized
    Late Interaction over BERT", section 3. A query and a passage are as similar as MaxSim says:
    the sum over the query's vectors of the largest scalar product with one of the passage's.

    Call: `{"query": texts}` or `{"passage": texts}` where there is a `preprocessor`, texts alone
    being passages; else a dict of int32 `input_word_ids`, `input_mask`, `input_type_ids` and, if
    wanted, `vector_mask` `[b, seq_length]`, 1 where a token has a vector, whether or not others
    see it -> float32 `[b, seq_length, dim]`, 0 where a token has none.

        model = bert_tf.from_pretrained(folder, "multi_vector_embedder")
        model.vectors(["Where is the Seine?"], "query")  # [float32 [tokens, dim]]
        model.rank("Where is the Seine?", passages)

    Args:
        encoder: a `ModelConfig` or an encoder: of `build_encoder`, `from_pretrained`, `from_live`.
        dim: components of a vector.
        query_length: tokens that are read of a query, special ones counted; None for 32, or what
            the encoder has. Of a passage it is the window of the preprocessor.
        expansion: tokens to which shorter queries are filled up with [MASK], each of which has a
            vector; 0 for none, None for `query_length`.
        attends_expansion: whether the other tokens of a query see these.
        skiplist: tokens that have no vector in passages; None for ASCII punctuation.
        prompts: `{"query": text, "passage": text}`, what comes before each text. Where it is or
            begins with the name of a token that text does not give, such as `[unused0]`, that
            token is meant.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer seed of the initial weights, see `build_encoder`.
        preprocessor: a `TextPreprocessor`, or None where only token ids are taken.
        training_loss: a `MultiVectorLoss`, where `compile` is given none.

    Raises:
        UsageError: an option is out of range.
    """

    saved_as = "multi_vector_embedder"
    objectives = ("vectors",)
    required_options = ("dim", "query_length", "expansion", "attends_expansion", "skiplist")
    further_options = ("prompts",)
    further_inputs = ("vector_mask",)
    loss_class = MultiVectorLoss
    batch_class = MultiVectorBatch
    table_class = ReaderTable

    def __init__(self, encoder, dim=128, query_length=None, expansion=None,
                 attends_expansion=False, skiplist=None, dtype=None,
                 seed=None, preprocessor=None, name="multi_vector_embedder",
                 prompts=None, training_loss=None, **kwargs):
        super().__init__(encoder, dtype, seed, preprocessor, training_loss, name=name, **kwargs)
        config = self.config
        if type(dim) is not int or dim < 1:
            raise UsageError(explain(f"dim={dim!r}", "a whole number of at least 1"))
        self.width = dim
        if query_length is None:
            query_length = min(_QUERY_LENGTH, config.longest)
        self.reading = Reading(
            query_length, query_length if expansion is None else expansion, attends_expansion,
            list(string.punctuation) if skiplist is None else skiplist, dict(prompts or {}))
        self.reading.check(config.longest)
        # A few numbers for each token, which are compared: nothing is gained in half precision.
        self.projection = Dense(dim, config.initializer_range, seed, use_bias=False,
                                name="projection", dtype=in_float32(self.dtype_policy))
        with keras.name_scope("cls"):
            self.projection.build((None, None, config.hidden_size))
        self.built = True

    @property
    def prompts(self):
        """What comes before each text, by role."""
        return self.reading.prompts

    @property
    def roles(self):
        """What `RoleReader.described` says of each role; {} where the model takes no text."""
        return {} if self.preprocessor is None else {
            role: self.reader(role).described() for role in ROLES}

    def options(self):
        """See `Saved.options`."""
        reading = self.reading
        return {"dim": self.width, "query_length": reading.query_length,
                "expansion": reading.expansion, "attends_expansion": reading.attends_expansion,
                "skiplist": list(reading.skiplist),
                **({"prompts": self.prompts} if self.prompts else {})}

    def read(self, inputs):
        """See `TakesText.read`; text is read by its role."""
        if not is_text(inputs):
            return super().read(inputs)
        self.need_preprocessor()
        role, texts = role_of(inputs)
        texts = texts_of(texts)
        if len(texts) > 1:
            raise UsageError(explain("pairs of texts", "single ones, as queries or as passages"))
        return self.reader(role)({"text": texts[0]})

    def reader(self, role):
        """Return the `RoleReader` of the texts of a role."""
        return self.reading.reader(self.preprocessor, role)

    def call(self, inputs, training=False):
        """Compute vectors float32 `[b, seq_length, dim]`; of lists `[b, texts, seq_length, dim]`.
        """
        inputs = self.read(inputs)
        if "text_ids" in inputs:
            return each_row(inputs, lambda rows: self._vectors(rows, training),
                            [name for name in (*INPUTS, *self.further_inputs) if name in inputs])
        if len(inputs["input_word_ids"].shape) != 2:
            raise UsageError(explain("texts in windows", "int32 [b, seq_length]"))
        return self._vectors(inputs, training)

    def _vectors(self, inputs, training):
        mask = inputs.get("vector_mask", inputs["input_mask"])
        # As a served model's `embed` calls it, so that one graph of the encoder is in a version.
        outputs = self.backbone({**{name: inputs[name] for name in INPUTS}, "vector_mask": mask},
                                training=training, encoder_outputs=True)
        vectors = tf.math.l2_normalize(self.projection(outputs["sequence_output"]), -1, 1e-24)
        return tf.where(tf.cast(mask, tf.int32)[..., tf.newaxis] > 0, vectors, 0.0)

    def vectors(self, texts, prompt=PASSAGE, batch_size=None):
        """Return the vectors of the tokens of each text, in the order of the texts.

        Args:
            texts: a str, or what `text_list` takes.
            prompt: `query` or `passage`: as what the texts are read.
            batch_size: texts of a batch, see `outputs_by_length`.

        Returns: for each text float32 `[vectors, dim]`; of a str that of the one text.

        Raises:
            UsageError: the model takes no text, or there is no such prompt.
        """
        if isinstance(texts, str):
            return self.vectors([texts], prompt, batch_size)[0]
        self.need_preprocessor()
        check_choice("prompt", prompt, ROLES)
        columns = self.columns_of(texts, None)
        if len(columns) > 1:
            raise UsageError(explain("pairs of texts", "single ones"))
        found = [None] * len(columns[0])
        # A short query is filled up to so many tokens.
        least = self.reading.expansion if prompt == QUERY else 0
        for rows, vectors in self.outputs_by_length(columns, batch_size, lambda batch:
                                                    self.predict_on_batch({prompt: batch}), least):
            for row, of_text in zip(rows, vectors, strict=True):
                found[row] = of_text[of_text.any(-1)]
        return found

    def scores(self, queries, passages, batch_size=None):
        """See `Ranks.scores`: MaxSim of each query and the passage beside it."""
        columns = beside(queries, passages)
        queries, passages = (
            dict(zip(different, self.vectors(different, role, batch_size), strict=True))
            for role, different in zip(ROLES, (list(dict.fromkeys(column)) for column in columns),
                                       strict=True))
        return np.array([max_sims(*(TokenVectors.of([vectors]) for vectors in (
            queries[query], passages[passage])))[0, 0]
            for query, passage in zip(*columns, strict=True)], np.float32)
