"""A SavedModel in this process, without a server.

    python benchmarks/load/in_process.py VERSION TEXTS.json --batch_size 32 --seconds 10

Prints a JSON object: `load_seconds`, importing TensorFlow and loading the model, and, with
--seconds, `texts_per_second`. With --callers N so many batches are computed side by side, where an
operation has --intra_op threads. --vectors FILE keeps the vectors of the texts, each asked for by
itself.
"""

import time

START = time.perf_counter()

import argparse  # noqa: E402
import concurrent.futures  # noqa: E402
import itertools  # noqa: E402
import json  # noqa: E402


def _texts_per_second(embed, batches, size, seconds, callers):
    def ask(number):
        own = itertools.cycle(batches[number::callers])
        start, done = time.perf_counter(), 0
        while (now := time.perf_counter()) < start + seconds:
            embed(text=next(own))["embedding"].numpy()
            done += size
        return done / (now - start)

    with concurrent.futures.ThreadPoolExecutor(callers) as pool:
        return sum(pool.map(ask, range(callers)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("texts")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--callers", type=int, default=1)
    parser.add_argument("--intra_op", type=int, default=0, help="threads (default: TensorFlow's)")
    parser.add_argument("--warm_up", type=float, default=3, help="seconds before it counts")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--vectors")
    arguments = parser.parse_args()

    import numpy as np
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 — its operations are in the graph

    tf.config.threading.set_intra_op_parallelism_threads(arguments.intra_op)
    loaded = tf.saved_model.load(arguments.version)
    results = {"load_seconds": time.perf_counter() - START}
    from bert_tf.saved_model.constant_kernels import with_constant_kernels

    embed = with_constant_kernels(loaded.signatures["embed"])  # as the server has it
    with open(arguments.texts, encoding="utf-8") as stream:
        texts = json.load(stream)
    embed(text=tf.constant(texts[:1]))
    results["first_answer_seconds"] = time.perf_counter() - START
    if arguments.vectors:
        np.save(arguments.vectors, np.concatenate([
            embed(text=tf.constant([text]))["embedding"].numpy() for text in texts]))
    if arguments.seconds:
        size = arguments.batch_size
        batches = [tf.constant(texts[start:start + size])
                   for start in range(0, len(texts) - size + 1, size)]
        _texts_per_second(embed, batches, size, arguments.warm_up, arguments.callers)
        results["texts_per_second"] = _texts_per_second(embed, batches, size, arguments.seconds,
                                                        arguments.callers)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
