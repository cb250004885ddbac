"""A vector for a text: pooled hidden states of an encoder."""

import keras
import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.layers.quantized import in_float32
from bert_tf.layers.vector_pooling import VectorPooling
from bert_tf.models.families import INPUTS
from bert_tf.models.states import states_of
from bert_tf.retrieval.ranking import cosines
from bert_tf.tasks.base.lists import each_row
from bert_tf.tasks.base.long_texts import average_windows
from bert_tf.tasks.embedding.vector_model import VectorModel


@keras.saving.register_keras_serializable("bert_tf")
class SentenceEmbedder(VectorModel):
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
        dense: of `VectorPooling`: a dense layer on the pooled vector, or several.
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
    required_options = ("pooling", "layers", "combine", "mask_specials", "special_ids",
                        "weighting", "normalize")
    further_options = ("dense", "prompts")

    def __init__(self, encoder, pooling="mean", layers=(-1,), combine="concat",
                 mask_specials=False, weighting=None, normalize=False, special_ids=None,
                 dtype=None, seed=None, preprocessor=None, name="embedder", dense=None,
                 prompts=None, training_loss=None, **kwargs):
        super().__init__(encoder, dtype, seed, preprocessor, training_loss, name=name, **kwargs)
        if special_ids is None and preprocessor is not None:
            special_ids = special_ids_of(preprocessor.tokenizer)
        config = self.config
        self.pooling = make_pooling(config, in_float32(self.dtype_policy), pooling=pooling,
                                    layers=layers, combine=combine,
                                    mask_specials=mask_specials, weighting=weighting,
                                    normalize=normalize, special_ids=special_ids, dense=dense)
        self.prompts = dict(prompts or {})
        self.built = True

    @property
    def width(self):
        """The length of a vector."""
        return self.pooling.width(self.config.hidden_size)

    def options(self):
        """See `Saved.options`."""
        return {**self.pooling.options(), **({"prompts": self.prompts} if self.prompts else {})}

    def set_term_weights(self, weights):
        """Weigh tokens by a corpus: what `bert_tf.learn_term_weights` gives."""
        if self.pooling.term_weights is None:
            raise UsageError(explain("term weights for a plain mean", "weighting='idf' or 'bm25'"))
        self.pooling.term_weights.assign(weights.of_rows(self.config.vocab_size),
                                         weights.average_length)

    def call(self, inputs, training=False):
        """Compute vectors float32 `[b, width]`, or `[b, seq_length, width]`."""
        inputs = self.read(inputs)
        if "text_ids" not in inputs:
            in_windows = len(inputs["input_word_ids"].shape) == 3
            return embed_tokens(self.encoder, self.pooling, inputs, training,
                                in_windows and self.jit_compile)
        return each_row(inputs, lambda rows: embed_tokens(self.encoder, self.pooling, rows,
                                                          training))

    def result_of(self, inputs, outputs, training=False):
        """Compute what `call` does from the backbone's outputs with `encoder_outputs=True`."""
        return pool_outputs(self.pooling, inputs, outputs)

    def similarities(self, texts, firsts, seconds, batch_size):
        """See `VectorModel.similarities`: the cosine of the vectors."""
        vectors = self.embed(texts, batch_size)
        return cosines(vectors[firsts], vectors[seconds])

    def embed(self, texts, batch_size=None, prompt=None):
        """Return vectors of any number of texts, in their order; of a str one vector.

        Args:
            texts: a str, what `text_list` takes, a list of `(text_a, text_b)`, or a tuple of two
                lists.
            batch_size: texts of a batch, see `outputs_by_length`.
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
        columns = self.columns_of(texts, prompt)
        vectors = np.zeros((len(columns[0]), self.width), "float32")
        for rows, found in self.outputs_by_length(columns, batch_size):
            vectors[rows] = found
        return vectors


def special_ids_of(tokenizer):
    """Return the ids of `[CLS]` and `[SEP]`; None of no tokenizer, as in a preprocessor being
    loaded."""
    if tokenizer is None:
        return None
    return (tokenizer.vocabulary.cls_id, tokenizer.vocabulary.sep_id)


def make_pooling(config, dtype="float32", **options):
    """Build the `VectorPooling` for encoders of `config`, its variables under `cls/pooling`."""
    if options.get("pooling") == "cls_pooled" and config.pooling != "dense":
        raise UsageError(explain(f"pooling='cls_pooled' of an encoder with pooling="
                                 f"{config.pooling!r}, which has no pooler", "pooling='cls'"))
    # Numbers are looked up and summed: nothing is gained in half precision.
    pooling = VectorPooling(config.num_hidden_layers, config.vocab_size, **options,
                            name="pooling", dtype=dtype)
    with keras.name_scope("cls"):
        pooling.build((None, None, config.hidden_size))
    return pooling


def embed_tokens(encoder, pooling, inputs, training=False, jit_compile=False):
    """Compute vectors of token ids; see `SentenceEmbedder`.

    Args:
        encoder: as of `build_encoder`.
        pooling: of `make_pooling`.
        inputs: dict of int32 `[b, seq_length]` or `[b, windows, seq_length]`.
        training: whether dropout is on, and gradients are taken.
        jit_compile: whether XLA compiles it.
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
        inputs, vectors_of, tf.TensorSpec([None, width]), training, jit_compile))


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
