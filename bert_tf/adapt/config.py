"""The options of an adaptation."""

import dataclasses

from bert_tf.options import (
    NATURAL,
    POSITIVE,
    REQUIRED,
    Options,
    SeedOptions,
    TrainWriteOptions,
    option,
)
from bert_tf.pretrain.config import PretrainConfig, PretrainingOptions
from bert_tf.training.run_options import RunOptions

_SEQ_LENGTH = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyOptions(Options):
    """What becomes of the vocabulary."""

    GROUP = ("vocabulary", "what becomes of it (default: it stays as it is)")

    new_pieces: int = option(
        0, "pieces to add that the vocabulary lacks, those that save most tokens of the text; of "
           "WordPiece", NATURAL, metavar="N")
    drop_unused: bool = option(
        False, "leave out the pieces that do not occur in the text, after new ones were added; the "
               "text's vectors stay the same to the bit; a sparse encoder's lose these pieces")
    keep_at_least: int = option(
        1, "with --drop_unused: how often a piece must occur to stay; above 1 the text's vectors "
           "change", POSITIVE, metavar="COUNT")
    keep_characters: bool = option(
        False, "with --drop_unused: keep all pieces of a single character, so that words of other "
               "texts are rarely unknown")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdaptConfig(VocabularyOptions, PretrainingOptions, SeedOptions, TrainWriteOptions):
    """What `bert_tf.adapt` is to do."""

    model: str = option(
        REQUIRED, "encoder to start from: a model or run folder, or what convert reads",
        metavar="PATH")
    input: tuple[str, ...] = option(
        REQUIRED, "text files (.txt, .jsonl, either also .gz) or - for standard input",
        metavar="GLOB")
    output_dir: str = option(REQUIRED, "run folder", metavar="DIR")
    train_steps: int | None = option(
        None, "optimizer steps; 0: only the vocabulary is changed", NATURAL, otherwise=10_000)
    only_new_pieces: bool = option(
        False, "with --new_pieces: train the rows of these and the masked-LM head alone; texts "
               "without a new piece keep their vectors to the bit; a sparse encoder's gain these "
               "pieces")
    batch_size: int | None = option(
        None, "examples a step over all replicas (default: 32)", POSITIVE)
    learning_rate: float | None = option(
        None, "peak", otherwise="3e-4; a tenth of that for lion")
    objective: str | None = PretrainingOptions.redefined(
        "objective", None, help="what is predicted (default: mlm; rtd for a discriminator; lm for "
                                "a left-to-right model)")
    # Of several workers only one could change the vocabulary.
    strategy: str = RunOptions.redefined("strategy", "mirrored")
    max_seq_length: int | None = PretrainingOptions.redefined(
        "max_seq_length", None, "128; at most what the model has")
    format: str | None = PretrainingOptions.redefined("format", None, "full_sentences")

    def vocabulary_options(self):
        """What decides the vocabulary and its first rows, as a manifest has it."""
        stated = {name: getattr(self, name) for name in (
            "new_pieces", "drop_unused", "keep_at_least", "keep_characters", "seed")}
        if self.drop_unused and self.split == "sentences":  # whose beginnings need pieces, too
            stated["split"] = self.split
        return stated

    def pretraining(self, model, objective, longest):
        """The `PretrainConfig` of the training.

        Args:
            model: the model folder that it starts from.
            objective: where none is asked for.
            longest: tokens that the model takes.
        """
        return PretrainConfig(**{
            **self.shared_with(PretrainConfig), "init": model,
            "objective": self.objective or objective,
            "max_seq_length": self.max_seq_length or min(_SEQ_LENGTH, longest)})
