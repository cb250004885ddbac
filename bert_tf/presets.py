"""Named sizes per family, and what suits them in training."""

from bert_tf.config import ModelConfig
from bert_tf.errors import check_choice

# layers, hidden; heads are hidden / 64 and the intermediate layer is four times hidden.
# BERT: google-research/bert and "Well-Read Students Learn Better"; the rest: each paper's table of
# sizes. Every family has a `tiny` one for trials.
_SMALL_BERT = {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512), "medium": (8, 512)}
_BASE_AND_LARGE = {"base": (12, 768), "large": (24, 1024)}
PRESETS = {
    "bert": {**_SMALL_BERT, **_BASE_AND_LARGE},
    "roberta": {**_SMALL_BERT, **_BASE_AND_LARGE},
    "albert": {**_SMALL_BERT, **_BASE_AND_LARGE, "xlarge": (24, 2048), "xxlarge": (12, 4096)},
    "electra": {"tiny": (2, 128), "small": (12, 256), **_BASE_AND_LARGE},
    "gpt": {**_SMALL_BERT, "base": (12, 768)},
    "gpt2": {"tiny": (2, 128), "small": (12, 768), "medium": (24, 1024), "large": (36, 1280),
             "xlarge": (48, 1600)},
    "distilbert": {"tiny": (2, 128), "base": (6, 768)},
    "xlm_roberta": {"tiny": (2, 128), **_BASE_AND_LARGE},
    "camembert": {"tiny": (2, 128), **_BASE_AND_LARGE},
    "mpnet": {"tiny": (2, 128), "base": (12, 768)},
    "deberta_v1": {"tiny": (2, 128), **_BASE_AND_LARGE, "xlarge": (48, 1024)},
    "deberta": {"tiny": (2, 128), "xsmall": (12, 384), "small": (6, 768), **_BASE_AND_LARGE},
    "modernbert": {**_SMALL_BERT, "base": (22, 768), "large": (28, 1024)},
    "nomic_bert": {"tiny": (2, 128), "base": (12, 768)},
    "gte": {"tiny": (2, 128), **_BASE_AND_LARGE},
    "jina_embeddings_v3": {"tiny": (2, 128), "large": (24, 1024)},
    "eurobert": {"tiny": (2, 128), "base": (12, 768), "large": (26, 1152), "xlarge": (32, 2304)},
    "ultrabert": {"tiny": (2, 128)},
    "mobilebert": {"tiny": (2, 128), "base": (24, 512)},
    # Qwen3-Embedding 0.6B, 4B and 8B; EmbeddingGemma 300M.
    "qwen3": {"tiny": (2, 128), "base": (28, 1024), "large": (36, 2560), "xlarge": (36, 4096)},
    "gemma3": {"tiny": (2, 128), "base": (24, 768)},
    # xlarge: 3B, as GTR and Sentence-T5 have it.
    "t5": {"tiny": (2, 128), "small": (6, 512), **_BASE_AND_LARGE, "xlarge": (24, 1024)},
}
SIZES = tuple(dict.fromkeys(name for sizes in PRESETS.values() for name in sizes))
# Entries of the published vocabularies.
VOCAB_SIZES = {"bert": 30522, "roberta": 50265, "albert": 30000, "electra": 30522, "gpt": 40478,
               "gpt2": 50257, "distilbert": 30522, "xlm_roberta": 250002, "camembert": 32005,
               "mpnet": 30527, "deberta_v1": 50265, "deberta": 128100, "modernbert": 50368,
               "nomic_bert": 30528,
               "gte": 250048, "jina_embeddings_v3": 250002, "eurobert": 128256, "qwen3": 151669,
               "gemma3": 262144, "t5": 32128, "ultrabert": 32000,
               "mobilebert": 30522}
# Ids of their padding, where that is not 0.
_PADDING_IDS = {"roberta": 1, "gpt2": 50256, "xlm_roberta": 1, "camembert": 1, "mpnet": 1,
                "modernbert": 50283, "gte": 1, "jina_embeddings_v3": 1, "eurobert": 128001,
                "qwen3": 151643}
# What a size has beside its widths.
_FURTHER = {
    ("albert", "tiny"): {"embedding_size": 64},
    # 2048 hidden units over heads of 128 (google-research/albert).
    ("albert", "xlarge"): {"num_attention_heads": 16},
    ("electra", "tiny"): {"embedding_size": 64},
    ("electra", "small"): {"embedding_size": 128},
    # Gated, so with a third matrix; mini to medium have about as many weights as BERT's.
    ("modernbert", "mini"): {"intermediate_size": 640},
    ("modernbert", "small"): {"intermediate_size": 1280},
    ("modernbert", "medium"): {"intermediate_size": 1280},
    ("modernbert", "base"): {"intermediate_size": 1152},
    ("modernbert", "large"): {"intermediate_size": 2624},
    ("eurobert", "tiny"): {"num_key_value_heads": 1},
    ("eurobert", "large"): {"num_key_value_heads": 6, "intermediate_size": 4096},
    ("eurobert", "xlarge"): {"num_attention_heads": 18, "num_key_value_heads": 6,
                             "intermediate_size": 6144},
    ("ultrabert", "tiny"): {"masked_lm_head_size": 128},
    ("mobilebert", "tiny"): {"intermediate_size": 256, "embedding_size": 64,
                             "intra_bottleneck_size": 64},
    ("mobilebert", "base"): {"num_attention_heads": 4, "intermediate_size": 512},
    ("qwen3", "tiny"): {"num_key_value_heads": 1, "attention_head_size": 64},
    ("qwen3", "base"): {"num_key_value_heads": 8, "intermediate_size": 3072},
    # Both have four rows less than the smallest.
    ("qwen3", "large"): {"num_attention_heads": 32, "num_key_value_heads": 8,
                         "intermediate_size": 9728, "max_position_embeddings": 40960},
    ("qwen3", "xlarge"): {"num_attention_heads": 32, "num_key_value_heads": 8,
                          "intermediate_size": 12288, "max_position_embeddings": 40960,
                          "masked_lm_head": "linear"},
    ("gemma3", "tiny"): {"num_key_value_heads": 1, "attention_head_size": 64, "score_size": 64},
    ("t5", "xlarge"): {"num_attention_heads": 32, "attention_head_size": 128,
                       "intermediate_size": 16384},
    ("gemma3", "base"): {"num_attention_heads": 3, "num_key_value_heads": 1,
                         "intermediate_size": 1152},
}
# Version 2 of ALBERT trains without dropout (google-research/albert, README).
_FAMILY = {"albert": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}}
# Width of ELECTRA's generator by that of the discriminator (ELECTRA paper, table 6).
_GENERATOR_SHARE = {"base": 1 / 3}


def preset(family, name, vocab_size=None, **changes):
    """The `ModelConfig` of a published size.

    Args:
        family: one of `family_defaults.FAMILIES`.
        name: one of the family's sizes.
        vocab_size: entries of the vocabulary; None for the published one's.
        changes: further fields of `ModelConfig`.

    Raises:
        UsageError: the family or the size is unknown.
    """
    sizes = PRESETS[check_choice("family", family, PRESETS)]
    layers, hidden = sizes[check_choice("preset", name, sizes)]
    values = {"family": family, "vocab_size": vocab_size or VOCAB_SIZES[family],
              "num_hidden_layers": layers, "hidden_size": hidden,
              "num_attention_heads": hidden // 64, "intermediate_size": 4 * hidden,
              **_FAMILY.get(family, {}), **_FURTHER.get((family, name), {})}
    if vocab_size is None:
        values["padding_id"] = _PADDING_IDS.get(family, 0)
    return ModelConfig.from_dict({**values, **changes})


def generator_config(config, name=None):
    """The `ModelConfig` of the generator that goes with an ELECTRA discriminator.

    Args:
        config: the discriminator's.
        name: its size among the presets: `base` has a generator of a third of its width, all
            others of a quarter (ELECTRA paper, appendix A, table 6). As many layers, heads of 64,
            an intermediate layer four times as wide, the discriminator's embeddings.
    """
    width = round(config.hidden_size * _GENERATOR_SHARE.get(name, 0.25))
    heads = max(1, width // 64)
    hidden = max(1, width // heads) * heads
    return config.replace(hidden_size=hidden, num_attention_heads=heads,
                          num_key_value_heads=0, intermediate_size=4 * hidden,
                          embedding_size=config.embedding_width)


# Peak learning rate and batch size: the papers' for base and large (BERT A.2), larger steps where
# the model is small enough to bear them.
_TRAINING = {
    "tiny": (1e-3, 32),
    "mini": (5e-4, 32),
    "xsmall": (5e-4, 64),
    "small": (5e-4, 64),
    "medium": (2e-4, 128),
    "base": (1e-4, 256),
    "large": (1e-4, 256),
}


def training_defaults(name=None):
    """`learning_rate` and `batch_size` that suit a preset; the paper's for other sizes."""
    learning_rate, batch_size = _TRAINING.get(name, (1e-4, 256))
    return {"learning_rate": learning_rate, "batch_size": batch_size}
