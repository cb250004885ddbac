"""Memory and open files of a running process, watched from outside, and whether they stay flat."""

import argparse
import contextlib
import json
import pathlib
import statistics
import tempfile
import threading

import psutil

MOST_GROWTH = 1.02


class Watch:
    """Samples a process and its children until it ends or `stop` is called.

    Args:
        pid: of the process.
        seconds: from one sample to the next.

    Attributes:
        samples: `[(seconds since the start, resident bytes, open files), …]`, sums over the
            process and its children. Open files are file descriptors: sockets count.
    """

    def __init__(self, pid, seconds=1.0):
        self.samples = []
        self._root = psutil.Process(pid)
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        number = 0
        while not self._stop.wait(self._seconds if number else 0):
            with contextlib.suppress(psutil.Error):
                if not self._root.is_running() or self._root.status() == psutil.STATUS_ZOMBIE:
                    return
                tree = [self._root, *self._root.children(recursive=True)]
                self.samples.append((number * self._seconds,
                                     sum(each.memory_info().rss for each in tree),
                                     sum(each.num_fds() for each in tree)))
            number += 1

    def stop(self):
        """End the samples; return them."""
        self._stop.set()
        self._thread.join()
        return self.samples


def flatness(samples, warm_up):
    """Growth after the warm-up.

    The samples after the first `warm_up` seconds are cut into fifths of the same length; memory
    is compared by the medians of the first and of the last fifth, and so are open files, whose
    greatest numbers are compared, too.

    Args:
        samples: of a `Watch`.
        warm_up: seconds that do not count.

    Returns:
        `{"growth", "first_bytes", "last_bytes", "peak_bytes", "first_files", "last_files",
        "most_files_first", "most_files_last", "samples"}`; `growth` is the last median of memory
        over the first.
    """
    samples = [sample for sample in samples if sample[0] >= warm_up]
    if len(samples) < 10:
        raise ValueError(f"{len(samples)} samples after the warm-up: too few")
    fifth = len(samples) // 5
    first, last = samples[:fifth], samples[-fifth:]

    def median(part, column):
        return statistics.median(sample[column] for sample in part)

    return {"growth": median(last, 1) / median(first, 1),
            "first_bytes": median(first, 1), "last_bytes": median(last, 1),
            "peak_bytes": max(sample[1] for sample in samples),
            "first_files": median(first, 2), "last_files": median(last, 2),
            "most_files_first": max(sample[2] for sample in first),
            "most_files_last": max(sample[2] for sample in last),
            "samples": len(samples)}


def missed(figures):
    """Lines for what did not stay flat."""
    lines = []
    if figures["growth"] > MOST_GROWTH:
        lines.append(f"memory grew to {figures['growth']:.4f} times, at most {MOST_GROWTH}")
    if figures["last_files"] > figures["first_files"]:
        lines.append(f"open files grew from {figures['first_files']:.0f} to "
                     f"{figures['last_files']:.0f}")
    return lines


def soak_parser(description):
    """The flags that every soak has."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", "--tries", type=float, default=45,
                        help="below 20 nothing is judged: allocators still settle")
    parser.add_argument("--warm_up", type=float,
                        help="minutes that do not count (default: a ninth)")
    parser.add_argument("--seed", type=int, default=7, help="of all draws")
    parser.add_argument("--output", help="JSON file for the figures and all samples")
    return parser


def run_soak(soak, arguments, failures):
    """Run a soak, print and write its figures; the exit code.

    Args:
        soak: called with a folder, minutes, minutes of warm-up and the arguments; its figures.
        arguments: of `soak_parser`.
        failures: called with the figures, gives lines for what failed beside memory and files.
    """
    warm_up = arguments.minutes / 9 if arguments.warm_up is None else arguments.warm_up
    with tempfile.TemporaryDirectory() as folder:
        figures = soak(pathlib.Path(folder), arguments.minutes, warm_up, arguments)
    if arguments.output:
        pathlib.Path(arguments.output).write_text(json.dumps(figures) + "\n")
    for name, value in figures.items():
        if name != "all_samples":
            print(f"{name:20}{value}")
    failed = missed(figures) if arguments.minutes >= 20 else []
    failed += failures(figures)
    for line in failed:
        print(f"FAILED: {line}")
    return 1 if failed else 0
