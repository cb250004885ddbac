"""What a `config.json` says of Qwen3 and Gemma 3: keys, defaults, windows, and what is refused.

As transformers 5 has it: `layer_types` are what counts, `sliding_window_pattern` makes them where
they are missing; Gemma's `sliding_window` is of tokens up to and with a position, or, where it sees
both sides, of those on both together.
"""

from bert_tf.converters.hf_rope import KINDS, read_both, read_rope, write_both
from bert_tf.errors import UsageError, explain

MODEL_TYPES = {"qwen3": "qwen3", "gemma3_text": "gemma3"}
_COMMON = {**{key: key for key in (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "intermediate_size", "max_position_embeddings", "initializer_range")},
    "attention_head_size": "head_dim", "attention_probs_dropout_prob": "attention_dropout",
    "layer_norm_eps": "rms_norm_eps", "padding_id": "pad_token_id", "rotary_base": "rope_theta",
    "masked_lm_head": "tie_word_embeddings"}
KEYS = {
    "qwen3": {**_COMMON, "hidden_act": "hidden_act", "attention": "is_causal"},
    "gemma3": {**_COMMON, "hidden_act": "hidden_activation", "score_size": "query_pre_attn_scalar",
               "attention": "use_bidirectional_attention", "local_attention": "sliding_window",
               "local_rotary_base": "rope_local_base_freq",
               "global_attention_every": "sliding_window_pattern",
               "first_global_layer": "layer_types"},
}
DEFAULTS = {
    "qwen3": {"vocab_size": 151936, "hidden_size": 4096, "num_hidden_layers": 32,
              "num_attention_heads": 32, "num_key_value_heads": 0, "head_dim": 128,
              "intermediate_size": 22016, "hidden_act": "silu", "attention_dropout": 0.0,
              "max_position_embeddings": 32768, "initializer_range": 0.02, "rms_norm_eps": 1e-6,
              "rope_theta": 10000.0, "tie_word_embeddings": False, "is_causal": True},
    "gemma3": {"vocab_size": 262208, "hidden_size": 2304, "num_hidden_layers": 26,
               "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
               "intermediate_size": 9216, "hidden_activation": "gelu_pytorch_tanh",
               "attention_dropout": 0.0, "max_position_embeddings": 131072,
               "initializer_range": 0.02, "rms_norm_eps": 1e-6, "pad_token_id": 0,
               "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
               "query_pre_attn_scalar": 256, "sliding_window": 4096, "sliding_window_pattern": 6,
               "use_bidirectional_attention": False, "tie_word_embeddings": True},
}
ONLY = {
    "qwen3": {"attention_bias": False, "rope_scaling": None},
    "gemma3": {"attention_bias": False, "rope_scaling": None, "attn_logit_softcapping": None,
               "final_logit_softcapping": None},
}
FURTHER = {"qwen3": ("sliding_window", "use_sliding_window", "max_window_layers"),
           "gemma3": ("_sliding_window_pattern", "is_causal", "cache_implementation")}
_ROPE_KEYS = ("rope_theta", "rope_local_base_freq")


def ties(family, values):
    """Whether a file's `lm_head.weight` is a copy of the word embeddings."""
    own = DEFAULTS.get(family, {}).get("tie_word_embeddings", True)
    return family not in KEYS or values.get("tie_word_embeddings", own)


def read_qwen3(stated, source):
    """See `hf_architectures.read`."""
    named, layers = stated.get("layer_types"), stated["num_hidden_layers"]
    window = stated.get("sliding_window") if stated.get("use_sliding_window") else None
    from_layer = stated.get("max_window_layers", 28)
    if named is None and window is not None and number(layers, source, "num_hidden_layers") > (
            number(from_layer, source, "max_window_layers")):
        raise UsageError(explain(f"{source}: use_sliding_window=True with max_window_layers="
                                 f"{from_layer}", "layers that all see everything"))
    if named is not None and (not isinstance(named, list) or {*map(str, named)} - {KINDS[0]}):
        raise UsageError(explain(f"{source}: layer_types={named!r}", f"{KINDS[0]!r} of all"))
    return _common(stated) | read_rope(stated, source, ("default",)) | {
        "pad_token_id": padding_of(stated),
        "is_causal": "causal" if stated["is_causal"] else "bidirectional"}


def read_gemma3(stated, source):
    """See `hf_architectures.read`."""
    if stated.get("is_causal", True) is not True:
        raise UsageError(explain(f"{source}: is_causal={stated['is_causal']!r}", "true",
                                 "use_bidirectional_attention=true for attention to both sides"))
    bidirectional = bool(stated["use_bidirectional_attention"])
    layers = number(stated["num_hidden_layers"], source, "num_hidden_layers")
    every = number(stated["sliding_window_pattern"], source, "sliding_window_pattern")
    window = number(stated["sliding_window"], source, "sliding_window", 2)
    named, first = _named_types(stated, source), every - 1
    reach = window // 2 if bidirectional else window - 1
    if named and named == [KINDS[0]] * layers:
        reach = 0
    else:
        every, first = read_period(stated, source, every, first)
    return _common(stated) | read_both(stated, source, _ROPE_KEYS) | {
        "use_bidirectional_attention": "bidirectional" if bidirectional else "causal",
        "sliding_window": 2 * reach, "sliding_window_pattern": every, "layer_types": first}


def padding_of(stated):
    """Return the id that a file states for padding; files of language models may leave it out: the
    token that also begins or ends texts then."""
    ends = stated.get("eos_token_id")
    tokens = (stated.get("pad_token_id"), stated.get("bos_token_id"),
              ends[0] if isinstance(ends, list) and ends else ends, 0)
    return next(token for token in tokens if token is not None)


def _common(stated):
    return {**stated, "tie_word_embeddings": "tied" if stated["tie_word_embeddings"] else "linear"}


def number(value, source, key, least=1):
    """Return the value of a key, an integer from `least` on.

    Raises:
        UsageError: it is none.
    """
    if type(value) is not int or value < least:
        raise UsageError(explain(f"{source}: {key}={value!r}", f"an integer from {least} on"))
    return value


def _period(named, layers):
    """How often kinds of layers repeat, and the first that sees everything, if they do."""
    full = [layer for layer, kind in enumerate(named) if kind == KINDS[0]]
    if not full:
        return layers + 1, layers
    return (full[1] - full[0] if len(full) > 1 else layers), full[0]


def read_period(stated, source, every, first):
    """Return how often a layer sees everything and the first that does, as `layer_types` say.

    Args:
        stated: all keys of a file.
        source: the file's name, for messages.
        every, first: the usual, which counts where there are none, or they are the same.

    Raises:
        UsageError: they do not repeat, or are more or fewer than there are layers.
    """
    named, layers = _named_types(stated, source), stated["num_hidden_layers"]
    if named and named != layer_types(layers, every, first):  # of few layers several would do
        every, first = _period(named, layers)
        if named != layer_types(layers, every, first):
            raise UsageError(explain(f"{source}: layer_types={named!r}",
                                     f"{KINDS[0]!r} once every so many layers, {KINDS[1]!r} else"))
    return every, first


def _named_types(stated, source):
    """The kinds of layers that a file names, one for each; None where it names none."""
    named, layers = stated.get("layer_types"), stated["num_hidden_layers"]
    if named and (not isinstance(named, list) or len(named) != layers):
        raise UsageError(explain(f"{source}: layer_types={named!r}",
                                 f"a list with one for each of {layers!r} layers"))
    return named or None


def layer_types(layers, every, first, local=True):
    """Their names of the kinds of layers: every so many one that sees everything, from `first`; all
    do where none is `local`."""
    return [KINDS[bool(local) and layer % every != first] for layer in range(layers)]


def written(family, values):
    """`values` of a file in their form, see `hf_architectures.written`."""
    head = values["tie_word_embeddings"]
    if head == "transform":
        raise UsageError(explain(f"masked_lm_head={head!r} cannot be written as {family}",
                                 "'tied' or 'linear'"))
    values = {**values, "tie_word_embeddings": head == "tied"}
    if family == "qwen3":
        causal = values.pop("is_causal") == "causal"
        return {**{key: value for key, value in values.items() if key != "rope_theta"},
                **({} if causal else {"is_causal": False}),
                "rope_parameters": {"rope_type": "default", "rope_theta": values["rope_theta"]}}
    bidirectional = values["use_bidirectional_attention"] == "bidirectional"
    every, local = values["sliding_window_pattern"], values["sliding_window"]
    kinds = layer_types(values["num_hidden_layers"], every, values["layer_types"], local)
    local = local or 2  # a window must have a size
    if values["hidden_activation"] == "gelu_new":
        values["hidden_activation"] = "gelu_pytorch_tanh"
    return {**{key: value for key, value in values.items() if key not in _ROPE_KEYS},
            "use_bidirectional_attention": bidirectional, "layer_types": kinds,
            "sliding_window": local if bidirectional else local // 2 + 1,
            "rope_parameters": write_both(values, _ROPE_KEYS)}
