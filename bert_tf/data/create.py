"""Text becomes shards of pre-training examples and a manifest, by several processes.

The bytes written depend on the text, the vocabulary and the options only, not on the number of
processes. A killed run is continued: shards that are there are kept.
"""

import contextlib
import dataclasses
import itertools
import os
import sys

from tqdm import tqdm

from bert_tf import cores
from bert_tf.config import NEXT_SENTENCE_FORMATS
from bert_tf.data import chunks as chunking
from bert_tf.data import pairing
from bert_tf.data.documents import expand_inputs, spool_if_claimed
from bert_tf.data.example_maker import ExampleMaker, ExampleOptions
from bert_tf.data.options import CreateDataConfig, beam_module
from bert_tf.data.plan import Plan, make_sections, shard_facts, splits_of
from bert_tf.data.processes import in_order
from bert_tf.data.records import feature_table
from bert_tf.data.skipped import excluded_file, skipped_documents, told
from bert_tf.data.unknown import MUCH, unknown_fraction
from bert_tf.errors import BertTfError, UsageError, explain, print_note
from bert_tf.options import takes
from bert_tf.storage import files, manifest
from bert_tf.tokenization.load import TokenizerSource, stated_options
from bert_tf.tokenization.tokenizer import lacks_capitals

MANIFEST = "manifest.json"
BLANKS = "blank_between_sentences"  # an option that examples of earlier versions lack
_STARTED = "started.json"
_MUCH_UNUSED = 0.25  # of the tokens are in no example: told
DUPE_FACTOR = {"static": 10, "dynamic": 1}
# Options that dynamic records do not depend on: the masks are drawn when batches are read.
_OF_MASKS = ("whole_word", "max_ngram", "masked_share", "max_predictions_per_seq")


@takes(CreateDataConfig)
def create_examples(config):
    """Write shards, indexes and `manifest.json` into a folder; what is finished is reused.

    Args:
        config: `CreateDataConfig`, or its fields as keyword arguments. Under `beam`,
            `num_processes` is the number of workers that are expected.

    Returns:
        The manifest: `options`, `vocabulary` (`size`, `special_ids`, `pad_id`, `mask_id`),
        `pair_labels` (name of the labels, one of `records.PAIR_LABELS`, or None) and `splits`: for
        `train` and `eval` the `num_documents`, `num_examples`, `num_tokens` (real ones),
        `mean_tokens` (of an example), `random_next` or `swapped` (fraction of examples, with
        labels only) and `shards` (`name`, `num_examples`). With `dedupe` or `exclude` also
        `skipped`, the counts of `skipped.skipped_documents`.

    Raises:
        UsageError: options contradict each other, another run's result or another tool's shards are
            there, or an extra is missing.
        BertTfError: the text does not do, the disk is full, a process died.
    """
    return make_examples(config)


def make_examples(config, ready=lambda: None):
    """Do the work of `create_examples`, and return and raise what it does.

    Args:
        config: `CreateDataConfig`.
        ready: as of `manifest.resumed`.
    """
    beam = beam_module(config, "bert_tf.data.beam_runner")
    make_shards = beam.maker_of_shards(list(config.beam_options)) if beam else _make_locally
    exclude = [excluded_file(text) for text in config.exclude]
    if config.max_seq_length < pairing.MINIMUM_SEQ_LENGTH:
        raise UsageError(explain(f"max_seq_length={config.max_seq_length}",
                                 f"at least {pairing.MINIMUM_SEQ_LENGTH}", "128"))
    options = _example_options(config)
    source = TokenizerSource(config.vocab, **config.text_options())
    tokenizer = source.load()
    vocabulary = tokenizer.vocabulary
    if options.pairs and not (vocabulary.pair_separators == 1 and vocabulary.final_separator):
        raise UsageError(explain(
            f"format={options.format!r} with the tokenizer in {config.vocab}, which puts other "
            "tokens around two segments than one separator after each",
            "formats without pairs", "format='full_sentences'"))
    if options.label and config.split == "none":
        raise UsageError(explain(
            f"split='none' with format={options.format!r} and pairs={options.pairs!r}: a document "
            "has one sentence, and no second one", attempt="format='full_sentences'"))
    output_dir, overwrite, progress = config.output_dir, config.overwrite, config.progress
    stage = {"option": "dupe_factor", "made": lambda: _shards(output_dir)}
    manifest.check_stage(output_dir, MANIFEST, _STARTED, **stage)
    beside = [*source.files(), *(path for path, _ in exclude)]
    stated = {**stated_options(tokenizer), **dataclasses.asdict(options), "split": config.split,
              "holdout": config.holdout}
    # Only where they are asked for: what is not in a manifest was off.
    stated |= {"dedupe": config.dedupe} if config.dedupe else {}
    if tokenizer.blanks_in_pieces() and (overwrite or not _has_no_blanks(output_dir)):
        stated[BLANKS] = True
    stated |= {"exclude": [column for _, column in exclude]} if exclude else {}
    with spool_if_claimed(output_dir):
        inputs = expand_inputs(config.input, output_dir, overwrite, beside)
        sources = [*inputs, *beside]
        if overwrite and options.masking == "dynamic":
            _keep_records(os.path.join(output_dir, MANIFEST), stated, sources,
                          config.verify_inputs)
        before = manifest.resumed(output_dir, MANIFEST, _STARTED, stated, sources, overwrite,
                                  config.verify_inputs, **stage, ready=ready)
    if before:
        if progress:
            print(f"{output_dir}: reusing the examples that are there", file=sys.stderr)
        return before

    if progress and lacks_capitals(tokenizer):
        print_note(f"no piece of {config.vocab} has a capital letter: a word with one becomes "
                   "[UNK], unless --lower_case is given", file=sys.stderr)
    sections, size = make_sections(inputs)
    skipped, facts = (), {}
    if config.dedupe or exclude:
        skipped, counts = skipped_documents(
            inputs, config.split, config.dedupe, exclude,
            _useful(min(config.num_processes, cores.usable()), size), progress)
        facts = {"skipped": counts}
        for line in told(counts, config.split) if progress else ():
            print(line, file=sys.stderr)
    plan = Plan(sections, size, config.split, config.holdout, options, source, output_dir, skipped)
    shards = make_shards(plan, config.num_processes, progress)
    splits = splits_of(shards, options.pairs)
    files.clean_temporary(output_dir)  # of workers that died and were replaced
    if lack := _lack(splits["train"], options.pairs):
        raise BertTfError(lack)
    if not splits["train"]["num_examples"]:
        if skipped:
            raise BertTfError(explain("no document is left to train on, all others are skipped "
                                      "by --dedupe and --exclude", "more text"))
        raise BertTfError(explain(f"no text in {', '.join(inputs)}", "sentences"))
    tokens = {name: split["num_tokens"] for name, split in splits.items()}
    held_out = tokens["eval"] / max(1, sum(tokens.values()))
    if progress and config.holdout and not 0 < held_out <= 2 * config.holdout:
        much = f"{held_out:.0%}" if held_out else "none"
        ends = "" if config.split == "none" else "a blank line ends one, with --split none "
        print_note(f"{much} of the text is held out, since it has few documents: {ends}each line "
                   "is one", file=sys.stderr)
    used, text = map(sum, zip(*(shard["used_tokens"] for shard in shards), strict=True))
    if progress and text - used > _MUCH_UNUSED * text:
        shorter = "" if config.split == "sentences" else "--split sentences or "
        print_note(f"{1 - used / text:.0%} of the tokens are in no example, since a pair "
                   f"truncates sentences that are longer than it; try {shorter}--format "
                   "full_sentences", file=sys.stderr)
    filled = next(shard for shard in splits["train"]["shards"] if shard["num_examples"])
    _check_known(os.path.join(output_dir, filled["name"]), options, config, vocabulary)
    made = manifest.write(
        os.path.join(output_dir, MANIFEST), stated, sources,
        begun=os.path.join(output_dir, _STARTED), pair_labels=options.label,
        splits=splits, **facts,
        vocabulary={"size": len(vocabulary), "special_ids": list(vocabulary.special_ids),
                    "pad_id": vocabulary.pad_id, "mask_id": vocabulary.mask_id})
    files.remove(os.path.join(output_dir, _STARTED))
    return made


def is_made_of(folder, inputs, source):
    """Return whether what is made or begun in a folder is of the files of a `TokenizerSource`.

    Args:
        folder: path.
        inputs: the texts, as many as were given when it was made.
        source: the `TokenizerSource`.
    """
    digests = [*map(manifest.digest_file, source.files())]
    for name in (MANIFEST, _STARTED):
        with contextlib.suppress(BertTfError):  # not there; or damaged, as `create_examples` says
            made = manifest.read(os.path.join(folder, name))
            facts = made.get("input_facts", [])
            end = len(facts) - len(made.get("options", {}).get("exclude", ()))
            return [each["content"] for each in facts[len(inputs):end]] == digests
    return False


def _has_no_blanks(folder):
    """Return whether a folder has finished examples of an earlier version, whose sentences stand
    side by side: a run that learns from them goes on."""
    path = os.path.join(folder, MANIFEST)
    with contextlib.suppress(BertTfError):  # of a damaged one, too, the comparison tells
        options = manifest.read(path)["options"] if files.exists(path) else {}
        return bool(options) and BLANKS not in options
    return False


def _keep_records(path, stated, sources, verify):
    """Write the options of dynamic masks into the manifest of what is made of the same otherwise.
    """
    with contextlib.suppress(BertTfError):  # there is none, or it is of other examples
        held = manifest.read(path).get("options", {})
        same = {**stated, **{name: held[name] for name in _OF_MASKS if name in held}}
        if same != stated and (found := manifest.finished(path, same, sources, verify=verify)):
            for name in ("fingerprint", "options", "inputs", "input_facts"):
                found.pop(name, None)
            manifest.write(path, stated, sources, begun=path, **found)


def _lack(train, pairs):
    """Return why the examples of a split are not to be trained on, as far as they are made; None
    where they are."""
    if train.get("random_next") == 1:
        return explain(
            "no pair has its own second sentence, which next-sentence prediction needs: documents "
            "of one sentence, or sentences as long as an example",
            attempt="--overwrite with another --split, --format full_sentences or doc_sentences")
    if pairs == "swapped" and train["num_documents"] and not train["num_examples"]:
        return explain(
            "no document has two sentences with words, which sentence order prediction needs",
            attempt="--overwrite with another --split, or --format full_sentences")
    return None


def _check_known(shard, options, config, vocabulary):
    """Tell that much of the text is unknown to the vocabulary; refuse what is unknown altogether.
    """
    table = feature_table(options.masking, options.label, options.seq_length,
                          options.max_predictions_per_seq)
    unknown = unknown_fraction(shard, table, vocabulary)
    if unknown == 1:
        raise BertTfError(explain(
            f"every token is unknown: {config.vocab} has no piece of the text",
            "a vocabulary of its language"))
    if unknown > MUCH and config.progress:
        print_note(f"{100 * unknown:.0f} % of the tokens are unknown to {config.vocab}",
                   file=sys.stderr)


def _example_options(config):
    """Return the `ExampleOptions` of a `CreateDataConfig`, filling in what depends on other
    options."""
    values = config.stored()
    values["pairs"] = _checked_pairs(config.format, config.pairs)
    values["dupe_factor"] = config.dupe_factor or DUPE_FACTOR[config.masking]
    values["max_predictions_per_seq"] = config.max_predictions_per_seq or max(
        round(config.max_seq_length * config.masked_lm_prob), 1)
    return ExampleOptions(**{field.name: values[field.name]
                             for field in dataclasses.fields(ExampleOptions)})


def _checked_pairs(format, pairs):
    """Return what the second segment is; None for forms without. Raise UsageError if it does not
    fit."""
    if format in NEXT_SENTENCE_FORMATS:
        return pairs or "random"
    if pairs:
        raise UsageError(explain(
            f"pairs={pairs!r} with format={format!r}, whose examples have no second segment",
            attempt="format='segment_pair', or leaving pairs out"))
    return None


def _shards(folder):
    """Return the names of shards and indexes in a folder, whole or not all of them."""
    return [name for name in files.list_folder(folder)
            if name.endswith((".tfrecord", ".index.npz"))]


def _useful(num_processes, size):
    """Return how many of the processes have something to do."""
    return min(num_processes, 1 + size // chunking.CHUNK_BYTES)


def _make_locally(plan, num_processes, progress):
    """Make the shards in processes of this machine; list of their facts."""
    chunks = itertools.chain.from_iterable(map(plan.chunks, range(len(plan.sections))))
    num_processes = _useful(num_processes, plan.size)
    made, pairs = [], plan.options.pairs
    with tqdm(desc="examples", total=plan.size, unit="B", unit_scale=True,
              disable=not progress) as bar:
        tasks = ((chunk, plan.path(chunk)) for chunk in chunks)
        start = _start if num_processes == 1 else _start_process
        for (chunk, _), facts in in_order(tasks, _make, start, (plan.options, plan.tokenizer),
                                          num_processes, "made examples",
                                          needs_keras=False):
            made.append(facts)
            if progress and len(made) == 2 and (  # maybe hours before the last
                    lack := _lack(splits_of(made, pairs)["train"], pairs)):
                bar.write(f"note: so far {lack}", sys.stderr)
            bar.update(chunk.size)
        bar.update(max(bar.total - bar.n, 0))  # line ends and white space are in no chunk
    return made


_maker = None


def _start(options, source):
    global _maker
    _maker = ExampleMaker(options, source)


def _start_process(options, source):
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")  # whose memory is the training's
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    _start(options, source)


def _make(chunk, path):
    if not files.exists(path):
        _maker(chunk, path)
    return shard_facts(chunk, path)
