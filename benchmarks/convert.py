"""Time and peak memory of converting models of base size with random weights, one a family.

    python benchmarks/convert.py [--families NAME …]

Each conversion is a process of its own, as a user starts it: hf -> bert_tf -> hf, of BERT (110 M
parameters, both pre-training heads) bert_tf -> google -> bert_tf too. Peak memory is that process'
largest resident set, TensorFlow included; a conversion of BERT's size `tiny` shows how much of it
that is. Exits with 1 where a byte of the weights changed on the way round.
"""

import filecmp
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from speed.report import Targets, benchmark_parser, finish

from bert_tf.converters import hf_safetensors
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.converters.hf_classes import ENCODER
from bert_tf.family_defaults import FAMILIES
from bert_tf.presets import preset
from bert_tf.storage import files

_TASKS = {"bert": {"task": "pretraining", "sentence_task": "next_sentence"},
          "gpt": {"task": "language_model"}}  # of the others the encoder
# What one process does, and what it prints at its end.
_PROGRAM = """
import json, sys, time
start = time.perf_counter()
from bert_tf import cli, convert
code = cli.run(convert.main, sys.argv[1:])
seconds = time.perf_counter() - start
with open("/proc/self/status") as status:  # getrusage would count what the parent had
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({"seconds": seconds, "peak_bytes": peak * 1024}))
sys.exit(code)
"""


def _random_model(family, size):
    config, task = preset(family, size), _TASKS.get(family, ENCODER)
    shapes = parameter_shapes(config, task)
    numbers = {name: i for i, name in enumerate(shapes)}

    def load(name):
        draw = np.random.default_rng((1, numbers[name])).standard_normal
        return draw(shapes[name], np.float32) * np.float32(0.02)

    return Checkpoint(config, task, Tensors(shapes, load))


def _convert(source, target):
    arguments = ["--from", *source, "--to", *target]
    result = subprocess.run([sys.executable, "-c", _PROGRAM, *arguments], check=True,
                            stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def _round(family, size, folder, tiny):
    """What was measured of one family: `weights_bytes`, the conversions, `no_byte_changed`.

    `tiny` is what was measured of a model of hardly any weights.
    """
    formats = ["hf", "bert_tf", *(["google", "bert_tf"] if family == "bert" else []), "hf"]
    places = [(name, os.path.join(folder, f"{family}_{number}"))
              for number, name in enumerate(formats)]
    hf_safetensors.write(_random_model(family, size), places[0][1])
    first, last = (os.path.join(places[end][1], "model.safetensors") for end in (0, -1))
    results = {"weights_bytes": files.size(first)}
    for source, target in zip(places, places[1:], strict=False):
        name, weights = f"{source[0]} -> {target[0]}", results["weights_bytes"]
        made = results[name] = _convert(source, target)
        peak = made["peak_bytes"]
        above = peak - tiny.get(name, made)["peak_bytes"]
        print(f"| {family} {size} | {weights / 1e6:.0f} MB | {source[0]} → {target[0]} | "
              f"{made['seconds']:.1f} | {peak / 1e6:.0f} MB | {peak / weights:.2f} | "
              f"{above / weights:.2f} |", flush=True)
        if source is not places[0]:
            files.remove(source[1])
    results["no_byte_changed"] = filecmp.cmp(first, last, shallow=False)
    if not results["no_byte_changed"]:
        print(f"{family}: the weights changed on the way round")
    return results


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--folder", help="where to work (default: a temporary folder)")
    parser.add_argument("--families", nargs="+", default=FAMILIES, choices=FAMILIES)
    arguments = parser.parse_args()
    print("| model | weights | conversion | seconds | peak | of the weights | above tiny's |\n"
          "|---|---|---|---|---|---|---|")
    results = {}
    for family, size in [("bert", "tiny"), *((family, "base") for family in arguments.families)]:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            results[f"{family} {size}"] = _round(family, size, folder,
                                                 results.get("bert tiny", {}))
    finish("convert", arguments, Targets(), results=results)
    return 0 if all(each["no_byte_changed"] for each in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
