"""The peer of `benchmarks/finetune_steps.py`: some updates by transformers on PyTorch.

Needs torch and transformers, nothing of bert_tf. The examples of a JSONL file are learned from in
their order, without dropout, at one learning rate, with the head of an .npz file: `arr_0`
`[labels, hidden]` and `arr_1` `[labels]`. Writes the losses and the gradients' global norms.
"""

import argparse
import json

import numpy as np
import torch
import transformers
from hf_finetune import CLIP_NORM, make_optimizer, read_lines
from hf_kinds import KINDS


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--kind", choices=("classification", "token_classification"), required=True)
    add("--init", required=True)
    add("--examples", required=True)
    add("--labels", nargs="+", required=True)
    add("--head", required=True)
    add("--output", required=True)
    add("--batch_size", type=int, required=True)
    add("--seq_length", type=int, required=True)
    add("--learning_rate", type=float, required=True)
    add("--epsilon", type=float, required=True)
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
    optimizer = make_optimizer(model, arguments.learning_rate)
    for group in optimizer.param_groups:
        group["eps"] = arguments.epsilon
    losses, norms = [], []
    for batch in torch.utils.data.DataLoader(
            kind.features(read_lines(arguments.examples), training=True), arguments.batch_size,
            collate_fn=kind.collate):
        loss = model(**batch).loss
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)))
        losses.append(float(loss))
        optimizer.step()
        optimizer.zero_grad()
    with open(arguments.output, "w", encoding="utf-8") as stream:
        json.dump({"losses": losses, "norms": norms}, stream)


if __name__ == "__main__":
    main()
