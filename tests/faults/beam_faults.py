"""Kill a worker, or all of `create_data --runner beam`, at random moments; compare the examples.

    python tests/faults/beam_faults.py --tries 20 --output beam_faults.json

The local runner makes the examples once. Then each try starts the command on Beam's engine for one
machine with two workers and kills, with SIGKILL, one worker or the command itself. Where a worker
was killed the command must finish by itself; where the command was, its workers must be gone soon,
and the same command again must finish. The folder must then hold the bytes of the local runner,
nothing more, and no shard that was finished before the kill may have been written again.
"""

import collections
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import psutil
from flags import fault_parser, write_counts

PATIENCE = 3600  # seconds that a command may take
TARGETS = ("worker", "command")


def write_text(path):
    """Some 9 MB of random words, in documents: five chunks."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(1, 8))) for _ in range(5000)]
    with open(path, "w") as stream:
        for _ in range(5000):
            for _ in range(20):
                stream.write(" ".join(draw.choices(words, k=16)) + "\n")
            stream.write("\n")


def command(root, folder, *flags):
    """The command that makes the examples in `folder`."""
    return [sys.executable, "-m", "bert_tf.create_data", "--input", str(root / "text.txt"),
            "--vocab", str(root / "vocab.txt"), "--output_dir", str(folder), "--holdout", "0.1",
            "--masking", "static", "--dupe_factor", "2", "--num_processes", "2", *flags]


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def shards_of(folder):
    """When each shard was written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.tfrecord")}


def workers_of(process):
    """Worker processes of a running command."""
    try:
        return [child for child in psutil.Process(process.pid).children(recursive=True)
                if "bert_tf.data.beam_worker" in child.cmdline()]
    except psutil.Error:
        return []


class Faults:
    """The tries.

    Args:
        root: an empty folder.
        seed: of the moments.
        say: prints progress.
    """

    def __init__(self, root, seed, say=print):
        self.root = root
        self.draw = random.Random(seed)
        self.say = say
        self.folder = root / "data"
        self.log = root / "log"
        write_text(root / "text.txt")
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij",
                  *(f"##{letter}" for letter in "abcdefghij")]
        (root / "vocab.txt").write_text("\n".join(tokens) + "\n")
        subprocess.run(command(root, self.folder), check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        self.expected = bytes_of(self.folder)
        shards = shards_of(self.folder)
        self.counts = collections.Counter()
        process = self.start_at_work()
        first = last = time.monotonic()
        while process.poll() is None:
            if len(shards_of(self.folder)) < len(shards):
                last = time.monotonic()
            time.sleep(0.02)
        self.check(process)
        self.seconds = last - first  # in which shards are written

    def start(self):
        with self.log.open("wb") as log:
            return subprocess.Popen(command(self.root, self.folder, "--runner", "beam"),
                                    stdout=log, stderr=log)

    def start_at_work(self):
        """Start the command in a new folder; return it when the first shard is being written."""
        shutil.rmtree(self.folder, ignore_errors=True)
        process = self.start()
        while not list(self.folder.glob("*train-*")):
            assert process.poll() is None, self.log.read_text()[-3000:]
            time.sleep(0.02)
        return process

    def check(self, process):
        """Wait for the end; compare."""
        code = process.wait(PATIENCE)
        assert code == 0, f"exit code {code}:\n{self.log.read_text()[-3000:]}"
        found = bytes_of(self.folder)
        different = sorted(name for name in found.keys() | self.expected.keys()
                           if found.get(name) != self.expected.get(name))
        assert not different, f"differ from the local runner's: {different}"

    def one_try(self, target):
        """Kill the target once, and finish."""
        process = self.start_at_work()
        time.sleep(self.draw.random() * self.seconds)
        workers = workers_of(process)
        if process.poll() is not None or not workers:
            self.check(process)
            self.counts["too late"] += 1
            return
        before = shards_of(self.folder)
        if target == "worker":
            self.draw.choice(workers).kill()
        else:
            process.kill()
            process.wait()
            _, alive = psutil.wait_procs(workers, 10)
            assert not alive, "workers live on without the command"
            before = shards_of(self.folder)
            process = self.start()
        self.check(process)
        after = shards_of(self.folder)
        assert before.items() <= after.items(), "a finished shard was written again"
        self.counts[target] += 1
        self.counts["kills with some shards finished"] += 0 < len(before) < len(after)
        self.say(f"{target} killed with {len(before)} of {len(after)} shards finished: same bytes")


def main():
    arguments = fault_parser(__doc__, 20, "kills (default: 20)").parse_args()
    with tempfile.TemporaryDirectory() as root:
        faults = Faults(pathlib.Path(root), arguments.seed)
        done = 0
        while done < arguments.tries:
            late = faults.counts["too late"]
            faults.one_try(TARGETS[done % len(TARGETS)])
            done += faults.counts["too late"] == late
    print(f"{done} tries: " + ", ".join(f"{name} {count}"
                                        for name, count in sorted(faults.counts.items())))
    write_counts(arguments.output, faults.counts)


if __name__ == "__main__":
    main()
