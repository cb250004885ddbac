"""The stages of a fine-tuning: examples, search, seeds, the best model, report, SavedModel.

A run folder holds `run.json` (what the run is), `trials/` (a folder for each training), `model/`
(what `save_pretrained` writes), `results.json`, `predictions.jsonl`, `report/`, and of the best
training `train_config.json` and `metrics.jsonl`; where part of the training file is held out,
`dev_ids.json` says which; with `--test`, `test/` holds predictions and report of that; where the
start or the teacher was no model folder, `init/`, `tokenizer/` or `teacher/` is one.
"""

import contextlib
import functools
import os
import time

import tensorflow as tf

from bert_tf.converters import hf_safetensors
from bert_tf.converters.hf_classes import LABELLED
from bert_tf.converters.own_folder import own_folder
from bert_tf.data.unknown import MUCH, unknown_share
from bert_tf.errors import BertTfError, UsageError, explain, print_note
from bert_tf.finetune.complete import refuse_encoder_options
from bert_tf.finetune.init import find_start, start_files
from bert_tf.finetune.known import FORM
from bert_tf.finetune.results import (
    PREDICTIONS,
    REPORT,
    TEST,
    about_f1,
    described,
    missing,
    spread,
    write_measured,
    write_results,
)
from bert_tf.finetune.search import Search
from bert_tf.finetune.trained_on import TRAINED_ON, write_trained_on
from bert_tf.finetune.trial import RECORD, add_lora
from bert_tf.saved_model.save import export_saved_model
from bert_tf.saved_model.source import RESULTS, marks, published_version, read_results
from bert_tf.storage import files, manifest
from bert_tf.storage.variables import assign_variables
from bert_tf.tasks.base.label_counts import describe_labels, label_counts, similar_label_notes
from bert_tf.tasks.base.split import split_examples
from bert_tf.tasks.base.split_notes import split_notes
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.registry import make_type
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.training.best import BEST, best_weights
from bert_tf.training.checkpoint import refuse_loss
from bert_tf.training.config import keras_policy
from bert_tf.training.run_folder import OutputFolder

_OF_TRIAL = ("train_config.json", "metrics.jsonl")  # kept of the best one
_KEPT = (PREDICTIONS, REPORT, TEST, os.path.join(TEST, REPORT), "model", "dev_ids.json", TRAINED_ON,
         *_OF_TRIAL)  # with the results
_NEAR = 0.1  # how far the share held out may be from that asked for before a note says so
_DIGITS = 4  # of a share
_MADE = (RESULTS, *_KEPT, "trials", "init", "teacher", "tokenizer")


class FinetuningRun(OutputFolder):
    """One run: what was asked for, and its folder.

    Args:
        options: `FinetuneConfig`, checked and filled in by `complete`.
        task: the `Task`.
        strategy: from `make_strategy`.
        command: the command line, for `results.json`.
    """

    def __init__(self, options, task, strategy, command=None):
        self.options = options
        self.task = task
        self.strategy = strategy
        self.command = command
        self.started = time.monotonic()

    def finish(self):
        """Do what is missing; return `(results, version)`: of results.json, the SavedModel.

        The latter is None where no graph can hold the tokenizer.
        """
        files.clean_temporary(self.path())
        with self.claimed():
            trained = files.exists(self.path(RESULTS))
            if not trained:
                tf.config.experimental.enable_op_determinism()
                self.prepare(*self.examples())
                write_trained_on(self.path(), self.train)
                search = Search(self)
                self.publish(search, *search.finish())
            else:
                self.mend()
        version = published_version(self.options.export_dir, self.path())
        if version:
            print(f"{self.path()}: this run is finished already; nothing to do" if trained else
                  f"{version} holds the same run: nothing is exported")
        elif reason := load_tokenizer(self.path("model")).python_only:
            print(f"{self.path()} is not exported: no graph can hold its tokenizer, {reason}")
        else:
            version = export_saved_model(self.path(), self.options.export_dir)
        for name in files.list_folder(self.path("trials")):
            files.remove(self.path("trials", name, BEST))
        return read_results(self.path()), version

    def mend(self):
        """Measure a finished run again where predictions or the report were taken away.

        Raises:
            BertTfError: something else is gone.
        """
        gone = missing(self.path())
        lost = [name for name in gone if name.split(os.sep)[0] not in (
            PREDICTIONS, REPORT, TEST)]
        if lost:
            raise BertTfError(explain(
                f"{self.path(lost[0])} is missing from this finished run",
                attempt=f"putting the file back, or deleting {self.path()} to train again"))
        if gone:
            print(f"{self.path(gone[0])} is missing; measuring again")
            self.prepare(*self.examples())
            model = from_pretrained(self.path("model"), self.type.built_as,
                                    dtype=keras_policy(self.options.dtype))
            write_measured(self.type, self.dev, self.type.predict_dev(model, self.dev), self.path())
            self.measure_test(model)

    def measure_test(self, model):
        """`{"test_metrics": …}` of a model that was chosen already; empty without `--test`."""
        if self.test is None:
            return {}
        predictions = self.type.predict(model, self.test)
        write_measured(self.type, self.test, predictions, files.make_folder(self.path(TEST)))
        return {"test_metrics": self.type.metrics(self.test, predictions)}

    @contextlib.contextmanager
    def claimed(self):
        """Take the run folder; refuse another run's, or clear it under --overwrite.

        It is as it was where what is asked for is refused before a training has begun.
        """
        options = self.options.stored()
        record = self.path("run.json")
        manifest.check_own(record, _MADE, "task")
        # A run without a trial or a result has nothing to lose.
        replace = self.options.overwrite or not any(
            files.exists(self.path(name)) for name in ("trials", RESULTS))
        inputs = self.inputs()
        if manifest.finished(record, options, inputs, replace, self.options.verify_inputs):
            yield
            return
        if not self.options.discard_checkpoints:
            refuse_loss([self.path("trials", name, "checkpoints")
                         for name in files.list_folder(self.path("trials"))])
        with manifest.replacing(self.path(), ("run.json", *_MADE), self.has_begun):
            manifest.write(record, options, inputs)
            yield

    def has_begun(self):
        """Whether a training has saved anything."""
        trials = map(functools.partial(self.path, "trials"), files.list_folder(self.path("trials")))
        return files.exists(self.path(RESULTS)) or any(
            {"checkpoints", RECORD} & {*files.list_folder(trial)} for trial in trials)

    def inputs(self):
        """The files that a run depends on."""
        options = self.options
        paths = [options.train] + ([options.dev] if options.dev_share() is None else [])
        paths += [options.test] if options.test else []
        return paths + start_files(options)

    def examples(self):
        """`(train, dev, test)`, lists of examples, split where `--dev` is a share; test or None."""
        options = self.options
        train, left_out = options.read_examples(self.task, options.train)
        self.left_out = {"train": left_out}
        test = None
        if options.test:
            test, self.left_out["test"] = options.read_examples(self.task, options.test)
        share = options.dev_share()
        if share is None:
            dev, self.left_out["dev"] = options.read_examples(self.task, options.dev)
            return train, dev, test
        train, dev = split_examples(train, share, options.seed, self.task.dev_last)
        path, ids = self.path("dev_ids.json"), [example.id for example in dev]
        if files.exists(path) and self.has_begun() and (
                files.read_json(path).get("dev_ids") != ids):
            raise UsageError(explain(
                f"{path} names other dev examples than --dev {options.dev} gives now: an earlier "
                "version, which divided the examples otherwise, began this run, and would be "
                "measured on some that it was trained on",
                attempt=f"another --output_dir, or deleting {self.path()} to train again"))
        files.write_json(path, {
            "task": self.task.name, "file": options.train, **_shares(train, dev, share),
            "seed": options.seed, "train": len(train), "dev_ids": ids})
        return train, dev, test

    def prepare(self, train, dev, test):
        """Find the start and make the features that all trials are trained on."""
        options = self.options
        if options.teacher:
            options = options.replace(teacher=own_folder(options.teacher, self.path("teacher")))
        self.type = make_type(self.task, options)
        self.start = find_start(options, self.path(), lambda: self.type.texts(train))
        longest = self.start.config.longest
        length = options.max_seq_length or min(self.task.seq_length, longest)
        if length > longest:
            raise UsageError(explain(f"--max_seq_length {length} is more than the model's "
                                     f"{longest} positions", attempt=f"--max_seq_length {longest}"))
        shortest = 4 + self.start.tokenizer.vocabulary.pair_separators  # [CLS] a [SEP] b [SEP]
        if options.max_seq_length and length < shortest:
            raise UsageError(explain(f"--max_seq_length {length}", f"{shortest} to {longest}"))
        self.type.options = options.replace(max_seq_length=length)
        labels = self.type.labels(train)
        for examples in filter(None, (test, dev)):  # the metric is that of the dev examples
            self.type.measure_on(examples)
        self.model_task, made = self.type.model_options(labels, self.start.tokenizer)
        self.model_options = self.start.within_template(self.model_task, made)
        asked = options.dev_share()
        self.counts = {"train": len(train), "dev": len(dev), **_shares(train, dev, asked),
                       "seed": options.seed}
        held_out = "" if asked is None else f" ({100 * self.counts['share']:.3g} %)"
        print(f"{self.task.name}: {len(train):,} train examples, {len(dev):,} dev examples"
              f"{held_out}", flush=True)
        if asked is not None and abs(self.counts["share"] / asked - 1) > _NEAR:
            print_note(f"--dev {asked:g} asked for {100 * asked:.3g} %; what belongs together is "
                       "not split, and of every label some examples stay for training")
        self.described = described(self.type, labels)
        print("; ".join([f"models are chosen by {self.described['monitor']}",
                         *about_f1(self.described)]))
        if test:
            self.counts["test"] = len(test)
            print(f"{len(test):,} test examples, for the best model")
        parts = {"train": train, "dev": dev, **({"test": test} if test else {})}
        for name, examples in parts.items():
            if labels := describe_labels(examples):
                print(f"labels of {name}: {labels}")
        self.label_counts = {name: label_counts(examples) for name, examples in parts.items()}
        for note in [*similar_label_notes([*train, *dev]), *split_notes(train, dev),
                     *(split_notes(train, test, "test") if test else ())]:
            print_note(note)
        self.train, self.train_features, self.dev, self.test = train, None, dev, test

    def features(self, model):
        """`Features` of the training examples, made once for all trials; tells what is new."""
        if self.train_features is None:
            self.tell_of(model)
            self.train_features = self.type.features(self.train, model, training=True)
            unknown = unknown_share(self.train_features.rows["input_word_ids"].values,
                                    self.start.tokenizer.vocabulary)
            if unknown > MUCH:
                print_note(f"{100 * unknown:.0f} % of the train tokens are unknown to the "
                           "vocabulary")
            features = {"train": self.train_features}
            # What is wrong with the others shows before training, too.
            if self.test:
                features["test"] = self.type.features_to_predict(model, self.test)
            features["dev"] = self.type.features_to_predict(model, self.dev)
            self.cut = self.count_truncated(features, model.preprocessor)
        return self.train_features

    def tell_of(self, model):
        """Tell what of the model is new, what is not trained, and what cannot be made of it.

        Raises:
            UsageError: an option is about layers that are not trained.
        """
        options = self.options
        if fresh := getattr(model, "fresh_variables", ()):
            print(f"not in {options.init}, so new: {', '.join(fresh)}")
        if getattr(model, "feature_lstm", None) is not None and not options.features:
            refuse_encoder_options(
                options, f"--init {options.init}, which was made with --features")
            print_note(f"{options.init} was made with --features: its encoder is not trained; try "
                       "--init with what it was made from to train it")
        task = model.task_config()
        if task["task"] in LABELLED and (reason := hf_safetensors.refusal(model.config, task)):
            print_note(f"convert --to hf will refuse this model: {reason}")

    def count_truncated(self, features, preprocessor):
        """Tell how many examples are truncated: `{"tokens", "train", "dev"}`, or None."""
        found = self.type.truncation(preprocessor)
        if found is None:
            return None
        what, tokens = found
        counts = {name: part.truncated for name, part in features.items()}
        print(f"{what} truncated to {tokens} tokens: " + ", ".join(
            f"{counts[name]:,} of {len(getattr(self, name)):,} of {name}" for name in counts))
        return {"tokens": tokens, **counts}

    def build(self, seed):
        """The model before training, its head drawn from `seed`."""
        options = self.options
        dropout = {} if options.dropout is None else {
            "hidden_dropout_prob": options.dropout, "attention_probs_dropout_prob": options.dropout}
        changes = {**dropout, **self.type.encoder_options()}
        model = self.start.build(self.model_task, changes, dtype=keras_policy(options.dtype),
                                 seed=seed, **self.model_options)
        padding_free = options.padding_free
        if padding_free is None:
            # Batches of mixed lengths, on a processor that needs no fixed shapes.
            padding_free = model.whole_batch_loss and not tf.config.list_logical_devices("GPU")
        model.backbone.padding_free = padding_free
        model.backbone.gradient_checkpointing = options.gradient_checkpointing
        add_lora(model, options.lora_rank)
        return model

    def publish(self, search, found, best, records):
        """Save the best model, measure it, and write what came out, `results.json` last.

        Args:
            search: the `Search`; what follows is what it returned.
        """
        model = self.build(best.settings.seed)
        assign_variables(model.weights, best_weights(best.folder), best.folder)
        self.features(model)
        predictions = search.dev_predictions(model, best, records)
        files.remove(self.path("model"))
        model.save_pretrained(self.path("model"))
        write_measured(self.type, self.dev, predictions, self.path())
        metrics = self.type.metrics(self.dev, predictions)
        notes = self.type.notes(self.dev, predictions, metrics)
        for note in notes:
            print_note(f"{note}; try another --learning_rate, more --epochs or another --seed")
        tested = self.measure_test(model)
        for name in _OF_TRIAL:
            files.copy(os.path.join(best.folder, name), self.path(name))
        mean, deviation = spread([record for record in records if "metrics" in record])
        results = {**marks(self.path(), self.mark()),
                   "task": self.task.name, "columns": self.options.columns(),
                   "form": {name: getattr(self.options, name) for name in FORM},
                   "metrics": metrics, **tested, **self.described, "notes": notes, "mean": mean,
                   "deviation": deviation, "seeds": records, "search": found,
                   "split": self.counts, "left_out": self.left_out,
                   "labels": self.label_counts, "cut": self.cut,
                   "seconds": round(time.monotonic() - self.started, 1), "command": self.command}
        write_results(self.path(), results, _KEPT)


def _shares(train, dev, asked):
    """What share of the examples is held out, and what share was asked for; None of both."""
    share = None if asked is None else round(len(dev) / (len(train) + len(dev)), _DIGITS)
    return {"share": share, "asked_share": asked}
