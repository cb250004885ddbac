"""Modules of sentence-transformers: their list and options, and the weights of a `Dense`."""

import json
import os

from bert_tf.converters import safetensors_file, weight_files
from bert_tf.converters.checkpoint import Tensors, check_shapes
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.storage import files

CONFIG = "config.json"
# Keys that change vectors, and what we compute; null is that as well.
OF_VECTORS = {"module_input_name": "sentence_embedding",
              "module_output_name": "sentence_embedding"}
_ONLY = {**OF_VECTORS, "use_residual": False}
_ACTIVATIONS = {"Identity": "linear", "Tanh": "tanh", "ReLU": "relu", "GELU": "gelu"}
_DENSE = {"kernel": "linear.weight", "bias": "linear.bias"}
_PACKAGES = ("sentence_transformers.", "pylate.")


def read_modules(source):
    """Return the list of modules in a file, dicts with a `type` and a `path`; UsageError for
    another content."""
    modules = files.read_json(source)
    if not isinstance(modules, list) or not all(
            isinstance(module, dict) and isinstance(module.get("type"), str)
            and isinstance(module.get("path"), str) for module in modules):
        raise UsageError(explain(f"{source} names no modules", "a list of type and path"))
    return modules


def kind_of(stated, source):
    """Return the last word of a module's class, which `source` states; UsageError for one of code
    that comes with a folder, which may compute anything under any name."""
    if not str(stated).startswith(_PACKAGES):
        raise UsageError(explain(f"{source}: the module {stated!r}",
                                 "a class of sentence_transformers or pylate"))
    return stated.rpartition(".")[2]


def activation_of(stated):
    """Return the last word of a class of `torch.nn`; of another the whole name."""
    return stated.rpartition(".")[2] if stated.startswith("torch.nn.") else stated


def read_checked(source, only):
    """Return the object in a file, `{}` where there is none; UsageError for a key with another
    value than the one that `only` has."""
    values = files.read_json_object(source) if files.exists(source) else {}
    for key, right in only.items():
        if values.get(key) not in (None, right):
            raise UsageError(explain(f"{source}: {key}={values[key]!r}", json.dumps(right)))
    return values


def read_dense(folder, width, tensors, name):
    """Return the dict of a layer for the option `dense` of a `SentenceEmbedder`, and all tensors
    with those of the layer, which has our `name` and takes vectors of that `width`."""
    source = os.path.join(folder, CONFIG)
    values = read_checked(source, _ONLY)
    act = activation_of(str(values.get("activation_function", "torch.nn.Tanh")))
    units, bias = values.get("out_features"), values.get("bias", True)
    check_choice(f"{source}: activation_function", act, _ACTIVATIONS, near=False)
    if type(units) is not int or units < 1 or type(bias) is not bool:
        raise UsageError(explain(f"{source}: out_features={units!r}, bias={bias!r}",
                                 "an integer from 1 on, and true or false"))
    theirs = weight_files.read_folder(folder)
    shapes = {"linear.weight": (units, width), "linear.bias": (units,)}
    check_shapes({name: shapes[name] for name in list(shapes)[:2 if bias else 1]},
                 theirs.shapes, folder)
    names = {f"{name}/{ours}": each for ours, each in _DENSE.items() if each in theirs}
    dense_shapes = {ours: theirs.shapes[each][::-1] for ours, each in names.items()}
    return ({"units": units, "act": _ACTIVATIONS[act], "use_bias": bias},
            Tensors(tensors.shapes | dense_shapes,
                    lambda each: theirs[names[each]].T if each in names else tensors[each]))


def write_dense(folder, dense, width, tensors, name):
    """Write the module of a layer into a folder that exists; arguments as of `read_dense`, `dense`
    the layer's dict.

    Raises:
        UsageError: its activation is none of theirs.
    """
    act = next((theirs for theirs, ours in _ACTIVATIONS.items() if ours == dense["act"]), None)
    if act is None:
        raise UsageError(explain(f"act={dense['act']!r} of a dense layer cannot be written to a "
                                 "folder of sentence-transformers",
                                 f"one of {', '.join(_ACTIVATIONS.values())}"))
    module = "linear" if act == "Identity" else "activation"
    files.write_json(os.path.join(folder, CONFIG), {
        "in_features": width, "out_features": dense["units"], "bias": dense["use_bias"],
        "activation_function": f"torch.nn.modules.{module}.{act}"})
    names = {theirs: f"{name}/{ours}" for ours, theirs in _DENSE.items()}
    names = {theirs: ours for theirs, ours in names.items() if ours in tensors}
    safetensors_file.write_file(os.path.join(folder, safetensors_file.FILE), Tensors(
        {theirs: tensors.shapes[ours][::-1] for theirs, ours in names.items()},
        lambda theirs: tensors[names[theirs]].T))
