"""A prediction on this machine: by this process, or by several with a share of the cores each."""

import multiprocessing
import os
import sys

import tqdm

from bert_tf import cores, side_by_side
from bert_tf.data.processes import in_order
from bert_tf.predict.progress import count_rows
from bert_tf.predict.work import load


def predict_locally(work, predictor):
    """Write the shards that are not there, and the bad rows.

    Args:
        work: a `Work`.
        predictor: the `Predictor`, used where this process does it alone.

    Returns: dict of the numbers of `rows`, `bad_rows` and `shards`, and of `first`, what is wrong
        with the first bad row, or None.
    """
    rows = shards = 0
    processes = work.options.num_processes
    with work.bad_rows() as bad, tqdm.tqdm(
            desc="rows", unit="", unit_scale=True, total=count_rows(work.rows.sources),
            mininterval=0.2 if sys.stderr.isatty() else 10.0) as bar:
        def missing():
            nonlocal rows, shards
            for block in work.blocks(bad):
                rows += len(block.places)
                shards += 1
                if work.is_done(block):
                    bar.initial += len(block.places)  # counts for no rate
                    bar.update(len(block.places))
                else:
                    yield (block,)

        start = (_start, (work, predictor, bar.update)) if processes == 1 else (
            _start_process, (work, *_core_groups(processes)))
        for (block,), _ in in_order(missing(), _do, *start, processes, "predicted"):
            if processes > 1:
                bar.update(len(block.places))
    return {"rows": rows, "bad_rows": bad.count, "shards": shards, "first": bad.first}


_work = _predictor = _done = None  # of this process


def _do(block):
    _work.do(block, _predictor, _done)


def _start(work, predictor, done):
    global _work, _predictor, _done
    _work, _predictor, _done = work, predictor, done


def _core_groups(count):
    """Return `(groups, is_pinned, taken)`: the cores of each process, whether it may run on these
    alone, and a counter of those given away.

    Under a container's limit, which names no cores, the first ones would be those of every
    container of the machine: it counts threads only. So it is where no process can be pinned.
    """
    usable, names = cores.usable(), []
    if hasattr(os, "sched_getaffinity"):  # on Linux
        names = sorted(os.sched_getaffinity(0))
    is_pinned = len(names) == usable
    each = names if is_pinned else list(range(usable))
    groups = [each[number * usable // count:(number + 1) * usable // count] or each
              for number in range(count)]
    return groups, is_pinned, multiprocessing.get_context("spawn").Value("i", 0)


def _start_process(work, groups, is_pinned, taken):
    with taken.get_lock():
        group = groups[taken.value % len(groups)]
        taken.value += 1
    if is_pinned:
        os.sched_setaffinity(0, group)
    side_by_side.set_threads(len(group))
    _start(work, load(work.options), None)
