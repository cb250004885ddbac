"""The stages of a pre-training run: text, vocabulary, examples, training, model, SavedModel.

Each stage is reused where it is done, so that the same command goes on where a run stood. A run
folder holds `run.json` (what the run is), `vocab.txt` and `tokenizer_config.json` (a tokenizer of
another kind than WordPiece is in `tokenizer/`), `data/`, `train_config.json`, `model_config.json`,
`checkpoints/`, `metrics.jsonl`, `logs/`, `model/` (what `save_pretrained` writes), `results.json`.
"""

import os

import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.converters.formats import read_model
from bert_tf.converters.own_folder import own_folder
from bert_tf.data import python_prose
from bert_tf.data.create import BLANKS, MANIFEST, is_made_of, make_examples
from bert_tf.data.documents import expand_inputs, spool_if_claimed
from bert_tf.data.options import CreateDataConfig
from bert_tf.data.pretraining_input import PretrainingInput, examples_per_batch, explained_errors
from bert_tf.data.skipped import excluded_file
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.models.pretrained import CONFIG
from bert_tf.presets import generator_config
from bert_tf.pretrain.baselines import baselines
from bert_tf.pretrain.same_command import check_same_command
from bert_tf.pretrain.sources import source_digests, source_files
from bert_tf.pretrain.vocabulary import MakesVocabulary
from bert_tf.saved_model.save import export_saved_model
from bert_tf.saved_model.source import RESULTS, published_version, read_results
from bert_tf.storage import checksums, files, manifest
from bert_tf.tasks.pretrained import from_pretrained, read_saved_task
from bert_tf.tasks.registry import model_classes
from bert_tf.tokenization.tokenizer import VOCABULARY_NAME
from bert_tf.training.config import TrainConfig
from bert_tf.training.loop import train
from bert_tf.training.memory import MODEL, explained_want_of_memory, let_go
from bert_tf.training.optimizers import build_optimizer
from bert_tf.training.run_folder import RunFolder
from bert_tf.training.strategy import barrier, devices, explained_loss_of_workers, is_chief

# The model of each objective: its task, and options of that.
_MODELS = {"mlm": ("pretraining", {"sentence_task": None}),
           "mlm+nsp": ("pretraining", {"sentence_task": "next_sentence"}),
           "mlm+sop": ("pretraining", {"sentence_task": "sentence_order"}),
           "rtd": ("replaced_tokens", {}),
           "lm": ("language_model", {})}
_MADE_BY_TRAINING = (RESULTS, "init", "model", "checkpoints", "logs", "metrics.jsonl")


class PretrainingRun(MakesVocabulary, RunFolder):
    """One run: what was asked for, and its folder.

    Args:
        options: `PretrainConfig`, checked and filled in by `complete`.
        config: the `ModelConfig`; its `vocab_size` yields to the vocabulary's.
        train_config: the `TrainConfig`; its `batch_size` yields to `options.batch_tokens`.
        strategy: from `make_strategy`.
        facts: what the run's manifest is to hold beside the options.
    """

    def __init__(self, options, config, train_config, strategy, facts=None):
        self.options = options
        self.config = config
        self.train_config = train_config
        self.strategy = strategy
        self.facts = facts or {}
        self.is_chief = is_chief(strategy)
        self.split = options.split if options.input else "sentences"

    def finish(self):
        """Do the stages that are missing.

        Returns: `(metrics, version)`: held-out losses and metrics, and the SavedModel's path; the
            latter None on workers other than the chief.
        """
        if self.is_chief:
            self.check()
            with spool_if_claimed(self.path()):
                inputs = self.read_inputs()
                resumes = self.claim(inputs)
            if not self.is_trained():
                if self.options.init:
                    self.init_folder()  # before other workers look for it
                self.make_vocabulary(inputs, resumes)
                self.make_examples(inputs)
        barrier(self.strategy)
        check_same_command(self)
        trained, done = self.is_trained(), self.published()
        barrier(self.strategy)  # all have looked before one changes anything
        if done:
            print(f"{self.path()}: this run is finished already; nothing to do")
        elif trained:
            print(f"{self.path()}: this run is trained already; it is exported to "
                  f"{self.options.export_dir}")
        metrics = read_results(self.path())["metrics"] if trained else self.train()
        version = done or (self.export(metrics) if self.is_chief else None)
        barrier(self.strategy)
        return metrics, version if self.is_chief else None

    def check(self):
        """Refuse before anything is written: another's folder, a vocabulary that does not do."""
        manifest.check_own(self.path("run.json"), _MADE_BY_TRAINING, "objective")
        if self.options.finish_now and not files.list_folder(self.path("checkpoints")):
            raise UsageError(explain(f"--finish_now, but {self.path()} has no checkpoint",
                                     attempt="leaving it out"))
        for text in self.options.exclude:
            excluded_file(text)
        if source := self.given_tokenizer(lambda: read_model(self.options.init).tokenizer):
            tokenizer = source.load()
            if self.options.init and len(tokenizer.vocabulary) > self.config.vocab_size:
                raise UsageError(explain(
                    f"{self.options.init} has {len(tokenizer.vocabulary)} pieces and a table of "
                    f"{self.config.vocab_size} rows", "a row for each piece"))

    def read_inputs(self):
        """Paths of the text: expanded patterns, spooled standard input, or Python's own prose."""
        files.clean_temporary(files.make_folder(self.path()))
        if self.options.input:
            return expand_inputs(self.options.input, self.path(), self.options.overwrite,
                                 source_files(self.stated()), self.refuse_loss)
        path = self.path("python_prose.txt")
        files.write_text(path, python_prose.text())
        return [path]

    def claim(self, inputs):
        """Take the run folder; refuse another run's, or clear it under --overwrite.

        Returns: whether it is this run's already.
        """
        record = self.path("run.json")
        options = self.stated()
        # A run that never finished a stage has nothing to lose.
        replace = self.options.overwrite or not files.exists(self.path("vocab.json"))
        sources = source_digests(options)
        if found := manifest.finished(record, options, inputs, replace, self.options.verify_inputs):
            changed = self.changes_of_config()
            if found.get("sources", sources) != sources:  # not noted of runs from before
                changed = "the files of --init, --vocab or --exclude changed"
            if not changed:
                return True
            if not replace:
                raise UsageError(explain(f"{self.path()} holds another run ({changed})",
                                         attempt="another output folder, or --overwrite"))
        self.begin(record, (*_MADE_BY_TRAINING, "model_config.json"), options, inputs,
                   sources=sources, **self.facts)
        return False

    def changes_of_config(self):
        """How the model of a run that began differs from the one asked for: a str, or ""."""
        path = self.path("model_config.json")
        if not files.exists(path):
            return ""
        before, now = vars(ModelConfig.load(path)), vars(self.config)
        return "; ".join(f"{name} was {before[name]!r}, now {value!r}"
                         for name, value in now.items() if value != before[name]
                         and name not in ("vocab_size", "padding_id"))  # of the vocabulary

    def stated(self):
        """The options that decide what comes out, as manifests have them."""
        return manifest.result_options({**self.options.stored(), "pairs": self.options.pairs})

    def init_folder(self):
        """The model folder of `--init`; what is made of it here of another format or deeper."""
        return own_folder(self.options.init, self.path("init"), self.options.stack or 1)

    def make_examples(self, inputs):
        """Create the pre-training examples, with the run's tokenizer, unless `create_data` did so
        with the one that was given; note in `run.json` whether they have blanks."""
        data, options = self.path("data"), self.options.shared_with(CreateDataConfig)
        given = self.given_tokenizer(self.init_folder)
        if given and is_made_of(data, inputs, given):
            vocab = given.path
        else:
            own = self.tokenizer_folder()
            vocab = self.path(VOCABULARY_NAME) if own == self.path() else own
            options |= dict.fromkeys(self.options.text_options())  # they stand beside it
        made = make_examples(CreateDataConfig(**{
            **options, "input": inputs, "split": self.split, "vocab": vocab, "output_dir": data}),
            self.discard_learned)["options"]
        record, blanks = self.path("run.json"), made.get(BLANKS, False)
        if (run := manifest.read(record)).get(BLANKS) != blanks:  # before anything learns from them
            checksums.write_sealed(record, {**run, BLANKS: blanks})

    def discard_learned(self):
        """Delete what was learned from examples that others are to replace, as those of an earlier
        version; refuse it where checkpoints would be lost."""
        data = self.path("data")
        try:
            manifest.read(os.path.join(data, MANIFEST))
        except BertTfError:  # none is there, or it is damaged: are the same made again?
            if not self.tokenizer().blanks_in_pieces() or (
                    manifest.read(self.path("run.json")).get(BLANKS)):  # not of an earlier version
                return
        self.clear([name for name in _MADE_BY_TRAINING if name != "init"],
                   attempt=f"the examples that they learned from in {data}, without --overwrite")

    def train(self):
        """Train, save the model folder, and return the held-out losses and metrics."""
        tf.config.experimental.enable_op_determinism()
        config, train_config = self.final_configs()
        with explained_loss_of_workers(), explained_want_of_memory(MODEL), self.strategy.scope():
            model = self.build_model(config, train_config)
            rows = self.trained_rows(model)
            optimizer = build_optimizer(train_config)
        held_out = None
        if self.has_held_out():
            held_out = self.input_data("eval", train_config)
        elif self.options.holdout:
            print("held out: nothing, the text has too few documents (a blank line ends one, with "
                  "--split none each line is one); there is no evaluation")
        if self.is_chief:
            print(f"devices: {devices(self.strategy)}")
        try:
            with explained_errors():
                trained = train(model, optimizer, self.strategy, train_config,
                                self.input_data("train", train_config), held_out, self.path(),
                                rows=rows, finish_now=self.options.finish_now)
                metrics = trained["evaluation"] or {}
                if held_out:
                    made = manifest.read(self.path("data", MANIFEST))
                    metrics |= baselines(model, metrics, held_out, made["options"]["dupe_factor"])
            if self.is_chief:
                self.save(model)
        finally:
            let_go(self.strategy, [*model.weights, *optimizer.variables,
                                   *([rows.variable] if rows else ())])
        return metrics

    def save(self, model):
        """Write the trained model to `model/`."""
        files.remove(self.path("model"))
        model.save_pretrained(self.path("model"), self.tokenizer())

    def build_model(self, config, train_config):
        """The model of the objective, with the weights of `--init`."""
        start = self.options.init and self.init_folder()
        task, options = _MODELS[self.options.objective]
        options = {**options, "dtype": train_config.policy, "seed": train_config.seed}
        if task == "replaced_tokens":
            saved = read_saved_task(start, {}).get("generator") if start else None
            options["generator"] = saved or generator_config(config, self.options.preset)
        if start:
            model = from_pretrained(start, task, config=config.to_dict(), **options)
            if model.fresh_variables:
                print(f"not in {self.options.init}, so new: {', '.join(model.fresh_variables)}")
        else:
            model = model_classes()[task](config, **options)
        for encoder in (model.encoder, getattr(model, "generator", None)):
            if encoder is not None:
                encoder.backbone.padding_free = train_config.padding_free
                encoder.backbone.gradient_checkpointing = train_config.gradient_checkpointing
        return model

    def trained_rows(self, model):
        """`TrainedRows` of the model, where not its whole table is trained; else None."""

    def input_data(self, split, train_config):
        """The examples of a split, batched for this run; an evaluation has no more at a time than a
        micro-batch, for which there is memory."""
        objective = self.options.objective
        parts = train_config.accumulate_steps if split == "eval" else 1
        return PretrainingInput(self.path("data"), split,
                                batch_size=train_config.batch_size // parts,
                                seed=train_config.seed,
                                objective=objective if objective in ("rtd", "lm") else None,
                                eval_examples=self.options.eval_examples,
                                max_predictions_per_seq=self.options.max_predictions_per_seq,
                                final_masked_lm_prob=self.options.final_masked_lm_prob,
                                causal_fraction=self.options.causal_fraction,
                                train_steps=train_config.train_steps)

    def has_held_out(self):
        """Whether there are held-out examples."""
        made = manifest.read(self.path("data", MANIFEST))
        return made["splits"]["eval"]["num_examples"] > 0

    def final_configs(self):
        """Both configurations, now that vocabulary and examples are there; written as well."""
        made = manifest.read(self.path("data", MANIFEST))
        vocabulary = made["vocabulary"]
        rows = vocabulary["size"]
        if self.options.init:  # published tables often have more rows than there are pieces
            start = ModelConfig.load(os.path.join(self.init_folder(), CONFIG)).vocab_size
            rows = max(rows, start)
        config = self.config.replace(vocab_size=rows, padding_id=vocabulary["pad_id"])
        if self.options.max_seq_length > config.longest:  # RoBERTa counts from its padding id on
            raise UsageError(explain(
                f"max_seq_length={self.options.max_seq_length} with padding_id={config.padding_id}",
                f"at most {config.longest}"))
        train_config = self.train_config
        if self.options.batch_tokens:
            parts = self.strategy.num_replicas_in_sync * train_config.accumulate_steps
            size = self.batch_size_so_far()
            if size and size % parts:
                raise UsageError(explain(
                    f"{self.path()} has batches of {size} examples, which do not divide among "
                    f"{self.strategy.num_replicas_in_sync} replicas in accumulate_steps="
                    f"{train_config.accumulate_steps}",
                    "another number of workers, devices or accumulate_steps"))
            train_config = train_config.replace(batch_size=size or examples_per_batch(
                made, self.options.batch_tokens, parts))
            barrier(self.strategy)  # all have read before the chief writes
        if self.is_chief:
            config.save(self.path("model_config.json"))
            train_config.save(self.path("train_config.json"))
        return config, train_config

    def batch_size_so_far(self):
        """Examples of a batch of a run that has checkpoints, else None.

        The place in the data is a number of batches: they stay, whatever the number of replicas.
        """
        if files.list_folder(self.path("checkpoints")):
            return TrainConfig.load(self.path("train_config.json")).batch_size
        return None

    def mark(self):
        """What tells this run's SavedModel from others."""
        return manifest.read(self.path("run.json"))["fingerprint"]

    def is_trained(self):
        """Whether the model is there, trained and measured."""
        return (files.exists(self.path(RESULTS))
                and read_results(self.path()).get("run") == self.mark())

    def published(self):
        """Path of the version that this run has exported, or None."""
        return published_version(self.options.export_dir, self.path())

    def export(self, metrics):
        """Publish the trained model once; return the version's path."""
        if not self.is_trained():
            checksums.write_sealed(self.path(RESULTS), {"run": self.mark(), "metrics": metrics})
        return self.published() or export_saved_model(self.path(), self.options.export_dir)
