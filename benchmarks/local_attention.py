"""What self-attention costs with and without a window, at growing lengths.

    python benchmarks/local_attention.py [--lengths 512 8192] [--hidden_size 128]

One layer of `SelfAttention` on one row without padding, float32: of the whole row, and of a window
of `--window` tokens. Each pair is timed in turns, in this process; the peak memory of each is that
of a process of its own, above what the same process needs for a row of 16 tokens.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

import tensorflow as tf

from bert_tf.layers.attention import SelfAttention
from bert_tf.layers.layout import Padded


def layer_of(args, window):
    """The attention as a compiled function of `hidden [1, length, hidden_size]`."""
    layer = SelfAttention(args.hidden_size, args.hidden_size // args.head_size, seed=1,
                          window=window, rotary_base=10000.0)

    def call(hidden):
        layout = Padded.of_mask(tf.ones(tf.shape(hidden)[:2], tf.int32), "float32")
        return layer(layout.tokens(hidden), layout=layout)

    return tf.function(call, autograph=False, input_signature=[
        tf.TensorSpec([None, None, args.hidden_size])])


def row(args, length):
    return tf.random.stateless_normal([1, length, args.hidden_size], [1, 2])


def seconds(args, length):
    """Medians of the global and the local layer, calls in turns."""
    calls = {window: layer_of(args, window) for window in (0, args.window)}
    hidden, times = row(args, length), {window: [] for window in calls}
    for _ in range(args.repeats + 1):
        for window, call in calls.items():
            start = time.perf_counter()
            call(hidden).numpy()
            times[window].append(time.perf_counter() - start)
    return [statistics.median(each[1:]) for each in times.values()]


def most_resident():
    """Bytes that this process had in memory at most (Linux)."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", status).group(1)) * 1024


def peak_bytes(args, length, window):
    """Of a process that does nothing else."""
    words = [sys.executable, __file__, "--peak_of", str(length), "--window", str(window),
             "--hidden_size", str(args.hidden_size), "--head_size", str(args.head_size)]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192])
    parser.add_argument("--window", type=int, default=128)
    parser.add_argument("--hidden_size", type=int, default=128)
    parser.add_argument("--head_size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peak_of", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak_of:
        call = layer_of(args, args.window)
        used = []
        for length in (16, args.peak_of):
            call(row(args, length))
            used.append(most_resident())
        print(used[1] - used[0])
        return
    print(f"{args.hidden_size} wide, heads of {args.head_size}, window of {args.window} tokens")
    print("tokens   global ms   local ms   local/global   global MB   local MB")
    for length in args.lengths:
        whole, local = seconds(args, length)
        peaks = [peak_bytes(args, length, window) / 1e6 for window in (0, args.window)]
        print(f"{length:6} {whole * 1e3:11.1f} {local * 1e3:10.1f} {local / whole:14.2f} "
              f"{peaks[0]:11.0f} {peaks[1]:10.0f}", flush=True)


if __name__ == "__main__":
    main()
