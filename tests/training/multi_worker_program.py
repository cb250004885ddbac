"""One worker, or all of a run alone: trains the tiny model and writes what came out.

    python multi_worker_program.py ROOT NAME RESULT SETTINGS

ROOT/NAME is the run folder; RESULT gets `weights.npz`, and `told.json` with the evaluation and how
often each example was read; SETTINGS is JSON, arguments of `Tiny.train`, with `records`, a folder
of examples, instead of made-up ones. The learning rate is constant.
"""

import collections
import json
import os
import pathlib
import sys

import numpy as np
from tiny_run import Tiny


def counting_input(folder, split, counts, last_step=None):
    """Pre-training input of the tiny model that counts the examples it reads; none in advance."""
    from bert_tf.data.pretraining_input import PretrainingInput

    class Input(PretrainingInput):
        def dataset(self, start_step=0, num_replicas=1, replicas=(0,)):
            num_steps = last_step and last_step - start_step
            return super().dataset(start_step, num_replicas, replicas, num_steps)

        def _read(self, index):
            counts.update(index.tolist())
            return super()._read(index)

    return Input(folder, split, batch_size=16, seed=5)


def main(root, name, result, settings):
    settings = {"learning_rate": 1e-3, "schedule": 1e-3, **json.loads(settings)}
    read = {"train": collections.Counter(), "eval": collections.Counter()}
    if folder := settings.pop("records", None):
        settings["data"] = counting_input(folder, "train", read["train"], settings["train_steps"])
        settings["eval_data"] = counting_input(folder, "eval", read["eval"])
    weights, trained = Tiny(pathlib.Path(root)).train(name, **settings)
    index = json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": 0}}'))["task"]["index"]
    result = pathlib.Path(result, str(index))
    result.mkdir(parents=True)
    np.savez(result / "weights.npz", **weights)
    (result / "told.json").write_text(json.dumps(
        {"evaluation": trained["evaluation"],
         "read": {split: [counts[i] for i in range(max(counts, default=-1) + 1)]
                  for split, counts in read.items()}}))


if __name__ == "__main__":
    from bert_tf import cli

    sys.exit(cli.run(lambda argv: main(*argv), sys.argv[1:]))
