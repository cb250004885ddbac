"""The stages of a distillation: text, the teacher's answers, student, training, SavedModel.

A run folder holds `run.json` (what the run is), `teacher/` (its answers, while they are needed),
`checkpoints/`, `best/`, `train_config.json`, `metrics.jsonl`, `logs/`, `model/` (what
`save_pretrained` writes) and `results.json`.
"""

import math
import time

import numpy as np
import tensorflow as tf

from bert_tf.data.documents import expand_inputs, read_documents, spool_if_claimed
from bert_tf.data.task_input import TaskInput
from bert_tf.data.term_weights import learn_term_weights
from bert_tf.distill.config import OF_OUTPUT
from bert_tf.distill.distiller import Distiller
from bert_tf.distill.student import (
    build_student,
    copy_term_weights,
    fill_table,
    lacks_term_weights,
    output_axes,
    scale_table,
)
from bert_tf.distill.teacher import load_teacher, same_tokenizer, teacher_outputs
from bert_tf.errors import BertTfError, DivergedError, NoTextError, UsageError, explain, print_note
from bert_tf.models.find import model_files
from bert_tf.models.pretrained import takes_no_text
from bert_tf.models.trained_rows import occurring_rows
from bert_tf.saved_model.save import export_run
from bert_tf.saved_model.source import RESULTS, marks, read_results
from bert_tf.storage import checksums, files, manifest
from bert_tf.storage.variables import assign_variables
from bert_tf.tasks.base.examples import TextExample
from bert_tf.tasks.base.text_features import text_features
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.training.best import BEST, best_weights
from bert_tf.training.config import TrainConfig, keras_policy
from bert_tf.training.loop import check_split, train
from bert_tf.training.memory import MODEL, explained_want_of_memory, let_go
from bert_tf.training.optimizers import build_optimizer
from bert_tf.training.run_folder import RunFolder

_SEQ_LENGTH = 128
_ANSWERS = "teacher"  # folder
_WORKING = (_ANSWERS, "checkpoints", BEST)  # gone when the run has finished
_MADE = (RESULTS, "model", "train_config.json", "metrics.jsonl", "logs", *_WORKING)
# What does not fit, and what to try then, as of `explained_want_of_memory`.
_TEACHER = "the teacher", "a smaller teacher or a device with more memory"
_ASKING = ("asking the teacher", "a smaller teacher, a smaller --max_seq_length or a device with "
           "more memory")
_ASKED = ("teacher", "dtype", "seed", "dev", "max_seq_length")  # options that answers depend on


class DistillationRun(RunFolder):
    """One run: what was asked for, a `DistillConfig`, and its folder."""

    def finish(self):
        """Do what is missing; return `(metrics, version)`: held out, and the SavedModel's path."""
        manifest.check_own(self.path("run.json"), _MADE, "objectives")
        files.clean_temporary(files.make_folder(self.path()))
        with spool_if_claimed(self.path()):
            inputs = expand_inputs(self.options.input, self.path(), self.options.overwrite,
                                   ready=self.refuse_loss)
            self.claim(inputs)
        if not files.exists(self.path(RESULTS)):
            tf.config.experimental.enable_op_determinism()
            self.train(self.read_texts(inputs))
        version = export_run(self.path(), self.options.export_dir)
        for name in _WORKING:
            files.remove(self.path(name))
        return read_results(self.path())["metrics"], version

    def claim(self, inputs):
        """Take the run folder; refuse another run's, or clear it under --overwrite."""
        # When the model is evaluated decides which weights are the best.
        options = {**self.options.stored(), "eval_every of the best": self.options.eval_every}
        record = self.path("run.json")
        read = [path for given in (self.options.teacher, self.options.init) if given
                for path in model_files(given)]
        begun = (files.list_folder(self.path(_ANSWERS, "train"))
                 or files.exists(self.path("train_config.json")))
        replace = self.options.overwrite or not begun
        if not manifest.finished(record, options, [*inputs, *read], replace,
                                 self.options.verify_inputs):
            self.begin(record, {*_MADE} - {_ANSWERS}, options, [*inputs, *read])
        if not files.exists(self.path(RESULTS)):  # a start before may have been killed here
            self.keep_answers(inputs)

    def keep_answers(self, inputs):
        """Delete what the teacher said in another run, unless it would say the same in this."""
        record = self.path(_ANSWERS, "asked.json")
        options = {name: getattr(self.options, name) for name in _ASKED}
        read = [*inputs, *model_files(self.options.teacher)]
        if not manifest.finished(record, options, read, True, self.options.verify_inputs):
            files.remove(record)  # first: what is left of a folder is nobody's
            files.remove(self.path(_ANSWERS))
            files.make_folder(self.path(_ANSWERS))
            manifest.write(record, options, read)

    def read_texts(self, inputs):
        """`{"train", "dev"}`: lists of the different texts, the dev texts drawn from the seed."""
        texts = list(dict.fromkeys(text for piece in read_documents(inputs, "none")
                                   for text in piece.sentences))
        held_out = min(max(1, round(self.options.dev * len(texts))), len(texts) - 1)
        if len(texts) < 2:
            raise BertTfError(explain(f"{' '.join(self.options.input)} has "
                                      f"{len(texts)} different text(s)", "two or more"))
        order = np.random.default_rng(self.options.seed).permutation(len(texts))
        dev = np.zeros(len(texts), bool)
        dev[order[:held_out]] = True
        print(f"{len(texts) - held_out:,} train texts, {held_out:,} dev texts, all different",
              flush=True)
        return {name: [text for text, chosen in zip(texts, dev, strict=True)
                       if chosen == (name == "dev")] for name in ("train", "dev")}

    def train(self, texts):
        """Train, then write the model folder and the results."""
        options, started = self.options, time.monotonic()
        check_split(self.train_config(1), self.strategy)
        policy = keras_policy(options.dtype)
        with explained_want_of_memory(_TEACHER):
            teacher = load_teacher(options.teacher, dtype=policy, seed=options.seed)
        length = self.seq_length(teacher, options.teacher)
        asked = {name: self.features(part, teacher, length) for name, part in texts.items()}
        with explained_want_of_memory(MODEL), self.strategy.scope():
            # Another copy of the teacher where it runs with every batch, on every replica.
            running = teacher if self.strategy.num_replicas_in_sync == 1 else load_teacher(
                options.teacher, dtype=policy, seed=options.seed)
            student, layers = build_student(running, options, policy)
            model = Distiller(student, running, options, layers)
        self.check_widths(student, teacher)
        self.describe(student, teacher, layers)
        features = self.own_features(texts, student, teacher, asked) if options.init else asked
        self.fit_window(student, teacher, asked, length)
        try:
            # What is refused is refused before the teacher is asked, which may take hours.
            with explained_want_of_memory(_ASKING):
                data = self.lessons(asked, features, student, teacher)
            found = self.fit(model, student, data)
            files.remove(self.path("model"))
            student.save_pretrained(self.path("model"))
            checksums.write_sealed(self.path(RESULTS), {
                **marks(self.path(), self.mark()), **found,
                "texts": {name: len(part) for name, part in texts.items()},
                "weights": student.count_params(), "teacher_weights": teacher.count_params(),
                "seconds": round(time.monotonic() - started, 1)})
        finally:
            let_go(self.strategy, [*model.weights, *teacher.weights, *running.weights])

    def lessons(self, asked, features, student, teacher):
        """Ask the teacher; return `{"train", "dev"}`, each a `TaskInput` of the student's features
        and the answers."""
        options = self.options
        answers = {name: teacher_outputs(teacher, part, self.path(_ANSWERS, name))
                   for name, part in asked.items()}
        answers, axes = self.projected(answers, student)
        if options.static:
            counts = np.bincount(asked["train"].rows["input_word_ids"].values,
                                 minlength=teacher.config.vocab_size)
            fill_table(student, teacher, counts, axes)
            scale_table(student, features["train"], answers["train"])
        data = {}
        for name, part in features.items():
            part.rows["teacher_output"] = answers[name]
            data[name] = TaskInput(part, options.batch_size, options.seed,
                                   pad_id=student.config.padding_id, shuffle=name == "train",
                                   epochs=None if name == "train" else 1)
        return data

    def fit(self, model, student, data):
        """Train; return `{"metrics"}`, the best evaluation, as of which the model's weights are,
        and where the training diverged after it the reason, `diverged_later`."""
        config = self.train_config(data["train"].steps_per_epoch)
        config.save(self.path("train_config.json"))
        with self.strategy.scope():
            rows = occurring_rows(student, data["train"].token_ids())
            optimizer = build_optimizer(config)
        later = {}
        try:
            best = train(model, optimizer, self.strategy, config, data["train"], data["dev"],
                         self.path(), keep_best=True, rows=rows)["best"]
        except DivergedError as error:
            if error.best is None or not math.isfinite(error.best["loss"]):
                raise
            best, later = error.best, {"diverged_later": error.reason}
            print_note(f"the student is that of step {best['step']}; later it diverged: "
                       f"{error.reason}")
        finally:
            let_go(self.strategy, [*optimizer.variables, *([rows.variable] if rows else ())])
        assign_variables(model.weights, best_weights(self.path()), self.path())
        return {"metrics": best, **later}

    def seq_length(self, model, path):
        """Tokens of a text that are read; UsageError if the model has fewer."""
        longest, asked = model.config.longest, self.options.max_seq_length
        if asked and not 3 <= asked <= longest:
            raise UsageError(explain(f"--max_seq_length {asked} with {path}", f"3 to {longest}"))
        return asked or min(_SEQ_LENGTH, longest, model.preprocessor.seq_length)

    def features(self, texts, model, length):
        """`Features` of texts, read as a model reads them; of one that reads windows, the first
        window. Tells how many are truncated."""
        own = model.preprocessor
        examples = [TextExample(str(number), text) for number, text in enumerate(texts)]
        found = text_features(examples, TextPreprocessor(
            own.tokenizer, length, "head" if own.long == "windows" else own.long), None, None)
        if found.truncated:
            print(f"{found.truncated:,} of {len(found):,} texts are truncated to {length} tokens")
        return found

    def fit_window(self, student, teacher, asked, length):
        """Let the student read as much of a text as it learns from; new layers know no more."""
        own, options = student.preprocessor, self.options
        if options.hidden_size and not options.static:
            own.resize(length)
            return
        own.resize(max(own.seq_length, options.max_seq_length or 0))
        most = min(own.seq_length, teacher.config.longest)
        truncated = any(part.truncated for part in asked.values())
        if truncated and most > length and student.config.num_hidden_layers:
            print_note(f"the student learns from {length} tokens of a text and will read "
                       f"{own.seq_length}; try --max_seq_length {most}")

    def own_features(self, texts, student, teacher, features):
        """`Features` by the student's tokenizer and of its length, where these are others.

        Statistics of its tokens, by which the teacher's kind may weigh them, are learned.
        """
        own = getattr(student.preprocessor, "tokenizer", None)
        if own is None:
            raise NoTextError(takes_no_text(f"--init {self.options.init}",
                                            student.text_read_otherwise))
        length = self.seq_length(student, self.options.init)
        unlike, attempt = ("whose tokens are not the teacher's",
                           f"--objectives {' or '.join(OF_OUTPUT)}")
        if same_tokenizer(own, teacher.preprocessor.tokenizer):
            copy_term_weights(student, teacher)
            taught = self.seq_length(teacher, self.options.teacher)
            if taught <= length:
                return features
            unlike = f"which reads {length} tokens of a text where the teacher reads {taught}"
            attempt = f"--max_seq_length {length}"
        further = [name for name in self.options.objectives if name not in OF_OUTPUT]
        if further:
            raise UsageError(explain(f"--objectives {' '.join(further)} with --init "
                                     f"{self.options.init}, {unlike}", attempt=attempt))
        if lacks_term_weights(student):
            student.set_term_weights(learn_term_weights(texts["train"], own, length))
        return {name: self.features(part, student, length) for name, part in texts.items()}

    def check_widths(self, student, teacher):
        """Refuse a student whose vectors are longer than the teacher's."""
        if student.saved_as == "embedder" and student.width > teacher.width:
            raise UsageError(explain(f"a student with vectors of {student.width} and a teacher "
                                     f"with vectors of {teacher.width}",
                                     "no more than the teacher's"))

    def projected(self, answers, student):
        """`(answers, axes)`: the teacher's vectors in as many dimensions as the student's, and
        along which axes; logits as they are."""
        taught = answers["train"].shape[1]
        width = student.width if student.saved_as == "embedder" else taught
        axes = output_axes(answers["train"], width)
        if width == taught:
            return answers, axes
        kept = np.sum((answers["dev"] @ axes)**2) / np.sum(answers["dev"]**2)
        print(f"of the teacher's {taught} dimensions {width} are learned, with {100 * kept:.1f} % "
              "of the squared length")
        return {name: values @ axes for name, values in answers.items()}, axes

    def describe(self, student, teacher, layers):
        """Tell what the teacher predicts, and how large both are."""
        sizes = [_size(model) for model in (student, teacher)]
        kept = f" ({' '.join(map(str, layers))} of the teacher's)" if (
            layers and not (self.options.hidden_size or self.options.init)) else ""
        labels = f" of {len(teacher.labels)} label(s)" if teacher.saved_as == "classifier" else ""
        print(f"student: {sizes[0]}{kept}; teacher: {teacher.saved_as}{labels}, {sizes[1]}",
              flush=True)

    def train_config(self, steps_per_epoch):
        """The `TrainConfig` of the run."""
        options = self.options
        steps = options.epochs * steps_per_epoch
        every = options.eval_every or max(1, steps // 10)
        return TrainConfig(
            train_steps=steps, batch_size=options.batch_size, learning_rate=options.learning_rate,
            warmup_steps=round(options.warmup_ratio * steps), weight_decay=options.weight_decay,
            dtype=options.dtype, strategy=options.strategy, seed=options.seed, eval_every=every,
            checkpoint_every=every, keep_checkpoints=1)


def _size(model):
    config = model.config
    heads = f" in {config.num_attention_heads} heads" if config.num_hidden_layers else ""
    return (f"{config.num_hidden_layers} layers of {config.hidden_size}{heads}, "
            f"{model.count_params() / 1e6:.1f} M weights")
