"""Hugging Face folders: config.json, safetensors or pytorch_model.bin, tokenizer files.

Models of `hf_classes` as transformers 4 and 5 save them; a folder with the subfolders
`discriminator` and `generator` is one ELECTRA model of both.
"""

import dataclasses
import os

import numpy as np

from bert_tf.config import ModelConfig
from bert_tf.converters import (
    cross_encoder,
    hf_bert,
    hf_causal,
    hf_config,
    hf_deberta,
    hf_mobilebert,
    hf_reading,
    hf_variants,
    peft_adapter,
    prompted_pairs,
    safetensors_file,
    tokenizer_files,
    weight_files,
)
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.converters.formats import PICKLES, refuse_pickle
from bert_tf.converters.hf_classes import (
    ENCODER,
    LABELLED,
    MASKED_LM,
    MODELS,
    classes_of,
    classes_read,
)
from bert_tf.converters.hf_keys import check_adapters
from bert_tf.converters.hf_names import PREFIXES, TASK_TYPES, rows_of, rows_read
from bert_tf.converters.hf_spellings import usual_names
from bert_tf.converters.hf_tokenizer import write_tokenizer
from bert_tf.converters.name_table import to_ours, to_theirs
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.models.find import gives_token_vectors
from bert_tf.models.pretrained import says_read_otherwise
from bert_tf.storage import checksums, files

CONFIG = "config.json"
_TOKENIZERS = {"bert": "BertTokenizer", "roberta": "RobertaTokenizer",
               "albert": "AlbertTokenizer", "electra": "ElectraTokenizer",
               "gpt": "OpenAIGPTTokenizer", "gpt2": "PreTrainedTokenizerFast",
               "distilbert": "DistilBertTokenizer",
               "xlm_roberta": "XLMRobertaTokenizer", "camembert": "CamembertTokenizer",
               "mpnet": "MPNetTokenizer", "deberta": "DebertaV2Tokenizer",
               # The class of version 1 puts two separators between segments in transformers 5.
               "deberta_v1": "PreTrainedTokenizerFast",
               "modernbert": "PreTrainedTokenizerFast", "nomic_bert": "BertTokenizer",
               "gte": "XLMRobertaTokenizer", "jina_embeddings_v3": "XLMRobertaTokenizer",
               "eurobert": "PreTrainedTokenizerFast",
               "qwen3": "PreTrainedTokenizerFast", "gemma3": "PreTrainedTokenizerFast",
               "t5": "PreTrainedTokenizerFast", "ultrabert": "PreTrainedTokenizerFast",
               "mobilebert": "BertTokenizer"}
_QUESTIONS = "qa_classifier.*"  # BigBird's head, which no class of ours has
_DISCRIMINATOR, _GENERATOR = "discriminator", "generator"


def read(path):
    """The `Checkpoint` in a folder.

    Raises:
        BertTfError: a file is missing or damaged, or the weights are a pickle of another kind.
        UsageError: a tensor is missing, has no place or a wrong shape, or the configuration is
            one that we cannot compute. Text that we would not read as the folder says is none:
            `reading` of its task is None then, and a note says why.
    """
    path = checksums.opened(path, own=False)
    if gives_token_vectors(path):
        from bert_tf.converters import late_interaction

        return late_interaction.read_stanford(path)
    halves = [os.path.join(path, name) for name in (_DISCRIMINATOR, _GENERATOR)]
    if not files.exists(os.path.join(path, CONFIG)) and all(map(files.exists, halves)):
        return _joined(*map(_read_model, halves), path)
    found = cross_encoder.scoring(_read_model(path), path)
    notes = (*found.notes, *cross_encoder.notes_of(path, found.task))
    try:
        reading = hf_reading.of_labels(found, path)
        if reading and found.task["task"] == "classifier":
            reading = {"reading": prompted_pairs.with_template(reading["reading"], path)}
        if "template" not in reading.get("reading", ()):
            cross_encoder.check_prompt(path, found.task)
    except UsageError as error:
        reading = {"reading": None}
        notes += (f"its labels are those of token ids alone, it takes no text: {error}",)
    return dataclasses.replace(found, task=found.task | reading, notes=notes)


def read_encoder(path, further=()):
    """The `Checkpoint` of the encoder in a folder, whatever class its configuration names; names of
    `further` tensors may be there."""
    return _read_model(checksums.opened(path, own=False), ENCODER,
                       (_QUESTIONS, *further))


def write(checkpoint, path):
    """Write a folder that transformers loads; it appears whole or not at all.

    Returns: what its tokenizer cannot do, what is not told or left out; a model that does not fit
        is refused.
    """
    config, left = checkpoint.config, []
    if checkpoint.task["task"] == "replaced_tokens" and not any(
            each["task"] == "replaced_tokens" for each, *_ in classes_of(config)):
        left = [f"head and generator: transformers has no class of {config.family} for replaced "
                "tokens, so that the encoder alone is written"]
        checkpoint = encoder_of(checkpoint)
    with checksums.new_folder(path) as temporary:
        if checkpoint.task.get("generator"):
            halves = zip(_split(checkpoint), (_DISCRIMINATOR, _GENERATOR), strict=True)
            for half, name in halves:
                write_model(half, files.make_folder(os.path.join(temporary, name)))
        else:
            write_model(checkpoint, temporary)
            reading = checkpoint.task.get("reading") or {}
            if "template" in reading:
                prompted_pairs.write(temporary, reading)
    unread = ["how text was read where the model comes from"] if says_read_otherwise(
        checkpoint.task) else []
    return [*left, *tokenizer_files.morpheme_notes(checkpoint.tokenizer), *unread]


def encoder_of(checkpoint):
    """The encoder alone, as a `Checkpoint`."""
    shapes = parameter_shapes(checkpoint.config, ENCODER)
    return Checkpoint(checkpoint.config, ENCODER,
                      checkpoint.tensors.renamed({name: name for name in shapes}),
                      checkpoint.tokenizer, checkpoint.dropped, checkpoint.notes)


def _read_model(folder, task=None, further=()):
    adapter = peft_adapter.find(folder)
    model = adapter.base if adapter else folder
    source = os.path.join(model, CONFIG)
    values = _read_object(model)
    check_adapters(values, source)
    family = hf_config.family_of(values, source)
    values = hf_bert.filled(values, source)
    classes = classes_read(values["model_type"], family)
    _refuse_other_pickles(model)
    heads = [*hf_variants.UNREAD.get(values["model_type"], ()), *(
        f"{head}*" for row in classes for head in row[2] if task is not None)]
    tensors, dropped = usual_names(
        hf_deberta.with_usual_head(weight_files.read_folder(model), values), family, model,
        hf_causal.ties(family, values), heads)
    if adapter:
        task = task or peft_adapter.task_of(adapter, classes) or _judge_task(
            values, classes, tensors, source)
        heads = [*heads, *(name for name in tensors if not name.startswith(PREFIXES[family]))]
        tensors = peft_adapter.added(adapter, tensors, family, task)
        values = peft_adapter.with_labels(values, tensors)
    task = task or _judge_task(values, classes, tensors, source)
    if task["task"] in ("classifier", "tagger"):
        task = {**task, **hf_config.read_classes(values, source, task["task"])}
    pooler = f"{PREFIXES[family]}pooler."
    own_head = hf_bert.has_own_head(values, task)
    # Files of older versions hold one that their classifier does not use.
    activated = hf_mobilebert.activates(values)
    pooled = (not own_head and _needs_pooler(family, task, activated, values["model_type"])
              or task["task"] != "classifier" and (family != "mobilebert" or activated)
              and any(pooler in name for name in tensors))
    config = hf_config.read_config(values, source, pooled, task == MASKED_LM)
    if own_head:
        config = config.replace(label_head="dense", label_act=config.hidden_act)
    unread = [*heads, *further, *hf_deberta.unread(values), *([] if pooled else [f"{pooler}*"]),
              *([TASK_TYPES] if values["model_type"] == "ernie" else []),
              *([hf_mobilebert.UNUSED] if config.use_bottleneck_attention else [])]
    ours, left = to_ours(rows_read(config, values, tensors), tensors,
                         parameter_shapes(config, task), folder, unread)
    tokenizer = tokenizer_files.tokenizer_folder(folder) or tokenizer_files.tokenizer_folder(model)
    notes = [f"{folder} is an adapter, added to the weights of {model}"] if adapter else []
    return Checkpoint(config, task, ours, tokenizer, dropped + left,
                      (*notes, *hf_bert.notes(values), *tokenizer_files.casing_notes(tokenizer)))


def write_model(checkpoint, folder):
    """Write into a folder that exists; see `write`."""
    config, task = checkpoint.config, checkpoint.task
    values = _values_of(config, task) | tokenizer_files.token_ids(checkpoint.tokenizer, config)
    tensors, _ = to_theirs(rows_of(config), checkpoint.tensors, values["architectures"][0])
    bare = task["task"] == "encoder"  # as their class itself writes it
    tensors = hf_variants.with_their_names(tensors, values["model_type"], PREFIXES[config.family],
                                           bare, config)
    files.write_json(os.path.join(folder, CONFIG), values)
    safetensors_file.write_file(os.path.join(folder, safetensors_file.FILE), tensors)
    write_tokenizer_of(checkpoint, folder)


def refusal(config, task):
    """Return why a model with these shapes would be refused: a message, or None."""
    try:
        parameter_shapes(config, task)
        _values_of(config, task)
    except UsageError as error:
        return str(error)
    return None


def _values_of(config, task):
    """Return the content of `config.json`, as far as the tokenizer does not matter.

    Raises:
        UsageError: none of their classes computes such a model.
    """
    # How text is read and answers are found, no file of theirs tells.
    plain = {key: task[key] for key in ("task", "sentence_task", "generator") if key in task}
    if config.family not in MODELS:
        raise UsageError(explain(f"family={config.family!r} cannot be written in the hf format",
                                 ", ".join(MODELS)))
    architectures = [name for each, name, _ in classes_of(config) if each == plain][:1]
    model_type = hf_variants.type_of(config)
    needs = _needs_pooler(config.family, task, config.pooling == "dense", model_type)
    usual = hf_variants.pooling_of(model_type, config.family)
    other = (needs or task["task"] == "classifier") and (config.pooling == "dense") != needs
    values = hf_config.write_config(config.replace(pooling=usual) if other else config,
                                    plain == MASKED_LM, task["task"] in LABELLED)
    if not architectures:
        classes = ", ".join(name for _, name, _ in classes_of(config))
        raise UsageError(explain(f"the hf format has no class for {plain} of family "
                                 f"{config.family!r}", f"what one of {classes} computes"))
    if other:
        raise UsageError(explain(f"a {task['task']} of pooling={config.pooling!r} cannot be "
                                 f"written as {architectures[0]}", repr(usual)))
    classes = hf_config.write_classes(task) if "labels" in task else {}
    return {"architectures": architectures, **values, **classes}


def write_tokenizer_of(checkpoint, folder):
    """Write the tokenizer of a `Checkpoint` into a folder that exists."""
    config, reading = checkpoint.config, checkpoint.task.get("reading") or {}
    cut = checkpoint.task["task"] == "classifier" and reading.get("long") == "head"
    write_tokenizer(checkpoint.tokenizer, folder, _TOKENIZERS[config.family],
                    reading["seq_length"] if cut else config.longest, config.type_vocab_size > 1)


def _needs_pooler(family, task, activated, model_type):
    """Whether their class for a task has a pooler (others may: their encoders of any family);
    MobileBERT's where it is `activated`."""
    if family == "mobilebert":
        return activated and (task["task"] == "classifier" or bool(task.get("sentence_task")))
    if task["task"] == "classifier":
        return hf_variants.pooling_of(model_type, family) == "dense"
    return bool(task.get("sentence_task"))


def _read_object(folder):
    refuse_pickle(folder)
    path = os.path.join(folder, CONFIG)
    if not files.exists(path):
        raise BertTfError(explain(f"{folder} holds no {CONFIG}",
                                  f"a folder with {CONFIG} and {safetensors_file.FILE}"))
    return files.read_json_object(path)


def _refuse_other_pickles(folder):
    if weight_files.holds_weights(folder):
        return
    for name in files.list_folder(folder):
        if name.endswith(PICKLES):
            refuse_pickle(os.path.join(folder, name))


def _judge_task(values, rows, tensors, source):
    """The task that the architecture names, or a richer one whose heads the file holds too."""
    stated = values.get("architectures") or [rows[-1][1] if rows == MODELS["gpt"] else ""]
    named = [row for row in rows if [row[1]] == stated]
    plain = [row for row in rows if row[0]["task"] not in LABELLED]
    if not named and stated != [""]:
        raise UsageError(explain(f"{source}: architectures={stated!r}",
                                 f"one of {', '.join(row[1] for row in rows)}"))
    if named and named[0] not in plain:
        return named[0][0]
    least = named[0] if named else (ENCODER, "", ())
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
        Checkpoint(ModelConfig.from_dict(checkpoint.task["generator"]), MASKED_LM,
                   checkpoint.tensors.renamed(generator), checkpoint.tokenizer))


def _joined(discriminator, generator, path):
    """Both as one `Checkpoint`; the embeddings must be the same."""
    if generator.task != MASKED_LM or discriminator.task["task"] != "replaced_tokens":
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
