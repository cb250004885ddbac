"""Rows of the tables in `hf_names` that several families have: what they are made of."""

from bert_tf.converters.name_table import HALVES, SIDE_BY_SIDE, STACKED, TRANSPOSED, Row, by_pairs


def dense(ours, theirs):
    """Return the kernel and bias of a Linear."""
    return (Row(f"{ours}/kernel", f"{theirs}.weight", TRANSPOSED),
            Row(f"{ours}/bias", f"{theirs}.bias"))


def layer_norm(ours, theirs):
    """Return the scale and bias of a norm."""
    return Row(f"{ours}/gamma", f"{theirs}.weight"), Row(f"{ours}/beta", f"{theirs}.bias")


def classes(ours, theirs):
    """Return the weights and bias of a Linear that ours keeps in its layout."""
    return (Row(f"{ours}/output_weights", f"{theirs}.weight"),
            Row(f"{ours}/output_bias", f"{theirs}.bias"))


def label_heads(own_dense="", output="classifier"):
    """Return the heads of labels; `own_dense` is their name of a classifier's own dense layer,
    `output` of its last."""
    own = dense("cls/classifier/transform/dense", own_dense) if own_dense else ()
    return (*own, *classes("cls/classifier", output), *classes("cls/tagger", "classifier"),
            *classes("cls/span", "qa_outputs"))


def in_block(family, theirs, layers, norms):
    """Return the dense layers and LayerNorms of a block: `{our name: their name}` each."""
    block = f"{family}/encoder/layer_{{i}}"
    return (*(row for ours, name in layers.items()
              for row in dense(f"{block}/{ours}", f"{theirs}.{name}")),
            *(row for ours, name in norms.items()
              for row in layer_norm(f"{block}/{ours}/LayerNorm", f"{theirs}.{name}")))


def stacked(family, theirs, end="kernel", layout=STACKED):
    """Return query, key and value of a block, whose kernels (or what `end` says) are one of
    theirs."""
    return Row(tuple(f"{family}/encoder/layer_{{i}}/attention/self/{part}/{end}"
                     for part in ("query", "key", "value")), theirs, layout)


def turned_by_pairs(family, heads):
    """Return queries and keys of BERT's names, of which neighbouring columns turn together."""
    return tuple(Row(f"{family}/encoder/layer_{{i}}/attention/self/{part}/{ours}",
                     f"{family}.encoder.layer.{{i}}.attention.self.{part}.{end}", by_pairs(heads))
                 for part in ("query", "key") for ours, end in (("kernel", "weight"),
                                                                ("bias", "bias")))


def like_llama(family, norms, theirs="model"):
    """Return the rows of an encoder with Llama's names after `theirs`, whose blocks have these
    `norms`."""
    block = f"{theirs}.layers.{{i}}"
    return (
        Row(f"{family}/embeddings/word_embeddings", f"{theirs}.embed_tokens.weight"),
        Row(f"{family}/encoder/layer_{{i}}/intermediate/dense/kernel",
            (f"{block}.mlp.gate_proj.weight", f"{block}.mlp.up_proj.weight"), HALVES),
        *in_block(family, block,
                  {"attention/self/query": "self_attn.q_proj",
                   "attention/self/key": "self_attn.k_proj",
                   "attention/self/value": "self_attn.v_proj",
                   "attention/output/dense": "self_attn.o_proj", "output/dense": "mlp.down_proj"},
                  norms),
        *layer_norm(f"{family}/encoder/LayerNorm", f"{theirs}.norm"),
        Row("cls/predictions/output_weights", "lm_head.weight"),
    )


def like_gpt(family, tables, norms):
    """Return the rows of GPT and GPT-2, whose Conv1D kernels are [in, out], as ours.

    Args:
        family: ours.
        tables: their names of the embeddings of words and positions.
        norms: `{our name: their name}` of a block's.
    """
    block, theirs = f"{family}/encoder/layer_{{i}}", "transformer.h.{i}"
    return (
        *(Row(f"{family}/embeddings/{ours}_embeddings", f"transformer.{name}.weight")
          for ours, name in zip(("word", "position"), tables, strict=True)),
        stacked(family, f"{theirs}.attn.c_attn.weight", "kernel", SIDE_BY_SIDE),
        stacked(family, f"{theirs}.attn.c_attn.bias", "bias", SIDE_BY_SIDE),
        *(Row(f"{block}/{ours}/{end}", f"{theirs}.{name}.{their_end}")
          for ours, name in (("attention/output/dense", "attn.c_proj"),
                             ("intermediate/dense", "mlp.c_fc"), ("output/dense", "mlp.c_proj"))
          for end, their_end in (("kernel", "weight"), ("bias", "bias"))),
        *in_block(family, theirs, {}, norms),
        Row("cls/classifier/output_weights", "score.weight"),
    )
