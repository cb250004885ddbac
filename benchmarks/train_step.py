"""A step of masked-token prediction, its time and its memory: bert_tf beside other packages.

    python benchmarks/train_step.py --hf_python PYTHON

BERT-Base of 6 layers, full batches of 32 × 128 with 20 predictions a row, dropout 0.1, AdamW with
float32 weights and gradients clipped to norm 1; drawn weights and tokens, the same for all. Every
side is a process of its own; in each round all make some steps, one side after the other, and
medians of all steps count. Beside them stands the ceiling, TensorFlow's matrix products of the
same layers alone, of the forward pass for as many tokens.

Memory is the largest resident set of a side's process: with all its libraries, and what came on
top of these by weights, optimizer and steps. So this is the benchmark of memory, too. All sides
together take 17 GB, in float32 20 GB. With --gradient_checkpointing two sides more recompute the
layers' activations in the backward pass instead of keeping them.
"""

import math
import statistics
import sys

import numpy as np
from speed.arithmetic import product_flops, training_flops
from speed.report import Targets, benchmark_parser, finish
from speed.workers import Workers, add_flags

from bert_tf.presets import preset

PEERS = ("keras-nlp", "tf-models-official", "transformers")
SIDES = ("bert_tf", "products", *PEERS)
AGAIN = "gradient_checkpointing"
LEAST_TO_PEER, LEAST_OF_PRODUCTS, MOST_MEMORY = 1.25, 0.6, 0.9
LOSS_MARGIN = 1.0  # nats, by which the first loss may differ from that of a guess


def measure(arguments, config):
    """`{"versions", "left_out", "sides"}`, the latter `{side: figures}`."""
    batches = {"rows": arguments.batch_size, "length": arguments.seq_length,
               "predictions": arguments.predictions}
    common = {"config": config, "dtype": arguments.dtype, **batches}
    sides = {side: {**common, "options": {}} for side in SIDES}
    if arguments.gradient_checkpointing:
        sides |= {f"{side}, {AGAIN}": {**common, "options": {AGAIN: True}}
                  for side in ("bert_tf", "transformers")}
    with Workers("train_step", sides, arguments) as workers:
        turns = {side: [] for side in workers.names}
        for number in range(arguments.rounds):
            for side in turns:
                turns[side].append(workers.ask(side, "measure", steps=arguments.steps))
            print(f"round {number + 1} of {arguments.rounds} is done", flush=True)
        memory = {side: workers.ask(side, "memory") for side in turns}
    tokens = arguments.batch_size * arguments.seq_length
    figures = {}
    for side, rounds in turns.items():
        seconds = [each for turn in rounds for each in turn["seconds"]]
        flops = product_flops(config, tokens) if side == "products" else training_flops(
            config, **batches)
        median = statistics.median(seconds)
        figures[side] = {"seconds": median, "gflops": flops / median / 1e9,
                         "tokens_per_second": tokens / median, **memory[side],
                         "losses": [each for turn in rounds for each in turn["losses"]],
                         "steps": seconds}
    return {"versions": workers.versions, "left_out": workers.left_out, "sides": figures}


def check(figures, config, targets):
    """Print the figures, and hold ours to what it is to be."""
    for side, row in figures.items():
        print(f"{side:36}{1000 * row['seconds']:9.0f} ms{row['gflops']:8.0f} GFLOP/s", end="")
        if side != "products":
            print(f"{row['tokens_per_second']:9,.0f} tokens/s, memory {row['peak'] / 1e6:,.0f} MB, "
                  f"libraries {row['libraries'] / 1e6:,.0f} MB of it, loss "
                  f"{row['losses'][0]:.3f} to {min(row['losses']):.3f}", end="")
        print()
    ours = figures["bert_tf"]
    targets.check("GFLOP/s by those of products", ours["gflops"] / figures["products"]["gflops"],
                  least=LEAST_OF_PRODUCTS)
    peers = [side for side in PEERS if side in figures]
    for side in ("bert_tf", *peers):
        targets.check(f"first loss of {side} beside that of a guess",
                      figures[side]["losses"][0] - math.log(config["vocab_size"]),
                      least=-LOSS_MARGIN, most=LOSS_MARGIN)
        targets.check(f"lowest later loss of {side} by the first one",
                      np.min(figures[side]["losses"][1:]) / figures[side]["losses"][0], most=1.0)
    for side in peers:
        targets.check(f"steps/s by those of {side}", figures[side]["seconds"] / ours["seconds"],
                      least=LEAST_TO_PEER)
        targets.check(f"peak memory by that of {side}", ours["peak"] / figures[side]["peak"],
                      most=MOST_MEMORY)
        targets.check(f"the same without libraries by that of {side}",
                      (ours["peak"] - ours["libraries"])
                      / (figures[side]["peak"] - figures[side]["libraries"]))
    for side in ("bert_tf", *peers):
        if again := figures.get(f"{side}, {AGAIN}"):
            for what in ("peak", "seconds"):
                targets.check(f"{what} of {side} with {AGAIN} by that without",
                              again[what] / figures[side][what])


def main():
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--dtype", choices=("bfloat16", "float32"), default="bfloat16",
        help="of the computation (default: bfloat16)")
    add("--rounds", type=int, default=4, help="default: 4")
    add("--steps", type=int, default=3,
        help="of a turn, which begins with one that does not count (default: 3)")
    add("--layers", type=int, default=6, help="fewer than 6 for a trial")
    add("--batch_size", type=int, default=32)
    add("--seq_length", type=int, default=128)
    add("--predictions", type=int, default=20, help="of a row")
    add("--gradient_checkpointing", action="store_true", help="with two sides that do so")
    add_flags(parser)
    arguments = parser.parse_args()
    config = preset("bert", "base", num_hidden_layers=arguments.layers).to_dict()
    results, targets = measure(arguments, config), Targets()
    check(results["sides"], config, targets)
    return finish(f"train_step_{arguments.dtype}", arguments, targets, **results)


if __name__ == "__main__":
    sys.exit(main())
