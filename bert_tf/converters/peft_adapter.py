"""LoRA adapters of Hugging Face PEFT: folders of differences to another folder's weights.

An `adapter_config.json` names the model that was adapted, and `adapter_model.safetensors` or
`.bin` holds two small matrices B and A for each kernel W that changed, which is W + s·BA (Hu et
al. 2021, section 4.1), or as much in direction alone (Liu et al. 2024, "DoRA", equation 5), and
what was trained whole, such as the head. What is read is the model that both make together.
"""

import collections
import math
import os
import re
import typing

import numpy as np

from bert_tf.converters import hf_config, safetensors_file, torch_file
from bert_tf.converters.checkpoint import Tensors
from bert_tf.converters.hf_keys import check_keys
from bert_tf.converters.hf_spellings import are_bare, ties_of, usual_names
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.models.find import ADAPTER, adapted_model, holds_adapter
from bert_tf.storage import checksums, files

WEIGHTS = {"adapter_model.safetensors": safetensors_file, "adapter_model.bin": torch_file}
_TASKS = {"SEQ_CLS": "classifier", "TOKEN_CLS": "tagger", "QUESTION_ANS": "span",
          "FEATURE_EXTRACTION": "encoder", "CAUSAL_LM": "language_model"}
# Those that begin with other weights of the adapted model than its files hold are not among them.
_STARTS = (None, True, False, "gaussian", "eva", "orthogonal")
_KEYS = """alpha_pattern auto_mapping base_model_name_or_path bias ensure_weight_tying
    eva_config exclude_modules fan_in_fan_out inference_mode init_lora_weights layers_pattern
    layers_to_transform lora_alpha lora_dropout megatron_core modules_to_save peft_type
    peft_version qalora_group_size r rank_pattern revision target_modules task_type use_dora
    use_rslora"""
_FACTOR = re.compile(r"(?P<module>.+)\.lora_(embedding_)?(?P<part>[AB])(\.weight)?")
_SIZE = re.compile(r"(?P<module>.+)\.lora_magnitude_vector(\.weight)?")
_PATTERN = re.compile(r"[\w.^$\\-]*(\*[\w.^$\\-]*){0,2}")
# The last kernel of a head of labels: its rows are they.
_HEADS = ("classifier.out_proj.weight", "classifier.weight", "score.weight")
_LONGEST, _MOST = 200, 1e6  # characters of a name; lora_alpha
_TURNED = ("gpt", "gpt2")  # whose kernels are [in, out]
# Modules that PEFT puts between a name and what it names.
_WRAPPERS = re.compile(r"^base_model\.model\.|\.base_layer(?=\.)|\.modules_to_save\.[^.]+(?=\.)")


class Adapter(typing.NamedTuple):
    """A folder with an adapter, judged by its `adapter_config.json`."""

    folder: str
    source: str  # that file
    values: dict  # what it says
    base: str  # folder of the model that was adapted


def find(folder):
    """Return the `Adapter` in a folder, or None where it holds a model of its own.

    Raises:
        BertTfError: the file is damaged, or the adapted model cannot be had.
        UsageError: an adapter of another kind, or with an option that we do not compute; it is
            named.
    """
    if not holds_adapter(folder):
        return None
    source = os.path.join(folder, ADAPTER)
    values = files.read_json_object(source)
    if values.get("peft_type") != "LORA":
        raise UsageError(explain(f"{source}: peft_type={values.get('peft_type')!r}", "'LORA'",
                                 "merging it where it was trained (merge_and_unload of PEFT)"))
    if values.get("init_lora_weights") not in _STARTS:
        raise UsageError(explain(
            f"{source}: init_lora_weights={values['init_lora_weights']!r}, which changes the "
            "adapted model too", " or ".join(map(repr, _STARTS[1:])),
            "merging it where it was trained (merge_and_unload of PEFT)"))
    if values.get("task_type") not in (None, *_TASKS):
        raise UsageError(explain(f"{source}: task_type={values['task_type']!r}",
                                 f"one of {', '.join(_TASKS)}"))
    for key in ("auto_mapping", "alpha_pattern"):
        if not isinstance(values.get(key) or {}, dict):
            raise UsageError(explain(f"{source}: {key}={values[key]!r}", "an object"))
    check_keys(values, _KEYS.split(), source)
    described = os.path.join(adapted_model(folder, weights=False), "config.json")
    hf_config.family_of(files.read_json_object(described), described)  # before all is downloaded
    return Adapter(folder, source, values, checksums.opened(adapted_model(folder), own=False))


def task_of(adapter, classes):
    """Return the task that the adapter was trained for, a row's of `hf_classes`; None if it does
    not say.

    Raises:
        UsageError: the family has no class for it.
    """
    kind = adapter.values.get("task_type")
    name = (adapter.values.get("auto_mapping") or {}).get("base_model_class")
    if kind is None and name not in [row[1] for row in classes]:
        return None
    for task, theirs, _ in classes:
        if theirs == name if kind is None else task["task"] == _TASKS[kind]:
            return task
    raise UsageError(explain(f"{adapter.source}: task_type={kind!r}",
                             "one of " + ", ".join(k for k, ours in _TASKS.items() if ours in {
                                 task["task"] for task, *_ in classes})))


def added(adapter, base, family, task):
    """Return the `Tensors` of the adapted model with the adapter in them, under today's names.

    Args:
        adapter: an `Adapter`.
        base: `Tensors` of the adapted model, as `usual_names` has them.
        family, task: of the model.

    Raises:
        BertTfError: a file is missing or damaged.
        UsageError: what is adapted is no tensor of the model, or of another shape, or word
            embeddings without the head that they are tied to; it is named.
    """
    parts = _read(adapter, family)
    bare = are_bare([name for part in parts for name in part], family)
    whole, changes, sizes = (usual_names(part, family, adapter.folder, tied=False, bare=bare)[0]
                             for part in parts)
    shapes = base.shapes | whole.shapes
    apart = sorted(ties_of(family) & {*whole, *changes})
    if apart and task["task"] in ("pretraining", "language_model"):
        raise UsageError(explain(f"{adapter.folder} changes {apart[0]} where tokens are read, and "
                                 "not where they are predicted", "one table for both, as our "
                                 "models have it", "merging it (merge_and_unload of PEFT)"))
    for name, shape in changes.shapes.items():
        if shapes.get(name) != shape:
            raise UsageError(explain(
                f"{adapter.folder} changes {name}, {list(shape)}", "that of "
                f"{adapter.base}: {list(shapes[name]) if name in shapes else 'there is none'}"))
    for name, shape in sizes.shapes.items():
        if shape not in ((shapes[name][0], 1), (1, shapes[name][1])):
            raise UsageError(explain(f"{adapter.folder}: lora_magnitude_vector of {name}: "
                                     f"{max(shape)} numbers", f"those of {list(shapes[name])}"))

    def load(name):
        array = whole[name] if name in whole else base[name]
        if name in changes:
            array = array + changes[name]
        if name in sizes:
            size = sizes[name]
            axis = 1 if size.shape == (len(array), 1) else 0
            array = size * array / np.linalg.norm(array, axis=axis, keepdims=True)
        return array

    return Tensors(shapes, load)


def with_labels(values, tensors):
    """Return a `config.json` with as many labels as the head has: an adapter does not say them.

    Args:
        values: of the adapted model.
        tensors: of `added`.
    """
    heads = [tensors.shapes[name][0] for name in _HEADS if name in tensors]
    if not heads or len(values.get("id2label") or ()) == heads[0]:
        return values
    return {**values, "id2label": None, "num_labels": heads[0]}


def _read(adapter, family):
    """`Tensors` of what was trained whole, of what is added to kernels, and of their sizes."""
    names = [name for name in WEIGHTS if files.exists(os.path.join(adapter.folder, name))]
    if not names:
        raise BertTfError(explain(f"{adapter.folder} holds {ADAPTER} without its weights",
                                  f"{' or '.join(WEIGHTS)} beside it"))
    file = WEIGHTS[names[0]].read_file(files.inside(adapter.folder, names[0]))
    whole, sizes, factors = {}, {}, collections.defaultdict(dict)
    for stated in file:
        name = _WRAPPERS.sub("", stated)
        if len(name) > _LONGEST:
            raise BertTfError(f"{adapter.folder}: a name of {len(name)} characters")
        if factor := _FACTOR.fullmatch(name):
            if factor["part"] in factors[factor["module"]]:
                raise BertTfError(f"{adapter.folder}: {factor['module']} has two "
                                  f"lora_{factor['part']}")
            factors[factor["module"]][factor["part"]] = stated
        elif size := _SIZE.fullmatch(name):
            sizes[size["module"]] = stated
        elif ".original_module." not in name:  # what the head was before
            other = whole.setdefault(name, stated)
            if other != stated and not np.array_equal(file[other], file[stated]):
                raise BertTfError(f"{adapter.folder}: {other} differs from {stated}")
    if not factors:
        raise BertTfError(explain(f"{adapter.folder} holds no tensors of an adapter",
                                  "lora_A and lora_B", "saving it again where it was trained"))
    if alone := sorted(sizes.keys() - factors.keys()):
        raise BertTfError(f"{adapter.folder}: of {alone[0]} there is no lora_A and lora_B")
    turned = {module for module, parts in factors.items() if (
                  family in _TURNED and not module.endswith(".score"))
              or any("lora_embedding_" in stated for stated in parts.values())}
    return (file.renamed(whole),
            _kernels({module: _product(adapter, file, module, parts)
                      for module, parts in factors.items()}, turned),
            _kernels({module: _column(file, stated) for module, stated in sizes.items()}, turned))


def _kernels(parts, turned):
    """`Tensors` of what kernels get, as these lie: `[in, out]` where a module is among `turned`.

    Args:
        parts: `{module: (shape, load)}`, `[out, in]`.
    """
    shapes = {f"{module}.weight": shape[::-1] if module in turned else shape
              for module, (shape, _) in parts.items()}

    def load(name):
        module = name.removesuffix(".weight")
        array = parts[module][1]()
        return array.T if module in turned else array

    return Tensors(shapes, load)


def _column(file, name):
    return (math.prod(file.shapes[name]), 1), lambda: file[name].reshape(-1, 1)


def _product(adapter, file, module, parts):
    """The shape of s·BA, `(out, in)`, and what computes it."""
    if parts.keys() != {"A", "B"}:
        raise BertTfError(f"{adapter.folder}: of {module} there is lora_{''.join(parts)} alone")
    shapes = [file.shapes[parts[part]] for part in "AB"]
    if any(len(shape) != 2 for shape in shapes):
        raise BertTfError(f"{adapter.folder}: lora_A and lora_B of {module} are no matrices")
    (rank, width), (height, other) = shapes
    if rank != other or not rank:
        raise BertTfError(f"{adapter.folder}: lora_A and lora_B of {module} have the ranks {rank} "
                          f"and {other}")
    scale = _alpha(adapter, module) / (
        math.sqrt(rank) if adapter.values.get("use_rslora") else rank)
    return (height, width), lambda: np.float32(scale) * (file[parts["B"]] @ file[parts["A"]])


def _alpha(adapter, module):
    """`lora_alpha` of a module: of the first key of `alpha_pattern` that its name ends with."""
    found = adapter.values.get("lora_alpha")
    for pattern, alpha in (adapter.values.get("alpha_pattern") or {}).items():
        try:
            # Others could take forever to match.
            if not _PATTERN.fullmatch(pattern):
                raise re.error("more than names, points and two stars")
            if re.match(rf"(.*\.)?({pattern})$", module):
                found = alpha
                break
        except re.error as error:
            raise UsageError(f"{adapter.source}: alpha_pattern {pattern!r}: {error}") from error
    if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) < _MOST:
        raise UsageError(explain(f"{adapter.source}: lora_alpha={found!r}", "a number"))
    return found
