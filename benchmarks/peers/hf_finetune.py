"""The peer of `benchmarks/finetune.py`: fine-tuning with transformers on PyTorch, on the CPU.

Needs torch and transformers, nothing of bert_tf: another interpreter runs it, see `--help`. It
learns from and answers the examples of two JSONL files (fields of `bert_tf.tasks.base.examples`)
and writes into --output_dir `predictions_N.jsonl` after each epoch N, which bert_tf's own
evaluation measures, and `outcome.json` with seconds and versions. Batches are drawn at random and
padded to their longest example; fused AdamW with linear warm-up and decay, gradients clipped to
norm 1. With --dtype bfloat16 forward passes run under `torch.autocast`.
"""

import argparse
import importlib.metadata
import json
import os
import time

import torch
import transformers
from hf_bert import make_optimizer
from hf_kinds import KINDS

WARMUP_SHARE = 0.1
CLIP_NORM = 1.0


def make_model(kind, arguments):
    """The pretrained model with a new head, or with --scratch one of the same sizes."""
    config = transformers.AutoConfig.from_pretrained(arguments.init, **kind.config())
    if arguments.scratch:
        return kind.model_class.from_config(config)
    return kind.model_class.from_pretrained(arguments.init, config=config, dtype=torch.float32)


def computing_in(dtype):
    """The context of a forward pass; weights stay float32."""
    return torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16")


def train(kind, model, features, arguments):
    """Train; yields the number of each epoch that is done."""
    loader = torch.utils.data.DataLoader(features, arguments.batch_size, shuffle=True,
                                         collate_fn=kind.collate)
    optimizer = make_optimizer(model, arguments.learning_rate)
    steps = arguments.epochs * len(loader)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, round(WARMUP_SHARE * steps), steps)
    for epoch in range(1, arguments.epochs + 1):
        model.train()
        for batch in loader:
            with computing_in(arguments.dtype):
                loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        yield epoch


@torch.inference_mode()
def outputs(kind, model, features, arguments):
    """Lists of arrays, one list for each output of the model, an array for each feature."""
    model.eval()
    found = []
    for batch in torch.utils.data.DataLoader(features, arguments.batch_size,
                                             collate_fn=kind.collate):
        with computing_in(arguments.dtype):
            told = kind.logits(model(**batch))
        found += zip(*(part.float().numpy() for part in told), strict=True)
    return list(zip(*found, strict=True))


def read_lines(path):
    with open(path, encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--kind", choices=KINDS, required=True)
    add("--init", required=True, help="folder of config.json, weights and tokenizer")
    add("--scratch", action="store_true", help="take the sizes and the tokenizer of --init only")
    add("--train", required=True, help="JSONL")
    add("--dev", required=True, help="JSONL")
    add("--output_dir", required=True)
    add("--labels", nargs="+", default=[], help="names of the labels; of a number none")
    add("--epochs", type=int, required=True)
    add("--learning_rate", type=float, required=True)
    add("--batch_size", type=int, default=32)
    add("--dtype", choices=("float32", "bfloat16"), default="float32")
    add("--seq_length", type=int, default=128)
    add("--doc_stride", type=int, default=128)
    add("--n_best", type=int, default=20)
    add("--max_answer_length", type=int, default=30)
    add("--seed", type=int, default=1)
    arguments = parser.parse_args()
    examples, dev = read_lines(arguments.train), read_lines(arguments.dev)
    os.makedirs(arguments.output_dir, exist_ok=True)

    started = time.perf_counter()
    transformers.set_seed(arguments.seed)
    kind = KINDS[arguments.kind](transformers.AutoTokenizer.from_pretrained(arguments.init),
                                 arguments)
    model = make_model(kind, arguments)
    dev_features = kind.features(dev, training=False)
    epochs = []
    for epoch in train(kind, model, kind.features(examples, training=True), arguments):
        told = outputs(kind, model, kind.inputs(dev_features), arguments)
        path = os.path.join(arguments.output_dir, f"predictions_{epoch}.jsonl")
        with open(path, "w", encoding="utf-8") as stream:
            stream.writelines(json.dumps(line, ensure_ascii=False) + "\n"
                              for line in kind.lines(dev, dev_features, *told))
        epochs.append(time.perf_counter() - started)
    with open(os.path.join(arguments.output_dir, "outcome.json"), "w", encoding="utf-8") as stream:
        json.dump({"seconds": time.perf_counter() - started, "seconds_after_epochs": epochs,
                   "threads": torch.get_num_threads(),
                   "versions": {name: importlib.metadata.version(name)
                                for name in ("torch", "transformers", "tokenizers")}}, stream)


if __name__ == "__main__":
    main()
