"""One training: its settings, its folder, what it learns and how fast which layer."""

import dataclasses
import os
import time

from bert_tf.data.task_input import TaskInput
from bert_tf.errors import DivergedError, UsageError, explain
from bert_tf.models.trained_rows import occurring_rows
from bert_tf.storage import checksums, files
from bert_tf.training.best import BEST
from bert_tf.training.checkpoint import left_for_later
from bert_tf.training.config import TrainConfig
from bert_tf.training.loop import train
from bert_tf.training.memory import MODEL, explained_want_of_memory, let_go
from bert_tf.training.optimizers import build_optimizer

RECORD = "trial.json"  # of a finished trial


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings in which the trials of a run differ."""

    learning_rate: float
    epochs: int
    seed: int

    def __str__(self):
        return f"learning rate {self.learning_rate:g}, epochs {self.epochs}, seed {self.seed}"

    def folder(self):
        """Return the name of the trial's folder."""
        return f"learning_rate_{self.learning_rate!r}_epochs_{self.epochs}_seed_{self.seed}"


class Trial:
    """A training in its own folder; a killed one resumes.

    Args:
        settings: a `Settings`.
        folder: for the trial's checkpoints and records.
        options: `FinetuneConfig`.
    """

    def __init__(self, settings, folder, options):
        self.settings = settings
        self.folder = folder
        self.options = options

    def record(self):
        """Return what `finish` returned, or None while it has not."""
        path = os.path.join(self.folder, RECORD)
        return checksums.read_sealed(path, "deleting it, which trains again") if (
            files.exists(path)) else None

    def has_weights(self):
        """Return whether the weights of the best epoch are there: not in a run that had finished,
        nor where another trial was better."""
        return files.exists(os.path.join(self.folder, BEST))

    def drop_weights(self):
        """Delete the weights of the best epoch."""
        files.remove(os.path.join(self.folder, BEST))

    def forget(self):
        """Undo `finish`."""
        files.remove(self.folder)

    def finish(self, build_model, make_features, evaluator, monitor, strategy):
        """Train what is missing.

        Args:
            build_model: called with a seed in the strategy's scope.
            make_features: called with the model, gives the train `Features`.
            evaluator: called with the model after every epoch, gives `{metric: float}`.
            monitor: name of a metric, and `min` or `max`.
            strategy: from `make_strategy`.

        Returns: `{"learning_rate", "epochs", "seed", "seconds"}` with `epoch` (the best one, from
            1), its `metrics` and, where a later one diverged, the reason, `diverged_later`; or
            `diverged`, the reason why there are none.
        """
        record = self.record()
        if record is None:
            started = time.monotonic()
            files.make_folder(self.folder)
            files.clean_temporary(self.folder)
            try:
                outcome = self._train(build_model, make_features, evaluator, monitor, strategy)
            except DivergedError as error:
                outcome = {"diverged": error.reason}
            record = {**dataclasses.asdict(self.settings), **outcome,
                      "seconds": round(time.monotonic() - started, 1)}
            checksums.write_sealed(os.path.join(self.folder, RECORD), record)
        with left_for_later():
            files.remove(os.path.join(self.folder, "checkpoints"))
        return record

    def _train(self, build_model, make_features, evaluator, monitor, strategy):
        options, settings = self.options, self.settings
        with explained_want_of_memory(MODEL), strategy.scope():
            model = build_model(settings.seed)
            freeze(model, options.freeze)
        # A loss of the whole batch compares a text with others of any length.
        bucket = options.bucket and not model.whole_batch_loss
        data = TaskInput(make_features(model), options.batch_size, settings.seed, bucket,
                         model.config.padding_id)
        config = train_config(options, settings, data.steps_per_epoch).replace(
            padding_free=model.backbone.padding_free)
        config.save(os.path.join(self.folder, "train_config.json"))
        rates = ()
        if options.layer_decay:
            rates = layer_rates(model.config, options.layer_decay)
        with strategy.scope():
            rows = occurring_rows(model, data.token_ids())
            optimizer = build_optimizer(config, rates)
        later = {}
        try:
            best = train(model, optimizer, strategy, config, data, None, self.folder,
                         evaluator=lambda: evaluator(model), monitor=monitor, keep_best=True,
                         patience=options.patience, rows=rows)["best"]
        except DivergedError as error:
            if error.best is None:
                raise
            best, later = error.best, {"diverged_later": error.reason}
        finally:
            let_go(strategy, [*model.weights, *optimizer.variables,
                              *([rows.variable] if rows else ())])
        return {"epoch": best.pop("step") // data.steps_per_epoch, "metrics": best, **later}


def train_config(options, settings, steps_per_epoch):
    """Return the `TrainConfig` of a trial: evaluated and saved once an epoch."""
    train_steps = settings.epochs * steps_per_epoch
    return TrainConfig(
        train_steps=train_steps, batch_size=options.batch_size,
        learning_rate=settings.learning_rate,
        warmup_steps=round(options.warmup_ratio * train_steps),
        weight_decay=options.weight_decay, accumulate_steps=options.accumulate_steps or 1,
        dtype=options.dtype, strategy=options.strategy,
        gradient_checkpointing=options.gradient_checkpointing,
        seed=settings.seed, eval_every=steps_per_epoch, checkpoint_every=steps_per_epoch,
        keep_checkpoints=1)


def freeze(model, what):
    """Keep parts of a task's encoder as they are.

    Args:
        model: of a task, with `encoder`.
        what: None; `embeddings`; a number N: the embeddings and the N lowest layers; `all`: the
            whole encoder, but for what of it has only initial weights.

    Raises:
        UsageError: the encoder has fewer layers, they share their weights, or nothing is left to
            train.
    """
    if what is None:
        return
    backbone, config = model.encoder.backbone, model.config
    count = {"embeddings": 0, "all": config.num_hidden_layers}.get(what, what)
    if not 0 <= count <= config.num_hidden_layers:
        raise UsageError(explain(f"--freeze {count}",
                                 f"0 to {config.num_hidden_layers}, the layers of the encoder"))
    blocks = backbone.encoder.blocks
    if len(blocks) < config.num_hidden_layers and 0 < count < config.num_hidden_layers:
        raise UsageError(explain(f"--freeze {count} with layers that share their weights",
                                 attempt="--freeze embeddings or --freeze all"))
    parts = [backbone.embeddings, backbone.embeddings_project, *blocks[:count]]
    if count:  # what layers have in common, and what stands beside the first
        parts += [backbone.encoder.relative, backbone.encoder.neighbours]
    if what == "all":
        fresh = _fresh_parts(model)
        parts += [backbone.encoder.layer_norm]
        parts += [part for part in (backbone.bilstm, backbone.pooler) if part not in fresh]
    for part in parts:
        if part is not None:
            part.trainable = False
    if not model.trainable_variables:
        raise UsageError(explain(f"--freeze {what} leaves nothing to train: the model is its "
                                 "encoder alone", attempt="omitting it, or fewer layers"))


def add_lora(model, rank):
    """Keep a task's encoder as it is but for low-rank additions to its queries' and values' kernels
    (see `Backbone.enable_lora`), and for what of it has only initial weights.

    Args:
        model: of a task, with `encoder`.
        rank: of the additions; None adds none and keeps nothing.

    Raises:
        UsageError: the encoder has no layers.
    """
    if rank is None:
        return
    if not model.config.num_hidden_layers:
        raise UsageError(f"--lora_rank {rank} with a model of family={model.config.family!r}, "
                         "which has no layers to add to; leave --lora_rank out")
    model.backbone.enable_lora(rank)
    for part in _fresh_parts(model):
        for variable in part.weights:
            variable.trainable = True


def _fresh_parts(model):
    """Return what stands above the layers and has only initial weights: BiLSTM, pooler."""
    backbone, fresh = model.backbone, getattr(model, "fresh_variables", ())
    return [part for part in (backbone.bilstm, backbone.pooler) if part is not None
            and any(variable.path in fresh for variable in part.weights)]


def layer_rates(config, decay):
    """Return the factors of the learning rate by variable, for `build_optimizer`.

    A layer learns `decay` times as fast as the one above, the embeddings as those below the first
    layer; what layers share, and a convolution beside the first, as the first one; what is above
    the last layer learns at the full rate (Clark et al. 2020, "ELECTRA", appendix B, layerwise
    learning-rate decay).

    Args:
        config: the encoder's `ModelConfig`.
        decay: in (0, 1].

    Raises:
        UsageError: the layers share their weights.
    """
    layers, family = config.num_hidden_layers, config.family
    if 0 < config.num_hidden_groups < layers:
        raise UsageError("--layer_decay with layers that share their weights; omit it")
    kind = "group" if config.num_hidden_groups else "layer"
    return ((f"^{family}/embeddings", decay ** (layers + 1)),
            (f"^{family}/encoder/(relative_|conv/)", decay ** layers),
            *((f"^{family}/encoder/{kind}_{i}/", decay ** (layers - i)) for i in range(layers)))
