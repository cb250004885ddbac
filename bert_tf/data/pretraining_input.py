"""Batches of pre-training examples, a pure function of the seed and the position.

The examples of epoch e are visited in a permutation drawn from the seed and e, computed element
by element; masks are drawn from the seed and the position in the endless stream. So any step can
be produced without those before it: a resumed run continues exactly, at once.
"""

import contextlib
import dataclasses
import os
import re

import numpy as np
import tensorflow as tf

from bert_tf.data import records
from bert_tf.data.made_ahead import made_ahead
from bert_tf.data.masking import ELECTRA_REPLACEMENT_PROBS, REPLACEMENT_PROBS, Masking
from bert_tf.data.task_input import without_position
from bert_tf.errors import BertTfError, UsageError, check_choice, explain
from bert_tf.options import (
    FRACTION,
    FRACTION_ABOVE_0,
    NATURAL,
    POSITIVE,
    REQUIRED,
    SEED,
    Options,
    option,
)
from bert_tf.randomness import example_bits, stream_key
from bert_tf.storage import files, manifest

# Of the cipher that shuffles. With its default of 4, examples of a batch lie close together as soon
# as there are hundreds of thousands; from 8 on they lie as chance has it.
_ROUNDS = 12
# Last indices for which its blocks are too small: it never gives them, but another one twice.
_NEVER_LAST = {4**k for k in range(8, 32)}
_NO_EXAMPLE = "a record is sound but not a tf.train.Example"
# What is read of a manifest.
_OPTIONS = {"seq_length": int, "max_predictions_per_seq": int, "masking": str, "whole_word": bool,
            "max_ngram": int, "masked_share": float}
_VOCABULARY = {"size": int, "pad_id": int, "mask_id": int, "special_ids": list}
_REPLACEMENTS = {None: REPLACEMENT_PROBS, "rtd": ELECTRA_REPLACEMENT_PROBS}


def examples_per_batch(manifest, batch_tokens, multiple=1):
    """Return the number of training examples that hold about `batch_tokens` real tokens.

    Args:
        manifest: what `create_examples` returned.
        batch_tokens: tokens of a batch, about.
        multiple: the result is a multiple of it (replicas), at least once.
    """
    wanted = batch_tokens / manifest["splits"]["train"]["mean_tokens"]
    return max(1, round(wanted / multiple)) * multiple


def shuffled(position, count, seed):
    """Return which of `count` examples is at each position of the endless stream.

    Every run of `count` positions, an epoch, holds each example once, in a different order.

    Args:
        position: int64 `[n]`.
        count: number of examples.
        seed: of the orders, below 2**32.

    Returns:
        int64 `[n]`, in `[0, count)`.
    """
    epoch = tf.cast(position // count, tf.uint32)
    seeds = tf.stack([tf.fill(tf.shape(epoch), tf.constant(seed, tf.uint32)), epoch,
                      tf.zeros_like(epoch)], axis=1)
    index = position % count
    # The public tf.random.experimental.index_shuffle refuses a vector of seeds.
    found = tf.raw_ops.RandomIndexShuffle(
        index=index, seed=seeds, max_index=tf.constant(count - 1, tf.int64), rounds=_ROUNDS)
    return tf.where(index == count - 1, index, found) if count - 1 in _NEVER_LAST else found


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Numbers(Options):
    """The numbers that `PretrainingInput` takes, and which ones they may be."""

    batch_size: int = option(REQUIRED, "", POSITIVE)
    seed: int = option(REQUIRED, "", SEED)
    max_predictions_per_seq: int | None = option(None, "", POSITIVE)
    eval_examples: int | None = option(None, "", POSITIVE)
    final_masked_lm_prob: float | None = option(None, "", FRACTION_ABOVE_0)
    train_steps: int | None = option(None, "", POSITIVE)
    causal_fraction: float = option(0.0, "", FRACTION)
    first_step: int = option(0, "", NATURAL)


class PretrainingInput:
    """The examples of one split of a folder that `create_examples` filled.

    Pre-training models take it in `fit` and `evaluate`, which count `train` in epochs of
    `steps_per_epoch` steps:

        model.compile("adam")
        model.fit(bert_tf.PretrainingInput(folder, "train", batch_size=32, seed=0))

    Args:
        data_dir: the folder.
        split: `train` (shuffled anew every epoch, without end) or `eval` (in order, each example
            once, the same masks every time).
        batch_size: examples of a step, over all replicas.
        seed: of the order and of dynamic masks, below 2**31.
        max_predictions_per_seq: maximum of masked positions of an example (P); None for what the
            folder was made with. Static masks cannot change it.
        eval_examples: examples of the split `eval` to go through, None for each once: of more
            that many, evenly spread; fewer come again, under other masks where these are dynamic.
        objective: None for masks as of BERT; `rtd` for those of ELECTRA, where they are dynamic;
            `lm` for whole text without masks, which only dynamic records hold.
        final_masked_lm_prob: fraction of tokens that dynamic masks hide at step `train_steps` - 1,
            to which it goes evenly from what the folder was made with; `eval` has it throughout.
            None for the latter throughout.
        train_steps: steps of the whole run, `first_step` of them included, where the fraction
            changes.
        causal_fraction: fraction, below 1, of the training examples that a model is to read left to
            right (Charpentier and Samuel 2024, "GPT or BERT: why not both?"), where masks are
            dynamic: nothing is masked in these, and what was chosen is predicted at the position
            before.
        first_step: of `train`, the step of the whole run that counts as step 0.

    Raises:
        UsageError: a number is out of its range, or the options do not fit the data.
        BertTfError: the data is missing or damaged.
    """

    def __init__(self, data_dir, split, *, batch_size, seed, max_predictions_per_seq=None,
                 eval_examples=None, objective=None, final_masked_lm_prob=None, train_steps=None,
                 causal_fraction=0.0, first_step=0):
        numbers = {"batch_size": batch_size, "seed": seed, "eval_examples": eval_examples,
                   "max_predictions_per_seq": max_predictions_per_seq, "train_steps": train_steps,
                   "final_masked_lm_prob": final_masked_lm_prob, "causal_fraction": causal_fraction,
                   "first_step": first_step}
        _Numbers(**{name: value.item() if isinstance(value, np.generic) else value
                    for name, value in numbers.items()})
        check_choice("split", split, ("train", "eval"))
        check_choice("objective", objective, (*_REPLACEMENTS, "lm"))
        made = _read_manifest(os.path.join(data_dir, "manifest.json"), split)
        options, vocabulary = made["options"], made["vocabulary"]
        predictions = max_predictions_per_seq or options["max_predictions_per_seq"]
        self.is_dynamic = options["masking"] == "dynamic"
        if self.is_dynamic and not max_predictions_per_seq and final_masked_lm_prob:
            predictions = max(predictions, round(options["seq_length"] * final_masked_lm_prob))
        if not self.is_dynamic and predictions != options["max_predictions_per_seq"]:
            raise UsageError(explain(
                f"max_predictions_per_seq={predictions} with masks stored in {data_dir}",
                str(options["max_predictions_per_seq"])))
        if final_masked_lm_prob is not None and not self.is_dynamic:
            raise UsageError(explain(f"final_masked_lm_prob with masks stored in {data_dir}",
                                     "examples made with masking='dynamic'"))
        if final_masked_lm_prob is not None and split == "train" and train_steps is None:
            raise UsageError(explain("final_masked_lm_prob without train_steps",
                                     "the steps in which the fraction goes there"))
        if causal_fraction and (objective or not self.is_dynamic):
            raise UsageError(explain(
                f"causal_fraction={causal_fraction} with "
                + (f"objective={objective!r}" if objective else f"masks stored in {data_dir}"),
                "dynamic masks as of BERT"))
        if objective == "lm" and not self.is_dynamic:
            raise UsageError(explain(
                f"objective='lm' with masks stored in {data_dir}: a language model reads the text "
                "as it is", "examples made with masking='dynamic'"))
        self.split = split
        self.objective = objective
        self.batch_size = batch_size
        self.seed = seed
        self.seq_length = options["seq_length"]
        self.label = made["pair_labels"]
        self.pad_id = vocabulary["pad_id"]
        self.vocab_size = vocabulary["size"]
        shards = made["splits"][split]["shards"]
        self.records = records.Records(files.inside(data_dir, shard["name"]) for shard in shards)
        self.num_examples = len(self.records)
        if not self.num_examples:
            raise BertTfError(explain(f"{data_dir} has no {split} examples",
                                      attempt="more documents or a larger holdout"))
        self.length = eval_examples or self.num_examples  # of `eval`
        self.table = records.feature_table(options["masking"], self.label, self.seq_length,
                                           predictions)
        self.first_prob = options["masked_share"]
        self.final_prob = final_masked_lm_prob
        self.train_steps = train_steps
        self.causal_fraction = causal_fraction if split == "train" else 0.0
        self.first_step = first_step if split == "train" else 0
        self.masking = None
        if objective == "lm":
            del self.table["word_starts"]
        elif self.is_dynamic:
            self.masking = Masking(
                vocab_size=vocabulary["size"], special_ids=vocabulary["special_ids"],
                mask_id=vocabulary["mask_id"], max_predictions_per_seq=predictions,
                whole_word=options["whole_word"], max_ngram=options["max_ngram"],
                masked_lm_prob=options["masked_share"],
                replacement_probs=_REPLACEMENTS[objective])

    def dataset(self, start_step=0, num_replicas=1, replicas=(0,), num_steps=None):
        """Return the batches, step by step and, within a step, replica by replica.

        Args:
            start_step: first step.
            num_replicas: replicas that share a batch.
            replicas: those whose batches are requested, in order.
            num_steps: steps to produce; None is without end for `train`, and what it takes
                to go through `eval` once.

        Returns:
            A tf.data.Dataset of dicts, with b = batch_size / num_replicas: int32
            `input_word_ids input_mask input_type_ids` `[b, seq_length]` and, where the examples
            have one, a label `[b]`, `next_sentence_labels` or `sentence_order_labels`; int64
            scalar `first_example`, the position in the stream; but for `lm`, int32
            `masked_lm_positions masked_lm_ids` and float32 `masked_lm_weights` `[b, P]`; with
            `causal_fraction` int32 `causal_rows` `[b]`, 1 where it is such a row. Those of
            `eval` also hold `example_weights`, float32 `[b]`, 0 for what fills up the last batch.

        Raises:
            UsageError: the batch does not divide among the replicas.
        """
        if self.batch_size % num_replicas:
            near = max(1, round(self.batch_size / num_replicas)) * num_replicas
            raise UsageError(explain(f"batch_size={self.batch_size} on {num_replicas} replicas",
                                     "a multiple", f"batch_size={near}"))
        size = self.batch_size // num_replicas
        if num_steps is None and self.split == "eval":
            num_steps = -(-self.length // self.batch_size) - start_step
        start_step += self.first_step
        share = tf.constant(list(replicas), tf.int64)
        counter = (tf.data.Dataset.counter(start_step) if num_steps is None
                   else tf.data.Dataset.range(start_step, start_step + num_steps))
        first = counter.flat_map(tf.autograph.experimental.do_not_convert(
            lambda step: tf.data.Dataset.from_tensor_slices(step * self.batch_size + share * size)))
        return made_ahead(first, lambda position: self._batch(position, size), 2 * len(share))

    @property
    def steps_per_epoch(self):
        """Batches that hold every example once."""
        count = self.num_examples if self.split == "train" else self.length
        return -(-count // self.batch_size)

    def for_fit(self, start_step=0, num_steps=None):
        """Return what Keras' `fit` takes: `dataset` without the scalar `first_example`.

        Args:
            start_step, num_steps: as of `dataset`.
        """
        return without_position(self.dataset(start_step, num_steps=num_steps))

    def _batch(self, first, size):
        position = first + tf.range(size, dtype=tf.int64)
        here = position < self.length
        if self.split == "train":
            index = shuffled(position, self.num_examples, self.seed)
        elif self.length < self.num_examples:
            index = tf.minimum(position, self.length - 1) * self.num_examples // self.length
        else:
            index = position % self.num_examples
        serialized = tf.numpy_function(self._read, [index], tf.string, stateful=False)
        serialized = tf.ensure_shape(serialized, [size])
        batch = records.parse(self.table, serialized)
        if self.is_dynamic:
            batch = self._pad_and_mask(batch, first, size)
        batch["first_example"] = first
        if self.label:
            batch[self.label] = batch[self.label][:, 0]
        if self.split == "eval":
            batch["example_weights"] = tf.cast(here, tf.float32)
            if "masked_lm_weights" in batch:
                batch["masked_lm_weights"] *= batch["example_weights"][:, None]
        return batch

    def _read(self, index):
        return np.array(self.records.read(index), object)

    def _pad_and_mask(self, batch, first, size):
        """Pad dynamic records to rectangles, masked unless they are for a language model."""
        num_tokens = tf.cast(batch["input_word_ids"].row_lengths(), tf.int32)
        pads = {"input_word_ids": self.pad_id, "input_type_ids": 0, "word_starts": 0}
        batch |= {name: batch[name].to_tensor(pad, shape=[size, self.seq_length])
                  for name, pad in pads.items() if name in batch}
        batch["input_mask"] = tf.sequence_mask(num_tokens, self.seq_length, tf.int32)
        if self.masking:
            masked = self.masking(stream_key(self.seed, f"{self.split} masking"), first,
                                  batch["input_word_ids"], num_tokens, batch.pop("word_starts"),
                                  self._masked_lm_prob(first))
            if self.causal_fraction:
                masked = self._some_causal(masked, batch["input_word_ids"], first, size)
            batch |= masked
        return batch

    def _some_causal(self, masked, word_ids, first, size):
        """Take the masks off some rows, and predict from the position before."""
        bits = example_bits(stream_key(self.seed, "causal rows"), first, [size, 1])[:, 0]
        rows = tf.cast(bits, tf.float64) < self.causal_fraction * 2.0 ** 32
        positions, weights = masked["masked_lm_positions"], masked["masked_lm_weights"]
        rows = rows[:, tf.newaxis]
        before = tf.maximum(positions - 1, 0)
        # Nothing is before what is 0: an unused slot, or a token where no [CLS] comes first.
        return {**masked, "causal_rows": tf.cast(rows[:, 0], tf.int32),
                "input_word_ids": tf.where(rows, word_ids, masked["input_word_ids"]),
                "masked_lm_positions": tf.where(rows, before, positions),
                "masked_lm_weights": tf.where(rows & (positions == 0), 0.0, weights)}

    def _masked_lm_prob(self, first):
        """Return the fraction of the batch from position `first` on; None where it is constant."""
        if self.final_prob is None:
            return None
        if self.split == "eval":
            return tf.constant(self.final_prob, tf.float64)
        done = tf.cast(first // self.batch_size, tf.float64) / max(self.train_steps - 1, 1)
        return self.first_prob + (self.final_prob - self.first_prob) * tf.minimum(done, 1.0)


def _read_manifest(path, split):
    """Read the manifest of a folder of examples."""
    made = manifest.read(path)
    held = {"options": _OPTIONS, "vocabulary": _VOCABULARY, "splits": {split: dict}}
    for group, fields in held.items():
        values = made.get(group)
        for name, kind in fields.items():
            if not isinstance(values, dict) or type(values.get(name)) is not kind:
                raise BertTfError(explain(f"{path} is damaged: invalid {group}.{name}",
                                          kind.__name__, "making the examples again"))
    shards = made["splits"][split].get("shards")
    if not isinstance(shards, list) or "pair_labels" not in made or not all(
            isinstance(shard, dict) and isinstance(shard.get("name"), str) for shard in shards):
        raise BertTfError(explain(f"{path} is damaged: invalid splits.{split}.shards or "
                                  "pair_labels", attempt="making the examples again"))
    return made


@contextlib.contextmanager
def explained_errors():
    """Raise again what reading a batch raises inside TensorFlow, as the one-line BertTfError it
    was."""
    try:
        yield
    except tf.errors.OpError as error:
        found = re.search(r"(?:BertTf|Usage|Unavailable|CacheFull)Error: (.*)|Could not parse "
                          "example", str(error.message))
        if not found:
            raise
        raise BertTfError(found[1] or _NO_EXAMPLE) from error
    except UnicodeDecodeError as error:  # TensorFlow's error, which quotes the record
        raise BertTfError(_NO_EXAMPLE) from error
