"""Ctrl-C and SIGTERM as a request that a loop heeds at its next safe point."""

import contextlib
import os
import signal
import threading

_TOLD = b"\nstopping at the end of this step; once more stops at once, without saving it\n"


class StopRequest:
    """A context in which the first signal sets `requested`; a second one interrupts at once."""

    def __init__(self):
        self.requested = False
        self._before = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number, frame):
        self.requested = True
        self.__exit__()
        with contextlib.suppress(OSError):
            os.write(2, _TOLD)  # `print` may be what was interrupted
