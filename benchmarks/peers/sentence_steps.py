"""The peer of `benchmarks/finetune_steps.py`: some updates by sentence-transformers on PyTorch.

Needs sentence-transformers, nothing of bert_tf. The queries of a JSONL file are learned from in
their order, each with its first positive, by MultipleNegativesRankingLoss, without dropout, at one
learning rate. Writes the losses and the gradients' global norms.
"""

import argparse
import json

import torch
from hf_finetune import CLIP_NORM, make_optimizer, read_lines
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--init", required=True)
    add("--examples", required=True)
    add("--output", required=True)
    add("--batch_size", type=int, required=True)
    add("--seq_length", type=int, required=True)
    add("--learning_rate", type=float, required=True)
    add("--epsilon", type=float, required=True)
    arguments = parser.parse_args()
    body = Transformer(arguments.init, max_seq_length=arguments.seq_length)
    model = SentenceTransformer(
        modules=[body, Pooling(body.get_embedding_dimension(), "mean")], device="cpu")
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    loss_of = MultipleNegativesRankingLoss(model)
    optimizer = make_optimizer(model, arguments.learning_rate)
    for group in optimizer.param_groups:
        group["eps"] = arguments.epsilon
    examples = read_lines(arguments.examples)
    losses, norms = [], []
    for start in range(0, len(examples), arguments.batch_size):
        batch = examples[start:start + arguments.batch_size]
        columns = ([each["query"] for each in batch], [each["positives"][0] for each in batch])
        loss = loss_of([model.preprocess(column) for column in columns], None)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)))
        losses.append(float(loss))
        optimizer.step()
        optimizer.zero_grad()
    with open(arguments.output, "w", encoding="utf-8") as stream:
        json.dump({"losses": losses, "norms": norms}, stream)


if __name__ == "__main__":
    main()
