"""What a configuration says of the stack: the arguments of `Encoder`."""


def encoder_options(config, of_all, common):
    """Return the arguments of an `Encoder`, a dict.

    Args:
        config: a `ModelConfig`.
        of_all: arguments that every layer with weights takes, a dict.
        common: those of layers with dropout and LayerNorm, `of_all` among them.
    """
    return {
        "num_hidden_layers": config.num_hidden_layers,
        "num_hidden_groups": config.num_hidden_groups,
        "block": {"hidden_size": config.hidden_size,
                  "num_attention_heads": config.num_attention_heads,
                  "intermediate_size": config.intermediate_size, "hidden_act": config.hidden_act,
                  "kernel_size": (config.conv_kernel_size if config.feed_forward == "conv"
                                  else None),
                  "attention_dropout": config.attention_probs_dropout_prob,
                  "norm": config.norm, "norm_position": config.norm_position,
                  "use_bias": config.use_bias, "dense_bias": config.dense_bias,
                  "intermediate_bias": config.intermediate_bias,
                  "gated": config.feed_forward == "gated", **_bottlenecks(config), **common},
        "layers": _layers(config), "relative": _relative(config, of_all),
        "norm": _final_norm(config), "neighbours": _neighbours(config, common)}


def _bottlenecks(config):
    """What blocks have that are not `TransformerBlock`s."""
    names = ("intra_bottleneck_size", "key_query_shared_bottleneck", "use_bottleneck_attention",
             "num_feedforward_networks")
    return {name: getattr(config, name) for name in names if config.has_bottleneck_blocks}


def _layers(config):
    """What each layer of the stack has of its own: options of `TransformerBlock`."""
    rotary = config.relative_position == "rotary"
    terms = config.pos_att_type.split("|") if config.relative_position == "disentangled" else []
    norm = {"norm": config.norm, "epsilon": config.layer_norm_eps, "use_bias": config.use_bias}
    layers = []
    for layer in range(config.num_hidden_groups or config.num_hidden_layers):
        local = not config.sees_all(layer)
        base = config.local_rotary_base if local else config.rotary_base
        layers.append({
            "attention_norm": config.norms_entering(layer),
            "attention": {"window": config.local_attention if local else 0,
                          "rotary_base": base if rotary else 0.0,
                          "rotary_factor": config.rotary_factor,
                          "num_key_value_heads": config.num_key_value_heads,
                          "head_size": config.attention_head_size,
                          "score_size": config.score_size,
                          "query_key_norm": norm if config.query_key_norm else None,
                          "key_bias": config.key_bias,
                          "position_terms": () if config.share_att_key else terms,
                          "score_terms": 1 + len(terms)}})
    return layers


def _relative(config, options):
    """What layers share to know distances by, as `Encoder` takes it."""
    buckets = {"position_buckets": config.position_buckets,
               "max_relative_position": config.max_relative_position, **options}
    return {"bias": ("bias", {"num_attention_heads": config.num_attention_heads, **buckets}),
            "disentangled": ("disentangled", {"hidden_size": config.hidden_size,
                                              "layer_norm_eps": config.layer_norm_eps,
                                              "terms": config.pos_att_type.split("|"),
                                              "shared": config.share_att_key, **buckets}),
            }.get(config.relative_position)


def _final_norm(config):
    """LayerNorm at the end of a stack whose layers have theirs at the beginning."""
    return ({"norm": config.norm, "epsilon": config.layer_norm_eps, "use_bias": config.use_bias}
            if config.norm_position != "post" else None)


def _neighbours(config, options):
    """The convolution beside the first layer."""
    return ({"hidden_size": config.hidden_size, "kernel_size": config.first_conv_kernel_size,
             "act": config.first_conv_act, **options} if config.first_conv_kernel_size else None)
