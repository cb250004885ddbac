"""keras-hub (keras-nlp): preset folders and live Backbones of BERT, RoBERTa, ALBERT, ELECTRA
and GPT-2.

Each of the classes computes one activation with one epsilon, whatever a file says; another is
refused. A Backbone has no heads: they are dropped. GPT-2 decodes with its embeddings, so that its
Backbone is a whole language model. No class is ever taken from a file.
"""

import collections
import os

import keras
import keras_hub
import numpy as np

from bert_tf.config import ModelConfig
from bert_tf.converters import hdf5_file, name_table
from bert_tf.converters.checkpoint import Checkpoint, Tensors, check_expressible, parameter_shapes
from bert_tf.converters.keras_hub_tokenizer import read_tokenizer, write_tokenizer
from bert_tf.converters.name_table import Row, split_first, split_last
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.storage import checksums, files, local_copies
from bert_tf.tokenization.load import load_tokenizer

CONFIG = "config.json"
WEIGHTS = "model.weights.h5"
_SHARDED = "model.weights.json"
_TASK_WEIGHTS = "task.weights.h5"

BACKBONES = {"bert": keras_hub.models.BertBackbone, "roberta": keras_hub.models.RobertaBackbone,
             "albert": keras_hub.models.AlbertBackbone,
             "electra": keras_hub.models.ElectraBackbone, "gpt2": keras_hub.models.GPT2Backbone}
_POOLED = ("bert", "albert", "electra")  # those with a dense layer on the first token

# Our field -> their argument.
_SIZES = {"vocab_size": "vocabulary_size", "num_hidden_layers": "num_layers",
          "num_attention_heads": "num_heads", "hidden_size": "hidden_dim",
          "intermediate_size": "intermediate_dim", "hidden_dropout_prob": "dropout",
          "longest": "max_sequence_length"}
_SEGMENTS = {"type_vocab_size": "num_segments"}
_FACTORISED = {"embedding_width": "embedding_dim"}
_ARGUMENTS = {
    "bert": {**_SIZES, **_SEGMENTS},
    "roberta": _SIZES,
    "albert": {**_SIZES, **_SEGMENTS, **_FACTORISED, "num_hidden_groups": "num_groups"},
    "electra": {**_SIZES, **_SEGMENTS, **_FACTORISED, "vocab_size": "vocab_size"},
    "gpt2": _SIZES,
}
# What the classes compute without being asked.
_TANH_GELU = {"hidden_act": "gelu_approximate", "layer_norm_eps": 1e-12}
_COMPUTED = {
    "bert": _TANH_GELU, "albert": _TANH_GELU, "electra": _TANH_GELU,
    "roberta": {"hidden_act": "gelu", "layer_norm_eps": 1e-5, "padding_id": 1,
                "type_vocab_size": 1},
    "gpt2": {"hidden_act": "gelu_approximate", "layer_norm_eps": 1e-5},
}
# Arguments that every class has and that change no number, and one with a single value for us.
_UNUSED = ("name", "trainable", "dtype")
_ONLY = {"num_inner_repetitions": 1}

_POSITIONS = "roberta/embeddings/position_embeddings"
_TYPES = "roberta/embeddings/token_type_embeddings"


def read(path):
    """The `Checkpoint` of a preset folder.

    Raises:
        BertTfError: a file is missing or damaged.
        UsageError: a class or an option that is not one of ours, or weights that do not fit it.
    """
    path = checksums.opened(path, own=False)
    source = os.path.join(path, CONFIG)
    config = _read_config(*_read_class(source), source)
    weights = os.path.join(path, WEIGHTS)
    if not files.exists(weights) and files.exists(os.path.join(path, _SHARDED)):
        raise UsageError(explain(f"{path} holds its weights in several files", WEIGHTS,
                                 "saving it with save_to_preset(…, max_shard_size=None)"))
    _check_sizes(config, hdf5_file.array_shapes(weights), weights)
    backbone = _build(config)
    try:
        with files.explained("read", weights):
            backbone.load_weights(local_copies.local(weights))
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise UsageError(f"{weights} does not fit {source}: "
                         + " ".join(str(error).split())) from error
    tokenizer, notes = read_tokenizer(path, config.family)
    if config.family == "gpt2" and tokenizer:  # whose class knows padding by its mask alone
        config = config.replace(padding_id=load_tokenizer(tokenizer).vocabulary.pad_id)
    if config.family != "gpt2" and files.exists(os.path.join(path, _TASK_WEIGHTS)):
        notes = (f"the weights of a head, {_TASK_WEIGHTS}, are left out: the encoder alone is "
                 "read", *notes)
    return _checkpoint(config, backbone, weights, tokenizer, notes)


def write(checkpoint, path):
    """Write a preset folder that `keras_nlp.models.Backbone.from_preset` loads.

    Returns: what its tokenizer cannot do, and our tensors that a Backbone cannot hold.

    Raises:
        UsageError: their class computes something else; the field is named.
    """
    backbone, dropped = _build_with_weights(checkpoint)
    with checksums.new_folder(path) as temporary:
        backbone.save_to_preset(temporary, max_shard_size=None)
        if checkpoint.tokenizer:
            dropped = write_tokenizer(checkpoint.tokenizer, checkpoint.config.family,
                                      temporary) + dropped
    return dropped


def from_live(model):
    """The `Checkpoint` of a `keras_nlp.models.BertBackbone`, `RobertaBackbone`, `AlbertBackbone`,
    `ElectraBackbone` or `GPT2Backbone`.

    Raises:
        UsageError: another object, or one that was quantised or has adapters (LoRA).
    """
    family = next((name for name, kind in BACKBONES.items() if type(model) is kind), None)
    if family is None:
        raise UsageError(explain(f"a {type(model).__name__}", _class_names()))
    source = type(model).__name__
    return _checkpoint(_read_config(family, model.get_config(), source), model, source)


def to_live(checkpoint):
    """Their Backbone with the weights of a `Checkpoint`, float32; heads are left out.

    Raises:
        UsageError: their class computes something else; the field is named.
    """
    return _build_with_weights(checkpoint)[0]


def _read_class(path):
    """Family and arguments in a `config.json`, of which only names and numbers are looked at."""
    values = files.read_json(path)
    values = values if isinstance(values, dict) else {}
    stated = (values.get("class_name"), values.get("registered_name"))
    for family, kind in BACKBONES.items():
        name = kind.__name__
        if stated in ((name, f"keras_hub>{name}"), (name, f"keras_nlp>{name}")):
            return family, values.get("config")
    raise UsageError(explain(f"{path}: class_name={stated[0]!r}, registered_name={stated[1]!r}",
                             f"a preset of keras-hub: {_class_names()}"))


def _class_names():
    return ", ".join(kind.__name__ for kind in BACKBONES.values())


def _read_config(family, arguments, source):
    """The `ModelConfig` of a Backbone with these arguments."""
    names = _ARGUMENTS[family]
    if not isinstance(arguments, dict):
        raise UsageError(explain(f"{source}: config={arguments!r}", "an object"))
    for name in arguments:
        if name not in (*names.values(), *_UNUSED, *_ONLY):
            raise UsageError(f"{source}: {name} is unknown")
    for name, value in _ONLY.items():
        if arguments.get(name, value) != value:
            raise UsageError(explain(f"{source}: {name}={arguments[name]!r}", repr(value)))
    if "Quantized" in str(arguments.get("dtype")):
        raise UsageError(explain(f"{source}: quantised weights", "a floating-point dtype"))
    missing = [name for name in names.values() if name not in arguments]
    if missing:
        raise UsageError(f"{source}: {missing[0]} is missing")
    values = {ours: arguments[theirs] for ours, theirs in names.items()}
    for ours in ("longest", "num_hidden_groups"):
        value = values.get(ours, 1)
        if type(value) is not int or value < 1:
            raise UsageError(explain(f"{source}: {names[ours]}={value!r}", "at least 1"))
    computed = _COMPUTED[family]
    reserved = computed["padding_id"] + 1 if family == "roberta" else 0
    values["max_position_embeddings"] = values.pop("longest") + reserved
    if "embedding_width" in values:
        values["embedding_size"] = values.pop("embedding_width")
    config = ModelConfig.from_dict({
        **values, **computed, "family": family,
        "attention_probs_dropout_prob": values["hidden_dropout_prob"],
        "pooling": _pooling(family)}, source)
    if family == "albert":
        _check_albert(config, source)
    return config


def _pooling(family):
    return "dense" if family in _POOLED else "last" if family == "gpt2" else "first"


def _task(config):
    return {"task": "language_model" if config.family == "gpt2" else "encoder"}


def _check_albert(config, source):
    if config.num_hidden_layers % config.num_hidden_groups:
        raise UsageError(explain(f"{source}: num_hidden_groups={config.num_hidden_groups}",
                                 f"a divisor of num_hidden_layers={config.num_hidden_layers}"))
    if config.embedding_width == config.hidden_size:
        raise UsageError(explain(
            f"{source}: embedding_size={config.embedding_width} is hidden_size, where "
            "AlbertBackbone has a projection and ours has none", "another embedding_size"))


def _arguments(config):
    return {theirs: getattr(config, ours)
            for ours, theirs in _ARGUMENTS[config.family].items()}


def _build(config):
    """Their Backbone of a configuration that has been checked, float32."""
    return BACKBONES[config.family](**_arguments(config), dtype="float32")


def _check_sizes(config, found, source):
    """Compare shapes in a file with those of a model before the model is built.

    Keras numbers the names in the file by its own rules, so that shapes are counted here; which
    array belongs where is found out when they are loaded.
    """
    held = Tensors(_held_shapes(config), None)
    wanted = name_table.to_theirs(_rows(config), held, source)[0].shapes
    missing = collections.Counter(wanted.values()) - collections.Counter(found.values())
    extra = collections.Counter(found.values()) - collections.Counter(wanted.values())
    if not missing and not extra:
        return
    lines = [f"- {name} {shape}" for name, shape in wanted.items() if shape in missing]
    lines += [f"+ {name} {shape}" for name, shape in found.items() if shape in extra]
    raise UsageError(f"{source} does not fit its configuration (- one of these is missing, "
                     "+ one of these is not expected): " + "; ".join(lines[:8])
                     + ("; …" if len(lines) > 8 else ""))


def _rows(config):
    """The name table; theirs are the paths of a Backbone's variables."""
    heads = config.num_attention_heads
    tables = "embeddings/" if config.family == "roberta" else ""
    ours, theirs = (("group_{i}", "group_{i}_inner_layer_0") if config.num_hidden_groups else
                    ("layer_{i}", "transformer_layer_{i}"))
    ours = f"{{F}}/encoder/{ours}"
    project = "embedding_projection" if config.family == "albert" else "embeddings_projection"
    attention, norms = f"{theirs}/self_attention_layer", ("attention/output", "output")
    if config.family == "gpt2":  # whose norms come first
        attention, norms = f"{theirs}/self_attention", ("attention", "intermediate")
    return (
        Row("{F}/embeddings/word_embeddings", f"{tables}token_embedding/embeddings"),
        Row("{F}/embeddings/position_embeddings", f"{tables}position_embedding/embeddings"),
        Row("{F}/embeddings/token_type_embeddings", "segment_embedding/embeddings"),
        Row("{F}/embeddings/LayerNorm/{V}", "embeddings_layer_norm/{V}"),
        Row("{F}/embeddings_project/{V}", f"{project}/{{V}}"),
        Row(f"{ours}/attention/self/{{P}}/{{V}}", f"{attention}/{{P}}/{{V}}", split_last(heads)),
        Row(f"{ours}/attention/output/dense/kernel", f"{attention}/attention_output/kernel",
            split_first(heads)),
        Row(f"{ours}/attention/output/dense/bias", f"{attention}/attention_output/bias"),
        Row(f"{ours}/{norms[0]}/LayerNorm/{{V}}", f"{theirs}/self_attention_layer_norm/{{V}}"),
        Row(f"{ours}/intermediate/dense/{{V}}", f"{theirs}/feedforward_intermediate_dense/{{V}}"),
        Row(f"{ours}/output/dense/{{V}}", f"{theirs}/feedforward_output_dense/{{V}}"),
        Row(f"{ours}/{norms[1]}/LayerNorm/{{V}}", f"{theirs}/feedforward_layer_norm/{{V}}"),
        Row("{F}/encoder/LayerNorm/{V}", "layer_norm/{V}"),
        Row("{F}/pooler/dense/{V}", "pooled_dense/{V}"))


def _held_shapes(config):
    """What a Backbone holds, under our names: `{name: shape}`.

    RoBERTa's begins its positions at the first token and has no segments; BERT's, ALBERT's and
    ELECTRA's always have a dense layer for pooling.
    """
    shapes = parameter_shapes(config.replace(pooling=_pooling(config.family)), _task(config))
    if config.family == "roberta":
        del shapes[_TYPES]
        shapes[_POSITIONS] = (config.longest, config.embedding_width)
    return shapes


def _check_expressible(config):
    if config.family not in BACKBONES:
        raise UsageError(explain(f"family={config.family!r} cannot be written to keras_hub",
                                 ", ".join(BACKBONES)))
    where = BACKBONES[config.family].__name__
    check_expressible(config, config.replace(**_COMPUTED[config.family]), where)
    read_back = _read_config(config.family, _arguments(config), where)
    pooling = read_back.pooling if config.pooling == "last" else config.pooling
    if config.family == "gpt2":  # which finds padding by its mask, whatever its id
        read_back = read_back.replace(padding_id=config.padding_id)
    check_expressible(config, read_back.replace(
        pooling=pooling, head_act=config.head_act, initializer_range=config.initializer_range),
        where)


def _build_with_weights(checkpoint):
    """Their Backbone, and the list of what it cannot hold."""
    config, ours = checkpoint.config, checkpoint.tensors
    _check_expressible(config)
    held = _held_shapes(config)

    def load(name):
        if name not in ours:
            # The dense layer that a model without one does not need: zero, which reading knows.
            return np.zeros(held[name], np.float32)
        if name == _POSITIONS:
            # The one segment is added to every token; a zero is left out, as -0.0 + 0.0 is 0.0.
            segment, positions = ours[_TYPES], ours[name][config.padding_id + 1:]
            return positions + segment if segment.any() else positions
        return ours[name]

    theirs, _ = name_table.to_theirs(_rows(config), Tensors(held, load), "keras_hub")
    backbone = _build(config)
    for variable in backbone.weights:
        variable.assign(theirs[variable.path])
    dropped = [name for name in ours if name not in (*held, _TYPES)]
    if config.family == "roberta":
        dropped = [f"{_TYPES} (added to the positions)",
                   f"{_POSITIONS} of the first {config.padding_id + 1} positions", *dropped]
    return backbone, dropped


def _checkpoint(config, backbone, source, tokenizer=None, notes=()):
    """The `Checkpoint` of a Backbone whose configuration is `config`."""
    variables = {variable.path: variable for variable in backbone.weights}

    def load(path):
        array = np.asarray(keras.ops.convert_to_numpy(variables[path]), np.float32)
        if not np.isfinite(array).all():
            raise BertTfError(f"{source}: {path} holds NaN or infinite numbers")
        return array

    theirs = Tensors({path: variable.shape for path, variable in variables.items()}, load)
    held, _ = name_table.to_ours(_rows(config), theirs, _held_shapes(config), source)
    pooler = [f"{config.family}/pooler/dense/{part}" for part in ("kernel", "bias")]
    if config.family in _POOLED and not any(held[name].any() for name in pooler):
        config = config.replace(pooling="first")
    shapes = parameter_shapes(config, _task(config))

    def load_ours(name):
        if name == _TYPES:
            return np.zeros(shapes[name], np.float32)
        if name == _POSITIONS:
            return np.pad(held[name], ((config.padding_id + 1, 0), (0, 0)))
        return held[name]

    return Checkpoint(config, _task(config), Tensors(shapes, load_ours), tokenizer, notes=notes)
