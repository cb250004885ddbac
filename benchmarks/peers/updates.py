"""The updates of both peers on PyTorch that `benchmarks/finetune_steps.py` compares with."""

import json

import torch
from hf_bert import make_optimizer
from hf_finetune import CLIP_NORM


def add_flags(parser):
    """Add what both peers are told."""
    for name in ("init", "examples", "output"):
        parser.add_argument(f"--{name}", required=True)
    for name, kind in (("batch_size", int), ("seq_length", int), ("learning_rate", float),
                       ("epsilon", float)):
        parser.add_argument(f"--{name}", type=kind, required=True)


def write_updates(model, losses, arguments):
    """Update the model by each of `losses`, computed one after the other.

    Writes them and the gradients' global norms, before clipping, to `--output`.
    """
    optimizer = make_optimizer(model, arguments.learning_rate, arguments.epsilon)
    found = {"losses": [], "norms": []}
    for loss in losses:
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        found["losses"].append(float(loss))
        found["norms"].append(float(norm))
        optimizer.step()
        optimizer.zero_grad()
    with open(arguments.output, "w", encoding="utf-8") as stream:
        json.dump(found, stream)
