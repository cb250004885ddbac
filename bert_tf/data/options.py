"""Options of pre-training examples."""

import dataclasses
import importlib

from bert_tf import cores
from bert_tf.config import FORMATS, PAIRS
from bert_tf.errors import UsageError, explain, needs
from bert_tf.options import (
    FRACTION,
    FRACTION_ABOVE_0,
    POSITIVE,
    REQUIRED,
    Options,
    SeedOptions,
    WriteOptions,
    option,
)
from bert_tf.tokenization.options import TextOptions

RUNNERS = ("local", "beam")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleFormOptions(Options):
    """Form of an example and how much of it is masked."""

    max_seq_length: int = option(128, "tokens of an example, [CLS] and [SEP] counted", POSITIVE)
    format: str = option(
        "segment_pair", "input form; the first two hold pairs of segments; packed: rows are full, "
                        "and the next one may begin within a sentence", choices=FORMATS)
    max_ngram: int = option(
        1, "mask spans of 1 to N tokens, or words with --whole_word, shorter ones more often; "
           "ALBERT: 3", POSITIVE, metavar="N")
    masked_lm_prob: float = option(0.15, "fraction of tokens that are masked", FRACTION_ABOVE_0)
    max_predictions_per_seq: int | None = option(
        None, "masked positions of an example at most (default: --masked_lm_prob of "
              "--max_seq_length)", POSITIVE)
    short_seq_prob: float = option(
        0.1, "fraction of examples that are made shorter; sentence_pair, packed: none", FRACTION)
    split: str = option(
        "lines", "lines: a sentence a line, a blank line between documents; sentences: raw text, "
                 "split into sentences; none: every line, as it is, is a document",
        choices=("lines", "sentences", "none"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class MakeExamplesOptions(ExampleFormOptions):
    """Options of pre-training examples."""

    masking: str = option("dynamic", "dynamic: drawn anew every epoch; static: stored in the "
                                     "records", choices=("dynamic", "static"))
    whole_word: bool = option(False, "mask all pieces of a word together")
    dupe_factor: int | None = option(
        None, "passes over the text with different draws (default: 10 for static masking, 1 for "
              "dynamic)", POSITIVE)
    dedupe: str | None = option(
        None, "skip documents that come again (with --split none: lines). exact: but for white "
              "space and case; near: or nearly so, by MinHash of runs of 7 letters",
        choices=("exact", "near"))
    exclude: tuple[str, ...] = option(
        (), "texts that a model is measured on: documents like one of them are skipped. FILE of a "
            "text a line, or TABLE:COLUMN", metavar="FILE")
    num_processes: int = option(cores.usable(), "processes; the result does not depend on it",
                                POSITIVE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairOptions(Options):
    """The second segment of a pair."""

    pairs: str | None = option(
        None, "second segment of a pair. random: half are from another document, label "
              "next_sentence_labels; swapped: it follows the first, half stand in reverse order, "
              "label sentence_order_labels; next: it follows the first (default: random for the "
              "formats with pairs)", choices=PAIRS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CreateDataConfig(TextOptions, MakeExamplesOptions, PairOptions, SeedOptions, WriteOptions):
    """Options of `bert_tf.create_data`."""

    input: tuple[str, ...] = option(
        REQUIRED, "text files (.txt, .jsonl, either also .gz) or - for standard input",
        metavar="GLOB")
    vocab: str = option(
        REQUIRED, "WordPiece vocabulary, beside which a tokenizer_config.json states the casing "
                  "and --pretokenize; or folder with a tokenizer of any kind", metavar="PATH")
    output_dir: str = option(REQUIRED, "folder for the examples", metavar="DIR")
    holdout: float = option(0.0, "fraction of documents that become the split eval", FRACTION)
    runner: str = option(
        "local", "local: processes of this machine; beam: Apache Beam (extra: beam), whose own "
                 "flags follow after --; the examples are the same", choices=RUNNERS)
    beam_options: tuple[str, ...] = option((), "Beam's own flags", flag=False)
    progress: bool = option(True, "show a bar", flag=False)


def beam_module(options, name):
    """Return the module of that name, by which Apache Beam does the work; None under `local`.

    Args:
        options: `runner` and `beam_options` are read.
        name: of the module.

    Raises:
        UsageError: Beam's flags without Beam, or the extra is missing.
    """
    if options.runner == "local":
        if options.beam_options:
            raise UsageError(explain(f"unknown argument {options.beam_options[0]}: Beam's flags "
                                     "are for runner='beam'"))
        return None
    with needs("beam", "runner='beam' needs Apache Beam"):
        return importlib.import_module(name)
