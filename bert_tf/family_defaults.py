"""The families of models: a row of values each."""

_ROBERTA = {"hidden_act": "gelu", "layer_norm_eps": 1e-5, "max_position_embeddings": 514,
            "type_vocab_size": 1, "positions_from_padding": True, "pooling": "first",
            "label_head": "dense", "label_act": "tanh"}
_GPT = {"attention": "causal", "layer_norm_eps": 1e-5, "type_vocab_size": 0,
        "embedding_norm": False, "masked_lm_head": "tied", "pooling": "last",
        "label_head": "no_bias"}
# Of families whose attention has norms, and whose head is the table of embeddings.
_LIKE_LLAMA = {"hidden_act": "silu", "layer_norm_eps": 1e-6, "type_vocab_size": 0,
               "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
               "position_embedding": "none", "relative_position": "rotary", "norm": "rms_norm",
               "norm_position": "pre", "query_key_norm": True, "embedding_norm": False,
               "dense_bias": False, "feed_forward": "gated", "masked_lm_head": "tied",
               "pooling": "last", "label_head": "no_bias"}
_DEBERTA = {"hidden_act": "gelu", "layer_norm_eps": 1e-7, "type_vocab_size": 0,
            "position_embedding": "none", "relative_position": "disentangled", "pooling": "first",
            "label_head": "dense", "label_act": "gelu"}
# What a configuration of a family has where it does not say otherwise.
FAMILY_DEFAULTS = {
    "bert": {},
    "roberta": _ROBERTA,
    "xlm_roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "albert": {"embedding_size": 128, "num_hidden_groups": 1},
    "electra": {"hidden_act": "gelu", "pooling": "first", "label_head": "dense",
                "label_act": "gelu"},
    # Sun et al. 2020, "MobileBERT", section 3 and table 1.
    "mobilebert": {"hidden_size": 512, "num_hidden_layers": 24, "num_attention_heads": 4,
                   "intermediate_size": 512, "hidden_act": "relu", "hidden_dropout_prob": 0.0,
                   "embedding_size": 128,
                   "trigram_input": True, "intra_bottleneck_size": 128,
                   "key_query_shared_bottleneck": True, "num_feedforward_networks": 4,
                   "norm": "no_norm", "pooling": "first", "masked_lm_head": "extended"},
    "gpt": _GPT,
    # Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3.
    "gpt2": {**_GPT, "max_position_embeddings": 1024, "norm_position": "pre"},
    "distilbert": {"hidden_act": "gelu", "num_hidden_layers": 6, "type_vocab_size": 0,
                   "pooling": "first", "label_head": "dense", "label_act": "relu"},
    "mpnet": {**_ROBERTA, "type_vocab_size": 0, "relative_position": "bias",
              "position_buckets": 32, "max_relative_position": 128},
    # He et al. 2021, "DeBERTa", section 3.1.
    "deberta_v1": {**_DEBERTA, "position_buckets": 512, "share_att_key": False, "key_bias": False},
    # Its version 3 (He et al. 2023), whose layers version 2 has, too.
    "deberta": {**_DEBERTA, "position_buckets": 256, "max_relative_position": 512},
    "modernbert": {"hidden_act": "gelu", "layer_norm_eps": 1e-5, "max_position_embeddings": 8192,
                   "type_vocab_size": 0, "hidden_dropout_prob": 0.0,
                   "attention_probs_dropout_prob": 0.0, "position_embedding": "none",
                   "relative_position": "rotary", "rotary_base": 160000.0,
                   "local_rotary_base": 10000.0, "local_attention": 128,
                   "global_attention_every": 3, "norm_position": "pre", "use_bias": False,
                   "feed_forward": "gated", "pooling": "first", "label_head": "transform",
                   "label_act": "gelu"},
    # Nussbaum et al. 2024, "Nomic Embed", section 3.1.
    "nomic_bert": {"hidden_act": "silu", "max_position_embeddings": 2048,
                   "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
                   "position_embedding": "none", "relative_position": "rotary",
                   "rotary_base": 1000.0, "dense_bias": False, "feed_forward": "gated"},
    # Zhang et al. 2024, "mGTE", section 2.1.
    "gte": {"hidden_act": "gelu", "max_position_embeddings": 8192, "type_vocab_size": 0,
            "attention_probs_dropout_prob": 0.0, "position_embedding": "none",
            "relative_position": "rotary", "rotary_base": 160000.0, "intermediate_bias": False,
            "feed_forward": "gated"},
    # Sturua et al. 2024, "jina-embeddings-v3", section 3.
    "jina_embeddings_v3": {**_ROBERTA, "max_position_embeddings": 8194,
                           "positions_from_padding": False, "position_embedding": "none",
                           "relative_position": "rotary", "rotary_base": 20000.0},
    # Boizard et al. 2025, "EuroBERT", section 2.1.
    "eurobert": {"hidden_act": "silu", "layer_norm_eps": 1e-5, "max_position_embeddings": 8192,
                 "type_vocab_size": 0, "hidden_dropout_prob": 0.0,
                 "attention_probs_dropout_prob": 0.0, "position_embedding": "none",
                 "relative_position": "rotary", "rotary_base": 250000.0, "norm": "rms_norm",
                 "norm_position": "pre", "embedding_norm": False, "dense_bias": False,
                 "feed_forward": "gated", "masked_lm_head": "linear", "pooling": "late",
                 "label_head": "dense", "label_act": "gelu"},
    "ultrabert": {**_LIKE_LLAMA, "max_position_embeddings": 32768, "rotary_base": 2560000.0,
                  "local_attention": 256, "global_attention_every": 3, "first_global_layer": 2,
                  "query_key_norm": False, "masked_lm_head": "linear", "masked_lm_head_size": 768,
                  "head_act": "gelu_approximate", "pooling": "first", "label_head": "linear"},
    # Yang et al. 2025, "Qwen3 Technical Report", section 2; of Qwen3-Embedding and -Reranker as of
    # the language models.
    "qwen3": {**_LIKE_LLAMA, "max_position_embeddings": 32768, "attention": "causal",
              "attention_head_size": 128, "rotary_base": 1000000.0},
    # Gemma Team 2025, "Gemma 3 Technical Report", section 2; attention as EmbeddingGemma has it
    # (Schechter Vera et al. 2025, section 2.1).
    "gemma3": {**_LIKE_LLAMA, "hidden_act": "gelu_approximate", "max_position_embeddings": 2048,
               "attention_head_size": 256, "score_size": 256, "rotary_base": 1000000.0,
               "local_attention": 512, "global_attention_every": 6, "first_global_layer": 5,
               "norm": "rms_norm_plus_one", "norm_position": "both", "scale_embeddings": True},
    # Raffel et al. 2020, "T5", section 2.1, the encoder; its scores are not scaled. Of version 1.1
    # and mT5 with feed_forward "gated" and hidden_act "gelu_approximate".
    "t5": {"hidden_act": "relu", "layer_norm_eps": 1e-6, "type_vocab_size": 0,
           "attention_head_size": 64, "score_size": 1, "position_embedding": "none",
           "relative_position": "bias", "position_buckets": 32, "max_relative_position": 128,
           "norm": "rms_norm", "norm_position": "pre", "embedding_norm": False,
           "dense_bias": False, "masked_lm_head": "tied", "pooling": "mean"},
    # A table of vectors without layers (Tulkens and van Dongen 2024, "Model2Vec").
    "static": {"num_hidden_layers": 0, "num_attention_heads": 1, "intermediate_size": 1,
               "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
               "type_vocab_size": 0, "embedding_norm": False, "position_embedding": "none",
               "pooling": "mean"},
}
FAMILIES = tuple(family for family in FAMILY_DEFAULTS if family != "static")  # of transformers
