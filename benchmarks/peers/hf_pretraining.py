"""The peer of `benchmarks/pretraining_peer.py` and `electra_peer.py`: BERT, or ELECTRA, and the
Trainer of transformers, on the CPU.

Needs torch and transformers, nothing of bert_tf: another interpreter runs it. It learns from rows
of token ids, int32 `[n, length]` in an .npy file, which the library's own collator masks anew each
time. Its own speed is measured first, and it makes as many steps as that allows in --minutes; those
are of its steps alone, from when the Trainer has a batch, without masking and collating it;
`--clock cpu` counts processor time instead, for a machine that others use as well. --output_dir
gets a folder `step_N` of the weights some ten times on the way and `outcome.json`.
"""

import argparse
import importlib.metadata
import json
import os
import time

import numpy as np
import torch
import transformers
from hf_electra import REPLACEMENTS, Electra

WARM_UP = 5  # steps before those that are timed
SAVES = 10
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class Clock(transformers.TrainerCallback):
    """Counts seconds of training by `now`, saves on the way, and stops after `limit` of them."""

    def __init__(self, now, folder=None, steps=0, limit=None):
        self.now, self.folder, self.limit = now, folder, limit
        self.saves = {round(steps * part / SAVES) for part in range(1, SAVES + 1)}
        self.seconds, self.lines, self.counted = 0.0, [], 0
        self.since = None

    def on_step_begin(self, args, state, control, **kwargs):
        self.since = self.now()

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step > WARM_UP or self.folder:
            self.seconds += self.now() - self.since
            self.counted += 1
        if self.limit is not None and self.seconds >= self.limit:
            control.should_training_stop = True
        if self.folder and state.global_step in self.saves:
            model.save_pretrained(os.path.join(self.folder, f"step_{state.global_step}"))
            self.lines.append({"step": state.global_step, "seconds": self.seconds})


def train(arguments, windows, steps, clock):
    """Train a new model for so many steps, or until the clock stops it."""
    transformers.set_seed(arguments.seed)
    sizes = {
        "vocab_size": arguments.vocab_size, "hidden_size": arguments.hidden_size,
        "num_hidden_layers": arguments.layers,
        "num_attention_heads": max(1, arguments.hidden_size // 64),
        "intermediate_size": 4 * arguments.hidden_size,
        "max_position_embeddings": windows.shape[1], "hidden_dropout_prob": arguments.dropout,
        "attention_probs_dropout_prob": arguments.dropout}
    if arguments.model == "electra":
        model, replacements = Electra(sizes), REPLACEMENTS
    else:
        model = transformers.BertForMaskedLM(transformers.BertConfig(**sizes))
        replacements = {}
    tokenizer = transformers.BertTokenizerFast(arguments.vocab)
    transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            arguments.output_dir, max_steps=steps, per_device_train_batch_size=arguments.batch_size,
            learning_rate=arguments.learning_rate, warmup_steps=steps // 10, weight_decay=0.01,
            max_grad_norm=1.0, bf16=arguments.dtype == "bfloat16", use_cpu=True,
            save_strategy="no", logging_strategy="no", report_to=[], seed=arguments.seed),
        train_dataset=[{"input_ids": row, "attention_mask": (row != tokenizer.pad_token_id).long()}
                       for row in torch.from_numpy(windows.astype(np.int64))],
        data_collator=transformers.DataCollatorForLanguageModeling(
            tokenizer, mlm_probability=0.15, **replacements),
        callbacks=[clock]).train()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--windows", required=True, help=".npy of token ids")
    add("--vocab", required=True, help="vocab.txt")
    add("--vocab_size", type=int, required=True)
    add("--model", choices=("bert", "electra"), default="bert")
    add("--layers", type=int, required=True)
    add("--hidden_size", type=int, required=True)
    add("--minutes", type=float, required=True)
    add("--output_dir", required=True)
    add("--batch_size", type=int, default=32)
    add("--learning_rate", type=float, default=1e-3)
    add("--dropout", type=float, default=0.0)
    add("--dtype", choices=("float32", "bfloat16"), default="float32")
    add("--clock", choices=CLOCKS, default="wall")
    add("--probe", type=float, default=15.0, help="seconds in which the speed is measured")
    add("--seed", type=int, default=1)
    arguments = parser.parse_args()
    windows, now = np.load(arguments.windows), CLOCKS[arguments.clock]

    probe = Clock(now, limit=arguments.probe)
    train(arguments, windows, 10**6, probe)
    each = probe.seconds / probe.counted
    steps = max(SAVES, round(60 * arguments.minutes / each))
    clock = Clock(now, arguments.output_dir, steps)
    started = time.perf_counter()
    train(arguments, windows, steps, clock)
    with open(os.path.join(arguments.output_dir, "outcome.json"), "w", encoding="utf-8") as stream:
        json.dump({"steps": steps, "seconds_per_step": each, "saved": clock.lines,
                   "minutes": (time.perf_counter() - started) / 60,
                   "threads": torch.get_num_threads(),
                   "versions": {name: importlib.metadata.version(name)
                                for name in ("torch", "transformers")}}, stream)


if __name__ == "__main__":
    main()
