"""Names in Hugging Face's files: tables of tensors and of classes, and old spellings."""

import numpy as np

from bert_tf.converters.name_table import SIDE_BY_SIDE, TRANSPOSED, Row, matches
from bert_tf.errors import UsageError, explain


def _dense(ours, theirs):
    return (Row(f"{ours}/kernel", f"{theirs}.weight", TRANSPOSED),
            Row(f"{ours}/bias", f"{theirs}.bias"))


def _layer_norm(ours, theirs):
    return Row(f"{ours}/gamma", f"{theirs}.weight"), Row(f"{ours}/beta", f"{theirs}.bias")


def _classes(ours, theirs):
    return (Row(f"{ours}/output_weights", f"{theirs}.weight"),
            Row(f"{ours}/output_bias", f"{theirs}.bias"))


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
_TRANSFORM = "cls/predictions/transform"
_GROUP = "albert/encoder/group_{i}"
_THEIR_GROUP = "albert.encoder.albert_layer_groups.{i}.albert_layers.0"
ROWS = {
    "bert": (
        *_ENCODER,
        *_dense(f"{_TRANSFORM}/dense", "cls.predictions.transform.dense"),
        *_layer_norm(f"{_TRANSFORM}/LayerNorm", "cls.predictions.transform.LayerNorm"),
        Row("cls/predictions/output_bias", "cls.predictions.bias"),
        *_classes("cls/seq_relationship", "cls.seq_relationship"),
        *_classes("cls/classifier", "classifier"),
        *_classes("cls/tagger", "classifier"),
        *_classes("cls/span", "qa_outputs"),
    ),
    "roberta": (
        *_ENCODER,
        *_dense(f"{_TRANSFORM}/dense", "lm_head.dense"),
        *_layer_norm(f"{_TRANSFORM}/LayerNorm", "lm_head.layer_norm"),
        Row("cls/predictions/output_bias", "lm_head.bias"),
    ),
    "electra": (
        *_ENCODER,
        *_dense("electra/embeddings_project", "electra.embeddings_project"),
        *_dense("discriminator_predictions/dense", "discriminator_predictions.dense"),
        *_dense("discriminator_predictions/dense_1",
                "discriminator_predictions.dense_prediction"),
        *_dense(f"{_TRANSFORM}/dense", "generator_predictions.dense"),
        *_layer_norm(f"{_TRANSFORM}/LayerNorm", "generator_predictions.LayerNorm"),
        Row("cls/predictions/output_bias", "generator_lm_head.bias"),
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
    ),
    # Conv1D kernels are [in, out], as ours.
    "gpt": (
        Row("gpt/embeddings/word_embeddings", "transformer.tokens_embed.weight"),
        Row("gpt/embeddings/position_embeddings", "transformer.positions_embed.weight"),
        *(Row(tuple(f"gpt/encoder/layer_{{i}}/attention/self/{part}/{ours}"
                    for part in ("query", "key", "value")),
              f"transformer.h.{{i}}.attn.c_attn.{theirs}", SIDE_BY_SIDE)
          for ours, theirs in (("kernel", "weight"), ("bias", "bias"))),
        *(Row(f"gpt/encoder/layer_{{i}}/{ours}/{end}", f"transformer.h.{{i}}.{theirs}.{their_end}")
          for ours, theirs in (("attention/output/dense", "attn.c_proj"),
                               ("intermediate/dense", "mlp.c_fc"), ("output/dense", "mlp.c_proj"))
          for end, their_end in (("kernel", "weight"), ("bias", "bias"))),
        *_layer_norm("gpt/encoder/layer_{i}/attention/output/LayerNorm", "transformer.h.{i}.ln_1"),
        *_layer_norm("gpt/encoder/layer_{i}/output/LayerNorm", "transformer.h.{i}.ln_2"),
    ),
}
ENCODER = {"task": "encoder"}
MASKED_LM = {"task": "pretraining", "sentence_task": None}
# Task, their class for it, and the beginnings of the names of its head's tensors.
MODELS = {
    "bert": (
        ({"task": "pretraining", "sentence_task": "next_sentence"}, "BertForPreTraining",
         ("cls.predictions.", "cls.seq_relationship.")),
        (MASKED_LM, "BertForMaskedLM", ("cls.predictions.",)),
        (ENCODER, "BertModel", ()),
        ({"task": "classifier"}, "BertForSequenceClassification", ("classifier.",)),
        ({"task": "tagger"}, "BertForTokenClassification", ("classifier.",)),
        ({"task": "span"}, "BertForQuestionAnswering", ("qa_outputs.",)),
    ),
    "roberta": (
        (MASKED_LM, "RobertaForMaskedLM", ("lm_head.",)),
        (ENCODER, "RobertaModel", ()),
    ),
    "electra": (
        ({"task": "replaced_tokens", "generator": None}, "ElectraForPreTraining",
         ("discriminator_predictions.",)),
        (MASKED_LM, "ElectraForMaskedLM", ("generator_predictions.",)),
        (ENCODER, "ElectraModel", ()),
    ),
    "albert": (
        ({"task": "pretraining", "sentence_task": "sentence_order"}, "AlbertForPreTraining",
         ("predictions.", "sop_classifier.")),
        (MASKED_LM, "AlbertForMaskedLM", ("predictions.",)),
        (ENCODER, "AlbertModel", ()),
    ),
    "gpt": (
        ({"task": "language_model"}, "OpenAIGPTLMHeadModel", ()),
        (ENCODER, "OpenAIGPTModel", ()),
    ),
}
# Their base model's prefix, which a file of the bare model lacks.
PREFIXES = {family: f"{family}." for family in MODELS} | {"gpt": "transformer."}
_BARE = ("embeddings.", "embeddings_project.", "encoder.", "pooler.", "h.", "tokens_embed.",
         "positions_embed.")
# Copies that some files hold beside what they are tied to.
_TIED = {
    "bert": {"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
             "cls.predictions.decoder.bias": "cls.predictions.bias"},
    "roberta": {"lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
                "lm_head.decoder.bias": "lm_head.bias"},
    "electra": {"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"},
    "albert": {"predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
               "predictions.decoder.bias": "predictions.bias"},
    "gpt": {"lm_head.weight": "transformer.tokens_embed.weight"},
}
# Buffers: 0, 1, 2, …; zeros; the triangle of GPT's mask.
_BUFFERS = ("*.position_ids", "*.token_type_ids", "transformer.h.*.attn.bias")


def usual_names(tensors, family, folder):
    """What transformers itself does to names: prefix, gamma and beta, tied copies, buffers.

    Returns: `Tensors` under today's names, and the names of copies and buffers, left out.

    Raises:
        UsageError: two tensors have one name, or a copy differs from what it is tied to.
    """
    prefix = PREFIXES[family]
    bare = not any(name.startswith(prefix) for name in tensors)
    names = {}
    for name in tensors:
        new = f"{prefix}{name}" if bare and name.startswith(_BARE) else name
        for old_end, new_end in ((".gamma", ".weight"), (".beta", ".bias")):
            if new.endswith(old_end):
                new = new.removesuffix(old_end) + new_end
        if new in names:
            raise UsageError(f"{folder}: {names[new]} and {name} name one tensor")
        names[new] = name
    dropped = [names.pop(name) for name in list(names) if matches(name, _BUFFERS)]
    for copy, original in _TIED[family].items():
        if copy not in names:
            continue
        if original not in names:
            names[original] = names.pop(copy)
            continue
        _check_equal(tensors, names[copy], names[original], folder)
        dropped.append(names.pop(copy))
    return tensors.renamed(names), tuple(dropped)


def _check_equal(tensors, name, other, folder):
    if tensors.shapes[name] != tensors.shapes[other] or not np.array_equal(tensors[name],
                                                                           tensors[other]):
        raise UsageError(explain(f"{folder}: {name} differs from {other}",
                                 "equal tensors: our models tie them"))
