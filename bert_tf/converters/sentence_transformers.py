"""Folders of sentence-transformers: a Hugging Face encoder, and how its states become vectors.

Or a table of vectors without an encoder, see `static_embedding`; a masked LM whose logits become
weights of tokens, see `splade`, and perhaps a table of them for queries, see `sparse_routes`; an
encoder with a vector for each token, see `late_interaction`.
"""

import dataclasses
import json
import os

from bert_tf.config import as_list, as_option
from bert_tf.converters import (
    hf_reading,
    hf_safetensors,
    late_interaction,
    sparse_routes,
    splade,
    static_embedding,
    tokenizer_files,
)
from bert_tf.converters.checkpoint import Checkpoint, dense_name
from bert_tf.converters.dense_module import (
    CONFIG,
    OF_VECTORS,
    kind_of,
    read_checked,
    read_dense,
    read_modules,
    write_dense,
)
from bert_tf.converters.hf_keys import check_adapters
from bert_tf.converters.hf_reading import OPTIONS
from bert_tf.errors import UsageError, explain
from bert_tf.models.find import ABOUT_MODULES, MODULES, MULTI_VECTOR_MASK, SPLADE_POOLING
from bert_tf.storage import checksums, files

# The mode of their Pooling -> ours.
_POOLINGS = {"cls": "cls", "mean": "mean", "max": "max", "lasttoken": "sep"}
_FLAGS = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean",
          "pooling_mode_max_tokens": "max", "pooling_mode_lasttoken": "lasttoken",
          "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
          "pooling_mode_weightedmean_tokens": "weightedmean"}
# Keys that change vectors, and what we compute; null is that as well.
_ONLY = {"Normalize": OF_VECTORS,
         OPTIONS: {"module_output_name": "token_embeddings",
                   **dict.fromkeys(("processing_kwargs", "processor_kwargs", "tokenizer_args",
                                    "config_kwargs", "config_args"), {})}}
# Keys of which null alone is read, and what does the same here.
_INSTEAD = {"default_prompt_name": "the prompt's name where texts are embedded",
            "truncate_dim": "--dimensions where vectors are stored"}
_PACKAGE = "sentence_transformers.models"
_STATIC = "StaticEmbedding"
# What transformers does in a module that does not say it.
_TASKS = {"Transformer": "feature-extraction", "MLMTransformer": "fill-mask"}


def read(path):
    """The `Checkpoint` of an embedder in a folder: of one vector, of weights or of many vectors.

    Raises:
        BertTfError: a file is missing or damaged.
        UsageError: a module, or an option of one, that we do not compute; it is named.
    """
    path = checksums.opened(path, own=False)
    source, config = (os.path.join(path, name) for name in (MODULES, CONFIG))
    if files.exists(config):  # before a module of its code is named
        check_adapters(files.read_json_object(config), config)
    kinds, folders = _read_modules(path, source)
    about = os.path.join(path, ABOUT_MODULES)
    prompts = _read_prompts(about)
    table = None
    if kinds == [sparse_routes.ROUTER]:
        kinds, folders, table = sparse_routes.read(*folders)
    if kinds[-1] == SPLADE_POOLING:
        found = splade.read(*folders)
        found = sparse_routes.with_table(found, table) if table else found
        return dataclasses.replace(
            found, notes=(*found.notes, *_similarity_notes(about, "dot"),
                          *splade.limit_notes(about)), task=found.task | {
                "reading": _reading(folders[0], kinds[0], "fill-mask", found)} | (
                    {"prompts": prompts} if prompts else {}))
    normalize = kinds[-1] == "Normalize"
    notes = () if normalize else _similarity_notes(about, "cosine")
    if normalize and kinds != late_interaction.MODULES:
        read_checked(os.path.join(folders[-1], CONFIG), _ONLY["Normalize"])
    if kinds[0] == _STATIC:
        found = static_embedding.read(folders[0])
        return dataclasses.replace(found, notes=notes, task=found.task | {
            "normalize": normalize} | ({"prompts": prompts} if prompts else {}))
    encoder = hf_safetensors.read_encoder(folders[0])
    if kinds in (late_interaction.MODULES, late_interaction.PYLATE_MODULES):
        return late_interaction.read(
            encoder, _reading(folders[0], kinds[0], "feature-extraction", encoder, lengths=True),
            folders[1:], (hf_reading.options_of(folders[0]), about), prompts)
    config = encoder.config
    task = {"task": "embedder", "pooling": _read_pooling(folders[1], config, prompts),
            "layers": [config.num_hidden_layers], "combine": "concat", "mask_specials": False,
            "special_ids": None, "weighting": None, "normalize": normalize,
            "reading": _reading(folders[0], kinds[0], "feature-extraction", encoder)}
    tensors = encoder.tensors
    layers, width = [], config.hidden_size
    for folder in (folder for kind, folder in zip(kinds, folders, strict=True) if kind == "Dense"):
        layer, tensors = read_dense(folder, width, tensors, dense_name(len(layers)))
        layers.append(layer)
        width = layer["units"]
    if layers:
        task["dense"] = as_option(layers)
    if prompts:
        task["prompts"] = prompts
    return Checkpoint(config, task, tensors, encoder.tokenizer, encoder.dropped,
                      (*encoder.notes, *notes))


def write(checkpoint, path):
    """Write a folder that `SentenceTransformer(path)` loads; it appears whole or not at all.

    Returns: what it cannot do, a list; a model that does not fit is refused.
    """
    task = checkpoint.task
    if task["task"] not in ("embedder", "sparse_embedder", "multi_vector_embedder"):
        raise UsageError(explain(f"a model of the task {task['task']!r} as a folder of "
                                 "sentence-transformers", "an embedder",
                                 "from_pretrained(folder, 'embedder', …).save_pretrained(NAME)"))
    sparse, static = task["task"] == "sparse_embedder", checkpoint.config.family == "static"
    several, dense = task["task"] == "multi_vector_embedder", as_list(task.get("dense"))
    names = late_interaction.MODULES if several else [
        "MLMTransformer", SPLADE_POOLING] if sparse else [_STATIC] if static else [
        "Transformer", "Pooling", *["Dense"] * len(dense)]
    names = [*names, *(["Normalize"] if task.get("normalize") else ())]
    routed = bool(task.get("query_table"))
    places = [*sparse_routes.WRITTEN["document"]] if routed else [
        "", *(f"{i}_{name}" for i, name in enumerate(names) if i)]
    _refuse_other("long", task.get("reading", {}).get("long", "head"), "head")
    mode = None if sparse or several else _check(task, checkpoint.config)
    if several:
        late_interaction.check_expansion(checkpoint.config, task, path)
    packages = late_interaction.TYPES if several else dict.fromkeys(
        names, splade.PACKAGE if sparse else _PACKAGE)
    notes = tokenizer_files.morpheme_notes(checkpoint.tokenizer)
    with checksums.new_folder(path) as temporary:
        if static:
            notes += static_embedding.write(checkpoint, temporary)
        else:
            own = files.make_folder(os.path.join(temporary, places[0]))
            hf_safetensors.write_model(splade.masked_lm_of(checkpoint) if sparse else
                                       hf_safetensors.encoder_of(checkpoint), own)
            length = task.get("reading", {}).get("seq_length", checkpoint.config.longest)
            files.write_json(os.path.join(own, OPTIONS),
                             {"max_seq_length": checkpoint.config.longest if several else length,
                              "do_lower_case": False,
                              **(late_interaction.lengths_of(task) if several else {})})
        if routed:
            sparse_routes.write(temporary, checkpoint)
        files.write_json(os.path.join(temporary, MODULES), sparse_routes.modules() if routed else [
            {"idx": i, "name": str(i), "path": place, "type": f"{packages[name]}.{name}"}
            for i, (name, place) in enumerate(zip(names, places, strict=True))])
        files.write_json(os.path.join(temporary, ABOUT_MODULES), {
            "prompts": task.get("prompts") or {}, "default_prompt_name": None,
            **({"model_type": "SparseEncoder", "similarity_fn_name": "dot"} if sparse else {}),
            **(late_interaction.about_of(checkpoint) if several else {})})
        width = checkpoint.config.hidden_size
        for number, (name, place) in enumerate(zip(names[1:], places[1:], strict=True)):
            folder = files.make_folder(os.path.join(temporary, place))
            if several:
                late_interaction.write_module(name, folder, checkpoint)
                continue
            if name == SPLADE_POOLING:
                splade.write_pooling(folder, checkpoint)
            if name == "Pooling":
                files.write_json(os.path.join(folder, CONFIG), {
                    "word_embedding_dimension": checkpoint.config.hidden_size,
                    **{flag: mode == theirs for flag, theirs in _FLAGS.items()}})
            if name == "Dense":
                layer = dense[number - 1]  # after Pooling
                write_dense(folder, layer, width, checkpoint.tensors, dense_name(number - 1))
                width = layer["units"]
    return notes


def _read_modules(path, source):
    """`(their kinds, their folders)` in order."""
    modules = read_modules(source)
    kinds = [kind_of(module["type"], source) for module in modules]
    usual = ["Transformer", "Pooling", *["Dense"] * kinds.count("Dense"), "Normalize"]
    encoder = kinds in (usual, usual[:-1])
    others = [[_STATIC], [_STATIC, "Normalize"], *([kind, SPLADE_POOLING] for kind in _TASKS),
              [sparse_routes.ROUTER], late_interaction.MODULES, late_interaction.PYLATE_MODULES]
    if not encoder and kinds not in others:
        raise UsageError(explain(f"{source}: the modules {', '.join(kinds)}",
                                 "Transformer, Pooling, perhaps some Dense, perhaps Normalize; "
                                 "StaticEmbedding, perhaps Normalize; Transformer and "
                                 f"{SPLADE_POOLING}; {sparse_routes.ROUTER}; or Transformer and "
                                 f"Dense, perhaps {MULTI_VECTOR_MASK} and Normalize"))
    for module in modules:
        files.inside(path, os.path.join(module["path"], CONFIG))
    return kinds, [os.path.join(path, module["path"]) if module["path"] else path
                   for module in modules]


def _read_pooling(folder, config, prompts):
    source = os.path.join(folder, CONFIG)
    values = files.read_json_object(source)
    modes = [mode for flag, mode in _FLAGS.items() if values.get(flag)] or ["mean"]
    stated = values.get("pooling_mode")
    if stated is not None:
        modes = stated if isinstance(stated, list) else [stated]
    if len(modes) != 1 or modes[0] not in [*_POOLINGS]:
        raise UsageError(explain(f"{source}: pooling {' and '.join(map(str, modes)) or 'none'}",
                                 f"one of {', '.join(_POOLINGS)}"))
    for key in ("word_embedding_dimension", "embedding_dimension"):
        if values.get(key, config.hidden_size) != config.hidden_size:
            raise UsageError(explain(f"{source}: {key}={values[key]!r}",
                                     f"{config.hidden_size}, the encoder's hidden_size"))
    if any(prompts.values()) and values.get("include_prompt") is False:
        raise UsageError(explain(f"{source}: include_prompt=False with prompts", "true"))
    return _POOLINGS[modes[0]]


def _reading(folder, kind, task, encoder, lengths=False):
    """How texts are read, as of `TextPreprocessor.reading`.

    Args:
        folder: of the encoder's module.
        kind: of that.
        task: what transformers has to do.
        encoder: its `Checkpoint`.
        lengths: whether queries and documents may have their own, which else are texts like any
            other.
    """
    source = hf_reading.options_of(folder)
    values = read_checked(source, _ONLY[OPTIONS] | (
        {} if lengths else dict.fromkeys(late_interaction.LENGTHS)))
    stated = values.get("transformer_task") or _TASKS[kind]
    if stated != task:
        raise UsageError(explain(f"{source}: transformer_task={stated!r}", json.dumps(task)))
    if values.get("do_lower_case") and not _lowers(encoder.tokenizer):
        raise UsageError(explain(f"{source}: do_lower_case=True", "false, or a tokenizer that "
                                 "makes lower case itself"))
    return hf_reading.text_reading(folder, encoder.config.longest, False, source)


def _lowers(folder):
    from bert_tf.tokenization.load import load_tokenizer

    return folder is not None and getattr(load_tokenizer(folder), "lower_case", False)


def _read_prompts(source):
    values = files.read_json_object(source) if files.exists(source) else {}
    for key, instead in _INSTEAD.items():
        if values.get(key) is not None:
            raise UsageError(explain(f"{source}: {key}={values[key]!r}", "null",
                                     f"null in the file, and {instead}"))
    prompts = values.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(
            isinstance(prompt, str) for prompt in prompts.values()):
        raise UsageError(explain(f"{source}: prompts={prompts!r}", "names with a text each"))
    return prompts


def _similarity_notes(source, ours):
    """What to tell of vectors that were made to be compared otherwise than by `ours`: a tuple."""
    stated = files.read_json_object(source).get("similarity_fn_name") if (
        files.exists(source)) else None
    if stated in (None, ours):
        return ()
    how = {"cosine": "vectors are compared by cosines", "dot": "weights by scalar products"}
    return (f"{source}: similarity_fn_name={stated!r}; here {how[ours]}",)


def _check(task, config):
    """Their mode of an embedder's pooling; UsageError names what they have no place for."""
    static = config.family == "static"  # which reads no special tokens and knows the mean alone
    poolings = {"mean": "mean"} if static else _POOLINGS
    pooling = next((theirs for theirs, ours in poolings.items() if ours == task["pooling"]), None)
    for name, value, right in (
            ("layers", [layer % (config.num_hidden_layers + 1) for layer in task["layers"]],
             [config.num_hidden_layers]),
            ("mask_specials", task["mask_specials"], static),
            ("weighting", task["weighting"], None)):
        _refuse_other(name, value, right)
    if pooling is None:
        raise UsageError(explain(
            f"pooling={task['pooling']!r} cannot be written to a folder of sentence-transformers",
            f"one of {', '.join(poolings.values())}"))
    return pooling


def _refuse_other(name, value, right):
    if value != right:
        raise UsageError(explain(f"{name}={value!r} cannot be written to a folder of "
                                 "sentence-transformers", repr(right)))
