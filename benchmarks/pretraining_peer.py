"""How soon has pre-training the held-out loss that the Trainer of transformers reaches?

    python benchmarks/pretraining_peer.py --input reviews.txt.gz --minutes 90 --folder FOLDER \\
        --hf_python PYTHON

The peer (`benchmarks/peers/hf_pretraining.py`, by an interpreter that has torch and transformers)
trains BERT to predict masked tokens for so many minutes. Ours has half of them (or `--ours`),
twice: BERT of the very same sizes, which tells the speed, and what `--recipe budget` trains at that
width, but on rows of whole sentences as the others; `--rows` leaves one of them out. All have one
vocabulary, learned here, and the same rows of 64 tokens in batches of 32, as many as their own
speed, measured first, allows; AdamW up to 1e-3, no dropout. Losses are those of the same masked
tokens of held-out rows, all measured by bert_tf, which reads the peer's weights; those that the
recipe's own run notes on the way are of as many tokens as it masks, 20 instead of 15 %. What
`visualize training --x seconds` draws of the folders is the picture.
"""

import contextlib
import os
import shutil
import subprocess
import sys

import numpy as np
from pretraining_budget import COMMON, ROWS, SIZES, Measure, first_lines, prepare, sizes, train
from speed.report import Targets, benchmark_parser, finish

from bert_tf import learn_vocab
from bert_tf.storage import files
from bert_tf.training.strategy import make_strategy

HERE = os.path.dirname(os.path.abspath(__file__))
EVALUATIONS = 10
# As of `bert_tf.pretrain.recipe`, for a width of 256; the rest of it is in `COMMON`.
RECIPE = {"masked_lm_prob": 0.2}


def rows_of(run):
    """Token ids of all training examples of a run, int32 `[n, 64]`, nothing masked."""
    _, config = run.final_configs()
    data = run.input_data("train", config)
    steps = data.num_examples // config.batch_size
    rows = []
    for batch in data.dataset(num_steps=steps):
        ids = batch["input_word_ids"].numpy()
        masked = batch["masked_lm_weights"].numpy() > 0
        example = np.nonzero(masked)[0]
        ids[example, batch["masked_lm_positions"].numpy()[masked]] = (
            batch["masked_lm_ids"].numpy()[masked])
        rows.append(ids)
    return np.concatenate(rows)


def run_peer(arguments, run, vocab_size, *options):
    """Have the peer train in the folder `run` on what `rows.npy` beside it holds; its outcome."""
    folder = arguments.folder
    subprocess.run([
        arguments.hf_python, os.path.join(HERE, "peers", "hf_pretraining.py"),
        "--windows", os.path.join(folder, "rows.npy"),
        "--vocab", os.path.join(folder, "vocab", "vocab.txt"), "--vocab_size", str(vocab_size),
        "--layers", str(arguments.layers), "--hidden_size", str(arguments.hidden_size),
        "--minutes", str(arguments.minutes), "--dtype", arguments.peer_dtype,
        "--clock", arguments.clock, "--probe", str(arguments.probe),
        "--output_dir", run, *options], check=True, stdout=sys.stderr)
    return files.read_json(os.path.join(run, "outcome.json"))


def train_peer(arguments, folder, run, text_run, measure):
    """Train the peer and write its folder as one of ours, for the picture."""
    np.save(os.path.join(folder, "rows.npy"), rows_of(text_run))
    outcome = run_peer(arguments, run, text_run.final_configs()[0].vocab_size)
    losses = [measure(os.path.join(run, f"step_{each['step']}")) for each in outcome["saved"]]
    made = files.read_json(text_run.path("data", "manifest.json"))
    tokens = COMMON["batch_size"] * made["splits"]["train"]["mean_tokens"]
    lines, before = [], {"step": 0, "seconds": 0}
    for each, loss in zip(outcome["saved"], losses, strict=True):
        rate = (each["step"] - before["step"]) * tokens / (each["seconds"] - before["seconds"])
        before = each
        lines += [{"step": each["step"], "split": "train", "tokens_per_second": rate},
                  {"step": each["step"], "split": "eval", "masked_lm_loss": loss["loss"],
                   "masked_lm_accuracy": loss["accuracy"]}]
    files.write_json_lines(os.path.join(run, "metrics.jsonl"), lines)
    shutil.copy(text_run.path("train_config.json"), run)
    os.makedirs(os.path.join(run, "data"), exist_ok=True)
    shutil.copy(text_run.path("data", "manifest.json"), os.path.join(run, "data"))
    return {**outcome, "wall_minutes": outcome["saved"][-1]["seconds"] / 60, **losses[-1]}


def add_flags(parser):
    """Add the flags of a benchmark of pre-training beside a peer."""
    parser.add_argument("--input", required=True, help="text, a document a line; also .gz")
    parser.add_argument("--hf_python", required=True, help="interpreter with torch, transformers")
    parser.add_argument("--lines", type=int, default=10**9, help="(default: all)")
    parser.add_argument("--layers", type=int, default=4, help="(default: 4)")
    parser.add_argument("--hidden_size", type=int, default=256, help="(default: 256)")
    parser.add_argument("--minutes", type=float, default=90, help="of the peer (default: 90)")
    parser.add_argument("--ours", type=float, help="minutes of each of ours (default: half)")
    parser.add_argument("--peer_dtype", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--probe", type=float, default=15.0,
                        help="seconds in which a speed is measured (default: 15)")
    parser.add_argument("--folder", required=True, help="where the runs stay")


def main():
    parser = benchmark_parser(__doc__)
    add_flags(parser)
    parser.add_argument("--rows", nargs="+", choices=("bert", "recipe"),
                        default=["bert", "recipe"], help="of ours (default: both)")
    parser.set_defaults(clock="wall")
    arguments = parser.parse_args()
    ours = arguments.ours or arguments.minutes / 2
    folder, strategy = arguments.folder, make_strategy(COMMON["strategy"], 1)
    os.makedirs(folder, exist_ok=True)
    text, vocab = os.path.join(folder, "text.txt"), os.path.join(folder, "vocab", "vocab.txt")
    first_lines(arguments.input, arguments.lines, text)
    bert = sizes(arguments, {"hidden_act": "gelu"})
    modern = sizes(arguments, ROWS["modernbert"]["model"])
    rows = {}
    with contextlib.redirect_stdout(sys.stderr):
        learn_vocab(input=text, output=vocab, vocab_size=SIZES["vocab_size"], overwrite=True)
        text_run = prepare(strategy, text, vocab, os.path.join(folder, "rows"),
                           {"train_steps": 1000}, bert)
        measure = Measure(text_run, strategy)
        rows["peer"] = train_peer(arguments, folder, os.path.join(folder, "peer"), text_run,
                                  measure)
        for name in arguments.rows:
            flags, fields = {"bert": ({}, bert), "recipe": (RECIPE, modern)}[name]
            row = train(arguments, strategy, text, vocab, os.path.join(folder, name),
                        flags, fields, ours, EVALUATIONS)
            rows[name] = {**row, **measure(os.path.join(folder, name, "model"))}
    print(f"{'':10}{'held-out loss':>14}{'accuracy':>10}{'steps':>8}{'ms/step':>9}{'minutes':>9}")
    for name, row in rows.items():
        print(f"{name:10}{row['loss']:14.4f}{row['accuracy']:10.4f}{row['steps']:8}"
              f"{1000 * row['seconds_per_step']:9.1f}{row['wall_minutes']:9.1f}")
    targets = Targets()
    for name in arguments.rows:
        targets.check(f"loss of {name} after {ours:g} minutes, less the peer's",
                      rows[name]["loss"] - rows["peer"]["loss"], most=0)
    return finish("pretraining_peer", arguments, targets, rows=rows)


if __name__ == "__main__":
    sys.exit(main())
