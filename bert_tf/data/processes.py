"""Work divided among processes of this machine, its results in order."""

import collections
import concurrent.futures
import contextlib
import importlib.machinery
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
    waiting = collections.deque()
    try:
        for _ in range(num_processes):
            executor.submit(int)  # start them while the first tasks are read
        for task in tasks:
            waiting.append((task, executor.submit(_work, work, task)))
            if len(waiting) > num_processes + 1:
                task, future = waiting.popleft()
                yield task, future.result()
        while waiting:
            task, future = waiting.popleft()
            yield task, future.result()
    except concurrent.futures.process.BrokenProcessPool as error:
        raise BertTfError(explain(
            f"a process died while it {what}, perhaps out of memory (finished shards are kept)",
            attempt="the same command with fewer --num_processes")) from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


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
