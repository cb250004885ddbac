"""Run a SavedModel through TensorFlow's C library, as `tensorflow_model_server` does.

    python tests/saved_model/c_api.py < REQUEST

reads `{"saved_model": DIR, "libraries": [FILE, …], "config": {"b64": CONFIG_PROTO}, "requests":
[[SIGNATURE, {INPUT: VALUES}], …]}` and answers with a list, one
`{OUTPUT: {"shape": […], "values": […]}}` a request, or `{"code": CODE, "error": MESSAGE}`. VALUES
are nested lists, or `{"shape": […], "values": […]}` where those cannot tell the shape. Bytes that
are no text come, as in TF Serving's REST API, as `{"b64": BASE64}`. Only ctypes and numpy: neither
`tensorflow` nor `tensorflow_text` is imported, so that an op which no listed library registers is
an error here as it is in the server. Functions and struct layouts: `tensorflow/c/*.h` in the wheel;
field numbers: `meta_graph.proto`.
"""

import base64
import ctypes
import importlib.util
import json
import os
import sys

import numpy as np

_NUMPY = {1: np.float32, 3: np.int32, 9: np.int64, 10: np.bool_}
_STRING = 7
_STRING_SIZE = 24  # bytes of a TF_TString


class _Output(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


class _Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t),
                ("deallocator", ctypes.c_void_p)]


_POINTER, _SIZE, _INT, _TEXT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p
_FUNCTIONS = {  # name: (result, arguments)
    "TF_NewStatus": (_POINTER, []),
    "TF_GetCode": (_INT, [_POINTER]),
    "TF_Message": (_TEXT, [_POINTER]),
    "TF_LoadLibrary": (_POINTER, [_TEXT, _POINTER]),
    "TF_NewSessionOptions": (_POINTER, []),
    "TF_SetConfig": (None, [_POINTER, _TEXT, _SIZE, _POINTER]),
    "TF_NewGraph": (_POINTER, []),
    "TF_NewBuffer": (ctypes.POINTER(_Buffer), []),
    "TF_LoadSessionFromSavedModel": (_POINTER, [_POINTER, _POINTER, _TEXT, _POINTER, _INT, _POINTER,
                                                _POINTER, _POINTER]),
    "TF_GraphOperationByName": (_POINTER, [_POINTER, _TEXT]),
    "TF_SessionRun": (None, [_POINTER, _POINTER, _POINTER, _POINTER, _INT, _POINTER, _POINTER, _INT,
                             _POINTER, _INT, _POINTER, _POINTER]),
    "TF_AllocateTensor": (_POINTER, [_INT, _POINTER, _INT, _SIZE]),
    "TF_DeleteTensor": (None, [_POINTER]),
    "TF_TensorType": (_INT, [_POINTER]),
    "TF_NumDims": (_INT, [_POINTER]),
    "TF_Dim": (ctypes.c_int64, [_POINTER, _INT]),
    "TF_TensorByteSize": (_SIZE, [_POINTER]),
    "TF_TensorData": (_POINTER, [_POINTER]),
    "TF_StringInit": (None, [_POINTER]),
    "TF_StringCopy": (None, [_POINTER, _TEXT, _SIZE]),
    "TF_StringDealloc": (None, [_POINTER]),
    "TF_StringGetDataPointer": (_POINTER, [_POINTER]),
    "TF_StringGetSize": (_SIZE, [_POINTER]),
}


class Error(Exception):
    """What TensorFlow says where a call fails; `code` is one of `tensorflow/c/tf_status.h`."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Session:
    """A SavedModel loaded by `TF_LoadSessionFromSavedModel`.

    Args:
        saved_model: its folder.
        libraries: op libraries (`.so`) to load before.
        config: a serialized ConfigProto.
    """

    def __init__(self, saved_model, libraries=(), config=b""):
        self._bind()
        for library in libraries:
            self._checked(self._c.TF_LoadLibrary, os.fsencode(library))
        self._graph = self._c.TF_NewGraph()
        meta_graph = self._c.TF_NewBuffer()
        options = self._c.TF_NewSessionOptions()
        self._checked(self._c.TF_SetConfig, options, config, len(config))
        self._session = self._checked(
            self._c.TF_LoadSessionFromSavedModel, options, None,
            os.fsencode(saved_model), (_TEXT * 1)(b"serve"), 1, self._graph, meta_graph)
        self.signatures = _signatures(
            ctypes.string_at(meta_graph.contents.data, meta_graph.contents.length))

    def run(self, signature, inputs):
        """Outputs `{name: array}` of a signature; strings are arrays of `str` objects."""
        input_infos, output_infos = self.signatures[signature]
        if set(inputs) != set(input_infos):
            raise ValueError(f"{signature} takes {sorted(input_infos)}, given {sorted(inputs)}")
        fed = [self._tensor(inputs[name], dtype) for name, (_, dtype) in input_infos.items()]
        fetched = (_POINTER * len(output_infos))()
        try:
            self._checked(
                self._c.TF_SessionRun, self._session, None,
                self._outputs(input_infos), (_POINTER * len(fed))(*fed), len(fed),
                self._outputs(output_infos), fetched, len(output_infos), None, 0, None)
            return {name: self._array(tensor)
                    for name, tensor in zip(output_infos, fetched, strict=True)}
        finally:
            for tensor in fed:
                if self._c.TF_TensorType(tensor) == _STRING:
                    for address in self._strings(tensor):
                        self._c.TF_StringDealloc(address)
            for tensor in [*fed, *filter(None, fetched)]:
                self._c.TF_DeleteTensor(tensor)

    def _bind(self):
        folder = importlib.util.find_spec("tensorflow").submodule_search_locations[0]
        loaded = [ctypes.CDLL(os.path.join(folder, name), ctypes.RTLD_GLOBAL)
                  for name in ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")]
        self._c = loaded[1]  # its symbols include those of the first
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._c, name)
            function.restype, function.argtypes = result, arguments
        self._status = self._c.TF_NewStatus()

    def _checked(self, function, *arguments):
        result = function(*arguments, self._status)
        code = self._c.TF_GetCode(self._status)
        if code:
            raise Error(code, self._c.TF_Message(self._status).decode(errors="replace"))
        return result

    def _outputs(self, infos):
        """`TF_Output`s of tensors named `operation:index`."""
        outputs = (_Output * len(infos))()
        for output, (name, _) in zip(outputs, infos.values(), strict=True):
            operation, index = name.rsplit(":", 1)
            output.operation = self._c.TF_GraphOperationByName(self._graph, operation.encode())
            output.index = int(index)
        return outputs

    def _strings(self, tensor):
        """Addresses of a string tensor's elements."""
        start = self._c.TF_TensorData(tensor)
        size = self._c.TF_TensorByteSize(tensor)
        return range(start, start + size, _STRING_SIZE) if size else ()

    def _tensor(self, values, dtype):
        """A new TF_Tensor of nested lists, or of values in a shape."""
        shape = values["shape"] if isinstance(values, dict) else None
        array = np.array(values["values"] if shape is not None else values,
                         object if dtype == _STRING else _NUMPY[dtype])
        array = array if shape is None else array.reshape(shape)
        item = _STRING_SIZE if dtype == _STRING else array.itemsize
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        tensor = self._c.TF_AllocateTensor(dtype, shape, array.ndim, array.size * item)
        if dtype == _STRING:
            for address, text in zip(self._strings(tensor), array.flat, strict=True):
                encoded = (base64.b64decode(text["b64"]) if isinstance(text, dict)
                           else text.encode())
                self._c.TF_StringInit(address)
                self._c.TF_StringCopy(address, encoded, len(encoded))
        elif array.size:
            ctypes.memmove(self._c.TF_TensorData(tensor), array.tobytes(), array.nbytes)
        return tensor

    def _array(self, tensor):
        dtype = self._c.TF_TensorType(tensor)
        shape = [self._c.TF_Dim(tensor, axis) for axis in range(self._c.TF_NumDims(tensor))]
        if dtype == _STRING:
            texts = [ctypes.string_at(self._c.TF_StringGetDataPointer(address),
                                      self._c.TF_StringGetSize(address)).decode()
                     for address in self._strings(tensor)]
            return np.array(texts, object).reshape(shape)
        data = ctypes.string_at(self._c.TF_TensorData(tensor), self._c.TF_TensorByteSize(tensor))
        return np.frombuffer(data, _NUMPY[dtype]).reshape(shape)


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _fields(data):
    """Yield `(field number, value)` of a serialized protocol buffer message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
        else:
            length, at = _varint(data, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
            value, at = data[at:at + length], at + length
        yield number, value


def _signatures(meta_graph):
    """`{signature: (inputs, outputs)}`, each `{name: (tensor name, dtype)}`."""
    def tensor_infos(signature, number):
        entries = (dict(_fields(value)) for field, value in _fields(signature) if field == number)
        infos = {entry[1].decode(): dict(_fields(entry[2])) for entry in entries}
        return {name: (info[1].decode(), info[2]) for name, info in sorted(infos.items())}

    entries = (dict(_fields(value)) for number, value in _fields(meta_graph) if number == 5)
    return {entry[1].decode(): (tensor_infos(entry[2], 1), tensor_infos(entry[2], 2))
            for entry in entries if entry[1] != b"__saved_model_init_op"}


def _answer(session, signature, inputs):
    try:
        outputs = session.run(signature, inputs)
    except Error as error:
        return {"code": error.code, "error": str(error)}
    return {name: {"shape": array.shape, "values": array.ravel().tolist()}
            for name, array in outputs.items()}


def main():
    request = json.load(sys.stdin)
    session = Session(request["saved_model"], request["libraries"],
                      base64.b64decode(request["config"]["b64"]))
    answers = [_answer(session, signature, inputs) for signature, inputs in request["requests"]]
    imported = {"tensorflow", "tensorflow_text"} & set(sys.modules)
    if imported:
        raise RuntimeError(f"{imported} imported: this would load more op libraries than listed")
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
