"""What a `config.json` says of MobileBERT beside BERT's keys, and what is refused."""

from bert_tf.errors import UsageError, explain

MODEL_TYPES = {"mobilebert": "mobilebert"}
_NAMED = ("embedding_size", "intra_bottleneck_size", "use_bottleneck_attention",
          "key_query_shared_bottleneck", "num_feedforward_networks")
KEYS = {**{key: key for key in _NAMED}, "norm": "normalization_type"}  # beside BERT's
DEFAULTS = {"hidden_size": 512, "num_hidden_layers": 24, "num_attention_heads": 4,
            "intermediate_size": 512, "hidden_act": "relu", "hidden_dropout_prob": 0.0,
            "embedding_size": 128, "intra_bottleneck_size": 128, "use_bottleneck_attention": False,
            "key_query_shared_bottleneck": True, "num_feedforward_networks": 4,
            "normalization_type": "no_norm"}
ONLY = {"trigram_input": True}
FURTHER = ("use_bottleneck", "classifier_activation", "true_hidden_size")
UNUSED = "mobilebert.encoder.layer.*.bottleneck.attention.*"  # with use_bottleneck_attention
_NORMS = ("no_norm", "layer_norm")
_EPSILON = 1e-5  # of two norms of transformers', whatever layer_norm_eps is


def activates(values):
    """Whether `pooler_output` is that of a dense layer with tanh, of a `config.json`."""
    return values.get("classifier_activation") is not False


def read(stated, source):
    """See `hf_architectures.read`."""
    norm, epsilon = stated["normalization_type"], stated["layer_norm_eps"]
    if norm not in _NORMS:
        raise UsageError(explain(f"{source}: normalization_type={norm!r}",
                                 f"one of {', '.join(_NORMS)}"))
    if norm == "layer_norm" and epsilon != _EPSILON:
        raise UsageError(explain(
            f"{source}: normalization_type='layer_norm' with layer_norm_eps={epsilon!r}",
            f"{_EPSILON}, which transformers has in two places whatever is said"))
    if not stated.get("use_bottleneck", True):
        return {**stated, "intra_bottleneck_size": 0, "use_bottleneck_attention": False,
                "key_query_shared_bottleneck": False}
    if stated["use_bottleneck_attention"]:
        return {**stated, "key_query_shared_bottleneck": False}
    sizes = stated["hidden_size"], stated["intra_bottleneck_size"]
    if not stated["key_query_shared_bottleneck"] and sizes[0] != sizes[1]:
        raise UsageError(explain(
            f"{source}: intra_bottleneck_size={sizes[1]!r} with key_query_shared_bottleneck=False "
            "and use_bottleneck_attention=False, which transformers does not compute",
            f"hidden_size={sizes[0]!r}"))
    return stated


def written(values):
    """`values` of a file, and what it must say besides."""
    return {**values, "use_bottleneck": values["intra_bottleneck_size"] > 0, **ONLY}
