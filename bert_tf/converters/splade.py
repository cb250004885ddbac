"""A masked LM whose logits become weights of tokens: a SparseEncoder of sentence-transformers.

Its folder is that of a masked LM, and in `SpladePooling` there is how logits are pooled.
"""

import dataclasses
import os

from bert_tf.converters import hf_safetensors
from bert_tf.converters.checkpoint import parameter_shapes
from bert_tf.converters.dense_module import CONFIG
from bert_tf.converters.hf_classes import MASKED_LM
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.models.find import SPLADE_POOLING
from bert_tf.storage import files
from bert_tf.tasks.embedding.sparse.model import ACTIVATIONS, POOLINGS

PACKAGE = "sentence_transformers.sparse_encoder.models"
# Our option -> their key, what that is where it is left out, and what we compute.
_OPTIONS = {"pooling": ("pooling_strategy", "max", POOLINGS),
            "act": ("activation_function", "relu", ACTIVATIONS)}


def read(model_folder, pooling_folder):
    """The `Checkpoint` of a `SparseEmbedder`; how it reads texts is left to the caller.

    Raises:
        BertTfError: a file is missing or damaged.
        UsageError: an option that we do not compute, or a model without a masked-LM head.
    """
    found = hf_safetensors.read(model_folder)
    if found.task["task"] != "pretraining":
        raise UsageError(explain(f"{model_folder}: {SPLADE_POOLING} over a model of the task "
                                 f"{found.task['task']!r}", "one with a masked-LM head"))
    source = os.path.join(pooling_folder, CONFIG)
    values, task = files.read_json_object(source), {"task": "sparse_embedder"}
    for ours, (theirs, usual, known) in _OPTIONS.items():
        task[ours] = check_choice(f"{source}: {theirs}", values.get(theirs, usual), known,
                                  near=False)
    for key in ("embedding_dimension", "word_embedding_dimension"):
        if values.get(key) not in (None, found.config.vocab_size):
            raise UsageError(explain(f"{source}: {key}={values[key]!r}",
                                     f"{found.config.vocab_size}, the model's vocab_size"))
    return _with_task(found, task)


def limit_notes(source):
    """What to tell of a folder whose weights but the heaviest are left out: a tuple.

    Args:
        source: path of what is said about the modules; it need not be there.
    """
    stated = files.read_json_object(source).get("max_active_dims") if (
        files.exists(source)) else None
    return () if stated is None else (
        f"{source}: max_active_dims={stated!r}; here all tokens count but for those that "
        f"sparse(texts, top_k={stated!r}) or an export's --max_terms leaves out",)


def masked_lm_of(checkpoint):
    """The model without the pooling, a `Checkpoint`."""
    return _with_task(checkpoint, MASKED_LM)


def write_pooling(folder, checkpoint):
    """Write `config.json` of a `SparseEmbedder`'s pooling."""
    values = {theirs: checkpoint.task[ours] for ours, (theirs, _, _) in _OPTIONS.items()}
    files.write_json(os.path.join(folder, CONFIG),
                     {**values, "word_embedding_dimension": checkpoint.config.vocab_size})


def _with_task(checkpoint, task):
    """The same model for a task of the same head; what else it has is dropped."""
    names = parameter_shapes(checkpoint.config, task)
    further = tuple(name for name in checkpoint.tensors if name not in names)
    return dataclasses.replace(checkpoint, task=task, dropped=checkpoint.dropped + further,
                               tensors=checkpoint.tensors.renamed({name: name for name in names}))
