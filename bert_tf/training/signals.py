"""Ctrl-C and SIGTERM as a request that a loop heeds at its next safe point."""

import contextlib
import os
import signal
import threading


class StopRequest:
    """A context in which the first signal sets `requested`; a second one interrupts at once.

    A signal that the process ignores, as Ctrl-C behind the `&` of a script, stays ignored.

    Args:
        when: what the user is told of when the work stops.
    """

    def __init__(self, when):
        self.requested = False
        self._told = f"\nstopping {when}; once more stops at once, without saving it\n".encode()
        self._before = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) in (signal.SIG_IGN, None):
                    continue  # None: set outside of Python, which could not put it back
                self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number, frame):
        self.requested = True
        self.__exit__()
        with contextlib.suppress(OSError):
            os.write(2, self._told)  # `print` may be what was interrupted
