"""What a fine-tuning step costs with the rows of the table that occur, and with the whole table.

    python benchmarks/occurring_rows.py

A classifier of all-MiniLM-L6-v2's sizes on CoLA's train sentences, 32 a step; `--vocab_sizes` are
rows of its table, the usual ones those of MiniLM and of XLM-R. Weights are drawn: what a step costs
does not depend on them. Both ways take the same steps in turn, in this process; medians count. The
memory is that of the variables: weights, moments and gradients.
"""

import os
import statistics
import sys
import tempfile
import time

import minilm
import numpy as np
import tensorflow as tf
from speed.report import Targets, benchmark_parser, finish

from bert_tf.config import ModelConfig
from bert_tf.data.task_input import TaskInput
from bert_tf.models.trained_rows import occurring_rows
from bert_tf.tasks.base.text_features import text_features
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.registry import read_task
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.training.config import TrainConfig
from bert_tf.training.optimizers import build_optimizer
from bert_tf.training.step import make_train_step

LABELS = ["0", "1"]
WARM_UP = 3  # steps that do not count


def side(config, features, arguments, dtype, of_rows):
    """`(step, numbers)`: a function that takes the next step and gives its seconds, and how many
    numbers the variables, moments and gradients hold."""
    settings = TrainConfig(batch_size=arguments.batch_size, dtype=dtype, train_steps=10**6,
                           strategy="one_device")
    model = Classifier(config, LABELS, dtype=settings.policy, seed=1)
    model.backbone.padding_free = False
    data = TaskInput(features, arguments.batch_size, seed=1, pad_id=config.padding_id)
    rows = occurring_rows(model, data.token_ids()) if of_rows else None
    trained = rows.trained(model.trainable_variables) if rows else model.trainable_variables
    optimizer = build_optimizer(settings)
    optimizer.build(trained)
    batches = iter(data.dataset())
    train = make_train_step(model, optimizer, tf.distribute.get_strategy(), settings, rows=rows)
    done = 0

    def step():
        nonlocal done
        start = time.perf_counter()
        results, _ = train(batches, tf.constant(done, tf.int64), tf.constant(False), {})
        float(results["loss"])
        done += 1
        return time.perf_counter() - start

    numbers = model.count_params() + 3 * sum(int(np.prod(each.shape)) for each in trained)
    return step, numbers + (int(np.prod(rows.variable.shape)) if rows else 0)


def measure(config, features, arguments, dtype):
    """`{"whole", "rows"}`, each `{"ms", "mb"}`."""
    sides = {name: side(config, features, arguments, dtype, name == "rows")
             for name in ("whole", "rows")}
    seconds = {name: [] for name in sides}
    for number in range(WARM_UP + arguments.steps):
        for name, (step, _) in sides.items():
            took = step()
            if number >= WARM_UP:
                seconds[name].append(took)
    return {name: {"ms": 1000 * statistics.median(seconds[name]), "mb": numbers * 4 / 1e6}
            for name, (_, numbers) in sides.items()}


def main():
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--shared", default="../shared", help="folder with the data (default: ../shared)")
    add("--vocab_sizes", type=int, nargs="+", default=[30522, 250002], metavar="N")
    add("--dtypes", nargs="+", choices=("float32", "bfloat16"), default=["float32", "bfloat16"])
    add("--batch_size", type=int, default=32, help="default: 32")
    add("--steps", type=int, default=40, help="default: 40")
    arguments = parser.parse_args()
    targets, results = Targets(), {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.path.join(temporary, "model")
        minilm.convert(folder)
        config = ModelConfig.load(os.path.join(folder, "model_config.json"))
        features = text_features(
            read_task("cola", os.path.join(arguments.shared, "data/cola/in_domain_train.tsv")),
            TextPreprocessor(load_tokenizer(folder), 128), LABELS, "single_label")
    occurring = len(np.unique(features.rows["input_word_ids"].values))
    print(f"{occurring:,} rows occur")
    for size in arguments.vocab_sizes:
        for dtype in arguments.dtypes:
            found = measure(config.replace(vocab_size=size), features, arguments, dtype)
            results[f"{size} {dtype}"] = found
            for name, row in found.items():
                print(f"{size:9,} {dtype:10}{name:8}{row['ms']:9.1f} ms{row['mb']:9.0f} MB")
            for what in ("ms", "mb"):
                targets.check(f"{size:,} {dtype}: {what} by that of the whole table",
                              found["rows"][what] / found["whole"][what])
    return finish("occurring_rows", arguments, targets, occurring=occurring, results=results)


if __name__ == "__main__":
    sys.exit(main())
