"""What does an option of pre-training give in the same time? Held-out losses of small models.

    python benchmarks/pretraining_budget.py --input reviews.txt.gz [--minutes 4] [--only adamw muon]

A vocabulary of 8,000 is learned once from the first `--lines` lines, each a document of its own.
Every row is a model of `--layers` of `--hidden_size` (ReLU, no dropout) that predicts masked tokens
of full rows of `--max_seq_length`, 2,048 tokens a step. A row has as many steps as its own speed,
measured first, allows in `--minutes` of training; `--clock cpu` counts processor time instead, for
a machine that others use as well. All are measured on the same masked tokens of held-out rows of
whole sentences.
"""

import contextlib
import gzip
import itertools
import os
import sys
import tempfile
import time

import tensorflow as tf
from speed.report import Targets, benchmark_parser, finish

from bert_tf import learn_vocab
from bert_tf.config import ModelConfig
from bert_tf.load import from_pretrained
from bert_tf.pretrain.complete import complete
from bert_tf.pretrain.config import PretrainConfig
from bert_tf.pretrain.run import PretrainingRun
from bert_tf.training.evaluate import Evaluator
from bert_tf.training.memory import let_go
from bert_tf.training.optimizers import build_optimizer
from bert_tf.training.step import initial_loss_scale, make_train_step
from bert_tf.training.strategy import make_batches, make_strategy
from bert_tf.training.weight_average import WeightAverage

SIZES = {"family": "bert", "vocab_size": 8000, "max_position_embeddings": 64, "hidden_act": "relu",
         "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
COMMON = {"objective": "mlm", "format": "full_sentences", "split": "none", "max_seq_length": 64,
          "batch_size": 32, "dtype": "bfloat16", "holdout": 0.01, "learning_rate": 1e-3,
          "strategy": "one_device", "num_processes": 1, "eval_every": 10**9,
          "checkpoint_every": 10**9, "checkpoint_minutes": 0}
_MODERN = {"norm_position": "pre", "feed_forward": "gated", "use_bias": False,
           "relative_position": "rotary", "position_embedding": "none"}
_MODERNBERT = {"family": "modernbert", "feed_forward": "gated", "hidden_act": "gelu"}
_WIDER = {"initializer_range": 0.06}
# Flags that differ from COMMON; `model`: fields that differ from SIZES; `shallow`: the fraction of
# the time for a model of half the layers, which are then stacked.
ROWS = {
    "adamw": {},
    "beta_2": {"beta_2": 0.98},
    "cosine": {"schedule": "cosine"},
    "trapezoid": {"schedule": "trapezoid"},
    "muon": {"optimizer": "muon"},
    "lion": {"optimizer": "lion", "learning_rate": 2e-4},
    "lamb": {"optimizer": "lamb", "learning_rate": 5e-3},
    "falling": {"masked_lm_prob": 0.3, "final_masked_lm_prob": 0.15},
    "average": {"ema_decay": 0.99},
    "causal": {"causal_fraction": 0.25},
    "stack": {"shallow": 0.4},
    # 0.02 is for 768 units; narrow models stay long with the frequencies of tokens.
    "wider_init": {"model": {"initializer_range": 0.08}},
    "wider_init_muon": {"optimizer": "muon", "model": {"initializer_range": 0.08}},
    "pre_ln": {"model": {"norm_position": "pre"}},
    "rotary": {"model": {"relative_position": "rotary", "position_embedding": "none"}},
    "modern": {"model": _MODERN},
    "modern_causal": {"causal_fraction": 0.25, "model": _MODERN},
    "modern_wider": {"model": {**_MODERN, **_WIDER}},
    "modernbert": {"model": _MODERNBERT},
    "modern_wider_muon": {"optimizer": "muon", "learning_rate": 2e-3,
                          "model": {**_MODERN, **_WIDER}},
    "modernbert_packed": {"format": "packed", "model": _MODERNBERT},
    # Rows of one review: beside "padding_free" only.
    "padded": {"format": "doc_sentences"},
    "padding_free": {"format": "doc_sentences", "padding_free": True},
}
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
_WARM_UP = 3  # steps before those that are timed


def prepare(strategy, text, vocab, folder, flags, fields):
    """Make a run up to its examples; a `PretrainingRun`."""
    if "init" not in flags:
        flags = {**flags, "vocab": vocab, "config": f"{folder}.json"}
        ModelConfig.from_dict(fields).save(flags["config"])
    options, config = complete(PretrainConfig(
        input=text, output_dir=folder, export_dir=f"{folder}_exported", overwrite=True,
        discard_checkpoints=True, **{**COMMON, **flags}))
    run = PretrainingRun(options, config, options.train_config(), strategy)
    inputs = run.read_inputs()
    resumes = run.claim(inputs)
    if options.init:
        run.init_folder()
    run.make_vocabulary(inputs, resumes)
    run.make_examples(inputs)
    return run


def seconds_per_step(run, clock, seconds):
    """Time steps of a run for so many seconds."""
    config, train_config = run.final_configs()
    with run.strategy.scope():
        model = run.build_model(config, train_config)
        optimizer = build_optimizer(train_config)
        optimizer.build(model.trainable_variables)
        average = None
        if train_config.ema_decay:
            average = WeightAverage(model.trainable_variables, train_config.ema_decay)
    data = run.input_data("train", train_config)
    iterator = iter(make_batches(run.strategy, lambda num_replicas, replicas: data.dataset(
        num_replicas=num_replicas, replicas=replicas)))
    step = make_train_step(model, optimizer, run.strategy, train_config, average)
    for number in itertools.count():
        if number == _WARM_UP:
            start = clock()
        results, _ = step(iterator, tf.constant(number, tf.int64), tf.constant(False),
                          initial_loss_scale(train_config))
        float(results["loss"])
        if number > _WARM_UP and clock() - start >= seconds:
            break
    passed = (clock() - start) / (number + 1 - _WARM_UP)
    let_go(run.strategy, [*model.weights, *optimizer.variables])
    return passed


def train(arguments, strategy, text, vocab, folder, flags, fields, minutes, evaluations=1):
    """Train one model for so many minutes, evaluated so often; what there is to say of it."""
    clock = CLOCKS[arguments.clock]
    run = prepare(strategy, text, vocab, folder, {**flags, "train_steps": 1000}, fields)
    each = seconds_per_step(run, clock, min(arguments.probe, 15 * minutes))
    steps = max(10, round(60 * minutes / each))
    run = prepare(strategy, text, vocab, folder, {
        **flags, "train_steps": steps, "eval_every": -(-steps // evaluations)}, fields)
    started = {name: now() for name, now in CLOCKS.items()}
    metrics = run.train()
    return {"steps": steps, "seconds_per_step": each, "metrics": metrics,
            **{f"{name}_minutes": (now() - started[name]) / 60 for name, now in CLOCKS.items()}}


class Measure:
    """Losses of models on the held-out rows of one run, of which it masks some tokens."""

    def __init__(self, run, strategy):
        _, self.config = run.final_configs()
        self.data = run.input_data("eval", self.config)
        self.strategy = strategy

    def __call__(self, path):
        """The loss and the accuracy of the model in a folder of any format."""
        with self.strategy.scope():
            model = from_pretrained(path)
        metrics = Evaluator(model, self.strategy, self.data, self.config.seed)()
        let_go(self.strategy, model.weights)
        return {name: metrics[f"masked_lm_{name}"] for name in ("loss", "accuracy")}


def sizes(arguments, fields):
    """All fields of a model, of those in which it differs."""
    hidden = arguments.hidden_size
    # With two thirds of the units a gated network has as many weights; 64 of bfloat16 are aligned.
    inner = 8 * hidden // 3 // 64 * 64 if fields.get("feed_forward") == "gated" else 4 * hidden
    return {**SIZES, "hidden_size": hidden, "num_hidden_layers": arguments.layers,
            "num_attention_heads": max(1, hidden // 64), "intermediate_size": inner, **fields}


def positions(arguments, fields):
    """All fields of a model of rows of the length that is asked for."""
    return {**sizes(arguments, fields), "max_position_embeddings": arguments.max_seq_length}


def train_row(arguments, strategy, text, vocab, folder, name):
    """Train the model of a row; what there is to say of it."""
    flags = {**common(arguments), **ROWS[name]}
    model = ROWS[arguments.like].get("model", {}) | flags.pop("model", {})
    fields, shallow = positions(arguments, model), flags.pop("shallow", 0)
    run = os.path.join(folder, name)
    if not shallow:
        return train(arguments, strategy, text, vocab, run, flags, fields, arguments.minutes)
    half = {**fields, "num_hidden_layers": arguments.layers // 2}
    first = train(arguments, strategy, text, vocab, f"{run}_half", flags, half,
                  shallow * arguments.minutes)
    second = train(arguments, strategy, text, vocab, run,
                   {**flags, "init": os.path.join(f"{run}_half", "model"), "stack": 2}, fields,
                   (1 - shallow) * arguments.minutes)
    times = {key: first[key] + second[key] for key in second if key.endswith("minutes")}
    return {**second, **times, "shallow_steps": first["steps"]}


def common(arguments):
    """The flags of all rows, of a length and type that are asked for."""
    tokens, length = COMMON["batch_size"] * COMMON["max_seq_length"], arguments.max_seq_length
    return {**COMMON, "max_seq_length": length, "batch_size": max(1, tokens // length),
            "dtype": arguments.dtype}


def first_lines(path, count, output):
    """Write the first lines of a text, also of a `.gz`."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as lines, open(output, "w", encoding="utf-8") as made:
        made.writelines(itertools.islice(lines, count))


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--input", required=True, help="text, a document a line; also .gz")
    parser.add_argument("--lines", type=int, default=100_000, help="(default: 100000)")
    parser.add_argument("--layers", type=int, default=4, help="(default: 4)")
    parser.add_argument("--hidden_size", type=int, default=256, help="(default: 256)")
    parser.add_argument("--max_seq_length", type=int, default=COMMON["max_seq_length"],
                        help="of as many fewer rows a step where longer (default: 64)")
    parser.add_argument("--dtype", default=COMMON["dtype"], help="(default: bfloat16)")
    parser.add_argument("--minutes", type=float, default=4.0, help="of a row (default: 4)")
    parser.add_argument("--probe", type=float, default=15.0,
                        help="seconds in which the speed of a row is measured (default: 15)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--only", choices=ROWS, nargs="+", default=list(ROWS))
    parser.add_argument("--like", choices=ROWS, default="adamw",
                        help="the row whose model all have, where they name no other")
    parser.add_argument("--folder", help="where runs stay (default: a temporary folder)")
    arguments = parser.parse_args()
    strategy, rows = make_strategy(COMMON["strategy"], 1), {}
    print(f"{'row':14}{'held-out loss':>14}{'accuracy':>10}{'steps':>8}{'ms/step':>9}"
          f"{'min wall':>10}{'min cpu':>9}", flush=True)
    with (contextlib.nullcontext(arguments.folder) if arguments.folder
          else tempfile.TemporaryDirectory()) as folder:
        os.makedirs(folder, exist_ok=True)
        text, vocab = os.path.join(folder, "text.txt"), os.path.join(folder, "vocab", "vocab.txt")
        first_lines(arguments.input, arguments.lines, text)
        with contextlib.redirect_stdout(sys.stderr):
            learn_vocab(input=text, output=vocab, vocab_size=SIZES["vocab_size"], overwrite=True)
            measure = Measure(prepare(
                strategy, text, vocab, os.path.join(folder, "measured"),
                {**common(arguments), "train_steps": 1000}, positions(arguments, {})), strategy)
        for name in arguments.only:
            with contextlib.redirect_stdout(sys.stderr):
                row = train_row(arguments, strategy, text, vocab, folder, name)
                row |= measure(os.path.join(folder, name, "model"))
            rows[name] = row
            print(f"{name:18}{row['loss']:10.4f}{row['accuracy']:10.4f}{row['steps']:8}"
                  f"{1000 * row['seconds_per_step']:9.1f}{row['wall_minutes']:10.2f}"
                  f"{row['cpu_minutes']:9.2f}", flush=True)
    return finish("pretraining_budget", arguments, Targets(), rows=rows,
                  flags_of_rows={name: ROWS[name] for name in rows}, common=common(arguments),
                  sizes=sizes(arguments, {}))


if __name__ == "__main__":
    raise SystemExit(main())
