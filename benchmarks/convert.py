"""Time and peak memory of converting a model of BERT-Base's size, 110 M random weights.

    python benchmarks/convert.py

Each conversion is a process of its own, as a user starts it: hf -> bert_tf -> google -> bert_tf,
and bert_tf -> hf. Peak memory is that process' largest resident set, TensorFlow included.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from bert_tf.converters import hf_safetensors
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.presets import preset
from bert_tf.storage import files

_TASK = {"task": "pretraining", "sentence_task": "next_sentence"}
# What one process does, and what it prints at its end.
_PROGRAM = """
import json, resource, sys, time
start = time.perf_counter()
from bert_tf import cli, convert
code = cli.run(convert.main, sys.argv[1:])
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"seconds": time.perf_counter() - start, "peak_bytes": usage.ru_maxrss * 1024}))
sys.exit(code)
"""


def _random_model(seed=1):
    config = preset("bert", "base")
    shapes = parameter_shapes(config, _TASK)
    numbers = {name: i for i, name in enumerate(shapes)}

    def load(name):
        draw = np.random.default_rng((seed, numbers[name])).standard_normal
        return draw(shapes[name], np.float32) * np.float32(0.02)

    return Checkpoint(config, _TASK, Tensors(shapes, load))


def _convert(source, target):
    arguments = ["--from", *source, "--to", *target]
    result = subprocess.run([sys.executable, "-c", _PROGRAM, *arguments], check=True,
                            stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="where to work (default: a temporary folder)")
    with tempfile.TemporaryDirectory(dir=parser.parse_args().folder) as folder:
        places = {name: os.path.join(folder, name) for name in ("hf", "ours", "google", "back",
                                                                "again")}
        hf_safetensors.write(_random_model(), places["hf"])
        weights = files.size(os.path.join(places["hf"], "model.safetensors"))
        steps = [(("hf", places["hf"]), ("bert_tf", places["ours"])),
                 (("bert_tf", places["ours"]), ("google", places["google"])),
                 (("google", places["google"]), ("bert_tf", places["back"])),
                 (("bert_tf", places["back"]), ("hf", places["again"]))]
        results = {"weights_bytes": weights}
        for source, target in steps:
            name = f"{source[0]} -> {target[0]}"
            results[name] = _convert(source, target)
            seconds, peak = results[name].values()
            print(f"{name:20}{seconds:8.1f} s{peak / 1e6:9.0f} MB, "
                  f"{peak / weights:.2f} times the weights")
        first, last = (files.open_binary(os.path.join(places[name], "model.safetensors")).read()
                       for name in ("hf", "again"))
        results["no_byte_changed"] = first == last
    print(f"no byte changed: {results['no_byte_changed']}")
    files.write_json(os.path.join(os.path.dirname(os.path.abspath(__file__)), "results",
                                  "convert.json"), results)


if __name__ == "__main__":
    main()
