"""The pickle inside a PyTorch checkpoint, read as a list of tensor records: nothing in it is run.

A pickle is a program for a stack machine. This machine knows the few instructions that a state dict
takes; the functions that it names become records, and any other name is refused.
"""

import math
import pickletools
from typing import NamedTuple

import numpy as np

from bert_tf.errors import BertTfError, explain

MOST_BYTES = 8 << 20  # a tensor takes about 100
_MOST_AXES = 8
_MOST_ELEMENTS = 1 << 40
_FIRST_PROTOCOL, _LAST_PROTOCOL = 2, 5
_STORAGES = {"FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16",
             "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
             "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
             "BoolStorage": "bool"}
_ORDERED = ("collections", "OrderedDict")
_TENSOR = ("torch._utils", "_rebuild_tensor_v2")
_PARAMETER = ("torch._utils", "_rebuild_parameter")
_NAMES = {_ORDERED, _TENSOR, _PARAMETER, *(("torch", name) for name in _STORAGES)}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TEXTS = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
_LITERALS = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", *_TEXTS}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Storage(NamedTuple):
    """Numbers in a file of the archive."""

    key: str  # of the file
    dtype: str  # as NumPy and ml_dtypes name it
    size: int  # numbers

    @property
    def numpy_type(self):
        """`dtype` for NumPy."""
        if self.dtype == "bfloat16":
            import ml_dtypes

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(self.dtype)

    @property
    def bytes(self):
        """How many bytes the numbers take."""
        return self.size * self.numpy_type.itemsize


class TensorRecord(NamedTuple):
    """A tensor as a part of a storage; in numbers, not bytes."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Name(NamedTuple):
    """A function or class that the pickle names."""

    module: str
    name: str


class _Mark:
    pass


def read_records(stream, source):
    """The tensors of a state dict.

    Args:
        stream: a file of at most `MOST_BYTES` at the beginning of the pickle, which is read to
            its end.
        source: what an error names.

    Returns: dict of name -> `TensorRecord`, each within its storage.

    Raises:
        BertTfError: anything else than a dict of tensors.
    """
    values = read_values(stream, source)
    if not isinstance(values, dict) or not values:
        raise BertTfError(explain(f"{source} holds {_kind(values)}",
                                  "a dict of tensors, as state_dict() gives it"))
    for name, value in values.items():
        if not isinstance(value, TensorRecord):
            raise BertTfError(explain(f"{source}: {name[:80]!r} is {_kind(value)}", "a tensor"))
    return values


def read_values(stream, source):
    """What a pickle holds, of the kinds that the machine knows; arguments and errors as of
    `read_records`."""
    machine = _Machine(source)
    _each(stream, source, machine.run)
    return machine.result


def read_texts(stream, source):
    """The texts in the pickle of a list, in order, whatever else it says; arguments and errors as
    of `read_records`."""
    found = []
    _each(stream, source, lambda name, argument: found.append(argument) if name in _TEXTS else None)
    return found


def _each(stream, source, run):
    try:
        for instruction, argument, _ in pickletools.genops(stream):
            run(instruction.name, argument)
    except (ValueError, IndexError, KeyError, OverflowError, UnicodeError) as error:
        raise BertTfError(f"{source} is damaged: {type(error).__name__}") from error


class _Machine:
    """Runs the instructions of one pickle; every value is one of a few plain kinds."""

    def __init__(self, source):
        self.source = source
        self.result = None
        self._stack = []
        self._memo = {}

    def run(self, name, argument):
        """Run one instruction with the argument that follows it in the pickle."""
        if name in _LITERALS:
            self._stack.append(argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            self._stack.append(self._pop(_TUPLES[name]))
        elif name in _INSTRUCTIONS:
            _INSTRUCTIONS[name](self, argument)
        else:
            self._refuse(f"the instruction {name}")

    def _refuse(self, what):
        raise BertTfError(explain(
            f"{self.source} has {what}, which no dict of tensors needs: it is not run",
            attempt="saving the model where it comes from as safetensors"))

    def _pop(self, count):
        """The last values, as a tuple."""
        if count > len(self._stack):
            raise ValueError("empty stack")
        values = tuple(self._stack[len(self._stack) - count:])
        if any(value is _Mark for value in values):
            raise ValueError("mark")
        del self._stack[len(self._stack) - count:]
        return values

    def _pop_to_mark(self):
        place = len(self._stack) - 1
        while self._stack[place] is not _Mark:
            place -= 1
            if place < 0:
                raise ValueError("no mark")
        values = tuple(self._stack[place + 1:])
        del self._stack[place:]
        return values

    def _proto(self, version):
        if not _FIRST_PROTOCOL <= version <= _LAST_PROTOCOL:
            raise ValueError("protocol")

    def _frame(self, _):
        pass

    def _stop(self, _):
        (self.result,) = self._pop(1)

    def _mark(self, _):
        self._stack.append(_Mark)

    def _tuple(self, _):
        self._stack.append(self._pop_to_mark())

    def _empty_dict(self, _):
        self._stack.append({})

    def _binput(self, place):
        if self._stack[-1] is _Mark:
            raise ValueError("mark")
        self._memo[place] = self._stack[-1]

    def _memoize(self, _):
        self._binput(len(self._memo))

    def _binget(self, place):
        self._stack.append(self._memo[place])

    def _setitem(self, _):
        self._set(self._pop(2))

    def _setitems(self, _):
        self._set(self._pop_to_mark())

    def _set(self, items):
        target = self._stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise ValueError("no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):
                self._refuse(f"{_kind(key)} as the name of a tensor")
            target[key] = value

    def _global(self, argument):
        module, _, name = argument.partition(" ")
        self._name(module, name)

    def _stack_global(self, _):
        module, name = self._pop(2)
        if not isinstance(module, str) or not isinstance(name, str):
            raise ValueError("name")
        self._name(module, name)

    def _name(self, module, name):
        if (module, name) not in _NAMES:
            self._refuse(f"the name {module[:80]}.{name[:80]}")
        self._stack.append(_Name(module, name))

    def _binpersid(self, _):
        (value,) = self._pop(1)
        if isinstance(value, tuple) and value[5:] == (None,):
            value = value[:5]  # until PyTorch 1.5 the last one says which part of another it is
        if (not isinstance(value, tuple) or len(value) != 5 or value[0] != "storage"
                or not isinstance(value[1], _Name) or value[1].name not in _STORAGES
                or not isinstance(value[2], str) or not _is_size(value[4])):
            self._refuse("a storage of another form")
        self._stack.append(Storage(value[2], _STORAGES[value[1].name], value[4]))

    def _reduce(self, _):
        function, arguments = self._pop(2)
        if not isinstance(function, _Name) or not isinstance(arguments, tuple):
            raise ValueError("call")
        if function == _ORDERED and not arguments:
            self._stack.append({})
        elif function == _TENSOR and len(arguments) in (6, 7):
            self._stack.append(self._tensor(*arguments[:4]))
        elif function == _PARAMETER and len(arguments) == 3 and isinstance(
                arguments[0], TensorRecord):
            self._stack.append(arguments[0])
        else:
            self._refuse(f"a call of {function.name} with {len(arguments)} arguments")

    def _build(self, _):
        """Attributes of an `OrderedDict`, its `_metadata`, are of no use here."""
        target, _ = self._pop(2)
        if not isinstance(target, dict):
            self._refuse("attributes of what is no dict")
        self._stack.append(target)

    def _tensor(self, storage, offset, shape, strides):
        right = (isinstance(storage, Storage) and _is_size(offset)
                 and isinstance(shape, tuple) and isinstance(strides, tuple)
                 and len(shape) == len(strides) <= _MOST_AXES
                 and all(map(_is_size, shape + strides)))
        if not right:
            self._refuse("a tensor of another form")
        count = math.prod(shape)
        last = offset + sum((size - 1) * stride for size, stride in zip(
            shape, strides, strict=True)) if count else offset - 1
        if count > storage.size or last >= storage.size:
            raise BertTfError(explain(
                f"{self.source}: a tensor of shape {shape} from number {offset} on",
                f"one within the {storage.size} numbers of its storage"))
        return TensorRecord(storage, offset, shape, strides)


_INSTRUCTIONS = {
    "PROTO": _Machine._proto, "FRAME": _Machine._frame, "STOP": _Machine._stop,
    "MARK": _Machine._mark, "TUPLE": _Machine._tuple, "EMPTY_DICT": _Machine._empty_dict,
    "BINPUT": _Machine._binput, "LONG_BINPUT": _Machine._binput, "MEMOIZE": _Machine._memoize,
    "BINGET": _Machine._binget, "LONG_BINGET": _Machine._binget, "SETITEM": _Machine._setitem,
    "SETITEMS": _Machine._setitems, "GLOBAL": _Machine._global,
    "STACK_GLOBAL": _Machine._stack_global, "BINPERSID": _Machine._binpersid,
    "REDUCE": _Machine._reduce, "BUILD": _Machine._build}


def _is_size(value):
    return type(value) is int and 0 <= value <= _MOST_ELEMENTS


def _kind(value):
    """What a value is, in a few words."""
    kinds = {dict: "a dict", tuple: "a tuple", str: "text", TensorRecord: "a tensor",
             _Name: "a name", Storage: "a storage", int: "a number", float: "a number"}
    return kinds.get(type(value), "something else")
