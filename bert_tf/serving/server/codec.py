"""How large requests are decoded and large answers encoded, so that nobody waits for them.

One call of a parser holds Python's lock for seconds where a request is made for that, and for as
long nothing else of a server moves, whichever thread the call is in: large requests are decoded in
processes of their own. Answers are the model's to make and not a client's: large ones are encoded
in a thread. Small ones of both are done at once: there anything else would cost more than it saves.
"""

import asyncio
import concurrent.futures
import contextlib
import itertools
import logging
import multiprocessing
import os
import queue
import signal
import threading
import time
import traceback

from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError

_log = logging.getLogger(__name__)

AT_ONCE = 16 << 10  # bytes up to which a request is decoded in the caller's thread
ENCODED_AT_ONCE = 1 << 20  # bytes of arrays up to which an answer is encoded there
_MEDIUM = 1 << 20  # bytes up to which it does not wait for those that are larger
_MOST_SECONDS = 30  # for one request
_MOST_MEMORY = 3 << 30  # bytes of a process, addresses included
_NICE = 5  # of the process for large ones: cores are for those who ask for less


class Decoder:
    """Runs functions of `wire`; its processes begin with the first request they are for."""

    def __init__(self):
        self._medium, self._large = _Lane("medium"), _Lane("large", _NICE)

    async def run(self, function, data, *arguments, deadline=None):
        """`function(data, *arguments)`.

        Args:
            function: of a module that imports little; what it takes and gives goes to a process.
            data: bytes.
            arguments: the first one of REST's functions is whether the data are compressed: what
                they become may be large, however few they are.
            deadline: `time.monotonic()` from which nobody waits for it any more.

        Raises:
            ServingError: of the function; or it took too long, or too much memory.
        """
        packed = arguments[:1] == (True,)
        if len(data) <= AT_ONCE and not packed:
            return function(data, *arguments)
        latest = time.monotonic() + _MOST_SECONDS
        lane = self._medium if len(data) <= _MEDIUM and not packed else self._large
        try:
            async with asyncio.timeout_at(deadline):  # whose clock is `time.monotonic`
                # If this is cancelled, what has not begun does not begin. It has no name: a future
                # and its error would keep each other, and the data with them.
                return await asyncio.wrap_future(
                    lane.submit(function, data, arguments, deadline or latest))
        except TimeoutError as problem:
            raise error("deadline") from problem

    def close(self):
        """End the processes."""
        self._medium.close()
        self._large.close()


async def encoded(outputs, function, *arguments):
    """`function(outputs, *arguments)`, in a thread where the outputs are large.

    The event loop goes on between its steps: neither protobuf nor orjson gives up Python's lock
    within one call, so that what a single tensor takes, everybody waits for.

    Args:
        outputs: `{name: np.ndarray}`.
    """
    if sum(array.nbytes for array in outputs.values()) <= ENCODED_AT_ONCE:
        return function(outputs, *arguments)
    return await asyncio.to_thread(function, outputs, *arguments)


class _Lane:
    """A process, and the thread that speaks with it: one request after the other.

    Of those that wait the smallest is next. Larger ones may wait until their time is over: whoever
    sends many of them delays nobody but those who send as much.
    """

    def __init__(self, name, nice=0):
        self._nice = nice
        self._thread = concurrent.futures.ThreadPoolExecutor(1, f"decode-{name}")
        self._waiting, self._order = queue.PriorityQueue(), itertools.count()
        self._process = self._connection = None
        self._begun = False  # whether the process has said that it is there

    def submit(self, function, data, arguments, deadline):
        """A `Future` of `call(…)`."""
        future = concurrent.futures.Future()
        call = (function, data, arguments, deadline)
        self._waiting.put((len(data), next(self._order), future, call))
        self._thread.submit(self._next)
        return future

    def _next(self):
        with contextlib.suppress(queue.Empty):  # `close` took it
            *_, future, call = self._waiting.get_nowait()
            if future.set_running_or_notify_cancel():
                try:
                    answer, problem = self.call(*call)
                except BaseException as unforeseen:
                    answer, problem = None, unforeseen
                if problem is None:
                    future.set_result(answer)
                else:
                    future.set_exception(problem)

    def call(self, function, data, arguments, deadline):
        """The answer and None, or None and the `ServingError`."""
        deadline = min(deadline, time.monotonic() + _MOST_SECONDS)
        while (left := deadline - time.monotonic()) > 0:
            if self._process is None or not self._process.is_alive():
                self._start()
            process = self._process
            timer = threading.Timer(left, process.kill)
            timer.start()
            try:
                self._begun = self._begun or self._connection.recv()
                self._connection.send((function, arguments))
                self._connection.send_bytes(data)
                return self._connection.recv()
            except (EOFError, OSError):
                self._end()
            finally:
                timer.cancel()
            if process.exitcode != 0 and time.monotonic() < deadline:
                if self._begun:  # the request ended it
                    return None, error("memory")
                _log.error("a process that decodes requests ended with exit code %s before it "
                           "began", process.exitcode)
                return None, error("rest_internal")
        return None, error("deadline")

    def _start(self):
        self._end()
        try:  # the process begins where this one is
            os.chdir(os.getcwd())
        except OSError:  # the folder is gone, or not this user's
            os.chdir("/")
        context = multiprocessing.get_context("spawn")
        connection, other = context.Pipe()
        with other:
            process = context.Process(target=_work, args=[other, self._nice], daemon=True)
            try:
                process.start()
            except OSError:  # no process or file more: the next request tries again
                connection.close()
                raise
        self._connection, self._process, self._begun = connection, process, False

    def _end(self):
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None

    def close(self):
        self._thread.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()[2].cancel()
        if self._process is not None:
            self._process.kill()  # whose thread, if it waits for it, ends with that


def _work(connection, nice):
    """The process: answers until the other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    with contextlib.suppress(AttributeError):  # no such thing on this system
        os.nice(nice)
    with contextlib.suppress(ImportError, ValueError, OSError):  # no such bound on this system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    busy = stopping = False

    def stop(number, frame):  # sent to all processes of a service, whose server drains
        nonlocal stopping
        stopping = True
        if not busy:
            os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    with contextlib.suppress(EOFError, OSError):
        connection.send(True)
        while not stopping:
            function, arguments = connection.recv()
            busy = True
            connection.send(_outcome(connection, function, arguments))
            busy = False
    os._exit(0)


def _outcome(connection, function, arguments):
    try:
        return function(connection.recv_bytes(), *arguments), None
    except ServingError as problem:
        return None, problem
    except MemoryError:
        return None, error("memory")
    except Exception:
        traceback.print_exc()
        return None, error("rest_internal")
