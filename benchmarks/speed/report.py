"""What a benchmark of speed says at its end, and the flag that says where."""

import argparse
import os
import pathlib
import platform

from bert_tf.errors import BertTfError
from bert_tf.storage import files

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "results"


class Targets:
    """Values that are to be reached.

    Attributes:
        held: dicts of `what`, `value`, `least`, `most` (None: no bound) and `missed`.
    """

    def __init__(self):
        self.held = []

    def check(self, what, value, least=None, most=None):
        """Print a value and keep it; bounds may be None, and NaN is within none."""
        value = float(value)
        missed = not ((least is None or value >= least) and (most is None or value <= most))
        self.held.append({"what": what, "value": value, "least": least, "most": most,
                          "missed": missed})
        print(f"{what:76}{value:10.5g}  {_bounds(least, most)}{' FAILED' if missed else ''}")

    def lines(self):
        """A line for each that was missed."""
        return [f"FAILED: {each['what']}: {each['value']:.5g}, "
                f"{_bounds(each['least'], each['most'])} is expected"
                for each in self.held if each["missed"]]


def _bounds(least, most):
    if least is not None and most is not None:
        return f"{least:g} to {most:g}"
    if least is None and most is None:
        return ""
    return f"at least {least:g}" if most is None else f"at most {most:g}"


def benchmark_parser(description):
    """The parser of a benchmark, with the flag that `finish` reads."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", metavar="FILE.json", help="default: in benchmarks/results/")
    return parser


def finish(name, arguments, targets, **results):
    """Write `results` and what belongs to them as JSON, tell what was missed; the exit code."""
    path = arguments.output or os.path.join(RESULTS, f"{name}.json")
    files.write_json(path, {"flags": vars(arguments), "cores": os.cpu_count(), "cpu": _cpu(),
                            **results, "targets": targets.held})
    print(f"written to {path}")
    for line in targets.lines():
        print(line)
    return 1 if targets.lines() else 0


def _cpu():
    """The processor's name, as far as it can be told."""
    try:
        return next(line.partition(":")[2].strip() for line in files.read_lines("/proc/cpuinfo")
                    if line.startswith("model name"))
    except (BertTfError, StopIteration):
        return platform.processor()
