"""Steps a second of a model on this machine, through the step that trains."""

import time

import numpy as np
import tensorflow as tf

from bert_tf.data.made_ahead import made_ahead
from bert_tf.pretrain.run import PretrainingRun
from bert_tf.storage.processor import processor_flags
from bert_tf.training.loop import check_split
from bert_tf.training.memory import let_go
from bert_tf.training.optimizers import build_optimizer
from bert_tf.training.step import initial_loss_scale, make_train_step
from bert_tf.training.strategy import make_batches
from bert_tf.training.weight_average import WeightAverage

_FIRST = 3  # steps that build the graph and what it keeps


def computes_bfloat16():
    """Return whether this machine multiplies bfloat16 faster: GPUs from Ampere on (compute
    capability 8), AVX512-BF16 or AMX."""
    if gpus := tf.config.list_physical_devices("GPU"):
        about = map(tf.config.experimental.get_device_details, gpus)
        return all(each.get("compute_capability", (8,)) >= (8,) for each in about)
    return bool({"avx512_bf16", "amx_bf16"} & processor_flags())


def steps_per_second(options, config, vocab_size, strategy, seconds):
    """Measure the training step on made-up examples of full length.

    Args:
        options: `PretrainConfig`, filled in by `complete`.
        config: the `ModelConfig`.
        vocab_size: entries of the vocabulary, instead of the configuration's.
        strategy: from `make_strategy`.
        seconds: how long to measure, after the first steps.

    Returns: float.

    Raises:
        UsageError: a batch does not divide among the replicas.
    """
    tf.config.experimental.enable_op_determinism()  # as in the run
    config = config.replace(vocab_size=vocab_size,
                            padding_id=min(config.padding_id, vocab_size - 1))
    train_config = options.train_config()
    if options.batch_tokens:
        parts = strategy.num_replicas_in_sync * train_config.accumulate_steps
        size = max(1, round(options.batch_tokens / options.max_seq_length / parts)) * parts
        train_config = train_config.replace(batch_size=size)
    check_split(train_config, strategy)
    options = options.replace(init=None, masked_lm_first=0.0)
    run = PretrainingRun(options, config, train_config, strategy)
    variables = []
    try:
        with strategy.scope():
            model = run.build_model(config, train_config)
            variables += model.weights
            optimizer = build_optimizer(train_config)
            optimizer.build(model.trainable_variables)
            variables += optimizer.variables
            average = None
            if train_config.ema_decay:
                average = WeightAverage(model.trainable_variables, train_config.ema_decay)
                variables += average.variables
        step = make_train_step(model, optimizer, strategy, train_config, average)
        iterator = iter(make_batches(strategy, lambda num_replicas, replicas: _examples(
            options, config, train_config.batch_size // num_replicas)))
        return _rate(step, iterator, initial_loss_scale(train_config), seconds)
    finally:
        let_go(strategy, variables)  # another model is trained in this process


def _rate(step, iterator, scale, seconds):
    """Return how many steps a second takes, the first ones left out."""
    count, started = -_FIRST, time.perf_counter()
    while count < 1 or time.perf_counter() - started < seconds:
        results, scale = step(iterator, tf.constant(np.int64(count + _FIRST)),
                              tf.constant(False), scale)
        results["loss"].numpy()
        count += 1
        if count <= 0:
            started = time.perf_counter()
    return count / (time.perf_counter() - started)


def _examples(options, config, size):
    """Return endless batches of `size` random examples of full length."""
    length = options.max_seq_length
    predicted = options.max_predictions_per_seq or max(1, round(length * options.masked_lm_prob))
    random = np.random.default_rng(0)
    batch = {"input_word_ids": random.integers(0, config.vocab_size, [size, length]),
             "input_mask": np.ones([size, length]), "input_type_ids": np.zeros([size, length])}
    if options.objective != "lm":
        batch |= {"masked_lm_positions": np.sort(random.integers(0, length, [size, predicted])),
                  "masked_lm_ids": random.integers(0, config.vocab_size, [size, predicted])}
    labels = {"mlm+nsp": "next_sentence_labels", "mlm+sop": "sentence_order_labels"}
    if options.objective in labels:
        batch[labels[options.objective]] = random.integers(0, 2, [size])
    batch = {name: value.astype(np.int32) for name, value in batch.items()}
    if options.objective != "lm":
        batch["masked_lm_weights"] = np.ones([size, predicted], np.float32)
    endless = tf.data.Dataset.from_tensors({**batch, "first_example": np.int64(0)}).repeat()
    return made_ahead(endless, lambda each: each, 2)
