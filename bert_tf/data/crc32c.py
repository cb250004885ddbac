"""The checksum of TFRecord files, CRC-32C, of many records at once."""

import functools

import numpy as np

_PIECE = 4096  # bytes; of a longer record one piece after the other is counted


def masked_crc32c(rows):
    """Compute the checksum that TFRecord keeps of each row of bytes: uint32 `[rows]`.

    A CRC is linear over exclusive or, so that each byte adds one term, looked up by its
    value and its distance from the end of its piece; no row may be empty.

    Args:
        rows: flat bytes uint8, and the lengths of the rows, int.
    """
    data, lengths = rows
    table, start = _contributions()
    ends = np.cumsum(lengths)
    distance = (np.repeat(ends - 1, lengths) - np.arange(len(data))) % _PIECE
    terms = table.ravel()[distance * 256 + data]
    # The last piece of a row ends with it, the first one may be shorter than the others.
    counts = -(-lengths // _PIECE)
    first = np.cumsum(counts) - counts
    after = np.repeat(first + counts, counts) - np.arange(counts.sum())
    begins = np.maximum(np.repeat(ends, counts) - after * _PIECE,
                        np.repeat(ends - lengths, counts))
    pieces = np.bitwise_xor.reduceat(terms, begins)
    crc = pieces[first] ^ start[(lengths - 1) % _PIECE + 1]
    for piece in range(1, counts.max(initial=0)):
        (longer,) = np.nonzero(counts > piece)
        crc[longer] = _shift(crc[longer], table) ^ pieces[first[longer] + piece]
    crc ^= np.uint32(0xFFFFFFFF)
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)


def _shift(crc, table):
    """Return what `crc` is after another piece of zeros: it acts like that piece's first bytes."""
    return np.bitwise_xor.reduce([table[_PIECE - 1 - byte, crc >> np.uint32(8 * byte) & 255]
                                  for byte in range(4)])


@functools.cache
def _contributions():
    """Return what a byte contributes by its distance from the end, and what the start value
    does."""
    step = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        step = (step >> 1) ^ np.where(step & 1, np.uint32(0x82F63B78), np.uint32(0))
    table = np.empty((_PIECE, 256), np.uint32)
    start = np.empty(_PIECE + 1, np.uint32)
    row, value = step, np.uint32(0xFFFFFFFF)
    for distance in range(_PIECE):
        table[distance], start[distance] = row, value
        row = step[row & 255] ^ (row >> 8)
        value = step[value & 255] ^ (value >> np.uint32(8))
    start[_PIECE] = value
    return table, start
