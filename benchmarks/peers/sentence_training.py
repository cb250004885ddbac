"""The peer of `benchmarks/embedding_training.py`: sentence-transformers on PyTorch, on the CPU.

Needs sentence-transformers, nothing of bert_tf: another interpreter runs it. It learns from
`--train`, JSON lines of `query` and `positive`, by MultipleNegativesRankingLoss, and writes into
--output_dir `untouched.npz` and `tuned.npz`, the vectors of the queries and of the texts of
`--dev`, and `outcome.json` with seconds and versions.
"""

import argparse
import importlib.metadata
import json
import os
import time

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer


def read(path):
    """The queries and the positives of a file, two lists."""
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row["query"] for row in rows], [row["positive"] for row in rows]


def write_vectors(model, queries, texts, path):
    """Write what the model makes of the dev examples; return the seconds."""
    started = time.perf_counter()
    vectors = [model.encode(part, batch_size=32, show_progress_bar=False)
               for part in (queries, texts)]
    seconds = time.perf_counter() - started
    np.savez(path, queries=vectors[0], texts=vectors[1])
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("init", "train", "dev", "output_dir"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("epochs", "batch_size", "max_seq_length", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--learning_rate", type=float, required=True)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    os.makedirs(arguments.output_dir, exist_ok=True)
    body = Transformer(arguments.init, max_seq_length=arguments.max_seq_length)
    model = SentenceTransformer(
        modules=[body, Pooling(body.get_embedding_dimension(), "mean")], device="cpu")
    queries, texts = read(arguments.dev)
    texts = list(dict.fromkeys(texts))
    write_vectors(model, queries, texts, os.path.join(arguments.output_dir, "untouched.npz"))
    anchors, positives = read(arguments.train)
    settings = SentenceTransformerTrainingArguments(
        output_dir=os.path.join(arguments.output_dir, "run"), num_train_epochs=arguments.epochs,
        per_device_train_batch_size=arguments.batch_size, learning_rate=arguments.learning_rate,
        warmup_ratio=0.1, weight_decay=0.01, seed=arguments.seed, save_strategy="no",
        report_to=[], disable_tqdm=True, use_cpu=True, bf16=arguments.dtype == "bfloat16")
    trainer = SentenceTransformerTrainer(
        model=model, args=settings, loss=MultipleNegativesRankingLoss(model),
        train_dataset=Dataset.from_dict({"anchor": anchors, "positive": positives}))
    started = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - started
    seconds += write_vectors(model, queries, texts,
                             os.path.join(arguments.output_dir, "tuned.npz"))
    with open(os.path.join(arguments.output_dir, "outcome.json"), "w", encoding="utf-8") as file:
        json.dump({"seconds": seconds, "versions": {
            name: importlib.metadata.version(name)
            for name in ("sentence-transformers", "transformers", "torch")}}, file)


if __name__ == "__main__":
    main()
