"""Strings in a tensor's `tensor_content`: their lengths as varints, then their bytes, as TensorFlow
writes them. Its Python reads no such tensor; its C++ does."""

import numpy as np


def pack(strings):
    """The content of a list of bytes."""
    return b"".join([*(varint(len(each)) for each in strings), *strings])


def unpack(content, number):
    """The strings of a content.

    Args:
        content: bytes.
        number: of strings, as the tensor's shape says.

    Returns: array of objects `[number]`, bytes each.

    Raises:
        ValueError: the content does not hold so many.
    """
    lengths, position = [], 0
    for _ in range(number):
        length, shift = 0, 0
        while True:
            byte = content[position] if position < len(content) else None
            if byte is None or shift > 63:
                raise ValueError("the lengths of the strings are damaged")
            length |= (byte & 127) << shift
            position, shift = position + 1, shift + 7
            if byte < 128:
                break
        lengths.append(length)
    if position + sum(lengths) != len(content):
        raise ValueError("the strings are not as long as they say")
    strings = np.empty(number, object)
    for index, length in enumerate(lengths):
        strings[index] = content[position:position + length]
        position += length
    return strings


def varint(value):
    """A whole number as protocol buffers write it."""
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)
