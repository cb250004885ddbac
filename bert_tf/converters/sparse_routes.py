"""A SparseEncoder of sentence-transformers whose queries are weighed by a table (inference-free).

Its one module is a `Router`: `router_config.json` says that a query goes to a
`SparseStaticEmbedding`, a weight for each token, and a document to a masked LM, see `splade`.
"""

import dataclasses
import os

from bert_tf.converters import safetensors_file, weight_files
from bert_tf.converters.checkpoint import Tensors, check_shapes
from bert_tf.converters.dense_module import CONFIG, kind_of
from bert_tf.converters.hf_safetensors import write_tokenizer_of
from bert_tf.converters.splade import PACKAGE
from bert_tf.errors import UsageError, explain
from bert_tf.models.find import ROUTES, SPLADE_POOLING
from bert_tf.storage import files
from bert_tf.tokenization import tokenizer_json
from bert_tf.tokenization.load import load_tokenizer

ROUTER = "Router"
# Modules of a folder that we write, by their places.
WRITTEN = {"query": ("query_0_SparseStaticEmbedding",),
           "document": ("document_0_MLMTransformer", f"document_1_{SPLADE_POOLING}")}
_TABLE = "SparseStaticEmbedding"
_MODELS = ("MLMTransformer", "Transformer")
_TENSOR, _OURS = "weight", "cls/query/term_weights"
_ROUTER_TYPE = f"sentence_transformers.models.{ROUTER}"


def read(folder):
    """Return `(kinds, folders, table_folder)`: of a document's modules, and of a query's table.

    Raises:
        BertTfError: a file is missing or damaged, or a module outside the folder.
        UsageError: other routes.
    """
    source = os.path.join(folder, ROUTES)
    about = files.read_json_object(source)
    structure, types = about.get("structure"), about.get("types")
    if not (isinstance(structure, dict) and isinstance(types, dict)):
        raise UsageError(explain(f"{source} names no routes", "structure and types"))
    kinds = {route: [kind_of(types.get(str(name)), source) for name in names]
             for route, names in structure.items() if isinstance(names, list)}
    if kinds not in [{"query": [_TABLE], "document": [model, SPLADE_POOLING]}
                     for model in _MODELS]:
        raise UsageError(explain(
            f"{source}: the routes {kinds}",
            f"query to {_TABLE}, and document to MLMTransformer and {SPLADE_POOLING}"))
    parameters = about.get("parameters") or {}
    if not isinstance(parameters, dict) or parameters.get("route_mappings"):
        raise UsageError(explain(f"{source}: parameters={parameters!r}", "no route_mappings"))
    *folders, table = (files.inside(folder, str(name)) for name in (
        *structure["document"], *structure["query"]))
    return kinds["document"], folders, table


def with_table(checkpoint, folder):
    """The `Checkpoint` of a `SparseEmbedder` with the table of queries in a module's folder.

    Raises:
        BertTfError: a file is missing or damaged.
        UsageError: not a weight for each token, or texts are tokenized otherwise.
    """
    source = os.path.join(folder, CONFIG)
    stated = files.read_json_object(source) if files.exists(source) else {}
    if stated.get("path") is not None:
        raise UsageError(explain(f"{source}: path={stated['path']!r}", "null, and the weights in "
                                 f"{safetensors_file.FILE}"))
    theirs = weight_files.read_folder(folder)
    check_shapes({_TENSOR: (checkpoint.config.vocab_size,)}, theirs.shapes, folder)
    if checkpoint.tokenizer is None:
        raise UsageError(explain(f"{source}: no tokenizer beside the modules of documents",
                                 "its files"))
    if _rules(folder) != _rules(checkpoint.tokenizer):
        raise UsageError(explain(f"{folder}: another tokenizer than that of documents",
                                 "the same"))
    vocabulary, tensors = load_tokenizer(checkpoint.tokenizer).vocabulary, checkpoint.tensors
    return dataclasses.replace(
        checkpoint, task=checkpoint.task | {
            "query_table": {"special_ids": [vocabulary.cls_id, vocabulary.sep_id]}},
        tensors=Tensors(tensors.shapes | {_OURS: theirs.shapes[_TENSOR]},
                        lambda name: theirs[_TENSOR] if name == _OURS else tensors[name]))


def write(folder, checkpoint):
    """Write the routes and the table; the modules of documents are written elsewhere.

    Args:
        folder: exists.
        checkpoint: a `Checkpoint` with a `query_table`.
    """
    files.write_json(os.path.join(folder, ROUTES), {
        "types": {name: f"{PACKAGE}.{name.rpartition('_')[2]}"
                  for names in WRITTEN.values() for name in names},
        "structure": {route: list(names) for route, names in WRITTEN.items()},
        "parameters": {"default_route": "document", "allow_empty_key": True}})
    [name] = WRITTEN["query"]
    table = files.make_folder(os.path.join(folder, name))
    files.write_json(os.path.join(table, CONFIG), {"frozen": False})
    safetensors_file.write_file(os.path.join(table, safetensors_file.FILE),
                                checkpoint.tensors.renamed({_TENSOR: _OURS}))
    write_tokenizer_of(checkpoint, table)


def modules():
    """What `modules.json` has of such a folder."""
    return [{"idx": 0, "name": "0", "path": "", "type": _ROUTER_TYPE}]


def _rules(folder):
    """What a `tokenizer.json` has but for how texts are cut and padded."""
    path = os.path.join(folder or "", tokenizer_json.NAME)
    found = files.read_json_object(path) if files.exists(path) else {}
    return {key: value for key, value in found.items() if key not in ("truncation", "padding")}
