"""Merges requests of many clients into batches, per model version and signature.

The rules are those of TensorFlow Serving (`batching/batching_session.cc`, and TensorFlow's
`core/kernels/batching_util/shared_batch_scheduler.h`) but for one: a request waits for others only
while a batch of the server is running.

All but the models' own work happens in one event loop, so nothing here is locked.
"""

import asyncio
import collections
import concurrent.futures
import time

import numpy as np

from bert_tf.serving.server.signature import Cancellation
from bert_tf.serving.wire.messages import error


class Batcher:
    """Runs signatures in threads.

    Args:
        batching: `Batching` of the server: how many threads run batches; None for no merging.
        metrics: `Metrics`, told about batches.
        threads: that run requests which are not merged.
    """

    def __init__(self, batching, metrics, threads):
        self._metrics = metrics
        self._alone = concurrent.futures.ThreadPoolExecutor(threads, "request")
        self._threads = batching.threads if batching else 1
        self._pool = concurrent.futures.ThreadPoolExecutor(self._threads, "batch")
        self._running = 0
        self._queues = collections.OrderedDict()  # key: _Queue; the next to be served first
        self._soon = self._timer = None  # handles of the next look at the queues

    async def run(self, signature, inputs, outputs, batching, deadline=None):
        """What `signature.run` answers to inputs that were checked.

        Args:
            signature: `Signature`.
            inputs, outputs: as of `Signature.run`.
            batching: `Batching` of the version; None runs the request alone.
            deadline: `time.monotonic()` from which nobody waits for the answer any more.

        Raises:
            ServingError: `UNAVAILABLE` if too many wait, `RESOURCE_EXHAUSTED` if the deadline came
                before its batch, `DEADLINE_EXCEEDED` if it came then, or what the
                signature says.
        """
        if batching is None:
            return await self._run_alone(signature, inputs, outputs, deadline)
        size = _batch_size(inputs)
        if size > batching.execution_size:
            return await self._run_parts(signature, inputs, outputs, batching, deadline, size)
        key = (signature, outputs)
        queue = self._queues.get(key) or _Queue(signature, outputs, batching)
        if not queue.has_room(size) and sum(
                each.batches for each in self._queues.values()
                if each.signature is signature) >= batching.max_enqueued_batches:
            raise error("queue_full")
        self._queues[key] = queue
        task = _Task(inputs, size, deadline)
        queue.add(task)
        self._look_soon()
        return await task.answer()

    async def _run_alone(self, signature, inputs, outputs, deadline):
        cancellation = Cancellation()
        running = asyncio.get_running_loop().run_in_executor(
            self._alone, signature.run, inputs, outputs, cancellation)
        try:
            async with asyncio.timeout_at(deadline):
                return await running  # if that is cancelled, what has not begun does not begin
        except TimeoutError as problem:
            raise error("deadline") from problem
        finally:
            cancellation.cancel()  # of what ended, nothing

    async def _run_parts(self, signature, inputs, outputs, batching, deadline, size):
        """Run a large request in parts, as `enable_large_batch_splitting` says."""
        if not batching.split or size > batching.max_batch_size:
            raise error("task_size", size=size, limit=batching.max_batch_size)
        step = batching.execution_size
        tasks = [asyncio.ensure_future(self.run(
            signature, {name: value[start:start + step] for name, value in inputs.items()},
            outputs, batching, deadline)) for start in range(0, size, step)]
        try:
            parts = await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # nobody waits for what is left where one was refused
                task.cancel()
        try:
            return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        except ValueError as problem:
            raise error("output_size") from problem

    def close(self):
        """Let the threads end once they are idle."""
        self._pool.shutdown(wait=False)
        self._alone.shutdown(wait=False)

    def _look_soon(self):
        """Look at the queues once what the loop has read by now is in them."""
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._look)

    def _look(self):
        """Start batches as long as there are threads and batches that may start."""
        self._soon = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queues and self._running < self._threads:
            now = time.monotonic()
            key = next((key for key, queue in self._queues.items()
                        if queue.ready(now, idle=not self._running)), None)
            if key is None:
                soonest = min(queue.due for queue in self._queues.values())
                self._timer = asyncio.get_running_loop().call_later(
                    max(0.0, soonest - now), self._look_soon)
                return
            queue = self._queues[key]
            tasks = [task for task in queue.take() if task.wanted(now)]
            if queue.batches:
                self._queues.move_to_end(key)
            else:
                del self._queues[key]
            if tasks:
                self._start(queue, tasks, now)

    def _start(self, queue, tasks, now):
        self._running += 1
        sizes = [task.size for task in tasks]
        self._metrics.batch(queue.batching.thread_pool, sizes,
                            _allowed(sum(sizes), queue.batching.allowed_sizes),
                            [now - task.enqueued for task in tasks])
        for task in tasks:
            task.runs = True
        cancellation = Cancellation()
        future = asyncio.get_running_loop().run_in_executor(
            self._pool, _run_batch, queue.signature, tasks, queue.outputs, queue.batching,
            cancellation)
        future.add_done_callback(lambda future: self._end(tasks, future))
        for task in tasks:
            task.when_unwanted(lambda: None if any(map(_Task.waits, tasks)) else
                               cancellation.cancel())

    def _end(self, tasks, future):
        self._running -= 1
        if future.cancelled() or future.exception():
            problem = None if future.cancelled() else future.exception()
            for task in tasks:
                task.fail(problem or error("stopping"))
        else:
            for task, answer in zip(tasks, future.result(), strict=True):
                task.succeed(answer)
        if self._queues:
            self._look_soon()


class _Task:
    """A request that waits for its answer."""

    __slots__ = ("inputs", "size", "deadline", "enqueued", "runs", "_future")

    def __init__(self, inputs, size, deadline):
        self.inputs = inputs
        self.size = size
        self.deadline = deadline
        self.enqueued = time.monotonic()
        self.runs = False
        self._future = asyncio.get_running_loop().create_future()

    async def answer(self):
        if self.deadline is None:
            return await self._future
        # The answer of a batch that runs may come too late as well.
        left = max(0.0, self.deadline - self.enqueued)
        timer = asyncio.get_running_loop().call_later(left, self._expire)
        try:
            return await self._future
        finally:
            timer.cancel()

    def wanted(self, now):
        """Whether somebody still waits."""
        if self.deadline is not None and self.deadline <= now:
            self._expire()
        return self.waits()

    def waits(self):
        """Whether it is not answered, given up or cancelled yet."""
        return not self._future.done()

    def when_unwanted(self, do):
        """Call `do()` once it waits no more."""
        self._future.add_done_callback(lambda _: do())

    def _expire(self):
        if not self._future.done():
            self._future.set_exception(error("deadline" if self.runs else "queue_deadline"))

    def fail(self, problem):
        if not self._future.done():
            self._future.set_exception(problem)

    def succeed(self, answer):
        if not self._future.done():
            self._future.set_result(answer)


class _Queue:
    """Batches of one signature that wait for a thread; the last one is open."""

    def __init__(self, signature, outputs, batching):
        self.signature = signature
        self.outputs = outputs
        self.batching = batching
        self._batches = collections.deque()  # of lists of tasks
        self._open_size = 0

    @property
    def batches(self):
        """How many wait."""
        return len(self._batches)

    def has_room(self, size):
        """Whether a request of `size` rows fits into the open batch."""
        return bool(self._batches) and self._open_size + size <= self.batching.execution_size

    @property
    def due(self):
        """`time.monotonic()` from which the first batch need not wait any more."""
        return self._batches[0][0].enqueued + self.batching.timeout

    def ready(self, now, idle):
        """Whether the first batch may run: it is full, due, or nothing else runs (`idle`)."""
        return (idle or len(self._batches) > 1
                or self._open_size >= self.batching.execution_size or self.due <= now)

    def add(self, task):
        if self.has_room(task.size):
            self._batches[-1].append(task)
            self._open_size += task.size
        else:
            self._batches.append([task])
            self._open_size = task.size

    def take(self):
        return self._batches.popleft()


def _batch_size(inputs):
    """The rows of a request that is to be merged."""
    sizes = set()
    for value in inputs.values():
        if not value.ndim:
            raise error("no_batch_axis")
        sizes.add(len(value))
    if len(sizes) != 1:
        raise error("batch_axes")
    return sizes.pop()


def _run_batch(signature, tasks, outputs, batching, cancellation):
    """In a thread: the answers to `tasks`, in order."""
    size = sum([task.size for task in tasks])
    filling = _allowed(size, batching.allowed_sizes) - size if size else 0
    if len(tasks) == 1 and not filling:
        merged = tasks[0].inputs
    else:
        merged = {name: _merge([task.inputs[name] for task in tasks], filling, batching.pad)
                  for name in tasks[0].inputs}
    answer = signature.run(merged, outputs, cancellation)
    for values in answer.values():
        if not values.ndim:
            raise error("output_axis")
        if len(values) != size + filling:
            raise error("output_size")
    if len(tasks) == 1 and not filling:
        return [answer]
    answers, start = [], 0
    for task in tasks:
        end = start + task.size
        answers.append({name: values[start:end] for name, values in answer.items()})
        start = end
    return answers


def _allowed(size, allowed_sizes):
    return next((allowed for allowed in allowed_sizes if allowed >= size), size)


def _merge(values, filling, pad):
    """One array of several, along the first axis; `filling` rows repeat the last one's first."""
    if len({value.shape[1:] for value in values}) > 1:
        if not pad or len({value.ndim for value in values}) > 1:
            raise error("merged_shapes")
        values = _padded(values)
    if filling:
        last = next(value for value in reversed(values) if len(value))
        values = [*values, np.repeat(last[:1], filling, axis=0)]
    return np.concatenate(values)


def _padded(values):
    """Arrays of equal lengths but in the first axis; what is added is each one's first element."""
    lengths = np.max([value.shape[1:] for value in values], axis=0)
    result = []
    for value in values:
        widths = [(0, 0), *((0, length - given) for length, given in
                            zip(lengths, value.shape[1:], strict=True))]
        if any(after for _, after in widths):
            first = value.flat[0] if value.size else (b"" if value.dtype == object else 0)
            value = np.pad(value, widths, constant_values=first)
        result.append(value)
    return result
