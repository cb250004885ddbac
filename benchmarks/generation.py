"""What a generated token costs, with keys and values kept and by runs over the whole row.

    python benchmarks/generation.py [--preset base] [--batch_size 1] [--new 64 256]

`bert_tf.generate` on a GPT with random weights, float32, greedy, prompts of `--prompt` tokens. Both
ways are timed in turns in this process, after a first call each; they must give the same tokens.
"""

import argparse
import statistics
import time

import numpy as np

import bert_tf


def seconds(model, ids, count, repeats):
    """Medians with and without the cache."""
    mask, times, tokens = np.ones_like(ids), {True: [], False: []}, {}
    for _ in range(repeats):
        for use_cache, each in times.items():
            start = time.perf_counter()
            made = bert_tf.generate(model, ids, mask, count, use_cache=use_cache)
            tokens[use_cache] = made["output_word_ids"].numpy()
            each.append(time.perf_counter() - start)
    np.testing.assert_array_equal(tokens[True], tokens[False])
    return [statistics.median(each) for each in times.values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--preset", default="base")
    parser.add_argument("--vocab_size", type=int, default=30522)
    parser.add_argument("--batch_size", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--new", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    config = bert_tf.preset("gpt", args.preset, vocab_size=args.vocab_size)
    model = bert_tf.LanguageModel(config, seed=1)
    ids = np.random.default_rng(1).integers(5, args.vocab_size, (args.batch_size, args.prompt))
    seconds(model, ids, 2, 1)
    for count in args.new:
        kept, whole = seconds(model, ids, count, args.repeats)
        total = args.batch_size * count
        print(f"{count} new tokens: kept {total / kept:.1f} tokens/s, whole rows "
              f"{total / whole:.1f} tokens/s, ratio {whole / kept:.2f}", flush=True)


if __name__ == "__main__":
    main()
