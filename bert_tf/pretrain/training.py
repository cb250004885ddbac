"""A training of a pre-training run: the model of an objective, its examples, its folder."""

import os

import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.data.create import MANIFEST
from bert_tf.data.pretraining_input import PretrainingInput, examples_per_batch, explained_errors
from bert_tf.errors import UsageError, explain
from bert_tf.models.pretrained import CONFIG
from bert_tf.presets import generator_config
from bert_tf.pretrain.baselines import baselines
from bert_tf.saved_model.source import RESULTS, marks, read_results
from bert_tf.storage import checksums, files, manifest
from bert_tf.tasks.pretrained import from_pretrained, read_saved_task
from bert_tf.tasks.registry import model_classes
from bert_tf.training.config import TrainConfig
from bert_tf.training.loop import train
from bert_tf.training.memory import MODEL, explained_want_of_memory, let_go
from bert_tf.training.optimizers import build_optimizer
from bert_tf.training.run_folder import RunFolder
from bert_tf.training.strategy import barrier, explained_loss_of_workers, is_chief

# The model of each objective: its task, and options of that.
_MODELS = {"mlm": ("pretraining", {"sentence_task": None}),
           "mlm+nsp": ("pretraining", {"sentence_task": "next_sentence"}),
           "mlm+sop": ("pretraining", {"sentence_task": "sentence_order"}),
           "rtd": ("replaced_tokens", {}),
           "lm": ("language_model", {})}


class Training(RunFolder):
    """Base of what trains a model for `options.objective` in its folder.

    Subclasses have `tokenizer`, and `init_folder` where there is `--init`.

    Args:
        options: `PretrainConfig`, checked and filled in by `complete`.
        config: the `ModelConfig`; its `vocab_size` yields to the vocabulary's.
        train_config: the `TrainConfig`; its `batch_size` yields to `options.batch_tokens`.
        strategy: from `make_strategy`.
    """

    first_step = 0  # where the examples begin, in steps

    def __init__(self, options, config, train_config, strategy):
        super().__init__(options, strategy)
        self.config = config
        self.train_config = train_config
        self.is_chief = is_chief(strategy)

    def data(self, *names):
        """Return a path in the folder of the examples."""
        return self.path("data", *names)

    def start(self):
        """The model folder that training starts from; None for random weights."""
        return self.init_folder() if self.options.init else None

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
            print("held out: nothing, the text has too few documents; there is no evaluation")
        try:
            with explained_errors():
                trained = train(model, optimizer, self.strategy, train_config,
                                self.input_data("train", train_config), held_out, self.path(),
                                rows=rows, finish_now=self.options.finish_now)
                metrics = trained["evaluation"] or {}
                if held_out:
                    made = manifest.read(self.data(MANIFEST))
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
        """The model of the objective, with the weights of `start`."""
        start = self.start()
        task, options = _MODELS[self.options.objective]
        options = {**options, "dtype": train_config.policy, "seed": train_config.seed}
        if task == "replaced_tokens":
            saved = read_saved_task(start, {}).get("generator") if start else None
            options["generator"] = saved or generator_config(config, self.options.preset)
        if start:
            model = from_pretrained(start, task, config=config.to_dict(), **options)
            if model.fresh_variables and not self.options.masked_lm_first:
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
        return PretrainingInput(self.data(), split,
                                batch_size=train_config.batch_size // parts,
                                seed=train_config.seed,
                                objective=objective if objective in ("rtd", "lm") else None,
                                eval_examples=self.options.eval_examples,
                                max_predictions_per_seq=self.options.max_predictions_per_seq,
                                final_masked_lm_prob=self.options.final_masked_lm_prob,
                                causal_fraction=self.options.causal_fraction,
                                train_steps=self.options.train_steps,
                                first_step=self.first_step)

    def has_held_out(self):
        """Whether there are held-out examples."""
        made = manifest.read(self.data(MANIFEST))
        return made["splits"]["eval"]["num_examples"] > 0

    def final_configs(self):
        """Both configurations, now that vocabulary and examples are there; written as well."""
        made = manifest.read(self.data(MANIFEST))
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
        for folder in self.CHECKPOINTS:
            if files.list_folder(self.path(folder)):
                beside = os.path.join(os.path.dirname(folder), "train_config.json")
                return TrainConfig.load(self.path(beside)).batch_size
        return None

    def is_trained(self):
        """Whether the model is there, trained and measured."""
        return (files.exists(self.path(RESULTS))
                and read_results(self.path()).get("run") == self.mark())

    def note_results(self, metrics):
        """Note that the model is there; on the chief alone."""
        checksums.write_sealed(self.path(RESULTS), {**marks(self.path(), self.mark()),
                                                    "metrics": metrics})
