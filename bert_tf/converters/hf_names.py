"""Names of tensors in Hugging Face's files: a table a family."""

from bert_tf.converters.hf_rows import (
    classes,
    dense,
    in_block,
    label_heads,
    layer_norm,
    like_gpt,
    like_llama,
    stacked,
    turned_by_pairs,
)
from bert_tf.converters.name_table import (
    EXCHANGED,
    HALVES,
    SIDE_BY_SIDE,
    TRANSPOSED,
    Row,
    by_head,
    with_first_row,
)

_OWN_DENSE = label_heads("classifier.dense", "classifier.out_proj")
_EMBEDDINGS = (
    Row("{F}/embeddings/word_embeddings", "{F}.embeddings.word_embeddings.weight"),
    Row("{F}/embeddings/token_type_embeddings", "{F}.embeddings.token_type_embeddings.weight"),
    Row("{F}/embeddings/position_embeddings", "{F}.embeddings.position_embeddings.weight"),
    *layer_norm("{F}/embeddings/LayerNorm", "{F}.embeddings.LayerNorm"),
)
_BLOCK, _THEIR_BLOCK = "{F}/encoder/layer_{i}", "{F}.encoder.layer.{i}"
_ENCODER = (
    *_EMBEDDINGS,
    *dense(f"{_BLOCK}/attention/self/{{Q}}", f"{_THEIR_BLOCK}.attention.self.{{Q}}"),
    *dense(f"{_BLOCK}/attention/output/dense", f"{_THEIR_BLOCK}.attention.output.dense"),
    *layer_norm(f"{_BLOCK}/attention/output/LayerNorm",
                f"{_THEIR_BLOCK}.attention.output.LayerNorm"),
    *dense(f"{_BLOCK}/intermediate/dense", f"{_THEIR_BLOCK}.intermediate.dense"),
    *dense(f"{_BLOCK}/output/dense", f"{_THEIR_BLOCK}.output.dense"),
    *layer_norm(f"{_BLOCK}/output/LayerNorm", f"{_THEIR_BLOCK}.output.LayerNorm"),
    *dense("{F}/pooler/dense", "{F}.pooler.dense"),
)


def _before_halves(family, theirs, norms, last):
    """The LayerNorms of a `family` that come before each half of a block, and the `last` one."""
    return (*in_block(family, f"{theirs}.encoder.layer.{{i}}", {}, norms),
            *layer_norm(f"{family}/encoder/LayerNorm", f"{theirs}.encoder.{last}"))


def _of_roberta(family):
    """RoBERTa's rows for a `family` whose files have RoBERTa's names."""
    return _named((*_ENCODER, *_LM_HEAD, *_OWN_DENSE), family, "roberta")


def _named(rows, family, theirs):
    """`rows` for a `family` that is called otherwise in its files."""
    return tuple(Row(row.ours.replace("{F}", family), row.theirs.replace("{F}", theirs), row.layout)
                 for row in rows)


_JINA = "jina_embeddings_v3"
# As transformers names the modules, where its files have the names of the first code.
_JINA_MODULES = (
    *layer_norm(f"{_JINA}/embeddings/LayerNorm", "roberta.embeddings.LayerNorm"),
    *in_block(_JINA, "roberta.layers.{i}",
              {"attention/self/query": "self_attn.q_proj", "attention/self/key": "self_attn.k_proj",
               "attention/self/value": "self_attn.v_proj",
               "attention/output/dense": "self_attn.o_proj", "intermediate/dense": "mlp.fc1",
               "output/dense": "mlp.fc2"},
              {"attention/output": "post_attention_layernorm", "output": "post_mlp_layernorm"}),
)
_HEAD_NORMS = {"attention/self/query": "self_attn.q_norm", "attention/self/key": "self_attn.k_norm"}
_TRANSFORM = "cls/predictions/transform"
_BOTTLENECKS = {"bottleneck_input": "bottleneck.input", "kq_shared_bottleneck":
                "bottleneck.attention", "bottleneck_output": "output.bottleneck"}
_T5_BLOCK = "transformer.encoder.block.{i}.layer"
_T5 = (
    Row("t5/embeddings/word_embeddings", "transformer.shared.weight"),
    Row("t5/encoder/relative_attention_bias/embeddings",  # of all layers
        f"{_T5_BLOCK}.0.SelfAttention.relative_attention_bias.weight".format(i=0)),
    *in_block("t5", _T5_BLOCK,
              {"attention/self/query": "0.SelfAttention.q",
               "attention/self/key": "0.SelfAttention.k",
               "attention/self/value": "0.SelfAttention.v",
               "attention/output/dense": "0.SelfAttention.o",
               "intermediate/dense": "1.DenseReluDense.wi",
               "output/dense": "1.DenseReluDense.wo"},
              {"attention": "0.layer_norm", "intermediate": "1.layer_norm"}),
    *layer_norm("t5/encoder/LayerNorm", "transformer.encoder.final_layer_norm"),
    *label_heads(),
)
_BERT_HEAD = (
    *dense(f"{_TRANSFORM}/dense", "cls.predictions.transform.dense"),
    *layer_norm(f"{_TRANSFORM}/LayerNorm", "cls.predictions.transform.LayerNorm"),
    Row("cls/predictions/output_bias", "cls.predictions.bias"),
)
_LM_HEAD = (
    *dense(f"{_TRANSFORM}/dense", "lm_head.dense"),
    *layer_norm(f"{_TRANSFORM}/LayerNorm", "lm_head.layer_norm"),
    Row("cls/predictions/output_bias", "lm_head.bias"),
)
# A block's names in DeBERTa.
_LIKE_BERT = {"attention/output/dense": "attention.output.dense",
              "intermediate/dense": "intermediate.dense", "output/dense": "output.dense"}
_NORMS_OF_BERT = {"attention/output": "attention.output.LayerNorm", "output": "output.LayerNorm"}
_V1, _THEIR_V1 = "deberta_v1", "deberta.encoder.layer.{i}"
_GROUP = "albert/encoder/group_{i}"
_THEIR_GROUP = "albert.encoder.albert_layer_groups.{i}.albert_layers.0"
ROWS = {
    "bert": (
        *_ENCODER,
        *dense("bert/embeddings_project", "bert.encoder.embedding_hidden_mapping_in"),
        *_before_halves("bert", "bert", {"attention": "attention.ln", "intermediate": "ln"}, "ln"),
        *_BERT_HEAD,
        *classes("cls/seq_relationship", "cls.seq_relationship"),
        *label_heads(),
    ),
    "roberta": _of_roberta("roberta"),
    "xlm_roberta": (*_of_roberta("xlm_roberta"), *_before_halves(
        "xlm_roberta", "roberta", {"attention": "attention.self_attn_layer_norm",
                                   "intermediate": "LayerNorm"}, "LayerNorm")),
    "camembert": _of_roberta("camembert"),
    "electra": (
        *_ENCODER,
        *dense("electra/embeddings_project", "electra.embeddings_project"),
        *dense("discriminator_predictions/dense", "discriminator_predictions.dense"),
        *dense("discriminator_predictions/dense_1",
               "discriminator_predictions.dense_prediction"),
        *dense(f"{_TRANSFORM}/dense", "generator_predictions.dense"),
        *layer_norm(f"{_TRANSFORM}/LayerNorm", "generator_predictions.LayerNorm"),
        Row("cls/predictions/output_bias", "generator_lm_head.bias"),
        *_OWN_DENSE,
    ),
    "albert": (
        *_EMBEDDINGS,
        *dense("albert/embeddings_project", "albert.encoder.embedding_hidden_mapping_in"),
        *dense(f"{_GROUP}/attention/self/{{Q}}", f"{_THEIR_GROUP}.attention.{{Q}}"),
        *dense(f"{_GROUP}/attention/output/dense", f"{_THEIR_GROUP}.attention.dense"),
        *layer_norm(f"{_GROUP}/attention/output/LayerNorm",
                    f"{_THEIR_GROUP}.attention.LayerNorm"),
        *dense(f"{_GROUP}/intermediate/dense", f"{_THEIR_GROUP}.ffn"),
        *dense(f"{_GROUP}/output/dense", f"{_THEIR_GROUP}.ffn_output"),
        *layer_norm(f"{_GROUP}/output/LayerNorm", f"{_THEIR_GROUP}.full_layer_layer_norm"),
        *dense("albert/pooler/dense", "albert.pooler"),
        *dense(f"{_TRANSFORM}/dense", "predictions.dense"),
        *layer_norm(f"{_TRANSFORM}/LayerNorm", "predictions.LayerNorm"),
        Row("cls/predictions/output_bias", "predictions.bias"),
        *classes("cls/sentence_order", "sop_classifier.classifier"),
        *label_heads(),
    ),
    "gpt": like_gpt("gpt", ("tokens_embed", "positions_embed"), {
        "attention/output": "ln_1", "output": "ln_2"}),
    "gpt2": (
        *like_gpt("gpt2", ("wte", "wpe"), {"attention": "ln_1", "intermediate": "ln_2"}),
        *layer_norm("gpt2/encoder/LayerNorm", "transformer.ln_f"),
    ),
    "distilbert": (
        *_EMBEDDINGS,
        *in_block("distilbert", "distilbert.transformer.layer.{i}",
                  {"attention/self/query": "attention.q_lin",
                   "attention/self/key": "attention.k_lin",
                   "attention/self/value": "attention.v_lin",
                   "attention/output/dense": "attention.out_lin",
                   "intermediate/dense": "ffn.lin1", "output/dense": "ffn.lin2"},
                  {"attention/output": "sa_layer_norm", "output": "output_layer_norm"}),
        *dense(f"{_TRANSFORM}/dense", "vocab_transform"),
        *layer_norm(f"{_TRANSFORM}/LayerNorm", "vocab_layer_norm"),
        Row("cls/predictions/output_bias", "vocab_projector.bias"),
        *label_heads("pre_classifier"),
    ),
    "mpnet": (
        *_EMBEDDINGS,
        Row("mpnet/encoder/relative_attention_bias/embeddings",
            "mpnet.encoder.relative_attention_bias.weight"),
        *in_block("mpnet", "mpnet.encoder.layer.{i}",
                  {"attention/self/query": "attention.attn.q",
                   "attention/self/key": "attention.attn.k",
                   "attention/self/value": "attention.attn.v",
                   "attention/output/dense": "attention.attn.o",
                   "intermediate/dense": "intermediate.dense", "output/dense": "output.dense"},
                  {"attention/output": "attention.LayerNorm", "output": "output.LayerNorm"}),
        *dense("mpnet/pooler/dense", "mpnet.pooler.dense"),
        *_LM_HEAD,
        *_OWN_DENSE,
    ),
    _V1: (
        *_named(_EMBEDDINGS, _V1, "deberta"),
        Row(f"{_V1}/encoder/relative_embeddings/embeddings",
            "deberta.encoder.rel_embeddings.weight"),
        *(Row(f"{_V1}/encoder/layer_{{i}}/attention/self/{ours}/bias",
              f"{_THEIR_V1}.attention.self.{theirs}")
          for ours, theirs in (("query", "q_bias"), ("value", "v_bias"))),
        *in_block(_V1, _THEIR_V1,
                  {"attention/self/position_key": "attention.self.pos_proj",
                   "attention/self/position_query": "attention.self.pos_q_proj", **_LIKE_BERT},
                  _NORMS_OF_BERT),
        *_BERT_HEAD,
        *label_heads("pooler.dense"),
    ),
    "deberta": (
        *_EMBEDDINGS,
        Row("deberta/encoder/relative_embeddings/embeddings",
            "deberta.encoder.rel_embeddings.weight"),
        *layer_norm("deberta/encoder/relative_embeddings/LayerNorm", "deberta.encoder.LayerNorm"),
        *dense("deberta/encoder/conv/conv", "deberta.encoder.conv.conv"),
        *layer_norm("deberta/encoder/conv/LayerNorm", "deberta.encoder.conv.LayerNorm"),
        *in_block("deberta", "deberta.encoder.layer.{i}",
                  {"attention/self/{Q}": "attention.self.{Q}_proj", **_LIKE_BERT}, _NORMS_OF_BERT),
        *_BERT_HEAD,
        *label_heads("pooler.dense"),
    ),
    "modernbert": (
        Row("modernbert/embeddings/word_embeddings", "model.embeddings.tok_embeddings.weight"),
        *layer_norm("modernbert/embeddings/LayerNorm", "model.embeddings.norm"),
        stacked("modernbert", "model.layers.{i}.attn.Wqkv.weight"),
        *in_block("modernbert", "model.layers.{i}",
                  {"attention/output/dense": "attn.Wo", "intermediate/dense": "mlp.Wi",
                   "output/dense": "mlp.Wo"},
                  {"attention": "attn_norm", "intermediate": "mlp_norm"}),
        *layer_norm("modernbert/encoder/LayerNorm", "model.final_norm"),
        *dense(f"{_TRANSFORM}/dense", "head.dense"),
        *layer_norm(f"{_TRANSFORM}/LayerNorm", "head.norm"),
        Row("cls/predictions/output_bias", "decoder.bias"),
        *dense("cls/{T}/transform/dense", "head.dense"),
        *layer_norm("cls/{T}/transform/LayerNorm", "head.norm"),
        *classes("cls/{T}", "classifier"),
    ),
    "nomic_bert": (
        *_EMBEDDINGS[:2],
        *layer_norm("nomic_bert/embeddings/LayerNorm", "nomic_bert.emb_ln"),
        stacked("nomic_bert", "nomic_bert.encoder.layers.{i}.attn.Wqkv.weight"),
        Row("nomic_bert/encoder/layer_{i}/intermediate/dense/kernel",  # gate and value
            ("nomic_bert.encoder.layers.{i}.mlp.fc12.weight",
             "nomic_bert.encoder.layers.{i}.mlp.fc11.weight"), HALVES),
        *in_block("nomic_bert", "nomic_bert.encoder.layers.{i}",
                  {"attention/output/dense": "attn.out_proj", "output/dense": "mlp.fc2"},
                  {"attention/output": "norm1", "output": "norm2"}),
        *dense("nomic_bert/pooler/dense", "nomic_bert.pooler.dense"),
        *dense(f"{_TRANSFORM}/dense", "cls.predictions.transform.dense"),
        *layer_norm(f"{_TRANSFORM}/LayerNorm", "cls.predictions.transform.layer_norm"),
        Row("cls/predictions/output_bias", "cls.predictions.bias"),
        *label_heads(),
    ),
    "gte": (
        *_EMBEDDINGS,
        stacked("gte", "gte.encoder.layer.{i}.attention.qkv_proj.weight"),
        stacked("gte", "gte.encoder.layer.{i}.attention.qkv_proj.bias", "bias", SIDE_BY_SIDE),
        Row("gte/encoder/layer_{i}/intermediate/dense/kernel",
            "gte.encoder.layer.{i}.mlp.up_gate_proj.weight", EXCHANGED),
        *in_block("gte", "gte.encoder.layer.{i}",
                  {"attention/output/dense": "attention.o_proj", "output/dense": "mlp.down_proj"},
                  {"attention/output": "attn_ln", "output": "mlp_ln"}),
        *dense("gte/pooler/dense", "gte.pooler.dense"),
        *dense(f"{_TRANSFORM}/dense", "lm_head.dense"),
        *layer_norm(f"{_TRANSFORM}/LayerNorm", "lm_head.norm"),
        Row("cls/predictions/output_bias", "lm_head.decoder.bias"),
        *label_heads(),
    ),
    _JINA: (
        *layer_norm(f"{_JINA}/embeddings/LayerNorm", "roberta.emb_ln"),
        stacked(_JINA, "roberta.encoder.layers.{i}.mixer.Wqkv.weight"),
        stacked(_JINA, "roberta.encoder.layers.{i}.mixer.Wqkv.bias", "bias", SIDE_BY_SIDE),
        *in_block(_JINA, "roberta.encoder.layers.{i}",
                  {"attention/output/dense": "mixer.out_proj", "intermediate/dense": "mlp.fc1",
                   "output/dense": "mlp.fc2"},
                  {"attention/output": "norm1", "output": "norm2"}),
        *_of_roberta(_JINA),
    ),
    "eurobert": (
        *like_llama("eurobert", {"attention": "input_layernorm",
                                 "intermediate": "post_attention_layernorm"}),
        *label_heads("dense"),
    ),
    "mobilebert": (
        *_ENCODER,
        *dense("mobilebert/embeddings/embedding_projection",
               "mobilebert.embeddings.embedding_transformation"),
        *in_block("mobilebert", "mobilebert.encoder.layer.{i}",
                  {f"{ours}/dense": f"{name}.dense" for ours, name in (
                      *_BOTTLENECKS.items(),
                      ("ffn_layer_{j}/intermediate", "ffn.{j}.intermediate"),
                      ("ffn_layer_{j}/output", "ffn.{j}.output"))},
                  {ours: f"{name}.LayerNorm" for ours, name in (
                      *_BOTTLENECKS.items(), ("ffn_layer_{j}/output", "ffn.{j}.output"))}),
        *_BERT_HEAD,
        Row("cls/predictions/extra_output_weights", "cls.predictions.dense.weight", TRANSPOSED),
        *classes("cls/seq_relationship", "cls.seq_relationship"),
        *label_heads(),
    ),
    "ultrabert": (
        *dense("cls/predictions/inner/dense", "head.linear1"),
        *dense(f"{_TRANSFORM}/dense", "head.linear2"),
        Row("cls/predictions/output_weights", "cls.weight"),
        *like_llama("ultrabert", {"attention": "input_layernorm",
                                  "intermediate": "post_attention_layernorm"}, "ultrabert"),
        *label_heads(),
    ),
    "qwen3": (
        *like_llama("qwen3", _HEAD_NORMS | {"attention": "input_layernorm",
                                            "intermediate": "post_attention_layernorm"}),
        Row("cls/classifier/output_weights", "score.weight"),
    ),
    "gemma3": (
        *like_llama("gemma3", _HEAD_NORMS | {
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
    **dict.fromkeys(("gpt", "gpt2", "t5"), "transformer."), _V1: "deberta.",
    **dict.fromkeys(("xlm_roberta", "camembert", _JINA), "roberta."),
    **dict.fromkeys(("modernbert", "eurobert", "qwen3", "gemma3"), "model.")}


def rows_of(config):
    """The table of a `ModelConfig`."""
    if config.family == _V1:
        return (stacked(_V1, f"{_THEIR_V1}.attention.self.in_proj.weight",
                        layout=by_head(config.num_attention_heads)), *ROWS[_V1])
    if config.family == "bert" and config.relative_position == "rotary":  # RoFormer
        return (*turned_by_pairs("bert", config.num_attention_heads),
                *dense("bert/embeddings_project", "bert.embeddings_project"), *_OWN_DENSE,
                *ROWS["bert"])
    gated = config.family == "t5" and config.feed_forward == "gated"
    return _GATED_T5 if gated else ROWS[config.family]


TASK_TYPES = "bert.embeddings.task_type_embeddings.weight"  # ERNIE's


def rows_read(config, values, names):
    """The table of a `ModelConfig` for the folder with these `values` of a `config.json` and
    tensors of these `names`."""
    further = ()
    if config.family == _JINA and "roberta.layers.0.self_attn.q_proj.weight" in names:
        further = _JINA_MODULES
    elif values["model_type"] == "big_bird":
        further = (*dense("bert/pooler/dense", "bert.pooler"), *_OWN_DENSE)
    elif values.get("use_task_id"):
        further = (Row("bert/embeddings/token_type_embeddings",
                       ("bert.embeddings.token_type_embeddings.weight", TASK_TYPES),
                       with_first_row(values["task_type_vocab_size"])),)
    return (*further, *rows_of(config))
