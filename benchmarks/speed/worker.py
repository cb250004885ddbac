"""A side of a benchmark of speed, in a process of its own that does one thing at a time.

    python benchmarks/speed/worker.py encoder benchmarks/peers/keras_nlp_bert.py '{"config": …}'

`speed/workers.py` starts it and writes a JSON object a line to its standard input: `method` of the
class in WORK and its `arguments`; the answer is a line on standard output. Any interpreter with
NumPy runs it. A side is a file with

    PACKAGES                             names of the packages whose versions are told
    encoder(config, dtype)               -> (prepare, run): `prepare(batch, fixed)` makes of int32
        arrays what `run` takes, `fixed` telling that batches of this very shape come again and
        again; `run` gives an array `[batch, seq_length, hidden]` when all is computed
    train_step(config, dtype, batches)   -> step(), one update, gives its loss as float; two sides
        have the option `gradient_checkpointing`
    embedder(model, dtype)               -> embed(texts, batch_size), an array `[texts, width]`;
        a side may make batches as it likes, as ours does; what makes its own int8 gets a file of
        texts, too, `calibration`

or with some of these. `config` holds the fields of `bert_config.json`.
"""

import contextlib
import ctypes
import gc
import importlib.metadata
import importlib.util
import json
import os
import resource
import sys
import time
import traceback

import numpy as np

LEAST_ID = 1000  # of drawn token ids; special ones are below


def full_batch(rows, length, vocab_size, seed=1):
    """Token ids `[rows, length]`, none of them padding, as int32 arrays named as our inputs."""
    ids = np.random.default_rng(seed).integers(LEAST_ID, vocab_size, (rows, length), np.int32)
    return {"input_word_ids": ids, "input_mask": np.ones_like(ids),
            "input_type_ids": np.zeros_like(ids)}


def text_batches(path, rows, cut=None, pad_to=None):
    """Batches of `rows` texts in order.

    Args:
        path: .npz file: int32 `ids` of all texts on end, and `lengths`.
        cut: longer texts lose their end; None leaves all whole.
        pad_to: length of all rows; None for the longest of each batch.
    """
    with np.load(path) as held:
        texts = np.split(held["ids"], np.cumsum(held["lengths"])[:-1])
    starts = range(0, len(texts) - rows + 1, rows)
    for start in starts:
        batch = [text[:cut] for text in texts[start:start + rows]]
        ids, mask = np.zeros((2, rows, pad_to or max(map(len, batch))), np.int32)
        for row, text in enumerate(batch):
            ids[row, :len(text)], mask[row, :len(text)] = text, 1
        yield {"input_word_ids": ids, "input_mask": mask, "input_type_ids": np.zeros_like(ids)}


def training_batches(rows, length, predictions, vocab_size, count=2):
    """Full batches with so many positions a row to be predicted; further keys as in our records."""
    draw = np.random.default_rng(1)
    for number in range(count):
        positions = draw.permuted(np.tile(np.arange(length, dtype=np.int32), (rows, 1)), axis=1)
        yield {**full_batch(rows, length, vocab_size, number),
               "masked_lm_positions": np.sort(positions[:, :predictions], axis=1),
               "masked_lm_ids": draw.integers(LEAST_ID, vocab_size, (rows, predictions), np.int32),
               "masked_lm_weights": np.ones((rows, predictions), np.float32)}


class EncoderWork:
    """Forward passes."""

    def __init__(self, side, config, dtype):
        self.config = config
        self.prepare, self.run = side.encoder(config, dtype)
        self.cases = {}

    def add(self, name, shapes=None, fixed=True, **texts):
        """Keep batches under a name, and run them once.

        Args:
            shapes: `[rows, length]` of each, full ones; or else arguments of `text_batches`.
            fixed: whether the same shapes come again and again.

        Returns: dict of `tokens`, real ones, and `positions`, with padding.
        """
        batches = list(text_batches(**texts)) if texts else [
            full_batch(*shape, self.config["vocab_size"]) for shape in shapes]
        self.cases[name] = [self.prepare(batch, fixed) for batch in batches]
        for batch, inputs in zip(batches, self.cases[name], strict=True):
            output = np.asarray(self.run(inputs), np.float32)
            expected = (*batch["input_mask"].shape, self.config["hidden_size"])
            if output.shape != expected or not np.isfinite(output).all():
                raise ValueError(f"{name}: {output.shape}, not finite numbers of {expected}")
        return {"tokens": sum(int(batch["input_mask"].sum()) for batch in batches),
                "positions": sum(batch["input_mask"].size for batch in batches)}

    def measure(self, name, seconds):
        """Seconds of one pass over the batches, the mean of those that so many seconds hold."""
        start, passes = time.perf_counter(), 0
        while passes == 0 or time.perf_counter() - start < seconds:
            for inputs in self.cases[name]:
                self.run(inputs)
            passes += 1
        return (time.perf_counter() - start) / passes


class TrainWork:
    """Training steps, and the memory they take."""

    def __init__(self, side, config, dtype, options, **batches):
        # The sides make their optimizer's moments at different times, so all is counted from here.
        self.libraries = peak_memory()
        self.step = side.train_step(config, dtype, list(training_batches(
            vocab_size=config["vocab_size"], **batches)), **options)
        self.built = peak_memory()

    def measure(self, steps):
        """`{"seconds", "losses"}` of so many steps; before them one that does not count.

        Then memory that is free goes back to the system, for the others' turns.
        """
        losses, seconds = [self.step()], []
        for _ in range(steps):
            start = time.perf_counter()
            losses.append(self.step())
            seconds.append(time.perf_counter() - start)
        with contextlib.suppress(OSError, AttributeError):  # of glibc alone
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
        return {"seconds": seconds, "losses": losses}

    def memory(self):
        """Bytes of this process at most: `peak`, `built` before any step, `libraries` alone."""
        return {"peak": peak_memory(), "built": self.built, "libraries": self.libraries}


class EmbeddingWork:
    """Vectors of texts."""

    def __init__(self, side, **options):
        self.embed = side.embedder(**options)

    def measure(self, texts, batch_size, path=None):
        """Seconds that these texts take; their vectors go to a .npy file, if one is named."""
        start = time.perf_counter()
        vectors = self.embed(texts, batch_size)
        seconds = time.perf_counter() - start
        if path is not None:
            np.save(path, vectors)
        return seconds

    def latencies(self, texts):
        """Seconds of each text, asked for by itself."""
        return [self.measure([text], 1) for text in texts]


WORK = {"encoder": EncoderWork, "train_step": TrainWork, "embedding": EmbeddingWork}


def peak_memory():
    """Bytes of the largest resident set of this process so far."""
    try:
        # Unlike ru_maxrss this does not begin with what the parent had.
        with open("/proc/self/status", encoding="ascii") as stream:
            return 1024 * next(int(line.split()[1]) for line in stream
                               if line.startswith("VmHWM"))
    except OSError:
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return size * (1 if sys.platform == "darwin" else 1024)


def main():
    kind, path, arguments = sys.argv[1:]
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**result):
        print(json.dumps(result), file=answers, flush=True)

    spec = importlib.util.spec_from_file_location("side", path)
    side = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(side)
        work = WORK[kind](side, **json.loads(arguments))
    except ModuleNotFoundError as error:
        answer(missing=error.name)
        return
    answer(result={name: importlib.metadata.version(name) for name in side.PACKAGES})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer(result=getattr(work, request["method"])(**request["arguments"]))
        except Exception:  # whatever it is, the parent tells it and ends
            answer(error=traceback.format_exc())


if __name__ == "__main__":
    main()
