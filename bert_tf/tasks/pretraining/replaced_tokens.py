"""Replaced token detection (ELECTRA, Clark et al. 2020, section 2; google-research/electra)."""

import keras
import tensorflow as tf

from bert_tf import randomness
from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError, explain
from bert_tf.layers.mlm_head import MaskedLMHead
from bert_tf.layers.replaced_head import ReplacedHead
from bert_tf.models.families import INPUTS, build_encoder
from bert_tf.tasks.base.objective import Objective, weighed
from bert_tf.tasks.pretraining.keeps_tokenizer import KeepsTokenizer

# What both models must have in common, as they share their embeddings.
_SHARED = ("family", "vocab_size", "embedding_width", "max_position_embeddings",
           "type_vocab_size", "position_embedding")


@keras.saving.register_keras_serializable("bert_tf")
class ReplacedTokens(KeepsTokenizer, Objective):
    """A discriminator that finds the tokens which a small generator made up.

    The generator, a masked language model, sees the masked ids. At the masked positions a token is
    drawn from its distribution, and the discriminator predicts for every real token whether it is
    the original; a draw that is right by chance counts as original. No gradient goes through the
    draws. Both share the embeddings. The draws are a function of seed, step and example inside
    `randomness.draw_at`, elsewhere as of `layers.Dropout`.

    Call: a batch, a dict of int32 `input_word_ids`, `input_mask`, `input_type_ids`
    `[b, seq_length]`, `masked_lm_positions`, `masked_lm_ids` and float32 `masked_lm_weights`
    `[b, P]` (0 marks unused slots). Returns a dict of float32 `masked_lm_logits [b, P, vocab]` and
    `replaced_logits [b, seq_length]`, and int32 `[b, seq_length]` `corrupted_word_ids`, what the
    discriminator sees, and `replaced_labels`, 1 where that is not the original.

    Without a generator it is the discriminator alone: it reads the first three and returns
    `replaced_logits`; the accounting methods then take `replaced_labels` from the batch.

    Args:
        config: the discriminator's `ModelConfig`.
        generator: the generator's, or a dict of its fields; None for the discriminator alone.
            `presets.generator_config` gives the paper's.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer seed of the initial weights, see `build_encoder`, and of the draws outside
            `draw_at`.

    Raises:
        UsageError: the two cannot share their embeddings.
    """

    saved_as = "replaced_tokens"
    required_options = ("generator",)
    # The loss of the discriminator, a yes or no a token, is far smaller (paper, section 3.1).
    loss_scales = {"masked_lm": 1.0, "replaced": 50.0}

    def __init__(self, config, generator=None, dtype=None, seed=None, name="replaced_tokens",
                 **kwargs):
        super().__init__(dtype=dtype, name=name, **kwargs)
        self.config = config
        self.seed = seed
        self.encoder = build_encoder(config, dtype=self.dtype_policy, seed=seed)
        # Heads are built here rather than at the first call, where paths would begin with this
        # model's name.
        self.replaced_head = ReplacedHead(
            config.hidden_size, config.head_activation, config.initializer_range, seed,
            name="discriminator_predictions", dtype=self.dtype_policy)
        self.replaced_head.build((None, None, config.hidden_size))
        self.generator = self.masked_lm_head = None
        if generator is not None:
            self._build_generator(generator)
        self.built = True

    def _build_generator(self, config):
        if not isinstance(config, ModelConfig):
            config = ModelConfig.from_dict(config, "the generator")
        for name in _SHARED:
            theirs, ours = getattr(config, name), getattr(self.config, name)
            if theirs != ours:
                raise UsageError(explain(f"the generator's {name}={theirs!r}",
                                         f"the discriminator's {ours!r}, as they share the "
                                         "embeddings"))
        embeddings = self.encoder.backbone.embeddings
        self.generator = build_encoder(config, dtype=self.dtype_policy, seed=self.seed,
                                       name="generator", embeddings=embeddings)
        self.masked_lm_head = MaskedLMHead.of_model(config, self.seed, self.dtype_policy,
                                                    name="generator_predictions")
        self.masked_lm_head.build((None, None, config.hidden_size))
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    @property
    def tasks(self):
        """The names of the losses."""
        return ("masked_lm", "replaced") if self.generator else ("replaced",)

    @property
    def call_inputs(self):
        """See `OnEncoder`; the generator reads what is predicted, too."""
        predicted = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
        return (*INPUTS, *predicted) if self.generator else INPUTS

    @property
    def _default_save_signature(self):
        """See `OnEncoder`; the state of the generator's draws is nothing that TensorFlow saves."""
        return None if self.generator else super()._default_save_signature

    def options(self):
        """See `Saved.options`."""
        return {"generator": self.generator.config.to_dict() if self.generator else None}

    def call(self, batch, training=False):
        """Compute the logits of both models, float32, and the discriminator's inputs."""
        inputs = {name: batch[name] for name in INPUTS}
        if self.generator is None:
            return {"replaced_logits": self.discriminate(inputs, training)}
        # Both call the shared embeddings, whose dropout is to differ.
        with randomness.draw_scope("generator"):
            hidden = self.generator(inputs, training=training)["sequence_output"]
        table = self.encoder.backbone.embeddings.table()
        logits = self.masked_lm_head(hidden, batch["masked_lm_positions"], table,
                                     training=training)
        used = batch["masked_lm_weights"] > 0
        originals = put(inputs["input_word_ids"], batch["masked_lm_positions"],
                        batch["masked_lm_ids"], used)
        corrupted = put(originals, batch["masked_lm_positions"],
                        self.sample(tf.stop_gradient(logits)), used)
        return {"masked_lm_logits": logits,
                "replaced_logits": self.discriminate(
                    {**inputs, "input_word_ids": corrupted}, training),
                "corrupted_word_ids": corrupted,
                "replaced_labels": tf.cast(corrupted != originals, tf.int32)}

    def discriminate(self, inputs, training=False):
        """Compute float32 `[b, seq_length]`, above 0 where a token of the inputs is predicted as
        replaced."""
        hidden = self.encoder(inputs, training=training)["sequence_output"]
        return self.replaced_head(hidden, training=training)

    def sample(self, logits):
        """Draw from the softmax of logits `[b, P, vocab]`: int32 ids `[b, P]`."""
        key, first_example = randomness.current_stream("replaced tokens", self.seed_generator)
        bits = randomness.example_bits(key, first_example, tf.shape(logits)[:2])
        return draw(logits, randomness.uniform(bits))

    def weights_of(self, batch):
        """Return `{task: float32}`: of predicted tokens `[b, P]`, and of real tokens `[b,
        seq_length]`."""
        weights = {"masked_lm": "masked_lm_weights", "replaced": "input_mask"}
        return {task: weighed(batch[weights[task]], batch) for task in self.tasks}

    def labels_of(self, outputs, batch):
        """Return `{task: int32}` labels of the same shapes."""
        if self.generator is None:
            return {"replaced": batch["replaced_labels"]}
        return {"masked_lm": batch["masked_lm_ids"], "replaced": outputs["replaced_labels"]}

    def metric_sums(self, outputs, batch):
        """Add the fraction of replaced tokens, and precision and recall of finding them.

        `replaced_rate` is a mean over real tokens, `replaced_precision` over those that the
        discriminator calls replaced, `replaced_recall` over those that are.
        """
        weights = self.weights_of(batch)["replaced"]
        labels = tf.cast(self.labels_of(outputs, batch)["replaced"], tf.float32)
        called = tf.cast(outputs["replaced_logits"] > 0, tf.float32)
        replaced, found, named, real = (tf.reduce_sum(weights * each) for each in (
            labels, labels * called, called, tf.ones_like(labels)))
        return {**super().metric_sums(outputs, batch), "replaced_rate": (replaced, real),
                "replaced_precision": (found, named), "replaced_recall": (found, replaced)}


def draw(logits, uniform):
    """Return the inverse of the distribution function of a softmax.

    Args:
        logits: float32 `[…, classes]`.
        uniform: float32 `[…]` in [0, 1).

    Returns: int32 `[…]`, the first class at which the cumulated probability exceeds `uniform`.
    """
    cumulated = tf.cumsum(tf.nn.softmax(logits), axis=-1)
    total = cumulated[..., -1:]  # 1 but for rounding
    index = tf.searchsorted(cumulated, uniform[..., tf.newaxis] * total, side="right")[..., 0]
    # Where the generator's numbers are not finite, too, an id is one of the vocabulary.
    return tf.minimum(index, tf.shape(logits)[-1] - 1)


def put(word_ids, positions, ids, used):
    """Return `word_ids [b, seq_length]` with `ids` at `positions`, both `[b, P]`, where `used`."""
    rows = tf.broadcast_to(tf.range(tf.shape(positions)[0])[:, tf.newaxis], tf.shape(positions))
    places = tf.stack([rows, positions], -1)
    # The largest where a position comes twice, so that the order of writing decides nothing.
    written = tf.tensor_scatter_nd_max(tf.fill(tf.shape(word_ids), -1), places,
                                       tf.where(used, ids, -1))
    return tf.where(written >= 0, written, word_ids)
