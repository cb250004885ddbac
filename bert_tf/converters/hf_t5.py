"""What a `config.json` says of T5 and mT5, of which the encoder is read: keys, what is refused.

Of a whole model the decoder is left out. `feed_forward_proj` names the activation and whether it is
gated; its `gated-gelu` is the tanh form.
"""

from bert_tf.errors import UsageError, explain

# What several model types stand for is written under the last of them.
MODEL_TYPES = {"mt5": "t5", "t5": "t5"}
_GATED, _GELU = "gated", "gelu_new"
# `initializer_range` is ours alone, `n_positions` of old files: T5 counts no positions.
KEYS = {"t5": {
    "vocab_size": "vocab_size", "hidden_size": "d_model", "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads", "attention_head_size": "d_kv", "intermediate_size": "d_ff",
    "hidden_act": "feed_forward_proj", "feed_forward": "is_gated_act",
    "hidden_dropout_prob": "dropout_rate", "attention_probs_dropout_prob": "dropout_rate",
    "layer_norm_eps": "layer_norm_epsilon", "position_buckets": "relative_attention_num_buckets",
    "max_relative_position": "relative_attention_max_distance",
    "initializer_range": "initializer_range", "max_position_embeddings": "n_positions",
    "padding_id": "pad_token_id"}}
DEFAULTS = {"t5": {
    "vocab_size": 32128, "d_model": 512, "num_layers": 6, "num_heads": 8, "d_kv": 64, "d_ff": 2048,
    "feed_forward_proj": "relu", "dropout_rate": 0.1, "layer_norm_epsilon": 1e-6,
    "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
    "initializer_range": 0.02, "n_positions": 512, "pad_token_id": 0}}
FURTHER = {"t5": ("dense_act_fn", "num_decoder_layers", "is_encoder_decoder", "initializer_factor",
                  "scale_decoder_outputs")}


def read(stated, source):
    """See `hf_architectures.read`."""
    name = stated["feed_forward_proj"]
    kind, _, act = name.rpartition("-") if isinstance(name, str) else ("?", "", "")
    if kind not in ("", _GATED):
        raise UsageError(explain(f"{source}: feed_forward_proj={name!r}",
                                 f"an activation, or {_GATED}- and one"))
    act = _GELU if (kind, act) == (_GATED, "gelu") else act
    for key, right in (("is_gated_act", kind == _GATED), ("dense_act_fn", act)):
        if stated.get(key, right) != right:
            raise UsageError(explain(f"{source}: {key}={stated[key]!r} with feed_forward_proj="
                                     f"{name!r}", repr(right)))
    return {**stated, "feed_forward_proj": act,
            "is_gated_act": "gated" if kind == _GATED else "dense"}


def written(values):
    """`values` of a file in their form, see `hf_architectures.written`."""
    values = {**values, "is_encoder_decoder": False}
    if values.pop("is_gated_act") == "gated":
        values["feed_forward_proj"] = f"{_GATED}-{values['feed_forward_proj'].removesuffix('_new')}"
    return values
