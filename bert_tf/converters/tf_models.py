"""TF2 checkpoints and live objects of tf-models-official: BertEncoderV2, AlbertEncoder, and
BertPretrainerV2 around them.

A folder holds `config.json` (see `tf_models_config`), a checkpoint such as
`tf.train.Checkpoint(encoder=…)` or `(model=…)` writes, and the vocabulary.
"""

import os

import numpy as np

from bert_tf.converters import google_tf1, name_table, tf_models_config
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.converters.name_table import TRANSPOSED, Row, split_first, split_last
from bert_tf.converters.tf_models_config import (
    ARGUMENTS,
    CONFIG,
    FAMILIES,
    SENTENCE_HEAD,
    activation_name,
)
from bert_tf.converters.tokenizer_files import (
    casing_notes,
    copy_tokenizer,
    plain_bert_notes,
    tokenizer_folder,
)
from bert_tf.errors import BertTfError, UsageError, check_choice, explain
from bert_tf.storage import checksums, files, variables

# What a training checkpoint holds beside the model.
_TRAINING = ("*/.OPTIMIZER_SLOT/*", "optimizer/*", "global_step/*", "save_counter/*")
_NO_PLACE = ("cls/classifier/*", "cls/span/*", "cls/tagger/*", "cls/sentence_order/*")
# Variables after whose scopes, which users name, the others are found.
_MARKS = ("word_embeddings/embeddings", "cls/predictions/output_bias/bias",
          f"{SENTENCE_HEAD}/logits/kernel")


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
        Row("cls/seq_relationship/output_weights", f"{SENTENCE_HEAD}/logits/kernel", TRANSPOSED),
        Row("cls/seq_relationship/output_bias", f"{SENTENCE_HEAD}/logits/bias"))


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
    folder, prefix, reader = google_tf1.open_checkpoint(path)
    config = tf_models_config.read_config(folder)
    keys, left = _keys_by_name(reader, prefix)
    tensors = google_tf1.float_tensors(reader)
    named = Tensors({name: tensors.shapes[key] for name, key in keys.items()},
                    lambda name: tensors[keys[name]])
    task, ours, dropped = _from_names(config, named, prefix)
    tokenizer = tokenizer_folder(folder)
    return Checkpoint(config, task, ours, tokenizer, (*left, *dropped), casing_notes(tokenizer))


def write(checkpoint, path):
    """Write a folder whose checkpoint `tf.train.Checkpoint(model=…)` and `(encoder=…)` read, of a
    BertPretrainerV2 also `(**model.checkpoint_items)`.

    Returns: our names of the tensors that have no place there.

    Raises:
        UsageError: the library cannot compute this model; the field is named.
    """
    import tensorflow as tf

    live, dropped = _build(checkpoint)
    items = {"model": live, **getattr(live, "checkpoint_items", {"encoder": live})}
    with checksums.new_folder(path) as temporary:
        files.write_json(os.path.join(temporary, CONFIG),
                         tf_models_config.config_values(checkpoint))
        prefix = os.path.join(temporary, f"{checkpoint.config.family}_model.ckpt")
        with variables.explained_writing(prefix):
            tf.train.Checkpoint(**items).write(prefix)
        copy_tokenizer(checkpoint.tokenizer, temporary)
    return [*dropped, *plain_bert_notes(checkpoint.tokenizer)]


def from_live(model):
    """`Checkpoint` of a BertEncoderV2, AlbertEncoder, or BertPretrainerV2 around one of them.

    Raises:
        UsageError: another object, or one that no model of ours computes.
    """
    from official.nlp.modeling.models import BertPretrainerV2

    pretrainer = model if isinstance(model, BertPretrainerV2) else None
    encoder = model.encoder_network if pretrainer else model
    kind = type(encoder).__name__
    check_choice("encoder", kind, FAMILIES)
    arguments = dict(encoder.get_config())
    if not model.built or (pretrainer and not pretrainer.masked_lm.built):
        model(model.inputs)
    block = (encoder.get_layer("transformer") if kind == "AlbertEncoder"
             else encoder.transformer_layers[0])
    arguments[ARGUMENTS[FAMILIES[kind]]["hidden_act"]] = activation_name(
        block._inner_activation, "the encoder's activation")
    stated = {"encoder": kind, "encoder_args": arguments,
              "initializer": arguments["initializer"]["config"]}
    if pretrainer:
        stated["pretrainer_args"] = {
            "mlm_activation": activation_name(pretrainer.masked_lm.activation,
                                               "mlm_activation")}
        _check_heads(pretrainer.classification_heads)
    config = tf_models_config.model_config(stated, kind)
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
    values = tf_models_config.config_values(checkpoint)
    functions = tf_models_config.functions()
    initializer = tf_keras.initializers.TruncatedNormal(stddev=config.initializer_range)
    arguments = dict(values["encoder_args"], initializer=initializer)
    arguments[ARGUMENTS[family]["hidden_act"]] = functions[config.hidden_act]
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
        source = plain.replace(f"{SENTENCE_HEAD}/pooler_dense", "pooler_transform")
        weights[name].assign(theirs[source])
    return live, dropped


def _from_names(config, named, source):
    """Task, our `Tensors`, and names left behind, from `Tensors` keyed by variable names."""
    plain = _plain_names(named)
    theirs = Tensors({short: named.shapes[name] for short, name in plain.items()},
                     lambda short: named[plain[short]])
    task, pooler, spare = {"task": "encoder"}, "pooler_transform", ()
    if any(name.startswith("cls/predictions/") for name in theirs):
        sentence = any(name.startswith(f"{SENTENCE_HEAD}/") for name in theirs)
        task = {"task": "pretraining", "sentence_task": SENTENCE_HEAD if sentence else None}
        if sentence:
            # The encoder's pooler is not part of this head; untrained, unless it is a copy.
            pooler, spare = f"{SENTENCE_HEAD}/pooler_dense", ("pooler_transform/*",)
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
    if variables.OBJECT_GRAPH not in reader.shapes:
        raise BertTfError(explain(f"checkpoint {prefix} has no object graph",
                                  "one that tf.train.Checkpoint wrote",
                                  "--from google for a TF1 checkpoint"))
    names = reader.variable_names()
    keys, left = {}, []
    for key in reader.shapes:
        if name_table.matches(key, _TRAINING):
            left.append(key)
        elif key != variables.OBJECT_GRAPH and keys.setdefault(names.get(key, key), key) != key:
            raise UsageError(f"checkpoint {prefix} holds two variables named {names[key]}: "
                             f"{keys[names[key]]} and {key}")
    return keys, left


def _check_heads(heads):
    """Only a head for next sentences, with a tanh pooler on the first token, has a place here."""
    for head in heads:
        options = {"name": head.name, **head.get_config()}
        right = (options["name"] == SENTENCE_HEAD and options.get("num_classes") == 2
                 and options.get("cls_token_idx") == 0 and options.get("inner_dim")
                 and activation_name(head.activation, head.name) == "tanh")
        if not right:
            raise UsageError(explain(
                f"classification head {head.name!r} of {options.get('num_classes')} classes",
                f"none but {SENTENCE_HEAD!r} of 2, a tanh layer on the first token"))
