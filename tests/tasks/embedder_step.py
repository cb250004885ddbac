"""A small embedder, queries for it, and one step of its training; a worker's step as a program.

    python embedder_step.py RESULT

is one worker of those that TF_CONFIG names, and writes RESULT/INDEX.npz.
"""

import json
import os
import random
import sys

import numpy as np
import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.data.task_input import TaskInput
from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.features import query_features
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.training.config import TrainConfig
from bert_tf.training.optimizers import build_optimizer
from bert_tf.training.step import make_train_step
from bert_tf.training.strategy import make_batches, make_strategy

WORDS = [f"w{number}" for number in range(20)]
CONFIG = ModelConfig(vocab_size=25, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                     intermediate_size=32, max_position_embeddings=12, initializer_range=0.3,
                     hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)


def make(kind=SentenceEmbedder, **options):
    preprocessor = TextPreprocessor(Tokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS])), 12)
    return kind(CONFIG, preprocessor=preprocessor, seed=3, **options)


def text(draw):
    return " ".join(draw.choice(WORDS, draw.integers(1, 9)))


def queries(count, seed=0):
    """Queries with a positive, which some share, and none to two hard negatives."""
    draw = np.random.default_rng(seed)
    positives = [text(draw) for _ in range(count - 2)]
    return [QueryExample(str(number), text(draw), (positives[number % len(positives)],),
                         tuple(text(draw) for _ in range(number % 3)))
            for number in range(count)]


def write_pairs(path):
    """Write queries, and positives that are their queries in other words."""
    draw, lines = random.Random(1), ["query\tpositive"]
    for _ in range(192):
        query = draw.sample(range(10), 4)
        lines.append(" ".join(WORDS[i] for i in query) + "\t" + " ".join(
            WORDS[i + 10] for i in query))
    path.write_text("\n".join(lines) + "\n")


def one_step(strategy, accumulate_steps=1, loss=None, kind=SentenceEmbedder):
    """The loss, the gradient's norm and the weights after a step on 14 queries in a batch of 16."""
    loss = loss or kind.loss_class(loss="in_batch", two_sided=True)
    with strategy.scope():
        model = make(kind, training_loss=loss)
        config = TrainConfig(train_steps=5, batch_size=16, accumulate_steps=accumulate_steps,
                             optimizer="lamb", learning_rate=1e-2)
        optimizer = build_optimizer(config)
        optimizer.build(model.trainable_variables)
    data = TaskInput(query_features(queries(14), model, loss), 16, 5, False)
    batches = iter(make_batches(strategy, lambda replicas, own: data.dataset(0, replicas, own)))
    step = make_train_step(model, optimizer, strategy, config)
    results, _ = step(batches, tf.constant(0, tf.int64), tf.constant(False), {})
    return (float(results["loss"]), float(results["gradient_norm"]),
            {variable.path: variable.numpy() for variable in model.weights})


def main(result):
    loss, norm, weights = one_step(make_strategy("multi_worker"))
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    np.savez(os.path.join(result, f"{index}.npz"), loss=loss, norm=norm, **weights)


if __name__ == "__main__":
    main(sys.argv[1])
