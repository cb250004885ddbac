"""The stages of a pre-training run: text, vocabulary, examples, training, model, SavedModel.

Each stage is reused where it is done, so that the same command goes on where a run stood. A run
folder holds `run.json` (what the run is), `vocab.txt` and `tokenizer_config.json` (a tokenizer of
another kind than WordPiece is in `tokenizer/`), `data/`, `train_config.json`, `model_config.json`,
`checkpoints/`, `metrics.jsonl`, `logs/`, `model/` (what `save_pretrained` writes), `results.json`;
the latter from `train_config.json` on also in `masked_lm/`, where a training comes first.
"""

import os

from bert_tf.config import ModelConfig
from bert_tf.converters.formats import read_model
from bert_tf.converters.own_folder import own_folder
from bert_tf.data import python_prose
from bert_tf.data.create import BLANKS, MANIFEST, is_made_of, make_examples
from bert_tf.data.documents import expand_inputs, spool_if_claimed
from bert_tf.data.options import CreateDataConfig
from bert_tf.data.skipped import excluded_file
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.models.find import MASKED_LM
from bert_tf.models.pretrained import CONFIG
from bert_tf.pretrain import masked_lm
from bert_tf.pretrain.same_command import check_same_command
from bert_tf.pretrain.sources import source_digests, source_files
from bert_tf.pretrain.training import Training
from bert_tf.pretrain.vocabulary import MakesVocabulary
from bert_tf.saved_model.save import export_saved_model
from bert_tf.saved_model.source import RESULTS, published_version, read_results
from bert_tf.storage import checksums, files, manifest
from bert_tf.tokenization.tokenizer import VOCABULARY_NAME
from bert_tf.training.strategy import barrier

_MADE_BY_TRAINING = (RESULTS, "init", MASKED_LM, "model", "checkpoints", "logs",
                     "metrics.jsonl")
_CLEARED = (*_MADE_BY_TRAINING, CONFIG)  # where another run was


class PretrainingRun(MakesVocabulary, Training):
    """One run: what was asked for, and its folder.

    Args:
        options, config, train_config, strategy: as of `Training`.
        facts: what the run's manifest is to hold beside the options.
    """

    CHECKPOINTS = ("checkpoints", os.path.join(MASKED_LM, "checkpoints"))

    def __init__(self, options, config, train_config, strategy, facts=None):
        super().__init__(options, config, train_config, strategy)
        self.facts = facts or {}
        self.masked_lm = None  # a training before
        if options.masked_lm_first:
            first, self.train_config = masked_lm.split_steps(train_config, options.masked_lm_first)
            self.masked_lm = masked_lm.MaskedLMTraining(self, first)
            self.first_step = first.train_steps
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
            what = " with replaced tokens" if self.masked_lm else ""
            raise UsageError(explain(f"--finish_now, but {self.path()} has no checkpoint{what}",
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
        self.begin(record, _CLEARED, options, inputs, sources=sources, **self.facts)
        return False

    def refuse_loss(self, **more):
        """See `RunFolder.refuse_loss`; refuse also that a `--config` in the folder is deleted."""
        given = self.options.config and files.resolved(self.options.config)
        if given and any(f"{given}{os.sep}".startswith(os.path.join(files.resolved(path), ""))
                         for path in map(self.path, _CLEARED)):
            raise UsageError(explain(
                f"--config {self.options.config} is where a new run in {self.path()} deletes files",
                attempt="a copy of it in another folder"))
        super().refuse_loss(**more)

    def changes_of_config(self):
        """How the model of a run that began differs from the one asked for: a str, or ""."""
        path = self.path(CONFIG)
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
        data, options = self.data(), self.options.shared_with(CreateDataConfig)
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
        data = self.data()
        try:
            manifest.read(self.data(MANIFEST))
        except BertTfError:  # none is there, or it is damaged: are the same made again?
            if not self.tokenizer().blanks_in_pieces() or (
                    manifest.read(self.path("run.json")).get(BLANKS)):  # not of an earlier version
                return
        self.clear([name for name in _MADE_BY_TRAINING if name != "init"],
                   attempt=f"the examples that they learned from in {data}, without --overwrite")

    def train(self):
        """See `Training.train`; a training of masked tokens that is to come first does so."""
        if self.masked_lm:
            self.final_configs()  # the folder states them from the first step on
            self.masked_lm.finish()
        return super().train()

    def start(self):
        """See `Training.start`."""
        if self.masked_lm:
            return self.masked_lm.path("model")
        return super().start()

    def published(self):
        """Path of the version that this run has exported, or None."""
        return published_version(self.options.export_dir, self.path())

    def export(self, metrics):
        """Publish the trained model once; return the version's path."""
        if not self.is_trained():
            self.note_results(metrics)
        return self.published() or export_saved_model(self.path(), self.options.export_dir)
