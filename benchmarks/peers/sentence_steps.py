"""The peer of `benchmarks/finetune_steps.py`: some updates by sentence-transformers on PyTorch.

Needs sentence-transformers, nothing of bert_tf. The queries of a JSONL file are learned from in
their order, each with its first positive, by MultipleNegativesRankingLoss, without dropout, at one
learning rate. For what is written see `updates`.
"""

import argparse

import torch
from hf_finetune import read_lines
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from updates import add_flags, write_updates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_flags(parser)
    arguments = parser.parse_args()
    body = Transformer(arguments.init, max_seq_length=arguments.seq_length)
    model = SentenceTransformer(
        modules=[body, Pooling(body.get_embedding_dimension(), "mean")], device="cpu")
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    loss_of = MultipleNegativesRankingLoss(model)
    examples = read_lines(arguments.examples)
    batches = (examples[start:start + arguments.batch_size]
               for start in range(0, len(examples), arguments.batch_size))
    write_updates(model, (
        loss_of([model.preprocess([each["query"] for each in batch]),
                 model.preprocess([each["positives"][0] for each in batch])], None)
        for batch in batches), arguments)


if __name__ == "__main__":
    main()
