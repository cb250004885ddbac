"""Calls of TensorFlow functions that another thread can end.

TensorFlow keeps what may cancel the call under way in one variable of the process
(`tensorflow/python/eager/cancellation.py`): of no use where several threads call. Here every thread
has its own.
"""

import contextlib
import threading

from tensorflow.python.eager import cancellation

_OF_THREAD = threading.local()
cancellation.context = lambda: getattr(_OF_THREAD, "manager", None)


class Cancellation:
    """Ends what is called within `around()`, in whichever thread that is."""

    def __init__(self):
        self._manager = cancellation.CancellationManager()

    def cancel(self):
        """Let calls fail with `tf.errors.CancelledError`: between two operations of the graph."""
        self._manager.start_cancel()

    @contextlib.contextmanager
    def around(self):
        _OF_THREAD.manager = self._manager
        try:
            yield
        finally:
            _OF_THREAD.manager = None
