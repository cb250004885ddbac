"""Names of tensors in Hugging Face's files: a table a family."""

from bert_tf.converters.name_table import (
    EXCHANGED,
    HALVES,
    SIDE_BY_SIDE,
    STACKED,
    TRANSPOSED,
    Row,
    with_first_row,
)


def _dense(ours, theirs):
    return (Row(f"{ours}/kernel", f"{theirs}.weight", TRANSPOSED),
            Row(f"{ours}/bias", f"{theirs}.bias"))


def _layer_norm(ours, theirs):
    return Row(f"{ours}/gamma", f"{theirs}.weight"), Row(f"{ours}/beta", f"{theirs}.bias")


def _classes(ours, theirs):
    return (Row(f"{ours}/output_weights", f"{theirs}.weight"),
            Row(f"{ours}/output_bias", f"{theirs}.bias"))


def _label_heads(dense="", output="classifier"):
    """Heads of labels; `dense` is their name of a classifier's own dense layer, `output` of its
    last."""
    own = _dense("cls/classifier/transform/dense", dense) if dense else ()
    return (*own, *_classes("cls/classifier", output), *_classes("cls/tagger", "classifier"),
            *_classes("cls/span", "qa_outputs"))


_OWN_DENSE = _label_heads("classifier.dense", "classifier.out_proj")
_EMBEDDINGS = (
    Row("{F}/embeddings/word_embeddings", "{F}.embeddings.word_embeddings.weight"),
    Row("{F}/embeddings/token_type_embeddings", "{F}.embeddings.token_type_embeddings.weight"),
    Row("{F}/embeddings/position_embeddings", "{F}.embeddings.position_embeddings.weight"),
    *_layer_norm("{F}/embeddings/LayerNorm", "{F}.embeddings.LayerNorm"),
)
_BLOCK, _THEIR_BLOCK = "{F}/encoder/layer_{i}", "{F}.encoder.layer.{i}"
_ENCODER = (
    *_EMBEDDINGS,
    *_dense(f"{_BLOCK}/attention/self/{{Q}}", f"{_THEIR_BLOCK}.attention.self.{{Q}}"),
    *_dense(f"{_BLOCK}/attention/output/dense", f"{_THEIR_BLOCK}.attention.output.dense"),
    *_layer_norm(f"{_BLOCK}/attention/output/LayerNorm",
                 f"{_THEIR_BLOCK}.attention.output.LayerNorm"),
    *_dense(f"{_BLOCK}/intermediate/dense", f"{_THEIR_BLOCK}.intermediate.dense"),
    *_dense(f"{_BLOCK}/output/dense", f"{_THEIR_BLOCK}.output.dense"),
    *_layer_norm(f"{_BLOCK}/output/LayerNorm", f"{_THEIR_BLOCK}.output.LayerNorm"),
    *_dense("{F}/pooler/dense", "{F}.pooler.dense"),
)


def _of_roberta(family):
    """RoBERTa's rows for a `family` whose files have RoBERTa's names."""
    return tuple(Row(row.ours.replace("{F}", family), row.theirs.replace("{F}", "roberta"),
                     row.layout) for row in (*_ENCODER, *_LM_HEAD, *_OWN_DENSE))


def _in_block(family, theirs, dense, norms):
    """The dense layers and LayerNorms of a block: `{our name: their name}` each."""
    block = f"{family}/encoder/layer_{{i}}"
    return (*(row for ours, name in dense.items()
              for row in _dense(f"{block}/{ours}", f"{theirs}.{name}")),
            *(row for ours, name in norms.items()
              for row in _layer_norm(f"{block}/{ours}/LayerNorm", f"{theirs}.{name}")))


def _stacked(family, theirs, end="kernel", layout=STACKED):
    """Query, key and value of a block, whose kernels (or what `end` says) are one of theirs."""
    return Row(tuple(f"{family}/encoder/layer_{{i}}/attention/self/{part}/{end}"
                     for part in ("query", "key", "value")), theirs, layout)


def _like_llama(family, norms):
    """The rows of an encoder with Llama's names, whose blocks have these `norms`."""
    return (
        Row(f"{family}/embeddings/word_embeddings", "model.embed_tokens.weight"),
        Row(f"{family}/encoder/layer_{{i}}/intermediate/dense/kernel",
            ("model.layers.{i}.mlp.gate_proj.weight", "model.layers.{i}.mlp.up_proj.weight"),
            HALVES),
        *_in_block(family, "model.layers.{i}",
                   {"attention/self/query": "self_attn.q_proj",
                    "attention/self/key": "self_attn.k_proj",
                    "attention/self/value": "self_attn.v_proj",
                    "attention/output/dense": "self_attn.o_proj", "output/dense": "mlp.down_proj"},
                   norms),
        *_layer_norm(f"{family}/encoder/LayerNorm", "model.norm"),
        Row("cls/predictions/output_weights", "lm_head.weight"),
    )


def _like_gpt(family, tables, norms):
    """The rows of GPT and GPT-2, whose Conv1D kernels are [in, out], as ours.

    Args:
        family: ours.
        tables: their names of the embeddings of words and positions.
        norms: `{our name: their name}` of a block's.
    """
    block, theirs = f"{family}/encoder/layer_{{i}}", "transformer.h.{i}"
    return (
        *(Row(f"{family}/embeddings/{ours}_embeddings", f"transformer.{name}.weight")
          for ours, name in zip(("word", "position"), tables, strict=True)),
        _stacked(family, f"{theirs}.attn.c_attn.weight", "kernel", SIDE_BY_SIDE),
        _stacked(family, f"{theirs}.attn.c_attn.bias", "bias", SIDE_BY_SIDE),
        *(Row(f"{block}/{ours}/{end}", f"{theirs}.{name}.{their_end}")
          for ours, name in (("attention/output/dense", "attn.c_proj"),
                             ("intermediate/dense", "mlp.c_fc"), ("output/dense", "mlp.c_proj"))
          for end, their_end in (("kernel", "weight"), ("bias", "bias"))),
        *_in_block(family, theirs, {}, norms),
        Row("cls/classifier/output_weights", "score.weight"),
    )


_HEAD_NORMS = {"attention/self/query": "self_attn.q_norm", "attention/self/key": "self_attn.k_norm"}
_TRANSFORM = "cls/predictions/transform"
_T5_BLOCK = "transformer.encoder.block.{i}.layer"
_T5 = (
    Row("t5/embeddings/word_embeddings", "transformer.shared.weight"),
    Row("t5/encoder/relative_attention_bias/embeddings",  # of all layers
        f"{_T5_BLOCK}.0.SelfAttention.relative_attention_bias.weight".format(i=0)),
    *_in_block("t5", _T5_BLOCK,
               {"attention/self/query": "0.SelfAttention.q",
                "attention/self/key": "0.SelfAttention.k",
                "attention/self/value": "0.SelfAttention.v",
                "attention/output/dense": "0.SelfAttention.o",
                "intermediate/dense": "1.DenseReluDense.wi",
                "output/dense": "1.DenseReluDense.wo"},
               {"attention": "0.layer_norm", "intermediate": "1.layer_norm"}),
    *_layer_norm("t5/encoder/LayerNorm", "transformer.encoder.final_layer_norm"),
    *_label_heads(),
)
_BERT_HEAD = (
    *_dense(f"{_TRANSFORM}/dense", "cls.predictions.transform.dense"),
    *_layer_norm(f"{_TRANSFORM}/LayerNorm", "cls.predictions.transform.LayerNorm"),
    Row("cls/predictions/output_bias", "cls.predictions.bias"),
)
_LM_HEAD = (
    *_dense(f"{_TRANSFORM}/dense", "lm_head.dense"),
    *_layer_norm(f"{_TRANSFORM}/LayerNorm", "lm_head.layer_norm"),
    Row("cls/predictions/output_bias", "lm_head.bias"),
)
_GROUP = "albert/encoder/group_{i}"
_THEIR_GROUP = "albert.encoder.albert_layer_groups.{i}.albert_layers.0"
ROWS = {
    "bert": (
        *_ENCODER,
        *_BERT_HEAD,
        *_classes("cls/seq_relationship", "cls.seq_relationship"),
        *_label_heads(),
    ),
    "roberta": _of_roberta("roberta"),
    "xlm_roberta": _of_roberta("xlm_roberta"),
    "camembert": _of_roberta("camembert"),
    "electra": (
        *_ENCODER,
        *_dense("electra/embeddings_project", "electra.embeddings_project"),
        *_dense("discriminator_predictions/dense", "discriminator_predictions.dense"),
        *_dense("discriminator_predictions/dense_1",
                "discriminator_predictions.dense_prediction"),
        *_dense(f"{_TRANSFORM}/dense", "generator_predictions.dense"),
        *_layer_norm(f"{_TRANSFORM}/LayerNorm", "generator_predictions.LayerNorm"),
        Row("cls/predictions/output_bias", "generator_lm_head.bias"),
        *_OWN_DENSE,
    ),
    "albert": (
        *_EMBEDDINGS,
        *_dense("albert/embeddings_project", "albert.encoder.embedding_hidden_mapping_in"),
        *_dense(f"{_GROUP}/attention/self/{{Q}}", f"{_THEIR_GROUP}.attention.{{Q}}"),
        *_dense(f"{_GROUP}/attention/output/dense", f"{_THEIR_GROUP}.attention.dense"),
        *_layer_norm(f"{_GROUP}/attention/output/LayerNorm",
                     f"{_THEIR_GROUP}.attention.LayerNorm"),
        *_dense(f"{_GROUP}/intermediate/dense", f"{_THEIR_GROUP}.ffn"),
        *_dense(f"{_GROUP}/output/dense", f"{_THEIR_GROUP}.ffn_output"),
        *_layer_norm(f"{_GROUP}/output/LayerNorm", f"{_THEIR_GROUP}.full_layer_layer_norm"),
        *_dense("albert/pooler/dense", "albert.pooler"),
        *_dense(f"{_TRANSFORM}/dense", "predictions.dense"),
        *_layer_norm(f"{_TRANSFORM}/LayerNorm", "predictions.LayerNorm"),
        Row("cls/predictions/output_bias", "predictions.bias"),
        *_classes("cls/sentence_order", "sop_classifier.classifier"),
        *_label_heads(),
    ),
    "gpt": _like_gpt("gpt", ("tokens_embed", "positions_embed"), {
        "attention/output": "ln_1", "output": "ln_2"}),
    "gpt2": (
        *_like_gpt("gpt2", ("wte", "wpe"), {"attention": "ln_1", "intermediate": "ln_2"}),
        *_layer_norm("gpt2/encoder/LayerNorm", "transformer.ln_f"),
    ),
    "distilbert": (
        *_EMBEDDINGS,
        *_in_block("distilbert", "distilbert.transformer.layer.{i}",
                   {"attention/self/query": "attention.q_lin",
                    "attention/self/key": "attention.k_lin",
                    "attention/self/value": "attention.v_lin",
                    "attention/output/dense": "attention.out_lin",
                    "intermediate/dense": "ffn.lin1", "output/dense": "ffn.lin2"},
                   {"attention/output": "sa_layer_norm", "output": "output_layer_norm"}),
        *_dense(f"{_TRANSFORM}/dense", "vocab_transform"),
        *_layer_norm(f"{_TRANSFORM}/LayerNorm", "vocab_layer_norm"),
        Row("cls/predictions/output_bias", "vocab_projector.bias"),
        *_label_heads("pre_classifier"),
    ),
    "mpnet": (
        *_EMBEDDINGS,
        Row("mpnet/encoder/relative_attention_bias/embeddings",
            "mpnet.encoder.relative_attention_bias.weight"),
        *_in_block("mpnet", "mpnet.encoder.layer.{i}",
                   {"attention/self/query": "attention.attn.q",
                    "attention/self/key": "attention.attn.k",
                    "attention/self/value": "attention.attn.v",
                    "attention/output/dense": "attention.attn.o",
                    "intermediate/dense": "intermediate.dense", "output/dense": "output.dense"},
                   {"attention/output": "attention.LayerNorm", "output": "output.LayerNorm"}),
        *_dense("mpnet/pooler/dense", "mpnet.pooler.dense"),
        *_LM_HEAD,
        *_OWN_DENSE,
    ),
    "deberta": (
        *_EMBEDDINGS,
        Row("deberta/encoder/relative_embeddings/embeddings",
            "deberta.encoder.rel_embeddings.weight"),
        *_layer_norm("deberta/encoder/relative_embeddings/LayerNorm", "deberta.encoder.LayerNorm"),
        *_dense("deberta/encoder/conv/conv", "deberta.encoder.conv.conv"),
        *_layer_norm("deberta/encoder/conv/LayerNorm", "deberta.encoder.conv.LayerNorm"),
        *_in_block("deberta", "deberta.encoder.layer.{i}",
                   {"attention/self/{Q}": "attention.self.{Q}_proj",
                    "attention/output/dense": "attention.output.dense",
                    "intermediate/dense": "intermediate.dense", "output/dense": "output.dense"},
                   {"attention/output": "attention.output.LayerNorm",
                    "output": "output.LayerNorm"}),
        *_BERT_HEAD,
        *_label_heads("pooler.dense"),
    ),
    "modernbert": (
        Row("modernbert/embeddings/word_embeddings", "model.embeddings.tok_embeddings.weight"),
        *_layer_norm("modernbert/embeddings/LayerNorm", "model.embeddings.norm"),
        _stacked("modernbert", "model.layers.{i}.attn.Wqkv.weight"),
        *_in_block("modernbert", "model.layers.{i}",
                   {"attention/output/dense": "attn.Wo", "intermediate/dense": "mlp.Wi",
                    "output/dense": "mlp.Wo"},
                   {"attention": "attn_norm", "intermediate": "mlp_norm"}),
        *_layer_norm("modernbert/encoder/LayerNorm", "model.final_norm"),
        *_dense(f"{_TRANSFORM}/dense", "head.dense"),
        *_layer_norm(f"{_TRANSFORM}/LayerNorm", "head.norm"),
        Row("cls/predictions/output_bias", "decoder.bias"),
        *_dense("cls/{T}/transform/dense", "head.dense"),
        *_layer_norm("cls/{T}/transform/LayerNorm", "head.norm"),
        *_classes("cls/{T}", "classifier"),
    ),
    "nomic_bert": (
        *_EMBEDDINGS[:2],
        *_layer_norm("nomic_bert/embeddings/LayerNorm", "nomic_bert.emb_ln"),
        _stacked("nomic_bert", "nomic_bert.encoder.layers.{i}.attn.Wqkv.weight"),
        Row("nomic_bert/encoder/layer_{i}/intermediate/dense/kernel",  # gate and value
            ("nomic_bert.encoder.layers.{i}.mlp.fc12.weight",
             "nomic_bert.encoder.layers.{i}.mlp.fc11.weight"), HALVES),
        *_in_block("nomic_bert", "nomic_bert.encoder.layers.{i}",
                   {"attention/output/dense": "attn.out_proj", "output/dense": "mlp.fc2"},
                   {"attention/output": "norm1", "output": "norm2"}),
        *_dense("nomic_bert/pooler/dense", "nomic_bert.pooler.dense"),
        *_dense(f"{_TRANSFORM}/dense", "cls.predictions.transform.dense"),
        *_layer_norm(f"{_TRANSFORM}/LayerNorm", "cls.predictions.transform.layer_norm"),
        Row("cls/predictions/output_bias", "cls.predictions.bias"),
        *_label_heads(),
    ),
    "gte": (
        *_EMBEDDINGS,
        _stacked("gte", "gte.encoder.layer.{i}.attention.qkv_proj.weight"),
        _stacked("gte", "gte.encoder.layer.{i}.attention.qkv_proj.bias", "bias", SIDE_BY_SIDE),
        Row("gte/encoder/layer_{i}/intermediate/dense/kernel",
            "gte.encoder.layer.{i}.mlp.up_gate_proj.weight", EXCHANGED),
        *_in_block("gte", "gte.encoder.layer.{i}",
                   {"attention/output/dense": "attention.o_proj", "output/dense": "mlp.down_proj"},
                   {"attention/output": "attn_ln", "output": "mlp_ln"}),
        *_dense("gte/pooler/dense", "gte.pooler.dense"),
        *_dense(f"{_TRANSFORM}/dense", "lm_head.dense"),
        *_layer_norm(f"{_TRANSFORM}/LayerNorm", "lm_head.norm"),
        Row("cls/predictions/output_bias", "lm_head.decoder.bias"),
        *_label_heads(),
    ),
    "eurobert": (
        *_like_llama("eurobert", {"attention": "input_layernorm",
                                  "intermediate": "post_attention_layernorm"}),
        *_label_heads("dense"),
    ),
    "qwen3": (
        *_like_llama("qwen3", _HEAD_NORMS | {"attention": "input_layernorm",
                                             "intermediate": "post_attention_layernorm"}),
        Row("cls/classifier/output_weights", "score.weight"),
    ),
    "gemma3": (
        *_like_llama("gemma3", _HEAD_NORMS | {
            "attention": "input_layernorm", "attention/output": "post_attention_layernorm",
            "intermediate": "pre_feedforward_layernorm", "output": "post_feedforward_layernorm"}),
        Row("cls/classifier/output_weights", "score.weight"),
    ),
    "t5": _T5,
}
_GATED_T5 = (Row("t5/encoder/layer_{i}/intermediate/dense/kernel",
                 (f"{_T5_BLOCK}.1.DenseReluDense.wi_0.weight",
                  f"{_T5_BLOCK}.1.DenseReluDense.wi_1.weight"), HALVES), *_T5)
# Their base model's prefix, which a file of the bare model lacks.
PREFIXES = {family: f"{family}." for family in ROWS} | {
    **dict.fromkeys(("gpt", "gpt2", "t5"), "transformer."),
    **dict.fromkeys(("xlm_roberta", "camembert"), "roberta."),
    **dict.fromkeys(("modernbert", "eurobert", "qwen3", "gemma3"), "model.")}


def rows_of(config):
    """The table of a `ModelConfig`."""
    gated = config.family == "t5" and config.feed_forward == "gated"
    return _GATED_T5 if gated else ROWS[config.family]


TASK_TYPES = "bert.embeddings.task_type_embeddings.weight"  # ERNIE's


def rows_read(config, values):
    """The table of a `ModelConfig` for the folder with these `values` of a `config.json`."""
    further = ()
    if values["model_type"] == "big_bird":
        further = (*_dense("bert/pooler/dense", "bert.pooler"), *_OWN_DENSE)
    elif values.get("use_task_id"):
        further = (Row("bert/embeddings/token_type_embeddings",
                       ("bert.embeddings.token_type_embeddings.weight", TASK_TYPES),
                       with_first_row(values["task_type_vocab_size"])),)
    return (*further, *rows_of(config))
