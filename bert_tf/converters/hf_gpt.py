"""What a `config.json` says of GPT and GPT-2: keys, defaults, and what is refused."""

from bert_tf.converters.hf_causal import padding_of
from bert_tf.errors import UsageError, explain

MODEL_TYPES = {"openai-gpt": "gpt", "gpt2": "gpt2"}
# `n_inner` is GPT-2's alone; GPT's feed-forward layer is four times as wide as the model.
_COMMON = {"vocab_size": "vocab_size", "hidden_size": "n_embd", "num_hidden_layers": "n_layer",
           "num_attention_heads": "n_head", "intermediate_size": "n_inner",
           "hidden_dropout_prob": "resid_pdrop", "attention_probs_dropout_prob": "attn_pdrop",
           "max_position_embeddings": "n_positions", "initializer_range": "initializer_range",
           "layer_norm_eps": "layer_norm_epsilon", "padding_id": "pad_token_id"}
KEYS = {"gpt": {**_COMMON, "hidden_act": "afn"},
        "gpt2": {**_COMMON, "hidden_act": "activation_function"}}
_BASE = {"n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": None, "resid_pdrop": 0.1,
         "attn_pdrop": 0.1, "initializer_range": 0.02, "layer_norm_epsilon": 1e-5}
DEFAULTS = {"gpt": {**_BASE, "vocab_size": 40478, "n_positions": 512, "afn": "gelu"},
            "gpt2": {**_BASE, "vocab_size": 50257, "n_positions": 1024,
                     "activation_function": "gelu_new"}}
ONLY = {"gpt": {"n_inner": None},
        "gpt2": {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}}
# Where the division of scores stands does not matter; in float32 they are computed in any case.
FURTHER = {"gpt2": ("reorder_and_upcast_attn",)}
ACTIVATIONS = {"gelu": "gelu_approximate", "relu": "relu"}  # of the key `afn`


def read(stated, source):
    """See `hf_architectures.read`."""
    if stated.get("embd_pdrop", stated["resid_pdrop"]) != stated["resid_pdrop"]:
        raise UsageError(explain(f"{source}: embd_pdrop={stated['embd_pdrop']!r}",
                                 f"that of resid_pdrop, {stated['resid_pdrop']!r}"))
    inner, width = stated["n_inner"], stated["n_embd"]
    if inner is None:  # the width is of any type until `ModelConfig` looks at it
        inner = 4 * width if isinstance(width, int) else width
    return {**stated, "n_inner": inner, "pad_token_id": padding_of(stated)}


def written(family, values):
    """`values` of a file in their form, see `hf_architectures.written`."""
    values = {**values, "embd_pdrop": values["resid_pdrop"]}
    if family == "gpt":  # else refused when it is read back
        del values["n_inner"]
    return values
