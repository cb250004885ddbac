"""`config.json` of a tf-models-official folder: the class, its arguments, the pretrainer's.

The library states activations as functions: here `gelu (tanh approximation)`, `gelu (erf)`,
`relu`, `tanh`. A bare "gelu" is refused: the library's own function of that name is the tanh
form, Keras's is erf.
"""

import os

import numpy as np

from bert_tf.config import ModelConfig
from bert_tf.converters import google_tf1
from bert_tf.converters.checkpoint import check_expressible
from bert_tf.errors import BertTfError, UsageError, check_choice, explain
from bert_tf.storage import files

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
ARGUMENTS = {
    "bert": {**_SHARED_ARGUMENTS, "intermediate_size": "inner_dim",
             "hidden_act": "inner_activation", "hidden_dropout_prob": "output_dropout",
             "attention_probs_dropout_prob": "attention_dropout"},
    "albert": {**_SHARED_ARGUMENTS, "intermediate_size": "intermediate_size",
               "hidden_act": "activation", "hidden_dropout_prob": "dropout_rate",
               "attention_probs_dropout_prob": "attention_dropout_rate"}}
FAMILIES = {"BertEncoderV2": "bert", "BertEncoder": "bert", "AlbertEncoder": "albert"}
_CLASSES = {"bert": "BertEncoderV2", "albert": "AlbertEncoder"}
SENTENCE_HEAD = "next_sentence"  # the library's name of it


def read_config(folder):
    """The `ModelConfig` of a folder, from either kind of JSON file."""
    path = os.path.join(folder, CONFIG)
    if files.exists(path):
        return model_config(files.read_json(path), path)
    for family in _CLASSES:
        path = os.path.join(folder, google_tf1.FORMATS[family].config)
        if files.exists(path):
            return google_tf1.model_config(files.read_json(path), family, path)
    raise BertTfError(explain(f"{folder} holds a checkpoint without a configuration",
                              f"{CONFIG}, bert_config.json or albert_config.json beside it"))


def model_config(values, source):
    """The `ModelConfig` that the object of a `config.json` stands for."""
    if not isinstance(values, dict) or not isinstance(values.get("encoder_args"), dict):
        raise UsageError(explain(f"{source}: no encoder_args",
                                 'an object with "encoder" and "encoder_args"'))
    family = FAMILIES[check_choice(f"{source}: encoder", values.get("encoder"), FAMILIES)]
    arguments = values["encoder_args"]
    for name, value, held in (
            ("layer_norm_epsilon", values.get("layer_norm_epsilon", _EPSILON), _EPSILON),
            ("norm_first", arguments.get("norm_first", False), False),
            ("embedding_layer", arguments.get("embedding_layer"), None)):
        if value != held:
            raise UsageError(explain(f"{source}: {name}={value!r}", repr(held)))
    fields = {"family": family}
    for ours, theirs in ARGUMENTS[family].items():
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
    head = values.get("pretrainer_args")
    head = head.get("mlm_activation") if isinstance(head, dict) else None
    head = _our_activation(head, source) if head else fields["hidden_act"]
    fields["head_act"] = "" if head == fields["hidden_act"] else head
    return ModelConfig.from_dict(fields, source)


def config_values(checkpoint):
    """The object of `config.json`; UsageError names a field that the library has no place for."""
    config, task = checkpoint.config, checkpoint.task
    if config.family not in _CLASSES:
        raise UsageError(explain(f"family={config.family!r} is not in tf_models",
                                 "one of " + ", ".join(_CLASSES)))
    arguments = {theirs: getattr(config, ours)
                 for ours, theirs in ARGUMENTS[config.family].items()}
    arguments["embedding_width"] = config.embedding_width
    arguments[ARGUMENTS[config.family]["hidden_act"]] = _their_activation(config.hidden_act)
    if config.family == "albert":
        arguments["dict_outputs"] = True
    values = {"encoder": _CLASSES[config.family], "encoder_args": arguments}
    # As the library has it, ALBERT is an encoder alone.
    if config.family == "bert" and task["task"] == "pretraining":
        heads = [{"name": SENTENCE_HEAD, "inner_dim": config.hidden_size, "num_classes": 2,
                  "dropout_rate": config.hidden_dropout_prob}]
        values["pretrainer"] = "BertPretrainerV2"
        values["pretrainer_args"] = {
            "mlm_activation": _their_activation(config.head_activation),
            "classification_heads": heads if task["sentence_task"] == SENTENCE_HEAD else []}
    values["initializer"] = {"name": "TruncatedNormal", "stddev": config.initializer_range}
    values["layer_norm_epsilon"] = _EPSILON
    read_back = model_config(values, CONFIG)
    if "pretrainer" not in values:  # no head, no activation of it
        read_back = read_back.replace(head_act=config.head_act)
    check_expressible(config, read_back, "tf_models")
    return values


def _their_activation(name):
    if name not in _ACTIVATION_NAMES:
        raise UsageError(explain(f"the activation {name!r} is not in tf_models",
                                 "one of " + ", ".join(_ACTIVATION_NAMES)))
    return _ACTIVATION_NAMES[name]


def _our_activation(name, source):
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        raise UsageError(explain(f"{source}: activation {name!r}",
                                 "one of " + ", ".join(_ACTIVATIONS)))
    return _ACTIVATIONS[name]


def functions():
    """The library's and its Keras's functions, by our names."""
    import tf_keras
    from official.modeling import activations

    return {"gelu_approximate": activations.gelu, "gelu": tf_keras.activations.gelu,
            "relu": tf_keras.activations.relu, "tanh": tf_keras.activations.tanh}


def activation_name(function, where):
    """The name in `config.json` of a function, found by what it computes.

    Args:
        function: a function, a Keras name, or None, which is the identity.
    """
    import tf_keras

    points = np.linspace(-4, 4, 33, dtype=np.float32)
    computed = np.asarray(tf_keras.activations.get(function)(points))
    for ours, known in functions().items():
        if computed.shape == points.shape and np.allclose(computed, known(points), atol=1e-5):
            return _ACTIVATION_NAMES[ours]
    raise UsageError(explain(f"{where}: {getattr(function, '__name__', function)!r}",
                             "a function that computes one of " + ", ".join(_ACTIVATIONS)))
