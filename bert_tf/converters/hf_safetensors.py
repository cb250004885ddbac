"""Hugging Face folders: config.json, safetensors, tokenizer files.

BERT, RoBERTa, ALBERT, ELECTRA and GPT as transformers 4 and 5 save them; a folder with the
subfolders `discriminator` and `generator` is one ELECTRA model of both.
"""

import os

import numpy as np

from bert_tf import files
from bert_tf.config import ModelConfig
from bert_tf.converters import hf_config, safetensors_file, tokenizer_files
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.converters.formats import PICKLES, refuse_pickle
from bert_tf.converters.name_table import (
    SIDE_BY_SIDE,
    TRANSPOSED,
    Row,
    matches,
    to_ours,
    to_theirs,
)
from bert_tf.errors import BertTfError, UsageError, explain

CONFIG = "config.json"


def _dense(ours, theirs):
    return Row(f"{ours}/kernel", f"{theirs}.weight", TRANSPOSED), Row(f"{ours}/bias",
                                                                      f"{theirs}.bias")


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
# Task, their class for it, and the beginnings of the names of its head's tensors.
_ENCODER_TASK = {"task": "encoder"}
_MASKED_LM_TASK = {"task": "pretraining", "sentence_task": None}
MODELS = {
    "bert": (
        ({"task": "pretraining", "sentence_task": "next_sentence"}, "BertForPreTraining",
         ("cls.predictions.", "cls.seq_relationship.")),
        (_MASKED_LM_TASK, "BertForMaskedLM", ("cls.predictions.",)),
        (_ENCODER_TASK, "BertModel", ()),
        ({"task": "classifier"}, "BertForSequenceClassification", ("classifier.",)),
        ({"task": "tagger"}, "BertForTokenClassification", ("classifier.",)),
        ({"task": "span"}, "BertForQuestionAnswering", ("qa_outputs.",)),
    ),
    "roberta": (
        (_MASKED_LM_TASK, "RobertaForMaskedLM", ("lm_head.",)),
        (_ENCODER_TASK, "RobertaModel", ()),
    ),
    "electra": (
        ({"task": "replaced_tokens", "generator": None}, "ElectraForPreTraining",
         ("discriminator_predictions.",)),
        (_MASKED_LM_TASK, "ElectraForMaskedLM", ("generator_predictions.",)),
        (_ENCODER_TASK, "ElectraModel", ()),
    ),
    "albert": (
        ({"task": "pretraining", "sentence_task": "sentence_order"}, "AlbertForPreTraining",
         ("predictions.", "sop_classifier.")),
        (_MASKED_LM_TASK, "AlbertForMaskedLM", ("predictions.",)),
        (_ENCODER_TASK, "AlbertModel", ()),
    ),
    "gpt": (
        ({"task": "language_model"}, "OpenAIGPTLMHeadModel", ()),
        (_ENCODER_TASK, "OpenAIGPTModel", ()),
    ),
}
# Their base model's prefix, which a file of the bare model lacks.
_PREFIXES = {family: f"{family}." for family in MODELS} | {"gpt": "transformer."}
_BARE = ("embeddings", "encoder", "pooler", "h", "tokens_embed", "positions_embed")
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
_TOKENIZERS = {"bert": "BertTokenizer", "roberta": "RobertaTokenizer",
               "albert": "AlbertTokenizer", "electra": "ElectraTokenizer",
               "gpt": "OpenAIGPTTokenizer"}
_DISCRIMINATOR, _GENERATOR = "discriminator", "generator"


def read(path):
    """The `Checkpoint` in a folder.

    Raises:
        BertTfError: a file is missing or damaged, or the weights are a pickle.
        UsageError: a tensor is missing, has no place or a wrong shape, or the configuration is
            one that we cannot compute.
    """
    halves = [os.path.join(path, name) for name in (_DISCRIMINATOR, _GENERATOR)]
    if not files.exists(os.path.join(path, CONFIG)) and all(map(files.exists, halves)):
        return _joined(*map(_read_model, halves), path)
    return _read_model(path)


def write(checkpoint, path):
    """Write a folder that transformers loads; it appears whole or not at all.

    Returns: our tensors that it cannot hold: always none, a model that does not fit is refused.
    """
    with files.atomic_path(path) as temporary:
        files.make_folder(temporary)
        if checkpoint.task.get("generator"):
            halves = zip(_split(checkpoint), (_DISCRIMINATOR, _GENERATOR), strict=True)
            for half, name in halves:
                _write_model(half, files.make_folder(os.path.join(temporary, name)))
        else:
            _write_model(checkpoint, temporary)
    return []


def _read_model(folder):
    source = os.path.join(folder, CONFIG)
    values = _read_object(folder)
    family = hf_config.family_of(values, source)
    _refuse_missing_weights(folder)
    tensors, dropped = _usual_names(safetensors_file.read_folder(folder), family, folder)
    task = _judge_task(values, family, tensors, source)
    if task["task"] in ("classifier", "tagger"):
        task = {**task, "labels": hf_config.read_labels(values, source)}
    pooled = any(f"{_PREFIXES[family]}pooler." in name for name in tensors)
    needs_pooler = task["task"] == "classifier" or task.get("sentence_task")
    config = hf_config.read_config(values, source, bool(pooled or needs_pooler),
                                   task == _MASKED_LM_TASK)
    ours, _ = to_ours(ROWS[family], tensors, parameter_shapes(config, task), folder)
    tokenizer = tokenizer_files.tokenizer_folder(folder)
    return Checkpoint(config, task, ours, tokenizer, dropped,
                      tokenizer_files.casing_notes(tokenizer))


def _write_model(checkpoint, folder):
    config, task = checkpoint.config, checkpoint.task
    labels = task.get("labels")
    plain = {key: value for key, value in task.items() if key != "labels"}
    values = hf_config.write_config(config, plain == _MASKED_LM_TASK)
    architectures = [name for each, name, _ in MODELS[config.family] if each == plain]
    if not architectures:
        classes = ", ".join(name for _, name, _ in MODELS[config.family])
        raise UsageError(explain(f"the hf format has no class for {plain} of family "
                                 f"{config.family!r}", f"what one of {classes} computes"))
    values = {"architectures": architectures, **values}
    if labels:
        values |= hf_config.write_labels(labels)
    tensors, _ = to_theirs(ROWS[config.family], checkpoint.tensors, architectures[0])
    files.write_json(os.path.join(folder, CONFIG), values)
    safetensors_file.write_file(os.path.join(folder, safetensors_file.FILE), tensors)
    _write_tokenizer(checkpoint, folder)


def _write_tokenizer(checkpoint, folder):
    """The tokenizer's files, its options under the names that transformers reads."""
    if checkpoint.tokenizer is None:
        return
    tokenizer_files.copy_tokenizer(checkpoint.tokenizer, folder)
    path = os.path.join(folder, tokenizer_files.CASING)
    options = files.read_json(path) if files.exists(path) else {}
    if "lower_case" in options:
        options = {"do_lower_case": options["lower_case"],
                   "strip_accents": options["strip_accents"], "tokenize_chinese_chars": True}
    files.write_json(path, {"tokenizer_class": _TOKENIZERS[checkpoint.config.family],
                            "model_max_length": checkpoint.config.longest, **options})


def _read_object(folder):
    refuse_pickle(folder)
    path = os.path.join(folder, CONFIG)
    if not files.exists(path):
        raise BertTfError(explain(f"{folder} holds no {CONFIG}",
                                  f"a folder with {CONFIG} and {safetensors_file.FILE}"))
    values = files.read_json(path)
    if not isinstance(values, dict):
        raise UsageError(explain(f"{path}: {type(values).__name__}", "a JSON object"))
    return values


def _refuse_missing_weights(folder):
    names = files.list_folder(folder)
    if safetensors_file.FILE in names or safetensors_file.INDEX in names:
        return
    for name in names:
        if name.endswith(PICKLES):
            refuse_pickle(os.path.join(folder, name))


def _usual_names(tensors, family, folder):
    """What transformers itself does to names: prefix, gamma and beta, tied copies, buffers.

    Returns: `Tensors` under today's names, and the names of copies and buffers, left out.
    """
    prefix = _PREFIXES[family]
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


def _judge_task(values, family, tensors, source):
    """The task that the architecture names, or a richer one whose heads the file holds too."""
    rows = MODELS[family]
    stated = values.get("architectures") or [rows[-1][1] if family == "gpt" else ""]
    named = [row for row in rows if [row[1]] == stated]
    plain = [row for row in rows if row[0]["task"] not in ("classifier", "tagger", "span")]
    if not named and stated != [""]:
        raise UsageError(explain(f"{source}: architectures={stated!r}",
                                 f"one of {', '.join(row[1] for row in rows)}"))
    if named and named[0] not in plain:
        return named[0][0]
    least = named[0] if named else (_ENCODER_TASK, "", ())
    held = [row for row in plain if set(row[2]) >= set(least[2]) and all(
        any(name.startswith(head) for name in tensors) for head in row[2])]
    richest = max(held, key=lambda row: len(row[2]), default=least)
    return (richest if len(richest[2]) > len(least[2]) else least)[0]


def _split(checkpoint):
    """Discriminator and generator, each a `Checkpoint` of its own with the shared embeddings."""
    shared = {name: name for name in checkpoint.tensors if name.startswith("electra/embeddings/")}
    generator = dict(shared)
    for name in checkpoint.tensors:
        if name.startswith("generator/"):
            generator["electra/" + name.removeprefix("generator/")] = name
        elif name.startswith("generator_predictions/"):
            generator["cls/predictions/" + name.removeprefix("generator_predictions/")] = name
    discriminator = {name: name for name in checkpoint.tensors if not name.startswith("generator")}
    return (
        Checkpoint(checkpoint.config, {"task": "replaced_tokens", "generator": None},
                   checkpoint.tensors.renamed(discriminator), checkpoint.tokenizer),
        Checkpoint(ModelConfig.from_dict(checkpoint.task["generator"]), _MASKED_LM_TASK,
                   checkpoint.tensors.renamed(generator), checkpoint.tokenizer))


def _joined(discriminator, generator, path):
    """Both as one `Checkpoint`; the embeddings must be the same."""
    if generator.task != _MASKED_LM_TASK or discriminator.task["task"] != "replaced_tokens":
        raise UsageError(explain(f"{path} holds two models",
                                 "ElectraForPreTraining in discriminator/, ElectraForMaskedLM in "
                                 "generator/"))
    epsilons = generator.config.layer_norm_eps, discriminator.config.layer_norm_eps
    if epsilons[0] != epsilons[1]:
        raise UsageError(explain(f"{path}: layer_norm_eps={epsilons[0]} of the generator",
                                 f"the discriminator's {epsilons[1]}, they share the embeddings"))
    sources = {name: (discriminator.tensors, name) for name in discriminator.tensors}
    for name in generator.tensors:
        if name.startswith("electra/embeddings/"):
            _check_shared(discriminator.tensors, generator.tensors, name, path)
            continue
        new = name.replace("electra/", "generator/").replace("cls/predictions/",
                                                             "generator_predictions/")
        sources[new] = generator.tensors, name
    ours = Tensors({new: tensors.shapes[name] for new, (tensors, name) in sources.items()},
                   lambda new: sources[new][0][sources[new][1]])
    return Checkpoint(discriminator.config,
                      {"task": "replaced_tokens", "generator": generator.config.to_dict()}, ours,
                      discriminator.tokenizer or generator.tokenizer,
                      discriminator.dropped + generator.dropped, discriminator.notes)


def _check_shared(discriminator, generator, name, path):
    shapes = discriminator.shapes.get(name), generator.shapes[name]
    if shapes[0] != shapes[1] or not np.array_equal(discriminator[name], generator[name]):
        raise UsageError(explain(
            f"{path}: {name} {shapes[1]} of the generator differs from the discriminator's "
            f"{shapes[0]}", "equal embeddings, which the two share"))
