"""Types of folders that are a family of ours with other values, by which they are known again.

Megatron-BERT is a BERT, and XLM-RoBERTa-XL an XLM-RoBERTa, whose LayerNorms come before each half
of a layer and after the last one, and not after the embeddings. RoFormer is a BERT with rotary
positions, RemBERT one with embeddings that are narrower than the layers; its masked-LM head, with a
wider table of its own, is not computed.
"""

import numpy as np

from bert_tf.converters.checkpoint import Tensors
from bert_tf.family_defaults import FAMILY_DEFAULTS

_PRE_NORM = {"norm_position": "pre", "embedding_norm": False}
_VARIANTS = {"megatron-bert": ("bert", _PRE_NORM), "xlm-roberta-xl": ("xlm_roberta", _PRE_NORM),
             "roformer": ("bert", {"position_embedding": "none", "relative_position": "rotary",
                                   "pooling": "first", "label_head": "dense"}),
             "rembert": ("bert", {})}
_KNOWN_BY = {"rembert": {"projects_embeddings": True}}  # beside such values
MODEL_TYPES = {model_type: family for model_type, (family, _) in _VARIANTS.items()}
# What transformers takes for a key that a file leaves out, where the family has another.
DEFAULTS = {
    "megatron-bert": {"vocab_size": 29056, "hidden_size": 1024, "num_hidden_layers": 24,
                      "num_attention_heads": 16, "intermediate_size": 4096},
    "xlm-roberta-xl": {"vocab_size": 250880, "hidden_size": 2560, "num_hidden_layers": 36,
                       "num_attention_heads": 32, "intermediate_size": 10240,
                       "max_position_embeddings": 514, "type_vocab_size": 1,
                       "layer_norm_eps": 1e-5},
    # Tables as wide as the layers, where nothing else is said.
    "roformer": {"vocab_size": 50000, "max_position_embeddings": 1536, "embedding_size": 0,
                 "rotary_value": False},
    "rembert": {"vocab_size": 250300, "hidden_size": 1152, "num_hidden_layers": 32,
                "num_attention_heads": 18, "intermediate_size": 4608, "hidden_dropout_prob": 0.0,
                "attention_probs_dropout_prob": 0.0, "input_embedding_size": 256,
                "output_embedding_size": 1664, "tie_word_embeddings": False},
}
# What a file of theirs says besides, and shell patterns of tensors that are not read.
WRITTEN = {"rembert": {"tie_word_embeddings": False}}
UNREAD = {"rembert": ("cls.*",)}
# Beside those of the family: our field -> their key.
_KEYS = {"roformer": {"embedding_size": "embedding_size", "label_act": "hidden_act"},
         "rembert": {"embedding_size": "input_embedding_size"}}
# Of an encoder's tensors, where the family has another.
_PREFIXES = {"roformer": "roformer.", "rembert": "rembert."}


def fields_of(model_type):
    """What a `ModelConfig` has by its `model_type` alone: a dict, empty for those of families."""
    return _VARIANTS.get(model_type, ("", {}))[1]


def keys_of(model_type):
    """What `hf_architectures.KEYS` has of families, of a `model_type` beside them: a dict."""
    return _KEYS.get(model_type, {})


def pooling_of(model_type, family):
    """The usual `pooling` of a `model_type`, or else of the family."""
    usual = FAMILY_DEFAULTS[family].get("pooling", "dense")
    return fields_of(model_type).get("pooling", usual)


def type_of(config):
    """The `model_type` of a `ModelConfig`; None where it is that of its family."""
    return next((model_type for model_type, (family, fields) in _VARIANTS.items()
                 if family == config.family and all(
                     getattr(config, name) == value for name, value in (
                         fields | _KNOWN_BY.get(model_type, {})).items())), None)


def with_their_names(tensors, model_type, prefix, bare, config):
    """`Tensors` to be written, with the prefix that a `model_type` has, and RoFormer's table of the
    sines and cosines that its positions turn by.

    Args:
        tensors: under the names of the family.
        prefix: of its encoder.
        bare: whether an encoder by itself is written, whose names have none.
        config: `ModelConfig`.
    """
    own = "" if bare else _PREFIXES.get(model_type, prefix)
    names = {own + name.removeprefix(prefix) if name.startswith(prefix) else name: name
             for name in tensors}
    tensors = tensors.renamed(names)
    if model_type != "roformer":
        return tensors
    half = np.arange(config.head_size // 2)
    angles = np.arange(config.max_position_embeddings)[:, np.newaxis] / np.power(
        10000, 2 * half / config.head_size)
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
    place = f"{own}encoder.embed_positions.weight"
    return Tensors({**tensors.shapes, place: table.shape},
                   lambda name: table if name == place else tensors[name])
