"""Serve for many minutes and watch memory and open files from outside: both must stay flat.

    python tests/faults/soak_serving.py --minutes 45 --output soak_serving.json

The embedded server has all-MiniLM-L6-v2 and batches. Texts are asked for at a third of the rate
that the machine can do, half over gRPC, half over REST; a new version comes every half minute and
the old one goes; clients are killed, connections cut off, requests sent that are wrong. Every
answer is compared with the model's own. Once a second resident memory and open files (sockets
count) of the server are read. Behind the warm-up the medians of the first and the last fifth are
compared; memory may grow by 2 %, open files not at all.
"""

import asyncio
import json
import pathlib
import random
import sys

import numpy as np
from flatness import Watch, flatness, run_soak, soak_parser

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

import minilm  # noqa: E402
from load.processes import HERE, REPOSITORY, ModelServer, run_json  # noqa: E402
from load.soak import Soak, is_no_refusal  # noqa: E402

from bert_tf.data import python_prose  # noqa: E402

TEXTS = 600
TOLERANCE = 1e-5
SWITCH_SECONDS, MALFORMED_PER_SECOND, PEAK_SECONDS = 30, 2, 15


def prepare(folder, seed):
    """Export the model into `folder`/minilm; texts, and float32 `[N, W]` of their vectors."""
    minilm.convert(str(folder / "model"))
    minilm.export(str(folder / "model"), str(folder / "minilm"), "float32")
    paragraphs = sorted({text for _, texts in python_prose.documents() for text in texts})
    texts = random.Random(seed).sample(paragraphs, TEXTS)
    (folder / "texts.json").write_text(json.dumps(texts))
    run_json(sys.executable, HERE / "in_process.py", folder / "minilm/1", folder / "texts.json",
             "--seconds", 0, "--vectors", folder / "vectors.npy")
    return texts, np.load(folder / "vectors.npy")


def soak(folder, minutes, warm_up, arguments):
    """Run; figures of it."""
    rate = arguments.rate
    texts, vectors = prepare(folder, arguments.seed)
    batching = ("--enable_batching=true", "--file_system_poll_wait_seconds=1",
                f"--batching_parameters_file={REPOSITORY / 'serving/batching.config'}")
    with ModelServer(folder / "minilm", None, batching) as server:
        load = Soak(server, folder / "minilm", texts, vectors, TOLERANCE, None)
        if rate is None:
            rate = asyncio.run(load.peak(PEAK_SECONDS)) / 3
            load.counts.clear()
            load.latencies.clear()
        watch = Watch(server.pid)
        seconds = minutes * 60
        asyncio.run(load.run(seconds, rate, SWITCH_SECONDS, MALFORMED_PER_SECOND * seconds))
        samples, lives = watch.stop(), server.runs()
    p50, p99 = (np.percentile(load.latencies, [50, 99]) * 1000).tolist()
    return {"rate": rate, **load.counts, "failed": len(load.failures),
            "first_failures": load.failures[:3], "lives": lives, "worst_error": load.worst_error,
            "malformed": sum(load.malformed.values()),
            "malformed_taken": sum(count for name, count in load.malformed.items()
                                   if is_no_refusal(name)),
            "p50_ms": p50, "p99_ms": p99,
            **flatness(samples, warm_up * 60), "all_samples": samples}


def failures(figures):
    """Lines for what should not have been."""
    failed = [f"{name}: {figures[name]}" for name in ("failed", "wrong", "malformed_taken")
              if figures.get(name)]
    return failed if figures["lives"] else [*failed, "the server died"]


def main():
    parser = soak_parser(__doc__)
    parser.add_argument("--rate", type=float,
                        help="texts a second (default: a third of what the machine can do)")
    return run_soak(soak, parser.parse_args(), failures)


if __name__ == "__main__":
    sys.exit(main())
