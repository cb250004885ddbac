"""Work divided among processes of this machine, or threads of this one, its results in order."""

import collections
import concurrent.futures
import contextlib
import importlib.machinery
import itertools
import multiprocessing
import os
import signal
import sys
import threading

from bert_tf.errors import BertTfError, explain
from bert_tf.without_keras import import_without_keras


def in_order(tasks, work, start, arguments, num_processes, what, needs_keras=True):
    """Yield `(task, work(*task))` of each task, in order; a few more than `num_processes` are read
    ahead.

    Args:
        tasks: iterable of tuples, the arguments of `work`; of what can be pickled.
        work: function of a module.
        start: function of a module, called once in each process before `work`.
        arguments: of `start`.
        num_processes: 1 works in this process.
        what: of an error: what the processes did.
        needs_keras: False has the processes begin without it, see `import_without_keras`.

    Raises:
        BertTfError: a process died; or whatever `start` and `work` raise.
    """
    if num_processes == 1:
        start(*arguments)
        for task in tasks:
            yield task, work(*task)
        return
    executor = concurrent.futures.ProcessPoolExecutor(num_processes, _Context(), _start,
                                                      (None if needs_keras else _WithoutKeras(),
                                                       start, arguments))
    try:
        for _ in range(num_processes):
            executor.submit(int)  # start them while the first tasks are read
        yield from _results(tasks, lambda task: executor.submit(_work, work, task),
                            num_processes + 1)
    except concurrent.futures.process.BrokenProcessPool as error:
        raise BertTfError(explain(
            f"a process died while it {what}, perhaps out of memory (finished shards are kept)",
            attempt="the same command with fewer --num_processes")) from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def in_threads(tasks, work, num_threads):
    """Yield `(task, work(task))` of each task, in order; as many more are read ahead.

    Args:
        tasks: iterable.
        work: function of a task, which other threads call at the same time.
        num_threads: 1, or where there is a single task, works in this thread.

    Raises: whatever `work` raises, of the first task that fails; further ones are not begun.
    """
    tasks = iter(tasks)
    first = list(itertools.islice(tasks, 2)) if num_threads > 1 else []
    tasks = itertools.chain(first, tasks)
    if len(first) < 2:
        for task in tasks:
            yield task, work(task)
        return
    executor = concurrent.futures.ThreadPoolExecutor(num_threads)
    try:
        yield from _results(tasks, lambda task: executor.submit(work, task), num_threads)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _results(tasks, submit, ahead):
    """Yield each task and its result, in order, so many submitted ahead."""
    waiting = collections.deque()
    for task in tasks:
        waiting.append((task, submit(task)))
        if len(waiting) > ahead:
            task, future = waiting.popleft()
            yield task, future.result()
    while waiting:
        task, future = waiting.popleft()
        yield task, future.result()


class _Process(multiprocessing.context.SpawnProcess):
    def start(self):
        with _interrupts_ignored(), _without_main_module():
            super().start()


class _Context(multiprocessing.context.SpawnContext):
    Process = _Process


_one_at_a_time = threading.Lock()


@contextlib.contextmanager
def _without_main_module():
    """Let processes started here not import the user's script: what it does is not for them, and
    their work is functions of modules."""
    main = sys.modules["__main__"]
    with _one_at_a_time:
        before = main.__spec__
        # Of this name `multiprocessing` imports nothing; hardly anybody else looks at it.
        main.__spec__ = importlib.machinery.ModuleSpec("__main__", None)
        try:
            yield
        finally:
            main.__spec__ = before


@contextlib.contextmanager
def _interrupts_ignored():
    """Let processes started here inherit that Ctrl-C is the parent's to handle."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_failed = None  # what `start` raised here


class _WithoutKeras:
    """An argument that, as a process reads it, imports what those after it would with Keras."""

    def __reduce__(self):
        return import_without_keras, ("tensorflow", "tensorflow_text")


def _start(_, start, arguments):
    global _failed
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        start(*arguments)
    except Exception as error:  # which would else be told as a process that died
        _failed = error


def _work(work, task):
    if _failed:
        raise _failed
    return work(*task)


def _die_with_parent():
    """End where the parent was killed: nobody is left to work for."""
    multiprocessing.parent_process().join()
    os._exit(1)
