"""Kill predict with SIGKILL at random moments, run the same command again, compare the bytes.

    python tests/faults/kill_predict.py --tries 200

A table with bad rows is predicted undisturbed, then again with kills, by one process and by two.
After each kill every shard under its name must be whole, one of the undisturbed run's; at the end
the folder must hold that run's bytes, but for the manifest of what made it.
"""

import json
import pathlib
import random
import shutil
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent), *(str(TESTS / name) for name in (".", "saved_model"))]

from faults.flags import fault_parser, write_counts  # noqa: E402
from faults.forked import Forker  # noqa: E402
from faults.whole import check_tidy, check_whole  # noqa: E402
from tiny_model import LABELS, save_model  # noqa: E402

ROWS, SHARD = 4000, 128
_MADE = ("manifest.json", "begun.json")  # they name command and time of the input


def write_input(path):
    """Write texts of many lengths, some of which are none."""
    draw = random.Random(5)
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "café"]
    with open(path, "w") as stream:
        for number in range(ROWS):
            text = " ".join(draw.choices(words, k=draw.randint(1, 30)))
            stream.write(json.dumps({"text": None if number % 97 == 0 else text, "n": number,
                                     "label": draw.choice(LABELS)}) + "\n")


def command(root, form, num_processes):
    """The command whose results are in `root`/out."""
    return [sys.executable, "-m", "bert_tf.predict", "--model", root / "model", "--input",
            root / "data.jsonl", "--output_dir", root / "out", "--format", form, "--shard_size",
            SHARD, "--task", "classify", "--num_processes", num_processes]


def results(folder):
    """`{name: bytes}` of what must not depend on kills."""
    check_whole(folder)
    check_tidy(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and path.name not in _MADE}


def kill_predict(forker, root, tries, seed, forms=(("parquet", 1), ("jsonl", 2)), say=print):
    """Kill; returns the number of kills.

    Args:
        forker: a `Forker`.
        root: folder to work in.
        tries: number of kills.
        seed: of the moments.
        forms: `(format, num_processes)` of the rounds, one after the other.
        say: prints progress.

    Raises:
        AssertionError: a shard or the results differ, or the command failed by itself.
    """
    root.mkdir(parents=True, exist_ok=True)
    out, log, draw, hit = root / "out", root / "killed.log", random.Random(seed), 0
    save_model(str(root / "model"), "classifier")
    write_input(root / "data.jsonl")
    undisturbed = {}
    while hit < tries:
        for form, num_processes in forms:
            words = command(root, form, num_processes)
            if form not in undisturbed:
                shutil.rmtree(out, ignore_errors=True)
                started = time.monotonic()
                _finish(forker, command(root, form, 1), log)
                undisturbed[form] = results(out), time.monotonic() - started
                say(f"{form}, undisturbed: {undisturbed[form][1]:.1f} s")
            expected, whole_time = undisturbed[form]
            shards = sum("part-" in name for name in expected)
            shutil.rmtree(out, ignore_errors=True)
            for _ in range(min(draw.randint(1, 4), tries - hit)):
                # After so many shards, and a while in which another one is made.
                there = len(list(out.rglob("part-*")))
                wanted, moment = draw.randint(there, shards), draw.random() * whole_time / shards
                fork = forker.start(words, log)
                while fork.poll() is None and len(list(out.rglob("part-*"))) < wanted:
                    time.sleep(0.002)
                time.sleep(moment)
                if fork.poll() is None:
                    fork.kill()
                    hit += 1
                made = list(out.rglob("part-*"))
                for path in made:
                    assert path.read_bytes() == expected[str(path.relative_to(out))], path
                say(f"kill {hit}: {form}, {num_processes} processes, {len(made)} shards made")
            _finish(forker, words, log)
            found = results(out)
            different = sorted(name for name in expected.keys() | found.keys()
                               if expected.get(name) != found.get(name))
            assert not different, f"differ from the undisturbed run: {different}"
            say("the killed run has the undisturbed one's bytes")
    return hit


def _finish(forker, words, log):
    code, said = forker.run(words, log)
    assert code == 0, f"exit code {code}:\n{said[-3000:]}"


def main():
    arguments = fault_parser(__doc__, 200, "kills (default: 200)", seed=1).parse_args()
    with tempfile.TemporaryDirectory() as folder, Forker() as forker:
        hit = kill_predict(forker, pathlib.Path(folder) / "predict", arguments.tries,
                           arguments.seed)
    print(f"{hit} kills, the same bytes after each")
    write_counts(arguments.output, {"kills": hit})


if __name__ == "__main__":
    main()
