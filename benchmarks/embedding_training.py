"""Training vectors: bert_tf and sentence-transformers, question to paragraph, from MiniLM.

    python benchmarks/embedding_training.py --data SQUAD.json --peer_python PYTHON --output OUT.json

The questions of a file in SQuAD's form are split by article. Both sides begin with the weights of
all-MiniLM-L6-v2, or of an encoder of ours (--init), see the same examples in batches of the same
size, by the same loss (in-batch negatives, cosine times 20; a text that is the positive of several
queries of a batch is no negative of theirs in ours, but is in the peer's) and the same schedule,
one after the other, a core each; ours is one `bert_tf.finetune` command. MRR@10 is that of the dev
questions among all dev paragraphs, by the same code on both sides' vectors; of ours beside BM25 and
both fused. `seconds` are of training and of the dev vectors after it, without start-up;
`cpu_seconds` of the whole process (ours also exports a SavedModel), on a busy machine the better
measure.

    python benchmarks/embedding_training.py --memory --output OUT.json

measures the peak memory of a step on 512 pairs in micro-batches (`accumulate_steps`, gradient
caching) beside that of a step on 32 and of one on 512 as a whole, of a small encoder.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

import minilm
import numpy as np
from load.processes import environment

from bert_tf.load import from_pretrained
from bert_tf.retrieval.metrics import metrics_of_ranks
from bert_tf.storage import files
from bert_tf.tasks.base.query_files import read_queries
from bert_tf.tasks.base.split import split_examples
from bert_tf.tasks.embedding.ranks import positive_ranks

HERE = pathlib.Path(__file__).resolve().parent
DEV_FRACTION = 0.2
MEMORY_ROWS = ((32, 1), (512, 16), (512, 1))  # pairs of a batch, micro-batches


def split(arguments, folder):
    """Write train and dev examples; return both files and the dev examples."""
    examples = list(read_queries(arguments.data))
    parts = split_examples(examples, DEV_FRACTION, 12345)
    if arguments.limit:
        parts = [part[:arguments.limit] for part in parts]
    paths = []
    for name, part in zip(("train", "dev"), parts, strict=True):
        paths.append(os.path.join(folder, f"{name}.jsonl"))
        files.write_json_lines(paths[-1], (
            {"query": each.query, "positive": each.positives[0]} for each in part))
    texts = dict.fromkeys(each.positives[0] for each in parts[1])
    files.write_json_lines(os.path.join(folder, "corpus.jsonl"),
                           ({"id": str(row), "text": text} for row, text in enumerate(texts)))
    return *paths, parts[1]


def run(core, command):
    """Run a program on one core; return the seconds that it computed."""
    before = _computed()
    subprocess.run(["taskset", "-c", str(core), *map(str, command)], check=True,
                   env={**environment(), "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
    return _computed() - before


def _computed():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ours(arguments, train, dev, folder, seed):
    """`{"seconds", "mrr@10", …}` of one `bert_tf.finetune`."""
    out = os.path.join(folder, f"ours_{seed}")
    files.remove(out)  # a training that is there, or its beginning, would take no time
    computed = run(arguments.core, [
        sys.executable, "-m", "bert_tf.finetune", "--task", "embed", "--train", train, "--dev",
        dev, "--init", os.path.join(folder, "init"), "--output_dir", out, "--export_dir",
        os.path.join(folder, f"saved_{seed}"), "--epochs", arguments.epochs, "--batch_size",
        arguments.batch_size, "--learning_rate", arguments.learning_rate, "--max_seq_length",
        arguments.max_seq_length, "--seed", seed, "--dtype", arguments.dtype, *arguments.flags])
    results = files.read_json(os.path.join(out, "results.json"))
    return {"seconds": results["seeds"][0]["seconds"], "cpu_seconds": computed,
            **results["metrics"], **systems(out, dev, folder)}


def systems(model, dev, folder):
    """`{system: MRR@10}` of BM25, and of the model's vectors and BM25 fused."""
    out = os.path.join(folder, "systems")
    subprocess.run([sys.executable, "-m", "bert_tf.evaluate", "--task", "retrieval", "--model",
                    model, "--data", dev, "--corpus", os.path.join(folder, "corpus.jsonl"),
                    "--output_dir", out, "--overwrite"], check=True, env=environment(),
                   stdout=subprocess.DEVNULL)
    found = files.read_json(os.path.join(out, "results.json"))["systems"]
    return {name: found[name]["mrr@10"] for name in ("bm25", "hybrid")}


def untouched(arguments, examples, folder):
    """The metrics of the weights as they come, which read as much of a text as the tuned ones."""
    model = from_pretrained(os.path.join(folder, "init"), "embedder")
    model.preprocessor.resize(arguments.max_seq_length)
    path = os.path.join(folder, "untouched.npz")
    np.savez(path, queries=model.embed([example.query for example in examples]),
             texts=model.embed(list(dict.fromkeys(
                 example.positives[0] for example in examples))))
    return measured(path, examples)


def peer(arguments, train, dev, examples, folder, seed):
    """The same of sentence-transformers, and its untouched metrics and versions."""
    out = os.path.join(folder, f"peer_{seed}")
    init = os.path.join(folder, "peer_init") if arguments.init else minilm.weights()
    computed = run(arguments.core, [
        arguments.peer_python, HERE / "peers" / "sentence_training.py", "--init", init, "--train",
        train, "--dev", dev, "--output_dir", out, "--epochs", arguments.epochs, "--batch_size",
        arguments.batch_size, "--learning_rate", arguments.learning_rate, "--max_seq_length",
        arguments.max_seq_length, "--seed", seed, "--dtype", arguments.dtype])
    outcome = files.read_json(os.path.join(out, "outcome.json"))
    return {"seconds": outcome["seconds"], "cpu_seconds": computed,
            **measured(os.path.join(out, "tuned.npz"), examples)}, (
        measured(os.path.join(out, "untouched.npz"), examples), outcome["versions"])


def measured(path, examples):
    """The metrics of the vectors in a file."""
    vectors = np.load(path)
    texts = list(dict.fromkeys(example.positives[0] for example in examples))
    place = {text: [number] for number, text in enumerate(texts)}
    unit = {name: vectors[name] / np.linalg.norm(vectors[name], axis=1, keepdims=True)
            for name in ("queries", "texts")}
    return metrics_of_ranks(positive_ranks(
        unit["queries"], unit["texts"], [place[example.positives[0]] for example in examples]))


def compare(arguments, folder):
    """Train both sides with all seeds; return what goes into the file."""
    train, dev, examples = split(arguments, folder)
    ours_init = os.path.join(folder, "init")
    if arguments.init:
        for form, path in (("bert_tf", ours_init), ("hf", os.path.join(folder, "peer_init"))):
            files.remove(path)  # perhaps of another --init
            subprocess.run([sys.executable, "-m", "bert_tf.convert", "--from", "bert_tf",
                            arguments.init, "--to", form, path], check=True,
                           env=environment(), stdout=subprocess.DEVNULL)
    else:
        files.remove(ours_init)
        minilm.convert(ours_init)
    rows = {"ours": [], "peer": []}
    before = {"ours": untouched(arguments, examples, folder)}
    versions = {}
    for seed in range(1, arguments.seeds + 1):
        rows["ours"].append(ours(arguments, train, dev, folder, seed))
        if arguments.peer_python:
            row, (before["peer"], versions) = peer(arguments, train, dev, examples, folder, seed)
            rows["peer"].append(row)
        print(json.dumps({side: found[-1] for side, found in rows.items() if found}), flush=True)
    means = {side: {name: float(np.mean([row[name] for row in found]))
                    for name in ("seconds", "cpu_seconds", "mrr@10", "bm25", "hybrid")
                    if name in found[0]}
             for side, found in rows.items() if found}
    ratio = {f"ratio_of_{name}": means["ours"][name] / means["peer"][name]
             for name in ("seconds", "cpu_seconds")} if "peer" in means else {}
    return {"dev_questions": len(examples), "untouched": {
        side: metrics["mrr@10"] for side, metrics in before.items()}, **means, **ratio,
        "rows": rows, "versions": versions}


def step_memory(batch_size, accumulate_steps):
    """Print the peak memory of two steps in this process, MiB, and what it was before them."""
    import tensorflow as tf

    import bert_tf
    from bert_tf.data.task_input import TaskInput
    from bert_tf.tasks.base.query_examples import QueryExample
    from bert_tf.tasks.embedding.features import query_features
    from bert_tf.training.config import TrainConfig
    from bert_tf.training.optimizers import build_optimizer
    from bert_tf.training.step import make_train_step
    from bert_tf.training.strategy import make_batches

    words = [f"w{number}" for number in range(1000)]
    vocabulary = bert_tf.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    config = bert_tf.preset("bert", "tiny", vocab_size=len(vocabulary))
    model = bert_tf.SentenceEmbedder(config, seed=1, preprocessor=bert_tf.TextPreprocessor(
        bert_tf.Tokenizer(vocabulary), 64))
    random = np.random.default_rng(1)
    examples = [QueryExample(str(number), *(
        [" ".join(random.choice(words, 62))] if at else " ".join(random.choice(words, 62))
        for at in range(2))) for number in range(batch_size)]
    train_config = TrainConfig(train_steps=10, batch_size=batch_size,
                               accumulate_steps=accumulate_steps)
    optimizer = build_optimizer(train_config)
    optimizer.build(model.trainable_variables)
    data = TaskInput(query_features(examples, model, model.training_loss), batch_size, 1, False)
    strategy = tf.distribute.get_strategy()
    batches = iter(make_batches(strategy, lambda replicas, own: data.dataset(0, replicas, own)))
    step = make_train_step(model, optimizer, strategy, train_config)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    losses = [float(step(batches, tf.constant(np.int64(number)), tf.constant(False), {})[0]["loss"])
              for number in range(2)]
    print(json.dumps({"batch_size": batch_size, "accumulate_steps": accumulate_steps,
                      "before": before, "losses": losses,
                      "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a file in SQuAD's form")
    parser.add_argument("--init", help="model folder or run of ours (default: all-MiniLM-L6-v2)")
    parser.add_argument("--peer_python", help="an interpreter with sentence-transformers")
    parser.add_argument("--output", help="JSON file with the result")
    parser.add_argument("--folder", help="where trainings stay (default: a temporary one)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=2e-5)
    parser.add_argument("--max_seq_length", type=int, default=256)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32",
                        help="of the layers in training; the peer's by autocast")
    parser.add_argument("--limit", type=int, help="examples of each part, for a trial")
    parser.add_argument("--core", type=int, default=0, help="the core that both sides run on")
    parser.add_argument("--flags", nargs=argparse.REMAINDER, default=[],
                        help="further flags of our finetune")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--memory_of", type=int, nargs=2, metavar=("PAIRS", "PARTS"))
    arguments = parser.parse_args()
    if not arguments.data and not arguments.memory and not arguments.memory_of:
        parser.error("nothing to measure: --data or --memory")
    if arguments.memory_of:
        return step_memory(*arguments.memory_of)
    if arguments.memory:
        lines = [subprocess.run(
            [sys.executable, __file__, "--memory_of", *map(str, row)], check=True, text=True,
            env=environment(), stdout=subprocess.PIPE).stdout for row in MEMORY_ROWS]
        result = [json.loads(line.splitlines()[-1]) for line in lines]
    else:
        with tempfile.TemporaryDirectory() as temporary:
            result = compare(arguments, files.make_folder(arguments.folder or temporary))
    print(json.dumps(result, indent=1))
    if arguments.output:
        files.write_json(arguments.output, result)
    return None


if __name__ == "__main__":
    main()
