"""Kill pre-training at any write to an object store, run it again, compare; then serve the result.

    python tests/faults/object_store.py --tries 25

A local S3 server counts the requests that change something. One undisturbed run comes first. Each
try starts the same command in an empty bucket, kills it with SIGKILL at one of those requests,
chosen at random over all of them, and again at one of the rest, and lets it finish. The bucket must
then hold the undisturbed run's objects: model, checkpoint, examples, vocabulary and SavedModel byte
for byte, the log of metrics but for its rates. Last, `bert_tf.serve` is killed and started beside a
version that is uploaded slowly, object by object: it must never try to load it before its end.
"""

import contextlib
import gzip
import json
import pathlib
import random
import socket
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from flags import fault_parser, write_counts  # noqa: E402
from store_server import BUCKET, Store  # noqa: E402

from bert_tf.data import python_prose  # noqa: E402

MODEL = {"vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 64, "max_position_embeddings": 32, "hidden_dropout_prob": 0.1,
         "attention_probs_dropout_prob": 0.1, "family": "bert"}
KILLS = 2  # of each try
PATIENCE = 600


def flags():
    """The flags of the command."""
    root = f"s3://{BUCKET}"
    options = {"input": f"{root}/texts/*.txt.gz", "config": f"{root}/model.json",
               "output_dir": f"{root}/runs/tiny", "export_dir": f"{root}/served/tiny",
               "vocab_size": 300, "split": "sentences", "seq_length": 32, "train_steps": 12,
               "batch_size": 8, "checkpoint_every": 3, "keep_checkpoints": 2, "eval_every": 6,
               "eval_examples": 16, "holdout": 0.2, "log_every": 1, "num_processes": 1, "seed": 7}
    return [str(word) for name, value in options.items() for word in (f"--{name}", value)]


def fill(store):
    """Empty the bucket and put the text there."""
    for name in store.objects.find(BUCKET):
        store.objects.rm_file(name)
    store.objects.pipe_file(f"{BUCKET}/texts/a.txt.gz",
                            gzip.compress(python_prose.text()[:30_000].encode(), mtime=0))
    store.objects.pipe_file(f"{BUCKET}/model.json", json.dumps(MODEL).encode())
    store.writes.clear()


def results(store):
    """What must not depend on kills: `{name: bytes or losses}`."""
    found = store.read("")
    losses = {}
    for line in map(json.loads, found["runs/tiny/metrics.jsonl"].decode().splitlines()):
        if "restart" not in line:
            line.pop("tokens_per_second", None)
            losses[line["step"], line["split"]] = line
    kept = {name: data for name, data in found.items()
            if "/logs/" not in name and not name.endswith((
                "metrics.jsonl", "checksums.json", "saved_model.pb", "fingerprint.pb"))}
    assert not any(b"hunter2" in data for data in found.values()), "a secret in the store"
    return {**kept, "metrics": losses}


def differences(expected, found):
    """Names of what differs."""
    return sorted(str(name) for name in {*expected, *found}
                  if expected.get(name) != found.get(name))


def run_with_kills(store, draw, total):
    """A run killed `KILLS` times; the names of the writes that it was killed at."""
    points = []
    for _ in range(KILLS):
        chosen = len(store.writes) + draw.randrange(1, total + 1)
        killed, _ = store.run_killed(lambda count, name, chosen=chosen: count >= chosen,
                                     "pretrain", *flags())
        if not killed:
            break
        points.append("{} {}".format(*store.writes[-1]))
    store.run("pretrain", *flags())
    return points


def check_slow_upload(store):
    """How often a server looked at a half-uploaded version without taking it."""
    version = store.read("served/tiny/1")
    order = sorted(version, key=lambda name: name == "checksums.json")
    grpc_port, port = free_ports(2)
    server = store.start("serve", f"--port={grpc_port}", f"--rest_api_port={port}",
                         "--model_name=tiny",
                         f"--model_base_path=s3://{BUCKET}/served/tiny",
                         "--file_system_poll_wait_seconds=1")
    looks = 0
    try:
        until(lambda: status(port) == {"1": "AVAILABLE"}, server)
        for name in order:
            if name == "checksums.json":
                assert status(port) == {"1": "AVAILABLE"}, status(port)
            store.objects.pipe_file(f"{BUCKET}/served/tiny/2/{name}", version[name])
            for _ in range(3 * (name != "checksums.json")):
                assert "2" not in status(port)
                looks += 1
                time.sleep(0.4)  # a look at the folder in between
        until(lambda: status(port) == {"2": "AVAILABLE"}, server)
    finally:
        server.kill()
        server.communicate()
    return looks


def status(port):
    """`{version: state}` of those that are not ended."""
    try:
        url = f"http://127.0.0.1:{port}/v1/models/tiny"
        told = json.loads(urllib.request.urlopen(url).read())["model_version_status"]
    except OSError:
        return {}
    return {one["version"]: one["state"] for one in told if one["state"] != "END"}


def free_ports(number):
    """Ports on which nothing listens."""
    with contextlib.ExitStack() as stack:
        listening = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in listening:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in listening]


def until(condition, process):
    """Wait for a condition while a process lives."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.1)


def main():
    arguments = fault_parser(__doc__, 25, "runs, each killed twice", seed=1).parse_args()
    draw, wrong, points = random.Random(arguments.seed), [], []
    with (tempfile.TemporaryDirectory(prefix="bert_tf-") as folder,
          Store(pathlib.Path(folder)) as store):
        fill(store)
        store.run("pretrain", *flags())
        expected, total = results(store), len(store.writes)
        print(f"undisturbed: {total} writes, {len(expected)} objects compared", flush=True)
        for number in range(arguments.tries):
            fill(store)
            killed_at = run_with_kills(store, draw, total)
            points += killed_at
            found = differences(expected, results(store))
            wrong += [f"try {number}, killed at {killed_at}: {name}" for name in found]
            print(f"try {number + 1}: killed at {', '.join(killed_at) or 'nothing'}: "
                  f"{'the same' if not found else f'differs: {found}'}", flush=True)
        looks = check_slow_upload(store)
    told = {"tries": arguments.tries, "kills": len(points), "writes_of_a_run": total,
            "places_killed_at": len(set(points)), "looks_at_half_a_version": looks,
            "differences": wrong}
    print(json.dumps(told, indent=2))
    write_counts(arguments.output, told)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
