"""What a number of hours is spent on: size, batch, learning rate and steps of a pre-training run.

A pure function of measured rates, the size of the text and the hours, without TensorFlow. The
values are in the tables below. The size is the largest that sees at least `TOKENS_PER_PARAMETER`
tokens for each of its parameters but the embeddings: more layers learn more from a token, and fewer
see more of them in the same time.
"""

import dataclasses

from bert_tf.errors import UsageError, explain
from bert_tf.presets import PRESETS

NAMES = ("budget",)
# Between 10 and 20 suits; a BERT of 4 × 256 that saw 20 was the best of those tried in 80 minutes.
TOKENS_PER_PARAMETER = 10
# Text that comes again so often teaches hardly anything more (Muennighoff et al. 2023, "Scaling
# Data-Constrained Language Models": with tokens masked anew, somewhat more than their 16).
USEFUL_PASSES = 40
# Up to a width: peak learning rate, examples a step, fraction of tokens that are masked.
BY_WIDTH = ((256, 1e-3, 32, 0.2), (512, 5e-4, 64, 0.25), (768, 3e-4, 128, 0.3),
            (1 << 30, 2e-4, 256, 0.3))
# Bytes of text up to which so many entries are learned.
VOCAB_SIZES = ((1e6, 2000), (2e7, 8000), (1e9, 16_000), (float("inf"), 30_522))
SHORT_HOURS = 4  # up to which examples have 64 tokens, 128 from then on
# Rotary positions tell neighbours from the start, which learned ones take long to do.
FAMILY = "modernbert"
OPTIONS = {"format": "packed"}  # of whose objectives the family's first is the default
MODEL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
MARGIN = 0.08  # of the hours, for evaluations, checkpoints and a machine that slows down
BYTES_PER_TOKEN = 4.5
# Bytes a second and core, and seconds, of what is done beside training (benchmarks/RESULTS.md).
VOCABULARY_RATE, EXAMPLES_RATE, COPIES_RATE, MORPHEMES_RATE = 1.3e6, 8e6, 5e6, 0.17e6
END_SECONDS = 60  # last evaluation, export, verification


@dataclasses.dataclass(frozen=True)
class Size:
    """A model that may be chosen."""

    name: str  # of the preset; "" where the model is given
    layers: int
    width: int
    parameters: int  # without embeddings
    tokens: int  # of a step

    @classmethod
    def of(cls, name, config, tokens):
        """The size of a `ModelConfig`; layers that share weights count once."""
        layers = config.num_hidden_groups or config.num_hidden_layers
        width, matrices = config.block_width, 3 if config.feed_forward == "gated" else 2
        attention = 2 * width * (config.query_size + config.key_value_size)
        feed_forward = (matrices * config.conv_kernel_size * width * config.intermediate_size
                        * config.num_feedforward_networks)
        between = 3 * config.hidden_size * config.intra_bottleneck_size
        return cls(name, config.num_hidden_layers, config.hidden_size,
                   layers * (attention + feed_forward + between), tokens)


@dataclasses.dataclass(frozen=True)
class Budget:
    """What a size does with the time that was left when it was measured: a row of what is
    printed."""

    size: Size
    rate: float  # steps a second
    steps: int
    corpus_tokens: float

    @property
    def tokens(self):
        """Tokens that are seen."""
        return self.steps * self.size.tokens

    @property
    def passes(self):
        """How often the text is gone through."""
        return self.tokens / self.corpus_tokens

    @property
    def per_parameter(self):
        """Tokens a parameter, of passes that teach something."""
        return min(self.tokens, USEFUL_PASSES * self.corpus_tokens) / self.size.parameters

    @property
    def suffices(self):
        """Whether they are enough."""
        return self.per_parameter >= TOKENS_PER_PARAMETER

    def __str__(self):
        return (f"{self.size.layers} x {self.size.width}, {self.size.parameters / 1e6:.1f} million "
                f"parameters without embeddings: {self.rate:.2f} steps a second, "
                f"{self.steps:,} steps, {self.tokens / 1e6:,.1f} million tokens, "
                f"{self.per_parameter:.1f} a parameter, {self.passes:.1f} passes")


def to_measure(sizes, budgets):
    """Return the size whose rate is to be measured next, or None where it can be chosen.

    Args:
        sizes: `Size`s, in the order of their parameters.
        budgets: list of the `Budget`s of those that are measured, the first of `sizes`.
    """
    if budgets and not budgets[-1].suffices:
        return None
    return next(iter(sizes[len(budgets):]), None)


def choose(budgets, seconds):
    """Return the `Budget` of the size to train: the largest that suffices, else the smallest.

    It is the same one whatever the time that larger ones took to measure; steps are of what is
    left.

    Args:
        budgets: as of `to_measure`.
        seconds: that training has.

    Raises:
        UsageError: the time is not enough for a step.
    """
    chosen = [budgets[0], *(each for each in budgets if each.suffices)][-1]
    chosen = dataclasses.replace(chosen, steps=int(chosen.rate * seconds))
    if chosen.steps < 1:
        raise UsageError(explain("--hours: what is done before and after training takes all of "
                                 "them", "more"))
    return chosen


def sizes_of(family):
    """Return the names of a family's presets, the smallest first."""
    sizes = PRESETS[family]
    return sorted(sizes, key=lambda name: sizes[name][0] * sizes[name][1] ** 2)


def model(family):
    """Return the fields of `ModelConfig` that differ from a family's preset."""
    # Nothing teaches the first token to stand for a text, so that heads read the mean.
    return {**MODEL, "pooling": "mean"} if family == FAMILY else MODEL


def by_width(width):
    """Return the options that depend on the width of a model."""
    rate, batch, masked = next(row[1:] for row in BY_WIDTH if width <= row[0])
    return {"learning_rate": rate, "batch_size": batch, "masked_lm_prob": masked}


def by_text(size, hours):
    """Return the options that depend on the bytes of text and on the hours."""
    return {"vocab_size": next(entries for limit, entries in VOCAB_SIZES if size <= limit),
            "max_seq_length": seq_length(hours)}


def seq_length(hours):
    """Return the tokens of an example of a run of so many hours."""
    return 64 if hours <= SHORT_HOURS else 128


def kept_seconds(size, *, cores, learns_vocabulary, passes, looks_for_copies, splits_morphemes):
    """Return the seconds that are kept for what is done beside training.

    Args:
        size: bytes of text.
        cores: processes that work on it.
        learns_vocabulary: whether one is learned.
        passes: over the text, in which examples are made.
        looks_for_copies: whether there is a pass for copies.
        splits_morphemes: whether text is split into morphemes whenever it is read.
    """
    per_byte = (learns_vocabulary / VOCABULARY_RATE + passes / EXAMPLES_RATE
                + looks_for_copies / COPIES_RATE
                + splits_morphemes * (learns_vocabulary + passes) / MORPHEMES_RATE)
    return END_SECONDS + size * per_byte / cores


def train_seconds(hours, spent, kept):
    """Return the seconds that are left to train: those of the hours, but the margin, what is spent
    and what is kept."""
    return hours * 3600 * (1 - MARGIN) - spent - kept
