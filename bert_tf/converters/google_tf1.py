"""Folders of google-research/bert, albert and electra: a TF1 checkpoint beside a JSON file.

    bert_config.json      bert_model.ckpt.*     vocab.txt
    albert_config.json    model.ckpt-best.*     spiece.model
    electra_config.json   electra_model.ckpt.*  vocab.txt

Also what their run_classifier.py and run_squad.py trained: `output_weights` and `output_bias`,
alone or after `cls/squad/`. The ELECTRA project itself writes no such file; here it holds the sizes
of the `discriminator` and of the `generator` (null without one), each with the keys of
`bert_config.json` and `embedding_size`. "gelu" is the tanh form in BERT and ALBERT and the erf form
in ELECTRA.
"""

import dataclasses
import difflib
import os
from collections.abc import Mapping

import numpy as np

from bert_tf.config import UNREAD_KEYS, ModelConfig
from bert_tf.converters import name_table
from bert_tf.converters.checkpoint import Checkpoint, Tensors, check_expressible, parameter_shapes
from bert_tf.converters.hf_config import read_classes
from bert_tf.converters.name_table import Row
from bert_tf.converters.tokenizer_files import (
    casing_notes,
    copy_tokenizer,
    plain_bert_notes,
    tokenizer_folder,
)
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.storage import checksums, files, variables

_SIZES = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
          "intermediate_size", "max_position_embeddings", "type_vocab_size")
_OPTIONS = ("hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob",
            "initializer_range")
_TANH_GELU = {"gelu": "gelu_approximate", "relu": "relu", "tanh": "tanh"}
_ERF_GELU = {"gelu": "gelu", "relu": "relu", "tanh": "tanh"}
_UNUSED = (("layers_to_keep", []),)  # of ALBERT's releases, whose code does not read it

# What a training checkpoint holds beside the model.
_TRAINING = ("global_step", "*/adam_m", "*/adam_v", "*/Adam", "*/Adam_1", "beta?_power")
# Where all variables of the models are that are read; others are heads of some other code.
_SCOPES = ("bert/", "electra/", "generator", "discriminator_predictions/", "cls/predictions/",
           "cls/seq_relationship/")
_MOST_LISTED = 4
_NO_PLACE = ("cls/classifier/*", "cls/span/*", "cls/tagger/*")

_BLOCK = ("attention/self/{P}/{V}", "attention/output/dense/{V}", "attention/output/LayerNorm/{V}",
          "intermediate/dense/{V}", "output/dense/{V}", "output/LayerNorm/{V}")
_MASKED_LM = ("cls/predictions/{V}", "cls/predictions/transform/{P}/{V}")


def _same(*names):
    return tuple(Row(name, name) for name in names)


_FINE_TUNED = (Row("cls/classifier/{V}", "{V}"), Row("cls/span/{V}", "cls/squad/{V}"))

_BERT_ROWS = _same(
    "bert/embeddings/{V}", "bert/embeddings/LayerNorm/{V}",
    *(f"bert/encoder/layer_{{i}}/{name}" for name in _BLOCK), "bert/pooler/dense/{V}",
    *_MASKED_LM, "cls/seq_relationship/{V}") + _FINE_TUNED

_GROUP = "albert/encoder/group_{g}"
_GROUP_THERE = "bert/encoder/transformer/group_{g}/inner_group_0"
_ALBERT_ROWS = (
    Row("albert/embeddings/{V}", "bert/embeddings/{V}"),
    Row("albert/embeddings/LayerNorm/{V}", "bert/embeddings/LayerNorm/{V}"),
    Row("albert/embeddings_project/{V}", "bert/encoder/embedding_hidden_mapping_in/{V}"),
    Row(f"{_GROUP}/attention/self/{{P}}/{{V}}", f"{_GROUP_THERE}/attention_1/self/{{P}}/{{V}}"),
    Row(f"{_GROUP}/attention/output/dense/{{V}}",
        f"{_GROUP_THERE}/attention_1/output/dense/{{V}}"),
    Row(f"{_GROUP}/attention/output/LayerNorm/{{V}}", f"{_GROUP_THERE}/LayerNorm/{{V}}"),
    Row(f"{_GROUP}/intermediate/dense/{{V}}", f"{_GROUP_THERE}/ffn_1/intermediate/dense/{{V}}"),
    Row(f"{_GROUP}/output/dense/{{V}}", f"{_GROUP_THERE}/ffn_1/intermediate/output/dense/{{V}}"),
    Row(f"{_GROUP}/output/LayerNorm/{{V}}", f"{_GROUP_THERE}/LayerNorm_1/{{V}}"),
    Row("albert/pooler/dense/{V}", "bert/pooler/dense/{V}"),
    *_same(*_MASKED_LM),
    Row("cls/sentence_order/{V}", "cls/seq_relationship/{V}"),
    *_FINE_TUNED)

_ELECTRA_ROWS = (
    *_same("electra/embeddings/{V}", "electra/embeddings/LayerNorm/{V}",
           "discriminator_predictions/{P}/{V}", "generator_predictions/output_bias"),
    *_same(*(f"{model}/{name}" for model in ("electra", "generator") for name in (
        "embeddings_project/{V}", *(f"encoder/layer_{{i}}/{each}" for each in _BLOCK)))),
    Row("generator_predictions/transform/{P}/{V}", "generator_predictions/{P}/{V}"))


@dataclasses.dataclass(frozen=True)
class _Format:
    """What one of the three projects calls things."""

    config: str  # name of the JSON file
    checkpoint: str  # name of the checkpoint, where we write it
    sizes: tuple[str, ...]  # keys that must be there
    activations: Mapping[str, str]  # names of activations there: our names
    rows: tuple[Row, ...]
    constants: Mapping[str, object] = dataclasses.field(default_factory=dict)  # one value known
    sentence_task: str | None = None  # what cls/seq_relationship was trained for
    not_held: tuple[str, ...] = ()  # our tensors that are not written


FORMATS = {
    "bert": _Format("bert_config.json", "bert_model.ckpt", _SIZES, _TANH_GELU, _BERT_ROWS,
                    sentence_task="next_sentence",
                    not_held=(*_NO_PLACE, "cls/sentence_order/*")),
    "albert": _Format("albert_config.json", "model.ckpt-best",
                      (*_SIZES, "embedding_size", "num_hidden_groups"), _TANH_GELU, _ALBERT_ROWS,
                      {"net_structure_type": 0, "gap_size": 0, "num_memory_blocks": 0,
                       "inner_group_num": 1, "down_scale_factor": 1},
                      sentence_task="sentence_order",
                      not_held=(*_NO_PLACE, "cls/seq_relationship/*")),
    "electra": _Format("electra_config.json", "electra_model.ckpt", (*_SIZES, "embedding_size"),
                       _ERF_GELU, _ELECTRA_ROWS, not_held=_NO_PLACE),
}
# The generator has its own encoder and shares the discriminator's tables.
_ELECTRA_SHARING = {"untied_generator": True, "untied_generator_embeddings": False}


def read(path):
    """Read a folder of one of the three projects.

    Args:
        path: the folder, or the prefix of one of several checkpoints in it.

    Returns: `Checkpoint`; optimizer slots, the step and heads of other code are left behind and
        stand in `dropped`.

    Raises:
        BertTfError: a file is missing or damaged.
        UsageError: configuration and checkpoint do not fit each other, or say what no model of
            ours computes.
    """
    folder, prefix, reader = open_checkpoint(path)
    family = _family(folder, reader.shapes)
    source = os.path.join(folder, FORMATS[family].config)
    values = files.read_json(source)
    if family == "electra":
        config, task = _read_electra(values, reader.shapes, source)
    else:
        config = model_config(values, family, source)
        task = _task(reader.shapes, config.hidden_size, FORMATS[family].sentence_task)
    others = [name for name in reader.shapes if not name.startswith(_SCOPES)]
    tensors, dropped = name_table.to_ours(
        FORMATS[family].rows, float_tensors(reader), parameter_shapes(config, task), prefix,
        ignored=(*_TRAINING, *others))
    tokenizer = tokenizer_folder(folder)
    return Checkpoint(config, task, tensors, tokenizer, dropped,
                      (*_head_notes(task, dropped), *casing_notes(tokenizer)))


def open_checkpoint(path):
    """Return `(folder, prefix, VariableReader)` of what `read` takes, its digests checked."""
    prefix = variables.find_checkpoint(path)
    folder = checksums.opened(os.path.dirname(prefix) or ".", own=False)
    prefix = os.path.join(folder, os.path.basename(prefix))
    return folder, prefix, variables.VariableReader(prefix)


def write(checkpoint, path):
    """Write a folder that the original code reads.

    Returns: our names of the tensors that have no place there.

    Raises:
        UsageError: the original code cannot compute this model; the field is named.
    """
    config, task = checkpoint.config, checkpoint.task
    if config.family not in FORMATS:
        raise UsageError(explain(f"family={config.family!r} has no google format",
                                 "one of " + ", ".join(FORMATS)))
    form = FORMATS[config.family]
    if config.family == "electra":
        values = _electra_values(config, task)
    else:
        values = _config_values(config)
    tensors, dropped = name_table.to_theirs(form.rows, checkpoint.tensors, "google",
                                            form.not_held)
    with checksums.new_folder(path) as temporary:
        files.write_json(os.path.join(temporary, form.config), values)
        variables.write_variables(os.path.join(temporary, form.checkpoint), tensors)
        copy_tokenizer(checkpoint.tokenizer, temporary)
    return [*dropped, *plain_bert_notes(checkpoint.tokenizer)]


def model_config(values, family, source):
    """The `ModelConfig` that the object of a JSON configuration file of `family` stands for.

    Raises:
        UsageError: a key is missing or unknown, or has a value that no model of ours computes.
    """
    form = FORMATS[family]
    if not isinstance(values, dict):
        raise UsageError(explain(f"{source}: {type(values).__name__}", "a JSON object"))
    for name in form.sizes:
        if name not in values:
            raise UsageError(f"{source}: {name} is missing")
    known = (*form.sizes, *_OPTIONS)
    fields = {"family": family}
    for name, value in values.items():
        if name in known:
            fields[name] = value
        elif name in form.constants:
            _check_constant(name, value, form.constants[name], source)
        elif name not in UNREAD_KEYS and (name, value) not in _UNUSED:
            near = difflib.get_close_matches(name, known, n=1)
            raise UsageError(explain(f"{source}: unknown key {name!r}",
                                     attempt=repr(near[0]) if near else ""))
    activation = fields.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in form.activations:
        raise UsageError(explain(f"{source}: hidden_act={activation!r}",
                                 "one of " + ", ".join(form.activations)))
    fields["hidden_act"] = form.activations[activation]
    return ModelConfig.from_dict(fields, source)


def float_tensors(reader):
    """`Tensors` of a `VariableReader`, float32."""

    def load(name):
        dtype = reader.entries[name].dtype
        if not dtype.is_floating:
            raise UsageError(explain(f"{name} is {dtype.name}", "float32"))
        return np.asarray(reader.load(name), np.float32)

    return Tensors(reader.shapes, load)


def _config_values(config):
    """The object of the JSON file; UsageError names a field that it cannot say."""
    form = FORMATS[config.family]
    values = {name: getattr(config, name) for name in (*form.sizes, *_OPTIONS)}
    theirs = {ours: name for name, ours in form.activations.items()}
    values["hidden_act"] = theirs.get(config.hidden_act, "gelu")
    if "embedding_size" in values:
        values["embedding_size"] = config.embedding_width
    if "num_hidden_groups" in values:
        values["num_hidden_groups"] = max(1, config.num_hidden_groups)
    values |= form.constants
    check_expressible(config, model_config(values, config.family, form.config), form.config)
    return values


def _family(folder, names):
    """Which project's configuration file lies in the folder."""
    found = [family for family, form in FORMATS.items()
             if files.exists(os.path.join(folder, form.config))]
    if len(found) == 1:
        return found[0]
    choices = ", ".join(form.config for form in FORMATS.values())
    if found:
        there = ", ".join(FORMATS[family].config for family in found)
        raise UsageError(explain(f"{folder} holds {there}", f"only one of {choices}"))
    if any(name.startswith("electra/") for name in names):
        raise BertTfError(explain(
            f"{folder} holds an ELECTRA checkpoint without electra_config.json",
            '{"discriminator": {…}, "generator": {…} or null} in it, each with '
            + ", ".join((*FORMATS["electra"].sizes, "hidden_act"))))
    raise BertTfError(explain(f"{folder} holds a checkpoint without a configuration",
                              f"one of {choices} beside it"))


def _task(shapes, hidden_size, sentence_task):
    """What a BERT or ALBERT checkpoint is, by the heads that it has."""
    if _has(shapes, "cls/predictions/"):
        there = _has(shapes, "cls/seq_relationship/")
        return {"task": "pretraining", "sentence_task": sentence_task if there else None}
    if "cls/squad/output_weights" in shapes:
        return {"task": "span"}
    labels = shapes.get("output_bias", ())
    if len(labels) == 1 and shapes.get("output_weights") == (*labels, hidden_size):
        return {"task": "classifier",
                **read_classes({"num_labels": labels[0]}, "output_bias", "classifier")}
    return {"task": "encoder"}


def _head_notes(task, dropped):
    """Yield what is to be known of heads that fine-tuning made."""
    heads = [name for name in dropped if not name_table.matches(name, _TRAINING)]
    if heads:
        more = f" and {len(heads) - _MOST_LISTED} more" if len(heads) > _MOST_LISTED else ""
        yield f"left behind as heads of other code: {', '.join(heads[:_MOST_LISTED])}{more}"
    if "labels" in task:
        names = " to ".join(dict.fromkeys((task["labels"][0], task["labels"][-1])))
        yield ("output_weights is read as the head of run_classifier.py; no file names its labels: "
               f"they are {names}, in its order")


def _read_electra(values, names, source):
    """Configuration of the discriminator, and the task with the generator's."""
    values = values if isinstance(values, dict) else {}
    if not isinstance(values.get("discriminator"), dict):
        raise UsageError(explain(f"{source}: no discriminator", 'an object "discriminator"'))
    config = model_config(values["discriminator"], "electra", f"{source}: discriminator")
    options = values.get("model_hparams")
    for name, expected in _ELECTRA_SHARING.items():
        if isinstance(options, dict):
            _check_constant(name, options.get(name, expected), expected, source)
    if not _has(names, "discriminator_predictions/"):
        return config, {"task": "encoder"}
    generator = None
    if values.get("generator") and _has(names, "generator"):
        generator = model_config(values["generator"], "electra", f"{source}: generator")
        for name in ("vocab_size", "max_position_embeddings", "type_vocab_size",
                     "embedding_width"):
            ours, theirs = getattr(config, name), getattr(generator, name)
            if theirs != ours:
                raise UsageError(explain(f"{source}: generator {name}={theirs}",
                                         f"the discriminator's {ours}, they share the tables"))
    return config, {"task": "replaced_tokens",
                    "generator": generator.to_dict() if generator else None}


def _electra_values(config, task):
    """The object of `electra_config.json`."""
    if task["task"] == "pretraining":
        raise UsageError("an ELECTRA generator alone has no google format, which keeps it beside "
                         "its discriminator")
    sizes = {"discriminator": _config_values(config), "generator": None}
    options = {"embedding_size": config.embedding_width}
    if task.get("generator"):
        generator = ModelConfig.from_dict(task["generator"])
        # The original code derives these two (its `get_generator_config`).
        for name, derived in (("num_attention_heads", max(1, generator.hidden_size // 64)),
                              ("intermediate_size", 4 * generator.hidden_size)):
            if getattr(generator, name) != derived:
                raise UsageError(explain(f"generator {name}={getattr(generator, name)} with "
                                         f"hidden_size={generator.hidden_size} cannot be built "
                                         "by the original ELECTRA code", str(derived)))
        sizes["generator"] = _config_values(generator)
        options |= _ELECTRA_SHARING
        options["generator_hidden_size"] = generator.hidden_size / config.hidden_size
        options["generator_layers"] = generator.num_hidden_layers / config.num_hidden_layers
    return {"model_hparams": options, **sizes}


def _has(names, start):
    return any(name.startswith(start) for name in names)


def _check_constant(name, value, expected, source):
    if value != expected:
        raise UsageError(explain(f"{source}: {name}={value!r}", repr(expected)))
