"""Fine-tuning compared update by update: bert_tf and its peers on PyTorch.

    python benchmarks/finetune_steps.py --hf_python PYTHON

Scores of whole trainings differ by chance: by the order of the batches and by dropout. So here
both learn from the same batches in the same order, without dropout, from the same weights, head
included, at one rate, in float32. Then they must take the same steps. Printed are both losses and
gradient norms of every update; the program ends with 1 where they differ by more than rounding.
The peer is Hugging Face transformers; where vectors are learned, sentence-transformers.
"""

import dataclasses
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile

import minilm
import numpy as np
from finetune_rows import ROWS, Row
from speed.report import RESULTS, benchmark_parser

from bert_tf.data.task_input import TaskInput
from bert_tf.finetune.complete import complete
from bert_tf.finetune.config import FinetuneConfig
from bert_tf.finetune.run import FinetuningRun
from bert_tf.models.trained_rows import occurring_rows
from bert_tf.storage import files
from bert_tf.tasks.registry import find_task, read_task
from bert_tf.training.config import TrainConfig
from bert_tf.training.optimizers import build_optimizer
from bert_tf.training.step import make_train_step

HERE = os.path.dirname(os.path.abspath(__file__))
_VECTORS = "squad/minilm"
# Those of `finetune.py` whose features are the same rows on both sides.
STEPPED = {**{name: ROWS[name] for name in ("cola/minilm", "mrpc/minilm", "wnut/minilm")},
           _VECTORS: Row("embed", "squad_v2/small_train.json", 0.1, batch_size=16, seq_length=256)}
MOST = 1e-3  # difference of a loss or a norm, of its size


def ours(row, examples, arguments, folder):
    """`(losses, norms, labels)` of our updates; the new head goes to `folder`/head.npz."""
    import tensorflow as tf

    options, task = complete(FinetuneConfig(
        task=row.task, init=minilm.weights(), dropout=0.0, dev=0.1,
        train=os.path.join(arguments.shared, "data", row.train),
        output_dir=os.path.join(folder, "run"), max_seq_length=row.seq_length))
    run = FinetuningRun(options, task, tf.distribute.get_strategy())
    run.prepare(examples, [], None)
    model = run.build(arguments.seed)
    labels = getattr(model, "labels", ())
    if labels:
        np.savez(os.path.join(folder, "head.npz"),
                 *(np.asarray(value) for value in model.head.weights))
    config = TrainConfig(batch_size=row.batch_size, learning_rate=arguments.learning_rate,
                         train_steps=10**9, epsilon=arguments.epsilon)
    data = TaskInput(run.type.features(examples, model, training=True), row.batch_size,
                     arguments.seed, bucket=False, shuffle=False)
    rows = occurring_rows(model, data.token_ids())
    optimizer = build_optimizer(config)
    optimizer.build(rows.trained(model.trainable_variables))
    batches = iter(data.dataset())
    step = make_train_step(model, optimizer, run.strategy, config, rows=rows)
    told = [step(batches, tf.constant(number, tf.int64), tf.constant(False), {})[0]
            for number in range(arguments.updates)]
    return ([float(each["loss"]) for each in told],
            [float(each["gradient_norm"]) for each in told], labels)


def peer(row, examples, labels, arguments, folder):
    """`(losses, norms)` of the peer's updates."""
    path = os.path.join(folder, "examples.jsonl")
    files.write_text(path, "".join(json.dumps(dataclasses.asdict(example), ensure_ascii=False)
                                   + "\n" for example in examples))
    outcome = os.path.join(folder, "peer.json")
    program, of_head = "sentence_steps.py", []
    if labels:
        program = "hf_steps.py"
        of_head = ["--kind", find_task(row.task).type, "--labels", *labels,
                   "--head", os.path.join(folder, "head.npz")]
    subprocess.run([
        arguments.hf_python, os.path.join(HERE, "peers", program), *of_head,
        "--init", minilm.weights(), "--examples", path, "--output", outcome,
        "--batch_size", str(row.batch_size), "--seq_length", str(row.seq_length),
        "--learning_rate", str(arguments.learning_rate), "--epsilon", str(arguments.epsilon)],
        check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}, stderr=subprocess.DEVNULL)
    found = files.read_json(outcome)
    return found["losses"], found["norms"]


def compare(name, arguments):
    """What both sides did on a row: `{"losses", "norms", "difference"}`."""
    row = STEPPED[name]
    examples = list(read_task(row.task, os.path.join(arguments.shared, "data", row.train)))
    if name == _VECTORS:  # for the peer one text of two queries is a negative of both
        examples = list({example.positives: example for example in examples}.values())
    examples = examples[:arguments.updates * row.batch_size]
    with tempfile.TemporaryDirectory() as folder:
        *own, labels = ours(row, examples, arguments, folder)
        others = peer(row, examples, labels, arguments, folder)
    found = dict(zip(("losses", "norms"), zip(own, others, strict=True), strict=True))
    print(f"{name}: loss and gradient norm, bert_tf and the peer")
    for number, values in enumerate(zip(*own, *others, strict=True), 1):
        print("  {:3}  {:.5f} {:.5f}   {:.5f} {:.5f}".format(
            number, *np.array(values)[[0, 2, 1, 3]]))
    own, others = np.array(own), np.array(others)
    found["difference"] = float(np.max(np.abs(own - others) / np.abs(others)))
    print(f"  largest difference: {found['difference']:.1e} of the value", flush=True)
    return found


def main():
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--hf_python", required=True, metavar="PYTHON",
        help="interpreter with torch, transformers and sentence-transformers")
    add("--rows", nargs="+", choices=STEPPED, default=list(STEPPED), metavar="ROW",
        help=f"of {', '.join(STEPPED)} (default: all)")
    add("--shared", default="../shared", help="folder with the data (default: ../shared)")
    add("--updates", type=int, default=20, metavar="N", help="default: 20")
    add("--learning_rate", type=float, default=1e-4, help="default: 1e-4")
    add("--epsilon", type=float, default=1e-6, help="of AdamW (default: 1e-6)")
    add("--seed", type=int, default=1, help="of the new head (default: 1)")
    arguments = parser.parse_args()
    found = {name: compare(name, arguments) for name in arguments.rows}
    files.write_json(arguments.output or os.path.join(RESULTS, "finetune_steps.json"), {
        "flags": vars(arguments), "rows": found, "versions": {
            package: importlib.metadata.version(package) for package in ("tensorflow", "keras")}})
    apart = [name for name, each in found.items() if not each["difference"] <= MOST]
    for name in apart:
        print(f"FAILED: {name} differs by more than {MOST:g}")
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
