"""TF2 checkpoints and live objects of tf-models-official: BertEncoderV2, AlbertEncoder, and
BertPretrainerV2 around them.

A folder holds `config.json` (the class, its arguments and those of the pretrainer), a checkpoint
such as `tf.train.Checkpoint(encoder=…)` or `(model=…)` writes, and the vocabulary. The library
states activations as functions: here `gelu (tanh approximation)`, `gelu (erf)`, `relu`, `tanh`.
A bare "gelu" is refused: the library's own function of that name is the tanh form, Keras's is erf.
"""

import os

import numpy as np

from bert_tf import files, tensor_bundle, variables
from bert_tf.config import ModelConfig
from bert_tf.converters import google_tf1, name_table
from bert_tf.converters.checkpoint import Checkpoint, Tensors, check_expressible, parameter_shapes
from bert_tf.converters.name_table import TRANSPOSED, Row, split_first, split_last
from bert_tf.converters.tokenizer_files import casing_notes, copy_tokenizer, tokenizer_folder
from bert_tf.errors import BertTfError, UsageError, check_choice, explain

CONFIG = "config.json"
# The library cannot be told another one.
_EPSILON = 1e-12
_ACTIVATIONS = {"gelu (tanh approximation)": "gelu_approximate", "gelu (erf)": "gelu",
                "relu": "relu", "tanh": "tanh"}
_ACTIVATION_NAMES = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}

# Arguments of the encoder classes, by our field.
_SHARED_ARGUMENTS = {
    "vocab_size": "vocab_size", "hidden_size": "hidden_size", "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_attention_heads", "type_vocab_size": "type_vocab_size",
    "max_position_embeddings": "max_sequence_length", "embedding_size": "embedding_width"}
_ARGUMENTS = {
    "bert": {**_SHARED_ARGUMENTS, "intermediate_size": "inner_dim",
             "hidden_act": "inner_activation", "hidden_dropout_prob": "output_dropout",
             "attention_probs_dropout_prob": "attention_dropout"},
    "albert": {**_SHARED_ARGUMENTS, "intermediate_size": "intermediate_size",
               "hidden_act": "activation", "hidden_dropout_prob": "dropout_rate",
               "attention_probs_dropout_prob": "attention_dropout_rate"}}
_FAMILIES = {"BertEncoderV2": "bert", "BertEncoder": "bert", "AlbertEncoder": "albert"}
_CLASSES = {"bert": "BertEncoderV2", "albert": "AlbertEncoder"}
_SENTENCE_HEAD = "next_sentence"  # the library's name of it

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# What a training checkpoint holds beside the model.
_TRAINING = ("*/.OPTIMIZER_SLOT/*", "optimizer/*", "global_step/*", "save_counter/*")
_NO_PLACE = ("cls/classifier/*", "cls/span/*", "cls/tagger/*", "cls/sentence_order/*")
# Variables behind whose scopes, which users name, the others are found.
_MARKS = ("word_embeddings/embeddings", "cls/predictions/output_bias/bias",
          f"{_SENTENCE_HEAD}/logits/kernel")


def _rows(config, pooler="pooler_transform"):
    """The name table; theirs are variable names without the scopes of the objects."""
    heads = config.num_attention_heads
    ours, theirs = ((f"{config.family}/encoder/group_0", "transformer") if config.family == "albert"
                    else (f"{config.family}/encoder/layer_{{i}}", "transformer/layer_{i}"))
    return (
        Row("{F}/embeddings/word_embeddings", "word_embeddings/embeddings"),
        Row("{F}/embeddings/position_embeddings", "position_embedding/embeddings"),
        Row("{F}/embeddings/token_type_embeddings", "type_embeddings/embeddings"),
        Row("{F}/embeddings/LayerNorm/{V}", "embeddings/layer_norm/{V}"),
        Row("{F}/embeddings_project/{V}", "embedding_projection/{V}"),
        Row(f"{ours}/attention/self/{{P}}/{{V}}", f"{theirs}/self_attention/{{P}}/{{V}}",
            split_last(heads)),
        Row(f"{ours}/attention/output/dense/kernel",
            f"{theirs}/self_attention/attention_output/kernel", split_first(heads)),
        Row(f"{ours}/attention/output/dense/bias",
            f"{theirs}/self_attention/attention_output/bias"),
        Row(f"{ours}/attention/output/LayerNorm/{{V}}",
            f"{theirs}/self_attention_layer_norm/{{V}}"),
        Row(f"{ours}/intermediate/dense/{{V}}", f"{theirs}/intermediate/{{V}}"),
        Row(f"{ours}/output/dense/{{V}}", f"{theirs}/output/{{V}}"),
        Row(f"{ours}/output/LayerNorm/{{V}}", f"{theirs}/output_layer_norm/{{V}}"),
        Row("{F}/pooler/dense/{V}", f"{pooler}/{{V}}"),
        Row("cls/predictions/output_bias", "cls/predictions/output_bias/bias"),
        Row("cls/predictions/transform/{P}/{V}", "cls/predictions/transform/{P}/{V}"),
        Row("cls/seq_relationship/output_weights", f"{_SENTENCE_HEAD}/logits/kernel", TRANSPOSED),
        Row("cls/seq_relationship/output_bias", f"{_SENTENCE_HEAD}/logits/bias"))


def read(path):
    """Read a folder.

    Args:
        path: the folder, or the prefix of one of several checkpoints in it. In place of
            `config.json` it may hold the `bert_config.json` or `albert_config.json` of the
            library's own releases.

    Returns: `Checkpoint`; optimizer variables and counters are left behind, in `dropped`.

    Raises:
        BertTfError: a file is missing or damaged.
        UsageError: configuration and checkpoint do not fit each other, or say what no model of
            ours computes.
    """
    prefix = variables.find_checkpoint(path)
    folder = os.path.dirname(prefix) or "."
    reader = variables.VariableReader(prefix)
    config = _read_config(folder)
    keys, left = _keys_by_name(reader, prefix)
    tensors = google_tf1.float_tensors(reader)
    named = Tensors({name: tensors.shapes[key] for name, key in keys.items()},
                    lambda name: tensors[keys[name]])
    task, ours, dropped = _from_names(config, named, prefix)
    tokenizer = tokenizer_folder(folder)
    return Checkpoint(config, task, ours, tokenizer, (*left, *dropped), casing_notes(tokenizer))


def write(checkpoint, path):
    """Write a folder whose checkpoint `tf.train.Checkpoint(encoder=…)` reads, or for a model with
    a masked-LM head `(model=…)` as well as `(**model.checkpoint_items)`.

    Returns: our names of the tensors that have no place there.

    Raises:
        UsageError: the library cannot compute this model; the field is named.
    """
    import tensorflow as tf

    live, dropped = _build(checkpoint)
    items = getattr(live, "checkpoint_items", None)
    items = {"model": live, **items} if items else {"encoder": live}
    with files.atomic_path(path) as temporary:
        files.make_folder(temporary)
        files.write_json(os.path.join(temporary, CONFIG), _config_values(checkpoint))
        prefix = os.path.join(temporary, f"{checkpoint.config.family}_model.ckpt")
        with variables.explained_writing(prefix):
            tf.train.Checkpoint(**items).write(prefix)
        copy_tokenizer(checkpoint.tokenizer, temporary)
    return dropped


def from_live(model):
    """`Checkpoint` of a BertEncoderV2, AlbertEncoder, or BertPretrainerV2 around one of them.

    Raises:
        UsageError: another object, or one that no model of ours computes.
    """
    from official.nlp.modeling.models import BertPretrainerV2

    pretrainer = model if isinstance(model, BertPretrainerV2) else None
    encoder = model.encoder_network if pretrainer else model
    kind = type(encoder).__name__
    check_choice("encoder", kind, _FAMILIES)
    arguments = dict(encoder.get_config())
    if not model.built or (pretrainer and not pretrainer.masked_lm.built):
        model(model.inputs)
    block = (encoder.get_layer("transformer") if kind == "AlbertEncoder"
             else encoder.transformer_layers[0])
    arguments[_ARGUMENTS[_FAMILIES[kind]]["hidden_act"]] = _activation_name(
        block._inner_activation, "the encoder's activation")
    stated = {"encoder": kind, "encoder_args": arguments,
              "initializer": arguments["initializer"]["config"]}
    if pretrainer:
        stated["pretrainer_args"] = {
            "mlm_activation": _activation_name(pretrainer.masked_lm.activation,
                                               "mlm_activation")}
        _check_heads(pretrainer.classification_heads)
    config = _model_config(stated, kind)
    weights = {weight.name.split(":")[0]: weight for weight in model.weights}
    named = Tensors({name: weight.shape for name, weight in weights.items()},
                    lambda name: np.asarray(weights[name].numpy(), np.float32))
    task, ours, dropped = _from_names(config, named, kind)
    return Checkpoint(config, task, ours, None, dropped)


def to_live(checkpoint):
    """The library's object with the weights of a `Checkpoint`: a BertPretrainerV2 for a BERT with
    a masked-LM head, else a BertEncoderV2 or AlbertEncoder.

    Raises:
        UsageError: the library cannot compute this model; the field is named.
    """
    return _build(checkpoint)[0]


def _build(checkpoint):
    """The live object, and our names of the tensors that it has no place for."""
    import tf_keras
    from official.nlp.modeling import layers, models, networks

    config, family = checkpoint.config, checkpoint.config.family
    values = _config_values(checkpoint)
    functions = _functions()
    initializer = tf_keras.initializers.TruncatedNormal(stddev=config.initializer_range)
    arguments = dict(values["encoder_args"], initializer=initializer)
    arguments[_ARGUMENTS[family]["hidden_act"]] = functions[config.hidden_act]
    # A name of our own, or Keras numbers the scopes of variables by what was built before.
    live = encoder = getattr(networks, values["encoder"])(**arguments, name=f"{family}_encoder")
    not_held = ("cls/*",)
    if "pretrainer" in values:
        heads = [layers.ClassificationHead(**options)
                 for options in values["pretrainer_args"]["classification_heads"]]
        live = models.BertPretrainerV2(
            encoder, mlm_activation=functions[config.head_activation],
            mlm_initializer=initializer, classification_heads=heads)
        not_held = _NO_PLACE
    live(live.inputs)
    theirs, dropped = name_table.to_theirs(_rows(config), checkpoint.tensors, "tf_models", not_held)
    weights = {weight.name.split(":")[0]: weight for weight in live.weights}
    for plain, name in _plain_names(weights).items():
        # The head of the sentence task has a pooler of its own beside the encoder's.
        source = plain.replace(f"{_SENTENCE_HEAD}/pooler_dense", "pooler_transform")
        weights[name].assign(theirs[source])
    return live, dropped


def _from_names(config, named, source):
    """Task, our `Tensors`, and names left behind, from `Tensors` keyed by variable names."""
    plain = _plain_names(named)
    theirs = Tensors({short: named.shapes[name] for short, name in plain.items()},
                     lambda short: named[plain[short]])
    task, pooler, spare = {"task": "encoder"}, "pooler_transform", ()
    if any(name.startswith("cls/predictions/") for name in theirs):
        sentence = any(name.startswith(f"{_SENTENCE_HEAD}/") for name in theirs)
        task = {"task": "pretraining", "sentence_task": _SENTENCE_HEAD if sentence else None}
        if sentence:
            # The encoder's pooler is not part of this head; untrained, unless it is a copy.
            pooler, spare = f"{_SENTENCE_HEAD}/pooler_dense", ("pooler_transform/*",)
    ours, dropped = name_table.to_ours(_rows(config, pooler), theirs,
                                       parameter_shapes(config, task), source, ignored=spare)
    dropped = tuple(name for name in dropped if not np.array_equal(
        theirs[name], theirs[name.replace("pooler_transform", pooler)]))
    return task, ours, dropped


def _plain_names(names):
    """`{variable name without its object's scope: variable name}`."""
    scopes = []
    for mark in _MARKS:
        scopes += [name.removesuffix(mark) for name in names if name.endswith(mark)]
    plain = {}
    for name in names:
        scope = max((each for each in scopes if name.startswith(each)), key=len, default="")
        if plain.setdefault(name.removeprefix(scope), name) != name:
            raise UsageError(f"two models in one: {plain[name.removeprefix(scope)]} and {name}")
    return plain


def _keys_by_name(reader, prefix):
    """`{variable name: checkpoint key}` from the object graph, and the keys left behind."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

    if _OBJECT_GRAPH not in reader.shapes:
        raise BertTfError(explain(f"checkpoint {prefix} has no object graph",
                                  "one that tf.train.Checkpoint wrote",
                                  "--from google for a TF1 checkpoint"))
    try:
        graph = TrackableObjectGraph.FromString(
            tensor_bundle.read_string(reader.entries[_OBJECT_GRAPH]))
    except DecodeError as error:
        raise BertTfError(f"checkpoint {prefix} is damaged: its object graph") from error
    names = {attribute.checkpoint_key: attribute.full_name
             for node in graph.nodes for attribute in node.attributes}
    keys, left = {}, []
    for key in reader.shapes:
        if name_table.matches(key, _TRAINING):
            left.append(key)
        elif key != _OBJECT_GRAPH and keys.setdefault(names.get(key, key), key) != key:
            raise UsageError(f"checkpoint {prefix} holds two variables named {names[key]}: "
                             f"{keys[names[key]]} and {key}")
    return keys, left


def _read_config(folder):
    """The `ModelConfig` of a folder, from either kind of JSON file."""
    path = os.path.join(folder, CONFIG)
    if files.exists(path):
        return _model_config(files.read_json(path), path)
    for family in _CLASSES:
        path = os.path.join(folder, google_tf1.FORMATS[family].config)
        if files.exists(path):
            return google_tf1.model_config(files.read_json(path), family, path)
    raise BertTfError(explain(f"{folder} holds a checkpoint without a configuration",
                              f"{CONFIG}, bert_config.json or albert_config.json beside it"))


def _model_config(values, source):
    """The `ModelConfig` that the object of a `config.json` stands for."""
    if not isinstance(values, dict) or not isinstance(values.get("encoder_args"), dict):
        raise UsageError(explain(f"{source}: no encoder_args",
                                 'an object with "encoder" and "encoder_args"'))
    family = _FAMILIES[check_choice(f"{source}: encoder", values.get("encoder"), _FAMILIES)]
    arguments = values["encoder_args"]
    for name, value, held in (
            ("layer_norm_epsilon", values.get("layer_norm_epsilon", _EPSILON), _EPSILON),
            ("norm_first", arguments.get("norm_first", False), False),
            ("embedding_layer", arguments.get("embedding_layer"), None)):
        if value != held:
            raise UsageError(explain(f"{source}: {name}={value!r}", repr(held)))
    fields = {"family": family}
    for ours, theirs in _ARGUMENTS[family].items():
        if arguments.get(theirs) is not None:
            fields[ours] = arguments[theirs]
        elif theirs != "embedding_width":
            raise UsageError(f"{source}: {theirs} is missing")
    fields["hidden_act"] = _our_activation(fields["hidden_act"], source)
    if fields.get("embedding_size") == fields["hidden_size"]:
        fields["embedding_size"] = 0
    initializer = values.get("initializer")
    if isinstance(initializer, dict) and "stddev" in initializer:
        fields["initializer_range"] = initializer["stddev"]
    head = (values.get("pretrainer_args") or {}).get("mlm_activation")
    head = _our_activation(head, source) if head else fields["hidden_act"]
    fields["head_act"] = "" if head == fields["hidden_act"] else head
    return ModelConfig.from_dict(fields, source)


def _config_values(checkpoint):
    """The object of `config.json`; UsageError names a field that the library has no place for."""
    config, task = checkpoint.config, checkpoint.task
    if config.family not in _CLASSES:
        raise UsageError(explain(f"family={config.family!r} is not in tf_models",
                                 "one of " + ", ".join(_CLASSES)))
    arguments = {theirs: getattr(config, ours)
                 for ours, theirs in _ARGUMENTS[config.family].items()}
    arguments["embedding_width"] = config.embedding_width
    arguments[_ARGUMENTS[config.family]["hidden_act"]] = _ACTIVATION_NAMES[config.hidden_act]
    if config.family == "albert":
        arguments["dict_outputs"] = True
    values = {"encoder": _CLASSES[config.family], "encoder_args": arguments}
    # As the library has it, ALBERT is an encoder alone.
    if config.family == "bert" and task["task"] == "pretraining":
        heads = [{"name": _SENTENCE_HEAD, "inner_dim": config.hidden_size, "num_classes": 2,
                  "dropout_rate": config.hidden_dropout_prob}]
        values["pretrainer"] = "BertPretrainerV2"
        values["pretrainer_args"] = {
            "mlm_activation": _ACTIVATION_NAMES[config.head_activation],
            "classification_heads": heads if task["sentence_task"] == _SENTENCE_HEAD else []}
    values["initializer"] = {"name": "TruncatedNormal", "stddev": config.initializer_range}
    values["layer_norm_epsilon"] = _EPSILON
    read_back = _model_config(values, CONFIG)
    if "pretrainer" not in values:  # no head, no activation of it
        read_back = read_back.replace(head_act=config.head_act)
    check_expressible(config, read_back, "tf_models")
    return values


def _our_activation(name, source):
    if name not in _ACTIVATIONS:
        raise UsageError(explain(f"{source}: activation {name!r}",
                                 "one of " + ", ".join(_ACTIVATIONS)))
    return _ACTIVATIONS[name]


def _functions():
    """The library's and its Keras's functions, by our names."""
    import tf_keras
    from official.modeling import activations

    return {"gelu_approximate": activations.gelu, "gelu": tf_keras.activations.gelu,
            "relu": tf_keras.activations.relu, "tanh": tf_keras.activations.tanh}


def _activation_name(function, where):
    """The name in `config.json` of a function, found by what it computes.

    Args:
        function: a function, a Keras name, or None, which is the identity.
    """
    import tf_keras

    points = np.linspace(-4, 4, 33, dtype=np.float32)
    computed = np.asarray(tf_keras.activations.get(function)(points))
    for ours, known in _functions().items():
        if computed.shape == points.shape and np.allclose(computed, known(points), atol=1e-5):
            return _ACTIVATION_NAMES[ours]
    raise UsageError(explain(f"{where}: {getattr(function, '__name__', function)!r}",
                             "a function that computes one of " + ", ".join(_ACTIVATIONS)))


def _check_heads(heads):
    """Only a head for next sentences, with a tanh pooler on the first token, has a place here."""
    for head in heads:
        options = {"name": head.name, **head.get_config()}
        right = (options["name"] == _SENTENCE_HEAD and options.get("num_classes") == 2
                 and options.get("cls_token_idx") == 0 and options.get("inner_dim")
                 and _activation_name(head.activation, head.name) == "tanh")
        if not right:
            raise UsageError(explain(
                f"classification head {head.name!r} of {options.get('num_classes')} classes",
                f"none but {_SENTENCE_HEAD!r} of 2, a tanh layer on the first token"))
