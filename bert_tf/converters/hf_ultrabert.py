"""What a `config.json` says of UltraBERT: keys, defaults, windows, and what is refused.

Some layers see `sliding_window` tokens on either side. Today's files name them in `layer_types`;
the first ones have a window and a rotary base for each layer, `attention_windows` and `rope_theta`.
"""

from bert_tf.converters.hf_causal import layer_types, number, read_period
from bert_tf.converters.hf_rope import KINDS, read_both, write_both
from bert_tf.errors import UsageError, explain

MODEL_TYPES = {"ultrabert": "ultrabert"}
_ROPE_KEYS, _EVERY = ("global_rope_theta", "local_rope_theta"), "full_attention_every"  # no file's
KEYS = {"ultrabert": {
    **{key: key for key in (
        "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "intermediate_size", "hidden_act", "max_position_embeddings",
        "initializer_range")},
    "attention_head_size": "head_dim", "attention_probs_dropout_prob": "attention_dropout",
    "layer_norm_eps": "rms_norm_eps", "padding_id": "pad_token_id", "rotary_base": _ROPE_KEYS[0],
    "local_rotary_base": _ROPE_KEYS[1], "local_attention": "sliding_window",
    "global_attention_every": _EVERY, "first_global_layer": "layer_types",
    "masked_lm_head_size": "prediction_head_size", "pooling": "classifier_pooling"}}
DEFAULTS = {"ultrabert": {
    "vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 0, "intermediate_size": 11008, "hidden_act": "silu",
    "max_position_embeddings": 32768, "initializer_range": 0.02, "head_dim": 0,
    "attention_dropout": 0.0, "rms_norm_eps": 1e-6, "pad_token_id": 0, "sliding_window": 128,
    "prediction_head_size": 768, "classifier_pooling": "cls"}}
ONLY = {"ultrabert": {"attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False}}
FURTHER = {"ultrabert": ("auto_map", "attention_windows", "rope_theta")}


def read(stated, source):
    """See `hf_architectures.read`."""
    stated = {**stated, **dict(zip(_ROPE_KEYS, (2560000.0, 10000.0), strict=True))}
    layers = number(stated["num_hidden_layers"], source, "num_hidden_layers")
    windows = _of_layers("attention_windows", stated, source)
    if windows:
        kinds = [KINDS[bool(window)] for window in windows]
        window = _of_kinds("attention_windows", kinds, windows, source).get(KINDS[1])
        stated |= {"layer_types": stated.get("layer_types") or kinds,
                   "sliding_window": window or stated["sliding_window"]}
    every, first = read_period(stated, source, 3, 2)
    kinds = layer_types(layers, every, first)
    if not stated.get("rope_parameters") and (bases := _of_layers("rope_theta", stated, source)):
        stated["rope_parameters"] = {kind: {"rope_theta": base} for kind, base in _of_kinds(
            "rope_theta", kinds, bases, source).items()}
    reach = number(stated["sliding_window"], source, "sliding_window") if KINDS[1] in kinds else 0
    return {**stated, **read_both(stated, source, _ROPE_KEYS), "sliding_window": 2 * reach,
            _EVERY: every, "layer_types": first}


def _of_layers(key, stated, source):
    """The list of a key, one value for each layer; None where there is none."""
    values, layers = stated.get(key), stated["num_hidden_layers"]
    if values is not None and (not isinstance(values, list) or len(values) != layers):
        raise UsageError(explain(f"{source}: {key}={values!r}",
                                 f"a list with one for each of {layers} layers"))
    return values


def _of_kinds(key, kinds, values, source):
    """`{kind: value}` of layers, all of a kind with the same value, where 0 is null's."""
    found = dict(zip(kinds, values, strict=True))
    if any((found[kind] or 0) != (value or 0) for kind, value in zip(kinds, values, strict=True)):
        raise UsageError(explain(f"{source}: {key}={values!r}",
                                 "the same for all layers that have a window, and for all others"))
    return found


def written(values):
    """`values` of a file in their form, see `hf_architectures.written`."""
    kinds = layer_types(values["num_hidden_layers"], values[_EVERY], values["layer_types"],
                        values["sliding_window"])
    return {**{key: value for key, value in values.items() if key not in (*_ROPE_KEYS, _EVERY)},
            "layer_types": kinds, "sliding_window": values["sliding_window"] // 2 or 1,
            "rope_parameters": write_both(values, _ROPE_KEYS)}
