"""A vector for a text: pooled hidden states of an encoder."""

import functools

import keras
import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.layers.vector_pooling import VectorPooling
from bert_tf.models.families import INPUTS, as_encoder
from bert_tf.models.states import states_of
from bert_tf.retrieval.prompts import prompted
from bert_tf.retrieval.ranking import cosines
from bert_tf.tasks.base.lists import each_row
from bert_tf.tasks.base.long_texts import average_windows
from bert_tf.tasks.base.objective import Objective
from bert_tf.tasks.base.ranks import Ranks, beside
from bert_tf.tasks.base.takes_text import TakesText, text_tensors
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.losses.table import compute_loss, find_loss
from bert_tf.tasks.embedding.losses.vector_batch import VectorBatch
from bert_tf.tasks.embedding.options import EmbeddingLoss
from bert_tf.tokenization.texts import check_batch_size

TASK = "embedding"  # name of the loss in what is logged


@keras.saving.register_keras_serializable("bert_tf")
class SentenceEmbedder(Ranks, TakesText, Objective):
    """An encoder whose hidden states become one vector for each text.

    Call: text where there is a `preprocessor`, else a dict of int32 `input_word_ids`, `input_mask`,
    `input_type_ids` `[b, seq_length]` -> float32 `[b, width]`; with `pooling="none"` one vector
    for each token, `[b, seq_length, width]`, 0 at padding. Of a long text read in windows
    (`[b, windows, seq_length]`) the windows' vectors are averaged.

        model = bert_tf.from_pretrained(folder, "embedder", normalize=True,
                                        preprocessor=bert_tf.TextPreprocessor(tokenizer))
        vectors = model.embed(["A man eats.", "Someone is eating."])

    It is trained by `bert_tf.finetune` with the task `embed`, or by plain Keras on batches that
    `query_batches` makes of `QueryExample`s:

        model.compile("adam", bert_tf.EmbeddingLoss(loss="in_batch"))
        model.fit(bert_tf.query_batches(examples, model, batch_size=32, seed=1))

    In these the ids are `[b, texts, seq_length]`, beside `text_ids`, and there is a vector for each
    text: `[b, texts, width]`.

    Args:
        encoder: a `ModelConfig` or an encoder: of `build_encoder`, `from_pretrained`, `from_live`.
        pooling, layers, combine, mask_specials, weighting, normalize: see `VectorPooling`. With a
            `weighting` the model cannot be called before `set_term_weights`.
        dense: of `VectorPooling`: a dense layer on the pooled vector.
        prompts: `{name: text}`, what `embed` may put before each text, such as `"query: "`.
        special_ids: ids of the tokens that `mask_specials` leaves out; None for `[CLS]` and
            `[SEP]` of the preprocessor's tokenizer.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer seed of the initial weights, see `build_encoder`.
        preprocessor: a `TextPreprocessor`, or None where only token ids are taken.
        training_loss: an `EmbeddingLoss`, where `compile` is given none.

    Raises:
        UsageError: the options do not fit each other or the encoder.
    """

    saved_as = "embedder"
    tasks = (TASK,)
    objectives = ()  # every served model has the signature of vectors
    metric_names = ()
    whole_batch_loss = True
    required_options = ("pooling", "layers", "combine", "mask_specials", "special_ids",
                        "weighting", "normalize")
    further_options = ("dense", "prompts")
    preprocessor_class = TextPreprocessor

    def __init__(self, encoder, pooling="mean", layers=(-1,), combine="concat",
                 mask_specials=False, weighting=None, normalize=False, special_ids=None,
                 dtype=None, seed=None, preprocessor=None, name="embedder", dense=None,
                 prompts=None, training_loss=None, **kwargs):
        if dtype is None and isinstance(encoder, keras.Model):
            dtype = encoder.backbone.dtype_policy
        super().__init__(dtype=dtype, name=name, **kwargs)
        self.seed = seed
        self.preprocessor = preprocessor
        if special_ids is None and preprocessor is not None:
            special_ids = special_ids_of(preprocessor.tokenizer)
        self.encoder = as_encoder(encoder, self.dtype_policy, seed)
        self.config = config = self.encoder.config
        self.pooling = make_pooling(config, pooling=pooling, layers=layers, combine=combine,
                                    mask_specials=mask_specials, weighting=weighting,
                                    normalize=normalize, special_ids=special_ids, dense=dense)
        self.prompts = dict(prompts or {})
        self.training_loss = (training_loss if isinstance(training_loss, EmbeddingLoss)
                              else EmbeddingLoss(**(training_loss or {})))
        self.built = True

    @property
    def width(self):
        """The length of a vector."""
        return self.pooling.width(self.config.hidden_size)

    def options(self):
        """See `Saved.options`."""
        return {**self.pooling.options(), **({"prompts": self.prompts} if self.prompts else {})}

    def get_config(self):
        """See Keras; what the model is trained by is part of a `.keras` file."""
        return {**super().get_config(), "training_loss": self.training_loss.to_dict()}

    def set_term_weights(self, weights):
        """Weigh tokens by a corpus: what `bert_tf.learn_term_weights` gives."""
        if self.pooling.term_weights is None:
            raise UsageError(explain("term weights for a plain mean", "weighting='idf' or 'bm25'"))
        self.pooling.term_weights.assign(weights.idf, weights.average_length)

    def call(self, inputs, training=False):
        """Compute vectors float32 `[b, width]`, or `[b, seq_length, width]`."""
        inputs = self.read(inputs)
        if "text_ids" not in inputs:
            return embed_tokens(self.encoder, self.pooling, inputs, training)
        return each_row(inputs, lambda rows: embed_tokens(self.encoder, self.pooling, rows,
                                                          training))

    def result_of(self, inputs, outputs, training=False):
        """Compute what `call` does from the backbone's outputs with `encoder_outputs=True`."""
        return pool_outputs(self.pooling, inputs, outputs)

    def compile(self, optimizer="rmsprop", loss=None, **kwargs):
        """See Keras; `loss` may also be an `EmbeddingLoss`, without one it is `training_loss`."""
        if isinstance(loss, EmbeddingLoss):
            find_loss(loss)
            self.training_loss, loss = loss, None
        super().compile(optimizer, loss, **kwargs)

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
        gathered = VectorBatch.gathered(outputs, batch)
        loss = compute_loss(gathered, self.training_loss) * tf.reduce_sum(gathered.weights)
        context = tf.distribute.get_replica_context()
        return {TASK: loss / (context.num_replicas_in_sync if context else 1)}

    def metric_sums(self, outputs, batch):
        """See `Objective.metric_sums`: none."""
        return {}

    def scores(self, queries, passages, batch_size=32):
        """See `Ranks.scores`: the cosine of the vectors, each text after its prompt."""
        queries, passages = beside(queries, passages)
        queries, passages = ([prompted(self.prompts, kind, text) for text in column]
                             for kind, column in (("query", queries), ("passage", passages)))
        texts = list(dict.fromkeys([*queries, *passages]))
        place = {text: index for index, text in enumerate(texts)}
        vectors = self.embed(texts, batch_size)
        return cosines(*(vectors[[place[text] for text in column]]
                         for column in (queries, passages)))

    def embed(self, texts, batch_size=32, prompt=None):
        """Return vectors of any number of texts, in their order; of a str one vector.

        Args:
            texts: a str, what `text_list` takes, a list of `(text_a, text_b)`, or a tuple of two
                lists.
            batch_size: texts of a batch; texts of similar length share one.
            prompt: name of one of `prompts`, which comes before each text.

        Returns: float32 array `[len(texts), width]`, of a str `[width]`.

        Raises:
            UsageError: the model takes no text, `pooling` is `"none"`, there is no such prompt, or
                `batch_size` is below 1.
        """
        if self.pooling.pooling == "none":
            raise UsageError(explain("embed with pooling='none', whose texts have arrays of "
                                     "different lengths", attempt="calling the model"))
        if isinstance(texts, str):
            return self.embed([texts], batch_size, prompt)[0]
        columns = text_tensors(texts, self.preprocessor and self.preprocessor.tokenizer,
                               make=functools.partial(np.array, dtype=object))
        columns = columns if isinstance(columns, tuple) else (columns,)
        if not all(isinstance(column, np.ndarray) for column in columns):
            raise UsageError(explain("inputs that are not texts", "strings, or pairs of strings"))
        if len(set(map(len, columns))) > 1:
            raise UsageError(explain(" and ".join(f"{len(column)} texts" for column in columns),
                                     "as many second texts as first ones"))
        if prompt is not None:
            before = self.prompts[check_choice("prompt", prompt, list(self.prompts))]
            columns = (np.array([before + _text(text) for text in columns[0]], object),
                       *columns[1:])
        vectors = np.zeros((len(columns[0]), self.width), "float32")
        order = np.argsort([sum(map(len, row)) for row in zip(*columns, strict=True)],
                           kind="stable")
        for start in range(0, len(order), check_batch_size(batch_size)):
            rows = order[start:start + batch_size]
            batch = tuple(column[rows] for column in columns)
            vectors[rows] = self.predict_on_batch(batch if len(batch) > 1 else batch[0])
        return vectors


def _text(text):
    return text.decode() if isinstance(text, bytes) else text


def special_ids_of(tokenizer):
    """Return the ids of `[CLS]` and `[SEP]`; None of no tokenizer, as in a preprocessor being
    loaded."""
    if tokenizer is None:
        return None
    return (tokenizer.vocabulary.cls_id, tokenizer.vocabulary.sep_id)


def make_pooling(config, **options):
    """Build the `VectorPooling` for encoders of `config`, its variables under `cls/pooling`."""
    if options.get("pooling") == "cls_pooled" and config.pooling != "dense":
        raise UsageError(explain(f"pooling='cls_pooled' of an encoder with pooling="
                                 f"{config.pooling!r}, which has no pooler", "pooling='cls'"))
    # Numbers are looked up and summed: nothing is gained in half precision.
    pooling = VectorPooling(config.num_hidden_layers, config.vocab_size, **options,
                            name="pooling", dtype="float32")
    with keras.name_scope("cls"):
        pooling.build((None, None, config.hidden_size))
    return pooling


def embed_tokens(encoder, pooling, inputs, training=False):
    """Compute vectors of token ids; see `SentenceEmbedder`.

    Args:
        encoder: as of `build_encoder`.
        pooling: of `make_pooling`.
        inputs: dict of int32 `[b, seq_length]` or `[b, windows, seq_length]`.
    """
    def vectors_of(inputs):
        outputs = encoder.backbone({name: inputs[name] for name in INPUTS}, training=training,
                                   encoder_outputs=True)
        return pool_outputs(pooling, inputs, outputs)

    if len(inputs["input_word_ids"].shape) == 2:
        return vectors_of(inputs)
    if pooling.pooling == "none":
        raise UsageError(explain("pooling='none' of texts in windows", "one vector a text, or "
                                 "long='head' of the preprocessor"))
    width = pooling.width(encoder.output["sequence_output"].shape[-1])
    return pooling.normalized(average_windows(
        inputs, vectors_of, tf.TensorSpec([None, width]), training))


def pool_outputs(pooling, inputs, outputs):
    """Pool an encoder's outputs of token ids to float32 vectors.

    Args:
        pooling: of `make_pooling`.
        inputs: dict of int32 `[b, seq_length]`.
        outputs: of the encoder's backbone with `encoder_outputs=True`.

    Returns: `[b, width]`, or with `pooling="none"` `[b, seq_length, width]`.
    """
    states = states_of(outputs)
    return pooling([states[number] for number in pooling.layer_numbers],
                   inputs["input_word_ids"], inputs["input_mask"], outputs["pooled_output"])
