"""Pre-train for many minutes and watch memory and open files from outside: both must stay flat.

    python tests/faults/soak_training.py --minutes 45 --output soak_training.json

A tiny model with dropout, dynamic whole-word masking, an evaluation and a checkpoint every hundred
steps, over many epochs; then SIGTERM, on which the run must save and end. Once a second resident
memory and open files of the command and its children are read. Behind the warm-up the medians of
the first and the last fifth are compared; memory may grow by 2 %, open files not at all.
"""

import json
import signal
import subprocess
import sys
import time

from flatness import Watch, flatness, run_soak, soak_parser

STEPS_BETWEEN = 100  # evaluations and checkpoints


def command(folder, seed):
    """The pre-training command, without an end that it would reach."""
    options = {"output_dir": folder / "run", "export_dir": folder / "saved_model",
               "family": "bert", "preset": "tiny", "vocab_size": 2000, "seq_length": 64,
               "batch_size": 32, "train_steps": 10_000_000, "holdout": 0.05, "seed": seed,
               "log_every": 10, "eval_every": STEPS_BETWEEN, "checkpoint_every": STEPS_BETWEEN}
    flags = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    return [sys.executable, "-m", "bert_tf.pretrain", *flags, "--whole_word"]


def wait_for_training(process, metrics, patience=900):
    """Return once the first steps are logged: vocabulary, examples and graphs are made."""
    end = time.monotonic() + patience
    while not (metrics.exists() and metrics.stat().st_size):
        if process.poll() is not None or time.monotonic() > end:
            sys.exit("pre-training did not begin")
        time.sleep(0.2)


def soak(folder, minutes, warm_up, arguments):
    """Run; figures of it. Raises SystemExit where the command fails by itself."""
    metrics = folder / "run" / "metrics.jsonl"
    log = (folder / "log").open("w+")
    process = subprocess.Popen(command(folder, arguments.seed), stdout=log,
                               stderr=subprocess.STDOUT)
    try:
        wait_for_training(process, metrics)
        watch = Watch(process.pid)
        try:
            process.wait(minutes * 60)
            log.seek(0)
            sys.exit(f"pre-training ended by itself:\n{log.read()[-2000:]}")
        except subprocess.TimeoutExpired:
            samples = watch.stop()
        process.send_signal(signal.SIGTERM)
        code = process.wait(300)
    finally:
        process.kill()
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    steps = max(line.get("step", 0) for line in lines)
    made = json.loads((folder / "run/data/manifest.json").read_text())["splits"]["train"]
    return {"exit_code": code, "steps": steps,
            "epochs": steps * 32 / made["num_examples"],
            "evaluations": sum(line.get("split") == "eval" for line in lines),
            "checkpoints": steps // STEPS_BETWEEN,
            **flatness(samples, warm_up * 60), "all_samples": samples}


def failures(figures):
    """Lines for what should not have been."""
    code = figures["exit_code"]
    return [] if code == 130 else [f"SIGTERM: exit code {code}, 130 is expected"]


def main():
    return run_soak(soak, soak_parser(__doc__).parse_args(), failures)


if __name__ == "__main__":
    sys.exit(main())
