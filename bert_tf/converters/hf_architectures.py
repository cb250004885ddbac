"""What a `config.json` says of architectures beyond BERT's: keys, defaults, and what is refused."""

from bert_tf.converters import hf_causal, hf_deberta, hf_gpt, hf_mobilebert, hf_t5, hf_ultrabert
from bert_tf.converters.hf_causal import layer_types, read_period
from bert_tf.converters.hf_rope import read_both, read_rope, write_both
from bert_tf.errors import UsageError, check_choice, explain

_NAMED = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
          "intermediate_size", "hidden_act", "hidden_dropout_prob",
          "attention_probs_dropout_prob", "max_position_embeddings", "initializer_range",
          "layer_norm_eps")
_COMMON = {**{key: key for key in _NAMED}, "padding_id": "pad_token_id"}
KEYS_OF_BERT = {**_COMMON, "type_vocab_size": "type_vocab_size"}
MODEL_TYPES = {"distilbert": "distilbert", "xlm-roberta": "xlm_roberta", "camembert": "camembert",
               "mpnet": "mpnet", "modernbert": "modernbert",
               "nomic_bert": "nomic_bert", "new": "gte", "gte": "gte",
               "jina_embeddings_v3": "jina_embeddings_v3", "eurobert": "eurobert",
               **hf_gpt.MODEL_TYPES, **hf_causal.MODEL_TYPES, **hf_t5.MODEL_TYPES,
               **hf_ultrabert.MODEL_TYPES, **hf_deberta.MODEL_TYPES,
               **hf_mobilebert.MODEL_TYPES}
# Our field -> their key.
KEYS = {
    "xlm_roberta": KEYS_OF_BERT, "camembert": KEYS_OF_BERT,
    "distilbert": {"vocab_size": "vocab_size", "hidden_size": "dim",
                   "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
                   "intermediate_size": "hidden_dim", "hidden_act": "activation",
                   "hidden_dropout_prob": "dropout",
                   "attention_probs_dropout_prob": "attention_dropout",
                   "max_position_embeddings": "max_position_embeddings",
                   "initializer_range": "initializer_range", "padding_id": "pad_token_id"},
    "mpnet": {**_COMMON, "position_buckets": "relative_attention_num_buckets"},
    "modernbert": {**{key: key for key in _NAMED[:5]}, "hidden_act": "hidden_activation",
                   "hidden_dropout_prob": "mlp_dropout",
                   "attention_probs_dropout_prob": "attention_dropout",
                   "max_position_embeddings": "max_position_embeddings",
                   "initializer_range": "initializer_range", "layer_norm_eps": "norm_eps",
                   "padding_id": "pad_token_id", "local_attention": "local_attention",
                   "global_attention_every": "global_attn_every_n_layers",
                   "first_global_layer": "layer_types", "rotary_base": "global_rope_theta",
                   "local_rotary_base": "local_rope_theta", "label_act": "classifier_activation",
                   "pooling": "classifier_pooling"},
    "nomic_bert": {**KEYS_OF_BERT, "rotary_base": "rope_theta"},
    "gte": {**KEYS_OF_BERT, "rotary_base": "rope_theta", "rotary_factor": "rope_factor"},
    "jina_embeddings_v3": {**KEYS_OF_BERT, "rotary_base": "rope_theta"},
    "eurobert": {**{key: key for key in _NAMED[:6]}, "num_key_value_heads": "num_key_value_heads",
                 "attention_probs_dropout_prob": "attention_dropout",
                 "max_position_embeddings": "max_position_embeddings",
                 "initializer_range": "initializer_range", "layer_norm_eps": "rms_norm_eps",
                 "padding_id": "pad_token_id", "rotary_base": "rope_theta",
                 "pooling": "classifier_pooling"},
    **hf_gpt.KEYS, **hf_causal.KEYS, **hf_t5.KEYS, **hf_ultrabert.KEYS, **hf_deberta.KEYS,
    "mobilebert": {**KEYS_OF_BERT, **hf_mobilebert.KEYS},
}
_BASE = {"vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12,
         "num_attention_heads": 12, "intermediate_size": 3072, "hidden_act": "gelu",
         "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
         "max_position_embeddings": 512, "initializer_range": 0.02, "layer_norm_eps": 1e-12}
BERT_BASE = {**_BASE, "type_vocab_size": 2, "pad_token_id": 0}
# What transformers takes for a key that a file leaves out (its configuration classes).
DEFAULTS = {
    "xlm_roberta": {**BERT_BASE, "pad_token_id": 1},
    "camembert": {**BERT_BASE, "pad_token_id": 1},
    "distilbert": {"vocab_size": 30522, "dim": 768, "n_layers": 6, "n_heads": 12,
                   "hidden_dim": 3072, "activation": "gelu", "dropout": 0.1,
                   "attention_dropout": 0.1, "max_position_embeddings": 512,
                   "initializer_range": 0.02, "pad_token_id": 0},
    "mpnet": {**_BASE, "vocab_size": 30527, "pad_token_id": 1,
              "relative_attention_num_buckets": 32},
    "modernbert": {"vocab_size": 50368, "hidden_size": 768, "num_hidden_layers": 22,
                   "num_attention_heads": 12, "intermediate_size": 1152,
                   "hidden_activation": "gelu", "mlp_dropout": 0.0, "attention_dropout": 0.0,
                   "max_position_embeddings": 8192, "initializer_range": 0.02, "norm_eps": 1e-5,
                   "pad_token_id": 50283, "local_attention": 128,
                   "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
                   "local_rope_theta": 10000.0, "classifier_activation": "gelu",
                   "classifier_pooling": "cls"},
    "nomic_bert": {**BERT_BASE, "vocab_size": 30528, "hidden_act": "silu",
                   "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
                   "max_position_embeddings": 2048, "rope_theta": 1000.0},
    "gte": {**BERT_BASE, "vocab_size": 250048, "attention_probs_dropout_prob": 0.0,
            "max_position_embeddings": 8192, "type_vocab_size": 1, "pad_token_id": 1,
            "rope_theta": 160000.0, "rope_factor": 1.0},
    "jina_embeddings_v3": {**BERT_BASE, "vocab_size": 250002, "hidden_size": 1024,
                           "num_hidden_layers": 24, "num_attention_heads": 16,
                           "intermediate_size": 4096, "max_position_embeddings": 8194,
                           "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1,
                           "rope_theta": 20000.0},
    "eurobert": {"vocab_size": 128256, "hidden_size": 768, "num_hidden_layers": 12,
                 "num_attention_heads": 12, "intermediate_size": 3072, "hidden_act": "silu",
                 "num_key_value_heads": 0, "attention_dropout": 0.0,
                 "max_position_embeddings": 8192, "initializer_range": 0.02, "rms_norm_eps": 1e-5,
                 "pad_token_id": 128001, "rope_theta": 10000.0, "classifier_pooling": "late"},
    **hf_gpt.DEFAULTS, **hf_causal.DEFAULTS, **hf_t5.DEFAULTS, **hf_ultrabert.DEFAULTS,
    **hf_deberta.DEFAULTS,
    "mobilebert": {**BERT_BASE, **hf_mobilebert.DEFAULTS},
}
# Keys with one value that we compute; a file that leaves one out has the first of DEFAULTS.
ONLY = {
    # Their code has these two numbers whatever a file says.
    "mpnet": {"pad_token_id": 1, "relative_attention_num_buckets": 32},
    "modernbert": {"attention_bias": False, "mlp_bias": False, "norm_bias": False,
                   "classifier_bias": False, "decoder_bias": True, "embedding_dropout": 0.0,
                   "tie_word_embeddings": True},
    # Of files that came with code of their own; experts make the layers of another model.
    "nomic_bert": {"num_experts": 0, "causal": False, "prenorm": False, "parallel_block": False,
                   "use_rms_norm": False, "qkv_proj_bias": False, "mlp_fc1_bias": False,
                   "mlp_fc2_bias": False, "scale_attn_weights": True,
                   "scale_attn_by_inverse_layer_idx": False, "rotary_emb_fraction": 1.0,
                   "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
                   "rotary_scaling_factor": None, "tie_word_embeddings": True},
    # Of the files with model_type "new".
    "gte": {"layer_norm_type": "layer_norm", "position_embedding_type": "rope", "pack_qkv": True,
            "logn_attention_scale": False, "logn_attention_clip1": False,
            "tie_word_embeddings": True},
    "eurobert": {"attention_bias": False, "mlp_bias": False, "rope_scaling": None,
                 "tie_word_embeddings": False},
    **hf_gpt.ONLY, **hf_causal.ONLY, **hf_ultrabert.ONLY, **hf_deberta.ONLY,
    "mobilebert": hf_mobilebert.ONLY,
}
# What such files call the keys, beside today's names or instead of them: NomicBERT's as GPT-2 does.
_OLD_NAMES = {"eurobert": {"clf_pooling": "classifier_pooling"}, "nomic_bert": {
    "n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
    "n_inner": "intermediate_size", "n_positions": "max_position_embeddings",
    "layer_norm_epsilon": "layer_norm_eps", "resid_pdrop": "hidden_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob", "rotary_emb_base": "rope_theta",
    "activation_function": "hidden_act"}}
_GATED = {"swiglu": "silu", "geglu": "gelu"}


_OF_MASKED_LM = ("tie_word_embeddings", "decoder_bias")  # of no matter to other models
# The last ones tell how code of their own computes, and of experts.
_OF_NOMIC = """head_dim max_trained_positions pad_vocab_size_multiple auto_map dense_seq_output
    fused_bias_fc fused_dropout_add_ln use_xentropy reorder_and_upcast_attn add_pooling_layer
    moe_every_n_layers moe_impl moe_normalize_expert_weights moe_resid_pdrop moe_top_k
    expert_choice_router ffn_div num_shared_experts router_aux_loss_coef"""
_FURTHER = {"nomic_bert": tuple(_OF_NOMIC.split()),
            # What a table begins as, which is in the file as it became.
            "distilbert": ("sinusoidal_pos_embds",),
            "electra": ("generator_size",),  # of the model that it was trained with
            # Of their training code: `norm_eps` counts, and positions are rotary.
            "modernbert": ("layer_norm_eps", "position_embedding_type"),
            "gte": ("auto_map", "rope_scaling", "unpad_inputs", "use_memory_efficient_attention"),
            # How its dense layers were once computed in parts; a dropout that there is none of.
            "eurobert": ("auto_map", "head_dim", "hidden_dropout", "pretraining_tp", "bos_token",
                         "eos_token", "pad_token", "mask_token"),
            **hf_gpt.FURTHER, **hf_causal.FURTHER, **hf_t5.FURTHER, **hf_ultrabert.FURTHER,
            **hf_deberta.FURTHER, "mobilebert": hf_mobilebert.FURTHER}
_ROPE_KEYS = ("global_rope_theta", "local_rope_theta")  # of ModernBERT
# Families that take null for any token, since no position counts from it; their default may lie
# beyond the vocabulary.
ANY_PADDING = ("modernbert", "eurobert", "ultrabert")


def known(family):
    """Keys that `read` looks at, or passes, beside those of `KEYS`."""
    return (*ONLY.get(family, ()), *_FURTHER.get(family, ()))


def renamed(family, values):
    """A `config.json` under the names that transformers gives its keys today, which count where
    both are there, with a value that old files take for granted."""
    old = _OLD_NAMES.get(family, {})
    found = {old[key]: value for key, value in values.items() if key in old}
    if values.get("model_type") == "new":
        found["rope_theta"] = 10000.0
    if isinstance(found.get("hidden_act"), str):
        found["hidden_act"] = _GATED.get(found["hidden_act"], found["hidden_act"])
    return {**found, **{key: value for key, value in values.items() if key not in old}}


# Of classifiers -> ours.
_CLS_OR_MEAN = {"cls": "first", "mean": "mean"}
POOLINGS = {"modernbert": _CLS_OR_MEAN, "ultrabert": _CLS_OR_MEAN,
            "eurobert": {"bos": "first", "mean": "mean", "late": "late"}}


def choice(names, key, stated, source):
    """Our name for the value of a key of theirs.

    Raises:
        UsageError: it is none of `names`.
    """
    return names[check_choice(f"{source}: {key}", stated[key], names, near=False)]


def read(family, stated, source, masked_lm):
    """The keys of a file as one spells them that has all; refuses what we do not compute.

    Args:
        family: of `KEYS`.
        stated: all keys, defaults filled in.
        source: the file's name, for messages.
        masked_lm: whether the model has a masked-LM head.

    Raises:
        UsageError: a key has another value than the one that we compute; it is named.
    """
    for key, right in ONLY.get(family, {}).items():
        if stated.get(key, right) != right and (masked_lm or key not in _OF_MASKED_LM):
            raise UsageError(explain(f"{source}: {key}={stated[key]!r}", repr(right)))
    return _READERS.get(family, lambda stated, source: stated)(stated, source)


def _read_deberta(stated, source):
    _check_head_size("attention_head_size", stated, source)
    return hf_deberta.read(stated, source)


def _check_head_size(key, stated, source):
    size, heads = stated.get(key), stated["num_attention_heads"]
    if size is not None and not (isinstance(size, int) and isinstance(heads, int)
                                 and size * heads == stated["hidden_size"]):
        raise UsageError(explain(f"{source}: {key}={size!r}",
                                 "hidden_size divided by num_attention_heads"))


def _read_rotary(stated, source):
    _check_head_size("head_dim", stated, source)
    return {**stated, **read_rope(stated, source, ("default",))}


def _read_gte(stated, source):
    scaling = stated.get("rope_scaling")
    if not scaling:
        return {**stated, **read_rope(stated, source, ("default", "linear"))}
    factor = scaling.get("factor") if isinstance(scaling, dict) else None
    size = stated["hidden_size"], stated["num_attention_heads"]
    if (not isinstance(factor, (int, float)) or factor < 1 or scaling.get("type") != "ntk"
            or scaling.get("mixed_b") is not None or not all(
                isinstance(each, int) and each > 0 for each in size)):
        raise UsageError(explain(f"{source}: rope_scaling={scaling!r}", "type 'ntk' and a factor"))
    # Of model_type "new": another base, and all frequencies smaller (Su 2023, "NTK-RoPE").
    return {**stated, "rope_theta": stated["rope_theta"] * factor,
            "rope_factor": factor ** (2 * size[1] / size[0])}


def _read_modernbert(stated, source):
    stated = {**stated, **read_both(stated, source, _ROPE_KEYS)}
    if stated["local_rope_theta"] is None:
        # Files of older versions have null for: as the layers that see everything.
        stated["local_rope_theta"] = stated["global_rope_theta"]
    every, first = stated["global_attn_every_n_layers"], 0
    if stated["local_attention"] and type(every) is int and every > 0:
        every, first = read_period(stated, source, every, first)
    return {**stated, "global_attn_every_n_layers": every, "layer_types": first}


def written(family, values):
    """`values` of a file, and what it must say besides."""
    own_code = family in ("nomic_bert", "gte")  # whose keys of old files transformers has none of
    further = {} if own_code else dict(ONLY.get(family, {}))
    if family in POOLINGS:
        pooling, names = values["classifier_pooling"], POOLINGS[family]
        if pooling not in names.values():
            raise UsageError(explain(f"pooling={pooling!r} cannot be written as {family}",
                                     "one of " + ", ".join(names.values())))
        further["classifier_pooling"] = next(
            theirs for theirs, ours in names.items() if ours == pooling)
    if family == "modernbert":
        further["layer_types"] = layer_types(
            values["num_hidden_layers"], values["global_attn_every_n_layers"],
            values["layer_types"], values["local_attention"])
        further["rope_parameters"] = write_both(values, _ROPE_KEYS)
    if family in hf_t5.KEYS:
        return hf_t5.written(values)
    if family in hf_deberta.KEYS:
        return hf_deberta.written(family, values)
    if family in hf_ultrabert.KEYS:
        return {**hf_ultrabert.written(values), **further}
    if family == "mobilebert":
        return hf_mobilebert.written(values)
    if family in hf_gpt.KEYS:
        values = hf_gpt.written(family, values)
    if family in hf_causal.KEYS:
        return {**hf_causal.written(family, values),
                **{key: value for key, value in further.items() if value is not None}}
    if "rope_theta" in values:
        theta, factor = values["rope_theta"], values.get("rope_factor", 1.0)
        values = {key: value for key, value in values.items() if not key.startswith("rope_")}
        kind = {"rope_type": "default"} if factor == 1 else {"rope_type": "linear",
                                                             "factor": factor}
        further["rope_parameters"] = {**kind, "rope_theta": theta}
    return {**values, **{key: value for key, value in further.items() if value is not None}}


_READERS = {"deberta_v1": _read_deberta, "deberta": _read_deberta, "modernbert": _read_modernbert,
            "nomic_bert": _read_rotary, "eurobert": _read_rotary,
            "jina_embeddings_v3": _read_rotary, "gte": _read_gte,
            "gpt": hf_gpt.read, "gpt2": hf_gpt.read, "qwen3": hf_causal.read_qwen3,
            "gemma3": hf_causal.read_gemma3, "t5": hf_t5.read, "ultrabert": hf_ultrabert.read,
            "mobilebert": hf_mobilebert.read}
