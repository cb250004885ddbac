"""The peer of `benchmarks/finetune_steps.py`: some updates by transformers on PyTorch.

Needs torch and transformers, nothing of bert_tf. The examples of a JSONL file are learned from in
their order, without dropout, at one learning rate, with the head of an .npz file: `arr_0`
`[labels, hidden]` and `arr_1` `[labels]`. For what is written see `updates`.
"""

import argparse

import numpy as np
import torch
import transformers
from hf_finetune import read_lines
from hf_kinds import KINDS
from updates import add_flags, write_updates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_flags(parser)
    add = parser.add_argument
    add("--kind", choices=("classification", "token_classification"), required=True)
    add("--labels", nargs="+", required=True)
    add("--head", required=True)
    arguments = parser.parse_args()
    kind = KINDS[arguments.kind](transformers.AutoTokenizer.from_pretrained(arguments.init),
                                 arguments)
    model = kind.model_class.from_pretrained(
        arguments.init, dtype=torch.float32, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, **kind.config())
    with np.load(arguments.head) as head, torch.no_grad():
        model.classifier.weight.copy_(torch.from_numpy(head["arr_0"]))
        model.classifier.bias.copy_(torch.from_numpy(head["arr_1"]))
    model.train()
    batches = torch.utils.data.DataLoader(
        kind.features(read_lines(arguments.examples), training=True), arguments.batch_size,
        collate_fn=kind.collate)
    write_updates(model, (model(**batch).loss for batch in batches), arguments)


if __name__ == "__main__":
    main()
