"""Time of `import bert_tf` on top of `import tensorflow, keras`, and of each `--help`.

    python benchmarks/start_up.py
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

from bert_tf.cli import COMMANDS
from bert_tf.storage import files


def _seconds(arguments):
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved runs, of which medians")
    rounds = parser.parse_args().rounds
    commands = {"import tensorflow, keras": ["-c", "import tensorflow, keras"],
                "import tensorflow, keras, bert_tf": ["-c", "import tensorflow, keras, bert_tf"],
                **{f"{name} --help": ["-m", f"bert_tf.{name}", "--help"] for name in COMMANDS}}
    times = {name: [] for name in commands}
    for _ in range(rounds):
        for name, arguments in commands.items():
            times[name].append(_seconds(arguments))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, seconds in medians.items():
        print(f"{name:36}{seconds:8.2f} s")
    files.write_json(os.path.join(os.path.dirname(os.path.abspath(__file__)), "results",
                                  "start_up.json"), {"median_seconds": medians})


if __name__ == "__main__":
    main()
