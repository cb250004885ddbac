"""The module `StaticEmbedding` of sentence-transformers: a vector for each token, and their mean.

A folder with `tokenizer.json` and a safetensors file of one tensor, `embedding.weight`
`[vocab_size, hidden]`. It reads a text of any length without special tokens.
"""

import os

from bert_tf.config import ModelConfig
from bert_tf.converters import safetensors_file, weight_files
from bert_tf.converters.checkpoint import Checkpoint, Tensors, check_shapes, parameter_shapes
from bert_tf.converters.hf_tokenizer import write_tokenizer
from bert_tf.converters.tokenizer_files import tokenizer_folder
from bert_tf.errors import UsageError, explain
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.tokenizer_json import NAME, stated_truncation

_TENSOR = "embedding.weight"
_OTHER = "embeddings"  # as model2vec calls it
_LONGEST = 8192  # tokens that we read; theirs has no limit


def read(folder):
    """The `Checkpoint` of a `SentenceEmbedder` that averages vectors of tokens, not normalized.

    Raises:
        BertTfError: a file is missing or damaged.
        UsageError: there are other tensors, or a tokenizer that we do not run or that truncates.
    """
    theirs = weight_files.read_folder(folder)
    name = _OTHER if _OTHER in theirs.shapes else _TENSOR
    shape = theirs.shapes.get(name, (0, 0))
    check_shapes({name: shape if len(shape) == 2 else (0, 0)}, theirs.shapes, folder)
    tokenizer = tokenizer_folder(folder)
    if tokenizer is None:
        raise UsageError(explain(f"{folder} has no tokenizer", f"{NAME} beside its vectors"))
    described = os.path.join(folder, NAME)
    truncation = stated_truncation(described)
    if truncation:
        raise UsageError(explain(f"{described}: truncation={truncation!r}",
                                 "null: vectors of tokens in texts of any length"))
    vocabulary = load_tokenizer(tokenizer).vocabulary
    config = ModelConfig.from_dict({
        "family": "static", "vocab_size": shape[0], "hidden_size": shape[1],
        "padding_id": vocabulary.pad_id, "max_position_embeddings": _LONGEST})
    task = {"task": "embedder", "pooling": "mean", "layers": [0], "combine": "concat",
            "mask_specials": True, "special_ids": [vocabulary.cls_id, vocabulary.sep_id],
            "weighting": None, "normalize": False,
            "reading": {"seq_length": _LONGEST, "long": "head", "stride": _LONGEST // 2,
                        "pair": False}}
    [ours] = parameter_shapes(config, task)
    return Checkpoint(config, task, theirs.renamed({ours: name}), tokenizer)


def write(checkpoint, folder):
    """Write the module's files into a folder that exists.

    Args:
        checkpoint: of an embedder whose vectors are means of its tokens'.
        folder: its path.

    Returns: what it cannot hold, a list.

    Raises:
        UsageError: it has a dense layer, or no tokenizer.
    """
    if checkpoint.task.get("dense") or checkpoint.tokenizer is None:
        what = "a dense layer" if checkpoint.task.get("dense") else "no tokenizer"
        raise UsageError(explain(f"{what} cannot be written as a StaticEmbedding"))
    write_tokenizer(checkpoint.tokenizer, folder, "PreTrainedTokenizerFast", _LONGEST)
    [ours] = checkpoint.tensors
    safetensors_file.write_file(os.path.join(folder, safetensors_file.FILE), Tensors(
        {_TENSOR: checkpoint.tensors.shapes[ours]}, lambda _: checkpoint.tensors[ours]))
    length = checkpoint.task.get("reading", {}).get("seq_length", checkpoint.config.longest)
    return [f"seq_length={length} (theirs reads all of a text)"] if length < _LONGEST else []
