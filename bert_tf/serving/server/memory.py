"""What the C library does with memory that was given back: glibc's; another one's is left alone."""

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt(3)
_BLOCK = 128 << 20  # bytes up to which a block is taken from memory that was used before
_KEPT = 256 << 20  # free bytes at the heap's end that are kept for the next


def reuse_large_blocks():
    """Have the messages of requests come into memory that the process has already.

    Each would be mapped anew otherwise, page by page as gRPC copies into it: of a message of 64 MB
    that is most of the time for which it holds the event loop.
    """
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _BLOCK)
        library.mallopt(_TRIM_THRESHOLD, _KEPT)


def give_back():
    """Return what is free, which would be kept in pieces: versions come and go for weeks."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
