"""A client of served models: text in, plain results out, over gRPC or REST, without TensorFlow.

    with Client("localhost:8500", "bert_tiny") as client:
        client.fill_mask("The capital of France is [MASK].")

`Client` waits for answers, `AsyncClient` has the same methods as coroutines. Long lists go out in
batches, some at a time, and come back in their order. What a server says UNAVAILABLE (503) to, as
one that sheds load or restarts, is asked again after growing waits; other errors are told at once,
as is that no server is there, that it speaks another protocol or that a proxy fails. That is the
client's own doing and not a gRPC service config, so that both protocols do the same within one
deadline, and gRPC's five attempts are no limit. `pip install bert_tf_client` installs this alone.
"""

import asyncio
import collections
import contextlib
import math
import queue
import threading
import time

import tenacity

from bert_tf.retrieval.codes import VectorCode
from bert_tf.serving.client.address import Tls
from bert_tf.serving.client.methods import Methods
from bert_tf.serving.client.steps import RequestError

__all__ = ["AsyncClient", "Client", "RequestError", "Tls", "VectorCode"]


class Client(Methods):
    """A client whose methods wait. Threads may share it; over REST processes that fork, too."""

    # What reads the source alone, as the page of the API is made, finds the rest with `Methods`.
    __doc__ = f"{__doc__}\n\n    {Methods.__doc__}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """End the connection; nothing can be asked any more."""
        self._closed = True
        if "_wire" in vars(self):  # else nothing was asked
            self._wire.close()

    def _run(self, steps, timeout):
        deadline = time.monotonic() + (math.inf if timeout is None else timeout)
        done = None
        with self._explained():
            while True:
                try:
                    step = steps.send(done)
                except StopIteration as stop:
                    return stop.value
                done = step() if callable(step) else self._ask_all(step, deadline)

    def _ask_all(self, requests, deadline):
        if len(requests) == 1:
            return [self._ask(requests[0], deadline)]
        waiting, done = collections.deque(enumerate(requests)), queue.SimpleQueue()

        def work():
            with contextlib.suppress(IndexError):
                while True:
                    place, request = waiting.popleft()
                    done.put((place, *self._outcome(request, deadline)))

        # What is under way is waited for neither after a failure nor at Ctrl-C, as a pool would.
        for _ in range(min(self._concurrency, len(requests))):
            threading.Thread(target=work, daemon=True).start()
        answers = [None] * len(requests)
        try:
            for _ in requests:
                place, answer, problem = done.get()
                if problem is not None:
                    raise problem
                answers[place] = answer
        finally:
            waiting.clear()
        return answers

    def _outcome(self, request, deadline):
        """The answer and None, or None and what was raised."""
        try:
            return self._ask(request, deadline), None
        except Exception as problem:
            return None, problem

    def _ask(self, request, deadline):
        begun = time.monotonic()
        end = min(deadline, begun + self._timeout)

        def attempt():
            try:
                answer = request.send(self._left(end))
            except self._wire.errors as error:
                raise self._refusal(error, begun) from error
            return self._read(request, answer)

        return self._attempts(tenacity.Retrying, end)(attempt)


class AsyncClient(Methods):
    """A client whose methods are awaited, all in one event loop."""

    __doc__ = f"{__doc__}\n\n    {Methods.__doc__}"
    _asynchronous = True

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    async def close(self):
        """End the connection; nothing can be asked any more."""
        self._closed = True
        if "_wire" in vars(self):  # else nothing was asked
            await self._wire.close()

    async def _run(self, steps, timeout):
        deadline = time.monotonic() + (math.inf if timeout is None else timeout)
        done = None
        with self._explained():
            while True:
                try:
                    step = steps.send(done)
                except StopIteration as stop:
                    return stop.value
                done = await (asyncio.to_thread(step) if callable(step)
                              else self._ask_all(step, deadline))

    async def _ask_all(self, requests, deadline):
        limit = asyncio.Semaphore(self._concurrency)

        async def ask(request):
            async with limit:
                return await self._ask(request, deadline)

        tasks = [asyncio.ensure_future(ask(request)) for request in requests]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()  # after a failure the rest

    async def _ask(self, request, deadline):
        begun = time.monotonic()
        end = min(deadline, begun + self._timeout)

        async def attempt():
            try:
                answer = await request.send(self._left(end))
            except self._wire.errors as error:
                raise await asyncio.to_thread(self._refusal, error, begun) from error
            return self._read(request, answer)

        return await self._attempts(tenacity.AsyncRetrying, end)(attempt)
