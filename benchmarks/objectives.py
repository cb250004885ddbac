"""Does every objective learn, on every family that has it? Tiny models beside their baselines.

    python benchmarks/objectives.py --input ../shared/data/corpus/en_mixed.txt.gz
    python benchmarks/objectives.py --input … --only gpt/lm

A vocabulary is learned once; each run is one `bert_tf.pretrain` command, and its line tells how far
the held-out figures are from what knowing frequencies alone would give: MLM and LM losses must be
0.3 nats under the unigram entropy of the same tokens, the discriminator's 5 % under the entropy of
the share of replaced tokens, and the 95 % interval of the sentence tasks' accuracy above 0.5. Exits
with 1 where one is not.
"""

import os
import subprocess
import sys
import tempfile
import time

from speed.report import Targets, benchmark_parser, finish

from bert_tf.presets import preset
from bert_tf.storage import files

VOCAB_SIZE = 2000
COMMON = {"seq_length": 64, "learning_rate": 2e-3, "batch_size": 32, "train_steps": 2000,
          "eval_every": 1000, "eval_examples": 4000}
# family/objective: flags that differ from COMMON; fields of the model that differ from the preset.
# Of a sentence pair of 64 tokens little tells the order: words counted by segment give 53 % in a
# linear model, 55 % at 128. A token drawn by its frequency is told by its neighbours alone, which
# attention of this size needs far longer to find; convolutions see them from the start.
RUNS = {
    "bert/mlm+nsp": ({"train_steps": 3000}, {}),
    "bert/mlm": ({"format": "doc_sentences"}, {}),
    "bert/lm": ({"train_steps": 800, "learning_rate": 1e-3}, {}),
    "roberta/mlm": ({}, {}),
    "albert/mlm+sop": ({"seq_length": 128, "batch_size": 64, "learning_rate": 1e-3,
                        "train_steps": 1200, "holdout": 0.15, "eval_examples": 8000},
                       {"initializer_range": 0.08}),
    "electra/rtd": ({"learning_rate": 3e-3}, {
        "feed_forward": "conv", "conv_kernel_size": 3, "initializer_range": 0.08,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}),
    "gpt/lm": ({"train_steps": 800, "learning_rate": 1e-3}, {}),
}


def train(name, options, fields, text, vocab, folder):
    """Run `pretrain`; its metrics and seconds."""
    family, objective = name.split("/")
    run = os.path.join(folder, name)
    flags = {"input": text, "vocab": vocab, "family": family, "objective": objective,
             "output_dir": run, "export_dir": f"{run}_saved_model", **options}
    if fields:
        flags["config"] = os.path.join(folder, "model.json")
        preset(family, "tiny", VOCAB_SIZE, **fields).save(flags["config"])
    words = [str(word) for flag, value in flags.items() for word in (f"--{flag}", value)]
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "bert_tf.pretrain", *words], text=True,
                          capture_output=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
    if done.returncode:
        sys.exit(done.stderr)
    return files.read_json(os.path.join(run, "results.json"))["metrics"], (
        time.perf_counter() - started)


def verdicts(metrics):
    """`{what: (text, whether it is clearly better than its baseline)}` of a run."""
    found = {}
    for task in ("masked_lm", "language_model"):
        # A generator is a means: it is the discriminator that is asked for.
        if f"{task}_loss" in metrics and "replaced_loss" not in metrics:
            under = metrics["unigram_entropy"] - metrics[f"{task}_loss"]
            found[task] = (f"loss {metrics[f'{task}_loss']:.3f}, {under:.3f} nats under "
                           f"{metrics['unigram_entropy']:.3f}", under >= 0.3)
    for task in ("next_sentence", "sentence_order"):
        if f"{task}_accuracy" in metrics:
            low, high = metrics[f"{task}_accuracy_interval"]
            guess = metrics[f"{task}_majority"]
            found[task] = (f"accuracy {metrics[f'{task}_accuracy']:.4f} "
                           f"[{low:.4f}, {high:.4f}] beside {guess:.4f}", low > guess)
    if "replaced_loss" in metrics:
        share = 1 - metrics["replaced_loss"] / metrics["replaced_rate_entropy"]
        found["replaced"] = (
            f"loss {metrics['replaced_loss']:.4f}, {100 * share:.1f} % under "
            f"{metrics['replaced_rate_entropy']:.4f}; generator {metrics['masked_lm_loss']:.3f} "
            f"beside {metrics['unigram_entropy']:.3f}", share >= 0.05)
    return found


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--input", required=True, help="text, as for bert_tf.pretrain")
    parser.add_argument("--only", choices=RUNS, nargs="+", default=list(RUNS))
    arguments = parser.parse_args()
    results, failed = {}, []
    with tempfile.TemporaryDirectory() as folder:
        vocab = os.path.join(folder, "vocab", "vocab.txt")
        subprocess.run([sys.executable, "-m", "bert_tf.learn_vocab", "--input", arguments.input,
                        "--lower_case", "--vocab_size", str(VOCAB_SIZE), "--output", vocab],
                       check=True, capture_output=True)
        for name in arguments.only:
            options, fields = RUNS[name]
            options = {**COMMON, **options}
            metrics, seconds = train(name, options, fields, arguments.input, vocab, folder)
            results[name] = {"options": options, "fields": fields, "seconds": round(seconds),
                             "metrics": metrics}
            told = verdicts(metrics)
            print(f"{name:16}{seconds:5.0f} s  "
                  + "; ".join(f"{task} {text}{'' if right else ' FAILED'}"
                              for task, (text, right) in told.items()), flush=True)
            failed += [f"{name} {task}" for task, (_, right) in told.items() if not right]
    finish("objectives", arguments, Targets(), vocab_size=VOCAB_SIZE, runs=results, failed=failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
