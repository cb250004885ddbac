"""One worker of `test_multi_worker.py`: trains the tiny model and writes its weights."""

import pathlib
import sys

import numpy as np
from tiny_run import Tiny


def main(folder, index):
    weights, result = Tiny(pathlib.Path(folder)).train(
        "run", "multi_worker", train_steps=4, accumulate_steps=2, dropout=0.1, eval_examples=20,
        checkpoint_every=2)
    np.savez(pathlib.Path(folder, f"worker_{index}.npz"), loss=result["evaluation"]["loss"],
             **weights)


if __name__ == "__main__":
    main(*sys.argv[1:])
