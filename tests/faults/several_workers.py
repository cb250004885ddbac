"""Several workers: the same weights as of one process, and what happens when one is lost.

    python tests/faults/several_workers.py --workers 2 4 --output several_workers.json

On loopback and in network namespaces, with 2 and with 4 processes:

- 20 steps at a constant learning rate give one process's weights; every training example is read
  once an epoch over all workers, every held-out one in an evaluation;
- of one pre-training run workers are lost again and again, the chief and the last one in turn:
  killed, stopped, cut off, asked to stop. The others end and name the lost one; the same command
  on all workers goes on, and at the end has the bytes of a run that nothing happened to;
- a run that was stopped goes on with other numbers of workers.

All but the chief see the run folder read-only.
"""

import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS)]

import numpy as np  # noqa: E402
from faults.flags import fault_parser, write_counts  # noqa: E402
from faults.kill_and_resume import (  # noqa: E402
    STEPS,
    check,
    command,
    last_line,
    read_metrics,
    results,
)
from faults.workers import (  # noqa: E402
    Loopback,
    Namespaces,
    Workers,
    read_only_view,
    why_no_namespaces,
)

PROGRAM = TESTS / "training/multi_worker_program.py"
FAULTS = ("kill", "stop", "cut", "terminate")
# Seconds, as README states them. What `peers` waits by itself is 17 after a kill and 42 where a
# worker is silent; the rest is for machines as full as one on which all workers share two cores.
BOUND = {"kill": 60, "stop": 120, "cut": 120, "terminate": 60}
BATCH, EQUAL_STEPS = 16, 20


def run_alone(words):
    """Run a command to its end in one process."""
    done = subprocess.run(words, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(TESTS.parent)})
    assert done.returncode == 0, done.stderr[-3000:]


def make_records(folder):
    """Examples of made-up words for the tiny model; returns their numbers by split."""
    from bert_tf.data.create import create_examples

    letters = [chr(ord("a") + i) for i in range(26)]
    pieces = [*letters, *(f"##{letter}" for letter in letters)][:45]
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]) + "\n")
    draw = random.Random(1)
    text = folder / "text.txt"
    text.write_text("\n\n".join(
        "\n".join(" ".join(draw.choice(letters) for _ in range(draw.randint(2, 6)))
                  for _ in range(draw.randint(2, 8))) for _ in range(60)) + "\n")
    made = create_examples(input=str(text), vocab=str(vocabulary),
                           output_dir=str(folder / "records"), lower_case=True, max_seq_length=12,
                           max_predictions_per_seq=4, seed=3, num_processes=1, holdout=0.2,
                           progress=False)
    return {split: made["splits"][split]["num_examples"] for split in ("train", "eval")}


def equality(root, places, say):
    """Train in one process and in several; the largest differences, and what was read."""
    root.mkdir()
    counts = make_records(root)
    settings = {"records": str(root / "records"), "train_steps": EQUAL_STEPS}

    def words(name, **changes):
        return [sys.executable, str(PROGRAM), str(root), name, str(root / "results" / name),
                json.dumps({**settings, **changes})]

    def came_out(name, index=0):
        folder = root / "results" / name / str(index)
        return (dict(np.load(folder / "weights.npz")),
                json.loads((folder / "told.json").read_text()))

    run_alone(words("alone", strategy="one_device"))
    run_alone(words("start", strategy="one_device", train_steps=1, schedule=1e-30))
    expected, told = came_out("alone")
    start = came_out("start")[0]
    moved = max(float(abs(expected[name] - start[name]).max()) for name in expected)
    assert moved >= 1e-3, moved
    found = []
    for place in places:
        name = f"{place.name}_{len(place.addresses)}"
        (root / name).mkdir()
        with place, Workers(words(name, strategy="multi_worker"), place, root / name,
                            root / name) as workers:
            assert set(workers.codes()) == {0}, workers.tails()
        read = {"train": collections.Counter(), "eval": collections.Counter()}
        difference = 0.0
        for index in range(len(place.addresses)):
            weights, mine = came_out(name, index)
            assert weights.keys() == expected.keys()
            difference = max([difference, *(float(abs(weights[key] - expected[key]).max())
                                            for key in expected)])
            for key, value in told["evaluation"].items():
                assert abs(mine["evaluation"][key] - value) < 1e-4, (key, mine, told)
            for split in read:
                read[split].update(dict(enumerate(mine["read"][split])))
        assert difference <= 1e-5, difference
        # Over all workers: of the last, unfinished epoch once what is read of it.
        positions = EQUAL_STEPS * BATCH
        times = [read["train"][index] for index in range(counts["train"])]
        assert sum(times) == positions and max(times) - min(times) <= 1, times
        assert min(times) == positions // counts["train"] >= 1, times
        assert all(read["eval"][index] for index in range(counts["eval"]))
        found.append({"place": place.name, "workers": len(place.addresses),
                      "largest_difference": difference, "largest_movement": moved,
                      "train_examples": counts["train"], "times_read": [min(times), max(times)],
                      "eval_examples": counts["eval"]})
        say(f"{name}: largest difference of a weight {difference:.1e}, moved by up to {moved:.1e}; "
            f"{counts['train']} examples read {min(times)} to {max(times)} times in {positions} "
            f"places, {counts['eval']} held-out ones all")
    return found


def happen(fault, victim, workers):
    """Let the fault happen to a worker."""
    process = workers.processes[victim]
    if fault == "cut":
        workers.place.cut(victim)
    else:
        process.send_signal({"kill": signal.SIGKILL, "stop": signal.SIGSTOP,
                             "terminate": signal.SIGTERM}[fault])


def check_end(fault, victim, workers):
    """Wait for the others and check what they say; returns seconds until the last one ended."""
    indices = range(len(workers.processes))
    others = [index for index in indices if index != victim]
    ends = workers.ends(indices if fault in ("terminate", "cut") else others)
    seconds = max(seconds for _, seconds in ends.values())
    if fault == "terminate":
        assert {code for code, _ in ends.values()} == {130}, workers.tails()
        told = {re.search(r"stopped: step (\d+) of", workers.said(index))[1] for index in indices}
        assert len(told) == 1, told
    else:
        assert {code for code, _ in ends.values()} == {1}, workers.tails()
        lost = f"worker {victim} ({workers.place.addresses[victim]})"
        for index in others:
            assert f"error: lost {lost}: ended, hanging" in workers.said(index), workers.tails()
        if fault == "cut":
            names = ", ".join(f"worker {index} ({workers.place.addresses[index]})"
                              for index in others)
            assert f"error: lost {names}: " in workers.said(victim), workers.tails()
    assert seconds <= BOUND[fault], f"{fault}: {seconds:.0f} s\n{workers.tails()}"
    return seconds


def chain(root, place, faults, draw, say):
    """One run in which all `faults`, pairs of a fault and a worker, happen one after the other."""
    root.mkdir()
    work, logs = root / "work", root / "logs"
    logs.mkdir()
    words = [*command(root, work, "float32"), "--num_devices", "1", "--strategy", "multi_worker"]
    metrics = work / "run/metrics.jsonl"

    def started():
        (work / "run").mkdir(parents=True, exist_ok=True)
        return Workers(words, place, logs, work / "run")

    found = []
    with place:
        with started() as workers:
            assert set(workers.codes()) == {0}, workers.tails()
        expected = results(work)
        work.rename(root / "undisturbed")
        for number, (fault, victim) in enumerate(faults):
            goal = (number + 1) * (STEPS - 6) // len(faults)
            with started() as workers:
                before = last_line(metrics)
                workers.wait_until(
                    lambda goal=goal, before=before: (line := last_line(metrics)) != before
                    and line.get("step", 0) >= goal, f"step {goal}")
                time.sleep(0.05 * draw.random())
                happen(fault, victim, workers)
                seconds = check_end(fault, victim, workers)
            if fault == "cut":
                place.mend(victim)
            found.append({"place": place.name, "workers": len(place.addresses), "fault": fault,
                          "victim": victim, "seconds": round(seconds, 1)})
            say(f"{place.name}, {len(place.addresses)} workers, {fault} of worker {victim} at "
                f"step {last_line(metrics).get('step')}: the others ended within {seconds:.0f} s")
        with started() as workers:
            assert set(workers.codes()) == {0}, workers.tails()
        check(work, expected)
    say(f"{place.name}, {len(place.addresses)} workers: the bytes of the undisturbed run")
    shutil.rmtree(root)
    return found


def change_workers(root, numbers, say):
    """A run that is stopped and goes on with other numbers of workers, 1 without a cluster."""
    root.mkdir()
    work = root / "work"
    words = [*command(root, work, "float32"), "--num_devices", "1"]
    metrics = work / "run/metrics.jsonl"
    run_alone(words)
    undisturbed = read_metrics(metrics)
    work.rename(root / "undisturbed")
    (work / "run").mkdir(parents=True)
    for number, count in enumerate(numbers):
        goal = (number + 1) * STEPS // len(numbers) - 4
        if count == 1:
            run_alone(words)
            continue
        with Workers([*words, "--strategy", "multi_worker"], Loopback(count), root,
                     work / "run") as workers:
            if number + 1 < len(numbers):
                workers.wait_until(lambda goal=goal: last_line(metrics).get("step", 0) >= goal,
                                   f"step {goal}")
                happen("terminate", count - 1, workers)
                check_end("terminate", count - 1, workers)
            assert number + 1 < len(numbers) or set(workers.codes()) == {0}, workers.tails()
    notes = [line["note"] for line in map(json.loads, metrics.read_text().splitlines())
             if "note" in line]
    assert [note.partition(";")[0] for note in notes] == [
        f"resumed with {now} replicas instead of {before}"
        for before, now in zip(numbers, numbers[1:], strict=False)], notes
    found = read_metrics(metrics)
    assert found.keys() == undisturbed.keys()
    difference = max(abs(found[key]["loss"] - undisturbed[key]["loss"]) for key in found)
    # Another place in the data, or another draw of dropout, would be another loss.
    assert difference < 1e-3, difference
    say(f"{' then '.join(map(str, numbers))} workers: all {STEPS} losses within {difference:.1e} "
        f"of one process's; the log says: {'; '.join(notes)}")
    return {"numbers": numbers, "largest_difference_of_losses": difference}


def main():
    parser = fault_parser(__doc__, None, "faults at most in each place with each number of workers "
                          "(default: each of the chief and of the last worker)")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--places", nargs="+", choices=("loopback", "namespaces"),
                        default=["loopback", "namespaces"])
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    kinds = {"loopback": Loopback, "namespaces": Namespaces}
    if "namespaces" in arguments.places and (reason := why_no_namespaces()):
        print(f"skipped: {reason}")
        del kinds["namespaces"]
    chosen = [(kinds[name], count) for name in arguments.places if name in kinds
              for count in arguments.workers]
    root = pathlib.Path(tempfile.mkdtemp())
    print("all but the chief see the run folder "
          + ("read-only" if read_only_view(root) else "as it is: mounting is not allowed"))
    say = lambda text: print(text, flush=True)  # noqa: E731
    found = {"equality": equality(root / "equality", [kind(count) for kind, count in chosen], say),
             "faults": []}
    for kind, count in chosen:
        faults = [(fault, victim) for fault in FAULTS for victim in (0, count - 1)
                  if hasattr(kind, "cut") or fault != "cut"]
        draw.shuffle(faults)
        found["faults"] += chain(root / f"{kind.name}_{count}", kind(count),
                                 faults[:arguments.tries], draw, say)
    numbers = [4, 2, 1] if max(arguments.workers) > 2 else [2, 1]
    found["other_numbers"] = change_workers(root / "change", numbers, say)
    print(f"{len(found['faults'])} faults; seconds until all others had ended: "
          + ", ".join(f"{fault} {max(each)}" for fault in FAULTS
                      if (each := [one["seconds"] for one in found["faults"]
                                   if one["fault"] == fault])))
    write_counts(arguments.output, found)
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
