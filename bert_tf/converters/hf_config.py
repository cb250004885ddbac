"""Hugging Face's `config.json` in our fields, and back."""

from bert_tf.config import ModelConfig
from bert_tf.converters import cross_encoder, hf_architectures, hf_bert, hf_gpt, hf_variants
from bert_tf.converters.checkpoint import check_expressible
from bert_tf.converters.hf_architectures import BERT_BASE, KEYS_OF_BERT
from bert_tf.converters.hf_keys import check_keys
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.family_defaults import FAMILY_DEFAULTS

_WRITTEN = {"bert": "bert", "roberta": "roberta", "albert": "albert", "electra": "electra",
            **hf_architectures.MODEL_TYPES}
FAMILIES = {**_WRITTEN, **hf_bert.MODEL_TYPES, **hf_variants.MODEL_TYPES}  # model_type -> family
_MODEL_TYPES = {family: model_type for model_type, family in _WRITTEN.items()}
# Our field -> their key.
_KEYS = {
    "bert": KEYS_OF_BERT, "roberta": KEYS_OF_BERT,
    "albert": {**KEYS_OF_BERT, "embedding_size": "embedding_size",
               "num_hidden_groups": "num_hidden_groups"},
    "electra": {**KEYS_OF_BERT, "embedding_size": "embedding_size"},
    **hf_architectures.KEYS,
}
# What transformers takes for a key that a file leaves out (its configuration classes).
_DEFAULTS = {
    "bert": BERT_BASE,
    "roberta": {**BERT_BASE, "vocab_size": 50265, "pad_token_id": 1},
    "albert": {**BERT_BASE, "vocab_size": 30000, "hidden_size": 4096, "num_attention_heads": 64,
               "intermediate_size": 16384, "hidden_act": "gelu_new", "hidden_dropout_prob": 0.0,
               "attention_probs_dropout_prob": 0.0, "embedding_size": 128,
               "num_hidden_groups": 1},
    "electra": {**BERT_BASE, "hidden_size": 256, "num_attention_heads": 4,
                "intermediate_size": 1024, "embedding_size": 128},
    **hf_architectures.DEFAULTS,
}
_MOST_LABELS = 10_000  # that a file may leave unnamed
_SINGLE = "single_label_classification"
_PROBLEMS = {_SINGLE: "single_label", "multi_label_classification": "multi_label",
             "regression": "regression"}
# Keys with one value that we compute.
_ONLY = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False,
         "inner_group_num": 1, "pruned_heads": {}}
# Their activation names -> ours; the first name of each is the one written.
_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_approximate", "relu": "relu", "tanh": "tanh",
                "gelu_python": "gelu", "gelu_pytorch_tanh": "gelu_approximate",
                "gelu_fast": "gelu_approximate", "silu": "silu", "swish": "silu"}
_FURTHER_ACTIVATIONS = {"label_act", "first_conv_act"}  # fields
# Families whose masked-LM transform is erf whatever hidden_act says.
_GELU_HEADS = ("roberta", "electra", "xlm_roberta", "camembert", "mpnet", "gte",
               "jina_embeddings_v3")
# Elsewhere null stands for the default.
_NULL_IS_A_VALUE = {"local_rope_theta", "sliding_window"}


def family_of(values, source):
    """The family of a `config.json`.

    Raises:
        UsageError: `model_type` is missing or not one of ours.
    """
    return FAMILIES[check_choice(f"{source}: model_type", values.get("model_type"), FAMILIES,
                                 near=False)]


def read_config(values, source, pooled, masked_lm):
    """`ModelConfig` of a `config.json`.

    Args:
        values: the JSON object.
        source: its path, for messages.
        pooled: whether the model has a pooler.
        masked_lm: whether it has a masked-LM head.

    Raises:
        UsageError: a key has a value that we cannot compute; it is named.
    """
    family = family_of(values, source)
    values = hf_bert.filled(hf_architectures.renamed(family, values), source)
    # Which the family has a say of its own on.
    own = (*hf_architectures.known(family), *hf_bert.DEFAULTS.get(values["model_type"], ()))
    for key, right in _ONLY.items():
        if key not in own and values.get(key) not in (None, right):
            raise UsageError(explain(f"{source}: {key}={values[key]!r}", repr(right)))
    check_keys(values, {*_ONLY, *_DEFAULTS[family], *_KEYS[family].values(), *own}, source)
    stated = {**_DEFAULTS[family], **{key: value for key, value in values.items()
                                      if value is not None or key in _NULL_IS_A_VALUE}}
    if family in hf_architectures.ANY_PADDING and values.get("pad_token_id", 0) is None:
        stated["pad_token_id"] = 0
    stated = hf_architectures.read(family, stated, source, masked_lm)
    keys = _KEYS[family] | hf_variants.keys_of(values["model_type"])
    fields = {ours: stated[theirs] for ours, theirs in keys.items()}
    activations = hf_gpt.ACTIVATIONS if family == "gpt" else _ACTIVATIONS
    if values["model_type"] in ("albert", "rembert") and (
            fields["embedding_size"] == fields["hidden_size"]):
        key = keys["embedding_size"]
        raise UsageError(explain(f"{source}: {key}={fields['embedding_size']}",
                                 "another than hidden_size: transformers projects one to the "
                                 "other even where they are equal"))
    fields["hidden_act"] = hf_architectures.choice(activations, keys["hidden_act"], stated, source)
    for name in _FURTHER_ACTIVATIONS & fields.keys():
        fields[name] = hf_architectures.choice(_ACTIVATIONS, keys[name], stated, source)
    if family in hf_architectures.POOLINGS:
        fields["pooling"] = hf_architectures.choice(hf_architectures.POOLINGS[family],
                                                    "classifier_pooling", stated, source)
        if "label_act" in fields:  # one key for the heads of labels and of masked tokens
            fields["head_act"] = fields["label_act"]
    elif FAMILY_DEFAULTS[family].get("pooling") not in ("last", "mean"):
        fields["pooling"] = "dense" if pooled else "first"
    if masked_lm and family in _GELU_HEADS and fields["hidden_act"] != "gelu":
        fields["head_act"] = "gelu"
    fields |= hf_variants.fields_of(values["model_type"])
    return ModelConfig.from_dict({"family": family, **fields}, source)


def write_config(config, masked_lm, labelled=False):
    """The JSON object that transformers reads, but for `architectures`.

    Args:
        config: `ModelConfig`.
        masked_lm: whether the model has a masked-LM head.
        labelled: whether it has one of labels.

    Raises:
        UsageError: transformers cannot compute this model; the field is named.
    """
    family = config.family
    model_type = hf_variants.type_of(config) or _MODEL_TYPES[family]
    spelled_out = config.spelled_out()
    names = hf_gpt.ACTIVATIONS if family == "gpt" else _ACTIVATIONS
    theirs = {ours: name for name, ours in reversed(names.items())}
    if config.hidden_act not in theirs:
        raise UsageError(explain(
            f"hidden_act={config.hidden_act!r} cannot be written as {model_type}",
            f"one of {', '.join(theirs)}"))
    keys = _KEYS[family] | hf_variants.keys_of(model_type)
    values = {"model_type": model_type}
    values |= {key: getattr(spelled_out, ours) for ours, key in keys.items()}
    for name in _FURTHER_ACTIVATIONS & keys.keys():
        values[keys[name]] = theirs[getattr(config, name)]
    values[keys["hidden_act"]] = theirs[config.hidden_act]
    if family == "albert":
        values["inner_group_num"] = 1
        values["classifier_dropout_prob"] = config.hidden_dropout_prob
    if family == "mobilebert":
        values["classifier_activation"] = config.pooling == "dense"
    values = hf_architectures.written(family, values)
    where = f"the config.json of model_type {values['model_type']!r}"
    check_expressible(config, read_config(values, where, config.pooling == "dense", masked_lm),
                      where, labelled)
    return {"tie_word_embeddings": True, **values, **hf_variants.WRITTEN.get(model_type, {}),
            "dtype": "float32"}


def read_classes(values, source, task):
    """What of `task.json` a `config.json` says: `labels` in the order of their ids and, where
    that is not one label of several, the `problem`.

    Args:
        values: the file's.
        source: its name, for messages.
        task: `classifier` or `tagger`, which has one label a token.

    Raises:
        UsageError: the ids have gaps, a name is there twice, or there are not as many as the kind
            of problem has.
    """
    stated = values.get("problem_type") or _SINGLE
    known = list(_PROBLEMS) if task == "classifier" else [_SINGLE]
    if stated not in known:
        raise UsageError(explain(f"{source}: problem_type={stated!r}",
                                 " or ".join(map(repr, known))))
    labels = _read_labels(values, source)
    problem = _PROBLEMS[stated]
    if len(labels) == 1 and task == "classifier" and values.get("problem_type") is None:
        problem = "regression"  # a number: a rank, or what the model was trained on
    if problem == "regression" and len(labels) > 1:
        raise UsageError(explain(f"{source}: problem_type='regression' of {len(labels)} labels",
                                 "one"))
    least = 2 if problem == "single_label" else 1
    if len(set(labels)) < max(least, len(labels)):
        raise UsageError(explain(f"{source}: labels {labels!r}", "two or more different names"))
    return {"labels": labels} | ({} if problem == "single_label" else {"problem": problem})


def _read_labels(values, source):
    names = values.get("id2label")
    if names is None:
        count = values.get("num_labels", 2)
        if not isinstance(count, int) or not 0 < count <= _MOST_LABELS:
            raise UsageError(explain(f"{source}: num_labels={count!r}", f"1 to {_MOST_LABELS}"))
        names = {str(i): f"LABEL_{i}" for i in range(count)}
    if not isinstance(names, dict) or set(names) != {str(i) for i in range(len(names))}:
        raise UsageError(explain(f"{source}: id2label={names!r}", "names for 0, 1, 2, …"))
    return [str(names[str(i)]) for i in range(len(names))]


def write_classes(task):
    """The keys of `config.json` that name the classes of a classifier's or tagger's `task.json`,
    and by which a number is given as it is."""
    labels, problem = task["labels"], task.get("problem", "single_label")
    values = {"id2label": {str(i): label for i, label in enumerate(labels)},
              "label2id": {label: i for i, label in enumerate(labels)}}
    if problem != "single_label":
        values["problem_type"] = next(name for name, ours in _PROBLEMS.items() if ours == problem)
    return values | (cross_encoder.LOGITS if problem == "regression" else {})
