"""What pre-training should reach on accelerators, from floating-point operations and bytes.

    python benchmarks/predict.py --chip A100 --seq_length 512 --batch_size 32

Nothing is measured here: a step takes the time of its matrix products at a share of the chip's peak
(`--efficiency`), plus that of reading and writing what the other operations touch at the memory's
rate, plus summing the gradients over a ring where it does not fit behind the backward pass. The
chips' figures are their makers' data sheets'. The numbers are for planning; check them with
`benchmarks/train_step.py` on the machine itself.
"""

import argparse
import dataclasses

from bert_tf.presets import preset


@dataclasses.dataclass(frozen=True)
class Chip:
    """Peak of bfloat16 products in FLOP/s, memory in bytes and bytes/s, links in bytes/s."""

    products: float
    memory: float
    bandwidth: float
    link: float  # to its neighbour in one machine, one direction
    network: float  # between machines, a chip's share
    in_machine: int = 8


CHIPS = {"A100": Chip(312e12, 80e9, 2.0e12, 300e9, 25e9),
         "H100": Chip(989e12, 80e9, 3.35e12, 450e9, 50e9)}
_MASKED = 0.15
_BYTES = {"weights, gradients, two moments": 16, "weights in bfloat16": 2}  # a parameter
# Times that an activation is written and read in a training step, by layer and hidden unit.
_PASSES = 60


def parameters(config):
    """`(encoder, embeddings)`: numbers of weights."""
    hidden, inner = config.hidden_size, config.intermediate_size
    layer = 4 * hidden * hidden + 2 * hidden * inner + 9 * hidden + inner
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    return layer * config.num_hidden_layers, rows * hidden


def operations(config, seq_length):
    """FLOPs of a training step for each token: three times those of the forward pass."""
    hidden, inner, layers = (config.hidden_size, config.intermediate_size,
                             config.num_hidden_layers)
    products = 2 * layers * (4 * hidden * hidden + 2 * hidden * inner)
    attention = 4 * layers * seq_length * hidden
    head = 2 * _MASKED * (hidden * hidden + hidden * config.vocab_size)
    return 3 * (products + attention + head)


def activations(config, seq_length):
    """Bytes of activations in bfloat16 kept for the gradient, for each token."""
    hidden, inner, heads = config.hidden_size, config.intermediate_size, config.num_attention_heads
    # Input, query, key, value, context, both sums, two dropout masks; before and after gelu.
    layer = 2 * (9 * hidden + 2 * inner) + 3 * 2 * heads * seq_length
    return layer * config.num_hidden_layers + _MASKED * config.vocab_size * (4 + 4 + 2)


def predict(config, chip, count, seq_length, batch_size, efficiency):
    """What `count` chips do, each with `batch_size` sequences: a dict of seconds and bytes."""
    weights = sum(parameters(config))
    tokens = batch_size * seq_length
    products = tokens * operations(config, seq_length) / (chip.products * efficiency)
    moved = (tokens * 2 * _PASSES * config.num_hidden_layers * config.hidden_size
             + 28 * weights)  # the optimizer reads and writes weights, gradients and moments
    others = moved / chip.bandwidth
    rate = chip.link if count <= chip.in_machine else chip.network
    reduced = 2 * (count - 1) / count * 4 * weights / rate
    # Gradients of the upper layers are on their way while the lower ones are computed.
    step = products + others + max(0.0, reduced - 0.5 * products)
    return {"tokens_per_second": count * tokens / step, "step": step, "all_reduce": reduced,
            "memory": weights * sum(_BYTES.values())
            + tokens * activations(config, seq_length)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--chip", choices=CHIPS, default="A100")
    add("--presets", nargs="+", default=["base", "large"])
    add("--counts", nargs="+", type=int, default=[1, 8, 64], help="accelerators")
    add("--seq_length", type=int, default=512)
    add("--batch_size", type=int, default=32, help="sequences of each accelerator")
    add("--efficiency", type=float, default=0.5,
        help="share of the chip's peak that matrix products reach (default: 0.5)")
    arguments = parser.parse_args()
    print("| model | accelerators | tokens/s | step, ms | all-reduce, ms | memory, GB |\n"
          "|---|---|---|---|---|---|")
    for name in arguments.presets:
        for count in arguments.counts:
            found = predict(preset("bert", name, vocab_size=30522), CHIPS[arguments.chip], count,
                            arguments.seq_length, arguments.batch_size, arguments.efficiency)
            print(f"| BERT-{name} | {count} | {found['tokens_per_second']:,.0f} | "
                  f"{1e3 * found['step']:.0f} | {1e3 * found['all_reduce']:.0f} | "
                  f"{found['memory'] / 1e9:.1f} |")


if __name__ == "__main__":
    main()
