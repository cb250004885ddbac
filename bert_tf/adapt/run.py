"""The stages of an adaptation: vocabulary and first rows, then a pre-training run of that model.

A run folder holds `adapt.json` (what the run is), `adapted.json` (what became of the vocabulary),
`counts` (how often the text has each piece), `start/` (the model folder that training starts from)
and what a pre-training run holds. Without training the model is in `model/` at once.
"""

import dataclasses

import numpy as np

from bert_tf.adapt.vocabulary import check_vocabulary, told, write_adapted
from bert_tf.converters import ours
from bert_tf.converters.checkpoint import Tensors
from bert_tf.converters.formats import read_model
from bert_tf.data.documents import expand_inputs, spool_if_claimed
from bert_tf.data.skipped import excluded_file
from bert_tf.errors import UsageError, explain, print_note
from bert_tf.models.find import model_files
from bert_tf.models.trained_rows import rows_alone
from bert_tf.pretrain.complete import FAMILY_OBJECTIVES, complete
from bert_tf.pretrain.run import PretrainingRun
from bert_tf.saved_model.save import export_run
from bert_tf.saved_model.source import RESULTS, marks
from bert_tf.storage import checksums, files, manifest
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.training.loop import check_split
from bert_tf.training.run_folder import RunFolder

_RECORD, _ADAPTED, _COUNTS = "adapt.json", "adapted.json", "counts"
_MADE = (_ADAPTED, _COUNTS, "start", RESULTS, "model", "run.json", "vocab.json", "checkpoints",
         "logs", "metrics.jsonl")
_HEAD_BIAS = "predictions/output_bias"  # of a masked-LM head, a generator's too
# Models of what is trained here: the trained one takes their place. Others keep their head.
_TRAINED = ("encoder", "pretraining", "replaced_tokens", "language_model")


class AdaptationRun(RunFolder):
    """One run: what was asked for, an `AdaptConfig`, and its folder."""

    def finish(self):
        """Do what is missing.

        Returns: `(training, metrics, version, adapted)`: the `PretrainingRun`, None without
            training; held-out losses and metrics; the SavedModel's path; what `write_adapted` gave.
        """
        options = self.options
        manifest.check_own(self.path(_RECORD), _MADE, "new_pieces")
        checkpoint = read_model(options.model)
        check_vocabulary(checkpoint, options)
        if options.train_steps:
            self.pretraining(checkpoint, options.model)  # refuses before there is any work
        files.make_folder(self.path())
        files.clean_temporary(self.path())
        with spool_if_claimed(self.path()):
            inputs = expand_inputs(options.input, self.path(), options.overwrite,
                                   [excluded_file(text)[0] for text in options.exclude],
                                   self.refuse_loss)
            mark = self.claim(inputs)
        adapted = self.adapt(checkpoint, inputs, mark)
        print("\n".join(told(adapted)), flush=True)
        pieces = adapted["pieces"]
        if checkpoint.task["task"] == SparseEmbedder.saved_as and (
                pieces["added"] or pieces["dropped"]):
            print_note("this sparse encoder weighs pieces: every text can have weights of those "
                       "that were added, and none of those that were dropped; build its index anew")
        if not options.train_steps:
            return None, {}, self.export(mark), adapted
        training = _Training(*self.pretraining(checkpoint, self.path("start")), self.strategy,
                             options.model, inputs, mark,
                             options.only_new_pieces and adapted["pieces"]["added"])
        return training, *training.finish(), adapted

    def claim(self, inputs):
        """Take the run folder; refuse another run's, or clear it under --overwrite.

        Returns: a mark of the model, the texts and what becomes of the vocabulary.
        """
        options, record = self.options, self.path(_RECORD)
        stated = {**options.vocabulary_options(), "trained": options.train_steps > 0}
        read = [*inputs, *model_files(options.model)]
        replace = options.overwrite or not files.exists(self.path(_ADAPTED))
        found = manifest.finished(record, stated, read, replace, options.verify_inputs)
        return (found or self.begin(record, _MADE, stated, read))["fingerprint"]

    def adapt(self, checkpoint, inputs, mark):
        """Write the model with its new vocabulary, unless it is there; what `told` tells."""
        record = self.path(_ADAPTED)
        folder = self.path("start" if self.options.train_steps else "model")
        if files.exists(record) and files.exists(folder):
            return checksums.read_sealed(record)["adapted"]
        files.remove(folder)
        adapted, counts = write_adapted(checkpoint, self.options, inputs, folder)
        files.write_bytes(self.path(_COUNTS), counts.astype("<i8").tobytes())
        checksums.write_sealed(record, {"run": mark, "adapted": adapted})
        return adapted

    def pretraining(self, checkpoint, model):
        """`(options, config, train_config)` of the training, from the model folder `model`."""
        config, kind = checkpoint.config, checkpoint.task["task"]
        if config.family not in FAMILY_OBJECTIVES:
            raise UsageError(explain(f"--model {self.options.model} is of the family "
                                     f"{config.family}, which has no pre-training",
                                     attempt="--train_steps 0"))
        objective = ("lm" if config.attention == "causal" else
                     "rtd" if kind == "replaced_tokens" else "mlm")
        options, config = complete(self.options.pretraining(model, objective, config.longest))
        if self.options.only_new_pieces and options.objective == "rtd":
            raise UsageError(explain("--only_new_pieces with --objective rtd, whose generator has "
                                     "to learn as a whole", attempt="--objective mlm"))
        train_config = options.train_config()
        if not options.batch_tokens:
            check_split(train_config, self.strategy)
        return options, config, train_config

    def export(self, mark):
        """Export the model of a run without training; the version's path."""
        if not files.exists(self.path(RESULTS)):
            checksums.write_sealed(self.path(RESULTS), {**marks(self.path(), mark), "metrics": {}})
        return export_run(self.path(), self.options.export_dir)


class _Training(PretrainingRun):
    """A pre-training run that leaves a model of the kind it began with.

    Args:
        options, config, train_config, strategy: as of `PretrainingRun`; `options.init` is the
            folder in the run's own that was made of `model`.
        model: what the user calls the model.
        inputs: paths of the texts.
        mark: of what became of the vocabulary.
        new_rows: how many of the last pieces are trained alone; 0 for the whole model.
    """

    def __init__(self, options, config, train_config, strategy, model, inputs, mark, new_rows):
        super().__init__(options, config, train_config, strategy)
        self.model, self.inputs, self.mark_of_start = model, inputs, mark
        self.new_rows = new_rows

    def read_inputs(self):
        """See `PretrainingRun.read_inputs`."""
        return self.inputs

    def stated(self):
        """See `PretrainingRun.stated`."""
        alone = {"new_rows": self.new_rows} if self.new_rows else {}
        return {**super().stated(), "init": self.model, "adapted": self.mark_of_start, **alone}

    def build_model(self, config, train_config):
        """See `PretrainingRun.build_model`; a new head begins with how often each piece occurs."""
        model = super().build_model(config, train_config)
        with files.open_binary(self.path(_COUNTS)) as stream:
            counts = np.frombuffer(stream.read(), "<i8")
        for variable in model.weights:
            if variable.path in model.fresh_variables and (
                    variable.path.endswith(_HEAD_BIAS) and variable.shape == counts.shape):
                variable.assign(np.log((counts + 1) / (counts.sum() + len(counts))))
        return model

    def trained_rows(self, model):
        """See `PretrainingRun.trained_rows`."""
        size = model.config.vocab_size
        return rows_alone(model, np.arange(size - self.new_rows, size)) if self.new_rows else None

    def save(self, model):
        """Write the trained model, or that of `--model` with what was trained of its encoder, and
        of its masked-LM head, which else would read another encoder's states."""
        start = ours.read(self.options.init)
        if start.task["task"] in _TRAINED:
            super().save(model)
            return
        learned = (f"{start.config.family}/", *(() if self.new_rows else ("cls/predictions/",)))
        trained = {variable.path: variable for variable in model.weights
                   if variable.path.startswith(learned)}
        files.remove(self.path("model"))
        ours.write(dataclasses.replace(start, tensors=Tensors(
            start.tensors.shapes, lambda name: trained[name].numpy() if name in trained
            else start.tensors[name])), self.path("model"))
