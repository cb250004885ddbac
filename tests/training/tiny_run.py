"""A tiny pre-training model and made-up data with the interfaces that `train` asks for."""

import json

import numpy as np
import tensorflow as tf

from bert_tf.config import ModelConfig

VOCAB, LENGTH, PREDICTIONS = 50, 12, 4


def examples(positions):
    """Examples at global `positions`: lengths, and numbers of predictions, differ widely."""
    rows = {name: [] for name in ("input_word_ids", "input_mask", "input_type_ids",
                                  "masked_lm_positions", "masked_lm_ids", "masked_lm_weights",
                                  "next_sentence_labels")}
    for position in positions:
        random = np.random.default_rng(position)
        real = random.integers(4, LENGTH + 1)
        mask = np.arange(LENGTH) < real
        rows["input_word_ids"].append(random.integers(5, VOCAB, LENGTH) * mask)
        rows["input_mask"].append(mask)
        rows["input_type_ids"].append((np.arange(LENGTH) > real // 2) & mask)
        rows["masked_lm_positions"].append(random.integers(0, real, PREDICTIONS))
        rows["masked_lm_ids"].append(5 + random.integers(0, VOCAB - 5, PREDICTIONS) // 9 * 9)
        rows["masked_lm_weights"].append(np.arange(PREDICTIONS) < random.integers(1, 5))
        rows["next_sentence_labels"].append(random.integers(0, 2))
    return {name: np.asarray(values, np.float32 if name.endswith("weights") else np.int32)
            for name, values in rows.items()}


class MadeUpInput:
    """The `dataset` interface of pre-training input over endless made-up examples."""

    def __init__(self, batch_size, num_examples=None):
        self.batch_size = batch_size
        self.num_examples = num_examples

    def dataset(self, start_step=0, num_replicas=1, replicas=(0,)):
        share = self.batch_size // num_replicas

        def batches():
            step = start_step
            while self.num_examples is None or step * self.batch_size < self.num_examples:
                for replica in replicas:
                    first = step * self.batch_size + replica * share
                    batch = examples(range(first, first + share))
                    if self.num_examples is not None:
                        inside = np.arange(first, first + share) < self.num_examples
                        batch["example_weights"] = inside.astype(np.float32)
                    yield {**batch, "first_example": np.int64(first)}
                step += 1

        signature = tf.nest.map_structure(
            lambda value: tf.TensorSpec(np.shape(value), np.asarray(value).dtype),
            next(iter(batches())))
        return tf.data.Dataset.from_generator(batches, output_signature=signature)


def build_model(dropout=0.0, dtype="float32", task="pretraining"):
    """A model of one layer for a task of `TASKS` that pre-trains."""
    from bert_tf.presets import generator_config
    from bert_tf.tasks.registry import model_classes

    family = {"pretraining": "bert", "replaced_tokens": "electra", "language_model": "gpt"}[task]
    config = ModelConfig.from_dict({
        "family": family, "vocab_size": VOCAB, "hidden_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": LENGTH,
        "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout,
        # Small weights give the attention of some hardly any gradient.
        "initializer_range": 0.02 if family == "bert" else 0.2})
    options = {"generator": generator_config(config, "base")} if family == "electra" else {}
    return model_classes()[task](config, dtype=dtype, seed=3, **options)


class Tiny:
    """Trains the tiny model in folders of `root`."""

    def __init__(self, root):
        self.root = root

    def model(self, *options):
        return build_model(*options)

    def input(self, num_examples=None):
        return MadeUpInput(16, num_examples)

    def train(self, name, strategy="mirrored", dropout=0.0, schedule=None, data=None,
              eval_data=None, eval_examples=None, task="pretraining", prepare=None, judge=None,
              judging=None, **fields):
        """Train in the folder `name`, or go on there; weights by path, and the result.

        `prepare(model)` is called before the optimizer is made, `judge(model)` gives an evaluator;
        `judging` are further arguments of `train`.
        """
        from bert_tf.training.config import TrainConfig
        from bert_tf.training.loop import train
        from bert_tf.training.optimizers import build_optimizer
        from bert_tf.training.strategy import make_strategy

        config = TrainConfig(**{"batch_size": 16, "log_every": 1, "strategy": strategy,
                                "learning_rate": 1e-3, **fields})
        strategy = make_strategy(strategy)
        with strategy.scope():
            model = build_model(dropout, config.policy, task)
            if prepare is not None:
                prepare(model)
            optimizer = build_optimizer(config)
            if schedule is not None:
                optimizer = type(optimizer)(schedule)
        result = train(model, optimizer, strategy, config, data or self.input(),
                       self.input(eval_examples) if eval_examples else eval_data,
                       str(self.root / name), evaluator=judge and judge(model),
                       **(judging or {}))
        return {v.path: v.numpy() for v in model.weights}, result

    def lines(self, name):
        text = (self.root / name / "metrics.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def logged(self, name, key, split="train"):
        return [line[key] for line in self.lines(name) if line.get("split") == split]
