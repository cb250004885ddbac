"""Time of `import bert_tf` on top of `import tensorflow, keras`, and of each `--help`.

    python benchmarks/start_up.py

Besides, without the imports, what `from_pretrained` and `export_saved_model` take of
all-MiniLM-L6-v2 (float32, checked as every export is). With --before the same of another checkout,
the two alternating.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

import minilm
from speed.report import Targets, benchmark_parser, finish

from bert_tf.cli import COMMANDS

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_MEASURED = """
import time, tensorflow, keras, bert_tf, bert_tf.saved_model.save
model, folder = {!r}, {!r}
begun = time.perf_counter()
{}
print(time.perf_counter() - begun)
"""
MEASURED = {"from_pretrained": "bert_tf.from_pretrained(model)",
            "export_saved_model": "bert_tf.saved_model.save.export_saved_model(model, folder)"}


def _seconds(arguments, checkout, told):
    """Seconds of a process, or those that it told."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], cwd=checkout, check=True, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": checkout})
    return float(done.stdout.split()[-1]) if told else time.perf_counter() - start


def main():
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="interleaved runs, of which medians")
    add("--before", metavar="CHECKOUT", help="another checkout, measured beside this one")
    add("--only", nargs="+", metavar="ROW", help="of the rows these alone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model")
        commands = {
            "import tensorflow, keras": ["-c", "import tensorflow, keras"],
            "import tensorflow, keras, bert_tf": ["-c", "import tensorflow, keras, bert_tf"],
            **{f"{name} --help": ["-m", f"bert_tf.{name}", "--help"] for name in COMMANDS},
            **{name: ["-c", _MEASURED.format(model, os.path.join(folder, "exports"), code)]
               for name, code in MEASURED.items()}}
        if unknown := {*(arguments.only or ())} - {*commands}:
            parser.error(f"--only {', '.join(unknown)}: unknown; there are {'; '.join(commands)}")
        commands = {name: commands[name] for name in arguments.only or commands}
        minilm.convert(model)
        checkouts = {"": REPOSITORY}
        if arguments.before:
            checkouts[", before"] = os.path.abspath(arguments.before)
        times = {name + which: [] for name in commands for which in checkouts}
        for _ in range(arguments.rounds):
            for name, command in commands.items():
                for which, checkout in checkouts.items():
                    times[name + which].append(_seconds(command, checkout, name in MEASURED))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, seconds in medians.items():
        print(f"{name:42}{seconds:8.2f} s")
    for name in commands if arguments.before else ():
        print(f"{name:42}{medians[name] / medians[f'{name}, before']:8.2f} of before")
    return finish("start_up", arguments, Targets(), median_seconds=medians)


if __name__ == "__main__":
    sys.exit(main())
