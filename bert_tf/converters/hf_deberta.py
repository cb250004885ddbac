"""What a `config.json` says of DeBERTa: keys, defaults, what is refused, and a head's other names.

Version 1 is `deberta`; versions 2 and 3 are `deberta-v2`.
"""

from bert_tf.errors import UsageError, explain

MODEL_TYPES = {"deberta": "deberta_v1", "deberta-v2": "deberta"}
_SAME = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
         "intermediate_size", "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob",
         "max_position_embeddings", "initializer_range", "layer_norm_eps", "type_vocab_size",
         "pos_att_type")
_COMMON = {**{key: key for key in _SAME}, "padding_id": "pad_token_id",
           "label_act": "pooler_hidden_act"}
KEYS = {
    "deberta_v1": {**_COMMON, "position_buckets": "max_relative_positions",
                   "position_embedding": "position_biased_input"},
    "deberta": {**_COMMON, "position_buckets": "position_buckets",
                "max_relative_position": "max_relative_positions",
                "first_conv_kernel_size": "conv_kernel_size", "first_conv_act": "conv_act"}}
_DEFAULTS = {"hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
             "max_position_embeddings": 512, "initializer_range": 0.02, "layer_norm_eps": 1e-7,
             "type_vocab_size": 0, "pad_token_id": 0, "max_relative_positions": -1,
             "pos_att_type": "", "relative_attention": False, "position_biased_input": True,
             "pooler_hidden_act": "gelu"}
DEFAULTS = {
    "deberta_v1": {**_DEFAULTS, "vocab_size": 50265, "hidden_size": 768, "num_hidden_layers": 12,
                   "num_attention_heads": 12, "intermediate_size": 3072},
    "deberta": {**_DEFAULTS, "vocab_size": 128100, "hidden_size": 1536, "num_hidden_layers": 24,
                "num_attention_heads": 24, "intermediate_size": 6144, "position_buckets": -1,
                "share_att_key": False, "norm_rel_ebd": "none", "conv_kernel_size": 0,
                "conv_act": "tanh"}}
ONLY = {
    "deberta_v1": {"relative_attention": True},
    "deberta": {"relative_attention": True, "share_att_key": True, "norm_rel_ebd": "layer_norm",
                "position_biased_input": False, "conv_groups": 1}}
_EQUAL = ("pooler_hidden_size", "embedding_size")  # those of hidden_size
FURTHER = dict.fromkeys(KEYS, (*_EQUAL, "attention_head_size", "legacy", "padding_idx"))
_TERMS = ("c2p", "p2c")
_POSITIONS = {True: "learned", False: "none"}
# The head of masked tokens that is no `legacy` one computes the same under other names.
_HEAD = {"lm_predictions.lm_head.dense.": "cls.predictions.transform.dense.",
         "lm_predictions.lm_head.LayerNorm.": "cls.predictions.transform.LayerNorm.",
         "lm_predictions.lm_head.bias": "cls.predictions.bias"}


def read(stated, source):
    """See `hf_architectures.read`."""
    found = stated["pos_att_type"]
    terms = [each.strip() for each in found.lower().split("|")] if isinstance(found, str) else found
    if not isinstance(terms, list) or not terms or len({*map(str, terms)}) < len(terms) or any(
            each not in _TERMS for each in terms):
        raise UsageError(explain(f"{source}: pos_att_type={found!r}", "'c2p', 'p2c', or both"))
    for key in _EQUAL:
        if stated.get(key, stated["hidden_size"]) != stated["hidden_size"]:
            raise UsageError(explain(f"{source}: {key}={stated[key]!r}",
                                     f"that of hidden_size, {stated['hidden_size']!r}"))
    biased, legacy = stated["position_biased_input"], stated.get("legacy", True)
    for key, value in (("position_biased_input", biased), ("legacy", legacy)):
        if not isinstance(value, bool):
            raise UsageError(explain(f"{source}: {key}={value!r}", "true or false"))
    farthest = stated["max_relative_positions"]
    if isinstance(farthest, int) and farthest < 1:
        farthest = stated["max_position_embeddings"]
    return {**stated, "pos_att_type": "|".join(sorted(terms)),
            "max_relative_positions": farthest, "position_biased_input": _POSITIONS[biased]}


def written(family, values):
    """`values` of a file in their form, see `hf_architectures.written`."""
    biased = values.get("position_biased_input", "none") != "none"
    return {**values, **ONLY[family], "position_biased_input": biased, "legacy": True,
            "pos_att_type": values["pos_att_type"].split("|")[::-1],
            "pooler_hidden_size": values["hidden_size"]}


def with_usual_head(tensors, values):
    """`Tensors` of a file in which the head that `legacy` says is there has its usual names.

    Args:
        tensors: of any family.
        values: of its `config.json`.
    """
    named = values.get("architectures") or ["Model"]
    if values.get("legacy") is not False or not str(named[0]).endswith(("Model", "ForMaskedLM")):
        return tensors
    names = {}
    for name in tensors:
        old = next((old for old in _HEAD if name.startswith(old)), "")
        names[_HEAD.get(old, "") + name.removeprefix(old)] = name
    return tensors.renamed(names)


def unread(values):
    """Shell patterns of tensors of which nothing is computed: positions for a decoder that
    transformers has none of."""
    return ["*.position_embeddings.weight"] if values.get("position_biased_input") is False else []
