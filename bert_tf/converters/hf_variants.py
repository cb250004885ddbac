"""Types of folders that are a family of ours with other values, by which they are known again.

Megatron-BERT is a BERT, and XLM-RoBERTa-XL an XLM-RoBERTa, whose LayerNorms come before each half
of a layer and after the last one, and not after the embeddings.
"""

_PRE_NORM = {"norm_position": "pre", "embedding_norm": False}
_VARIANTS = {"megatron-bert": ("bert", _PRE_NORM), "xlm-roberta-xl": ("xlm_roberta", _PRE_NORM)}
MODEL_TYPES = {model_type: family for model_type, (family, _) in _VARIANTS.items()}
# What transformers takes for a key that a file leaves out, where the family has another.
DEFAULTS = {
    "megatron-bert": {"vocab_size": 29056, "hidden_size": 1024, "num_hidden_layers": 24,
                      "num_attention_heads": 16, "intermediate_size": 4096},
    "xlm-roberta-xl": {"vocab_size": 250880, "hidden_size": 2560, "num_hidden_layers": 36,
                       "num_attention_heads": 32, "intermediate_size": 10240,
                       "max_position_embeddings": 514, "type_vocab_size": 1,
                       "layer_norm_eps": 1e-5},
}


def fields_of(model_type):
    """What a `ModelConfig` has by its `model_type` alone: a dict, empty for those of families."""
    return _VARIANTS.get(model_type, ("", {}))[1]


def type_of(config):
    """The `model_type` of a `ModelConfig`; None where it is that of its family."""
    return next((model_type for model_type, (family, fields) in _VARIANTS.items()
                 if family == config.family and all(
                     getattr(config, name) == value for name, value in fields.items())), None)
