"""The options of a pre-training run."""

import dataclasses

from bert_tf.config import NEXT_SENTENCE_FORMATS
from bert_tf.data.options import MakeExamplesOptions
from bert_tf.family_defaults import FAMILIES
from bert_tf.options import (
    ABOVE_0,
    FRACTION,
    FRACTION_ABOVE_0,
    NATURAL,
    NOT_NEGATIVE,
    POSITIVE,
    SeedOptions,
    TrainWriteOptions,
    option,
)
from bert_tf.presets import SIZES
from bert_tf.pretrain.recipe import NAMES as RECIPES
from bert_tf.tokenization.options import TextOptions
from bert_tf.training.config import DTYPES, RECOMMENDED, STRATEGIES, TrainConfig
from bert_tf.training.update_options import UpdateOptions

OBJECTIVES = ("mlm+nsp", "mlm", "mlm+sop", "rtd", "lm")
# What the second segment of a pair is; other objectives take what always follows.
PAIRS = {"mlm+nsp": "random", "mlm+sop": "swapped"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptions(UpdateOptions, MakeExamplesOptions):
    """What is predicted, of which examples, and how the model is trained for it."""

    objective: str | None = option(
        None, "what is predicted (default: mlm+nsp for bert, mlm+sop for albert, where --format "
              "has pairs; rtd for electra, deberta and with --masked_lm_first; lm for gpt, gpt2 "
              "and qwen3; else mlm)",
        choices=OBJECTIVES)
    max_seq_length: int | None = MakeExamplesOptions.redefined("max_seq_length", None, 128)
    format: str | None = MakeExamplesOptions.redefined("format", None)
    max_ngram: int | None = MakeExamplesOptions.redefined("max_ngram", None)
    masked_lm_prob: float | None = MakeExamplesOptions.redefined("masked_lm_prob", None, 0.15)
    final_masked_lm_prob: float | None = option(
        None, "fraction at the last step, to which it goes evenly from --masked_lm_prob; what is "
              "held out is masked by it", FRACTION_ABOVE_0, metavar="X")
    causal_fraction: float = option(
        0.0, "fraction of training examples that are read left to right: nothing is masked, and as "
             "many tokens are predicted from what precedes them", FRACTION, metavar="X")
    holdout: float | None = option(
        None, "fraction of documents held out for evaluation", FRACTION, otherwise=0.05)
    train_steps: int | None = option(None, "optimizer steps", POSITIVE, otherwise=100_000)
    finish_now: bool = option(
        False, "of a run that was stopped: train no further, but evaluate, save and export what "
               "its last checkpoint holds")
    batch_size: int | None = option(
        None, "examples a step over all replicas (default: by preset, 32 for tiny and mini)",
        POSITIVE)
    batch_tokens: int | None = option(
        None, "size of a batch in real tokens, instead of --batch_size", POSITIVE)
    learning_rate: float | None = option(
        None, "peak (default: by preset, 1e-3 for tiny; a tenth of that for lion)")
    warmup_steps: int | None = option(
        None, "steps of linear warm-up (default: a tenth of --train_steps, at most 10000)",
        NATURAL)
    accumulate_steps: int = option(1, "micro-batches a step", POSITIVE)
    dtype: str | None = option(
        None, "what layers compute in; weights stay float32", choices=DTYPES, otherwise="float32")
    padding_free: bool = option(
        False, "compute real tokens only, for texts of mixed lengths where shapes need not be "
               "fixed (no XLA, no TPU); what dropout draws depends on the parts then that a batch "
               "is computed in: replicas, micro-batches, halves where there are cores for them")
    gradient_checkpointing: bool = option(
        False, "recompute the layers' activations in the backward pass instead of keeping them: "
               "the same result in less memory and more time")
    strategy: str = option(
        "mirrored", "tf.distribute strategy; multi_worker: several processes, known from "
                    "TF_CONFIG or SLURM", choices=STRATEGIES)
    num_devices: int = option(
        1, "logical CPU devices where there is no GPU, with --strategy mirrored a replica on each",
        POSITIVE)
    log_every: int = option(10, "steps between logged lines", POSITIVE)
    eval_every: int = option(1000, "steps between evaluations", POSITIVE)
    eval_examples: int = option(
        1000, "examples of an evaluation, spread over the held-out documents", POSITIVE)
    checkpoint_every: int = option(500, "steps between checkpoints", POSITIVE)
    checkpoint_minutes: float = option(
        10.0, "minutes after which there is a checkpoint in any case, of a single worker; 0: none",
        NOT_NEGATIVE, metavar="X")
    keep_checkpoints: int = option(3, "newest checkpoints to keep", POSITIVE)
    export_dir: str | None = option(
        None, "where the SavedModel goes (default: named as the run folder)",
        metavar="saved_models/NAME")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainConfig(PretrainingOptions, UpdateOptions, TextOptions, MakeExamplesOptions,
                     SeedOptions, TrainWriteOptions):
    """What `bert_tf.pretrain` is to do; `complete.complete` fills in what is None."""

    input: tuple[str, ...] | None = option(
        None, "text files (.txt, .jsonl, either also .gz) or - for standard input (default: "
              "Python's own prose)", metavar="GLOB")
    vocab: str | None = option(
        None, "WordPiece vocabulary, or folder with a tokenizer of any kind (default: learned from "
              "the input)", metavar="PATH")
    vocab_size: int | None = option(
        None, "entries to learn (default: 30522, or what --config says)", POSITIVE)
    output_dir: str | None = option(
        None, "run folder (default: named after the family, the preset and the first input)",
        metavar="runs/NAME")
    recipe: str | None = option(
        None, "choose what is not given: family, preset, no dropout, vocabulary size, format, "
              "lengths, fraction of masks, batch, learning rate, dtype and steps. budget: by "
              "--hours and by rates measured on this machine", choices=RECIPES)
    hours: float | None = option(
        None, "with --recipe: time for everything, from text to the SavedModel", ABOVE_0)
    family: str | None = option(
        None, "architecture (default: bert, with --recipe modernbert, or what --config or --init "
              "says)", choices=FAMILIES)
    preset: str | None = option(None, "size of the model (default: tiny)", choices=SIZES)
    config: str | None = option(
        None, "model_config.json or an official bert_config.json instead of a preset",
        metavar="FILE")
    init: str | None = option(
        None, "model whose weights and vocabulary to start from: a model or run folder, or what "
              "convert reads", metavar="PATH")
    masked_lm_first: float | None = option(
        None, "with --objective rtd: fraction of --train_steps in which the encoder itself "
              "predicts masked tokens, before it finds replaced ones at half the learning rate",
        FRACTION, metavar="X", otherwise=0.0)
    stack: int | None = option(
        None, "repeat the layers of --init so many times: layer i begins as layer i modulo their "
              "number", POSITIVE, metavar="N")

    @property
    def pairs(self):
        """What the second segment of an example is; None for formats without one."""
        if self.format in NEXT_SENTENCE_FORMATS:
            return PAIRS.get(self.objective, "next")
        return None

    def train_config(self):
        """The `TrainConfig` of a complete configuration, before a batch in tokens is counted."""
        given = {name: value for name, value in self.shared_with(TrainConfig).items()
                 if value is not None}
        return TrainConfig(**{**RECOMMENDED.get(self.optimizer, {}), **given,
                              "batch_size": self.batch_size or self.accumulate_steps})
