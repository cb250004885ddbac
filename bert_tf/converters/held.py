"""What of each family every format holds: the table of `convert --list`."""

from bert_tf.converters import hf_bert, hf_variants
from bert_tf.converters.hf_classes import MODELS, READ_ONLY, VARIANTS
from bert_tf.family_defaults import FAMILIES, FAMILY_DEFAULTS

# In the order of `hf_classes` where there are several.
_NAMES = {"pretraining": "masked LM", "next_sentence": "next sentence",
          "sentence_order": "sentence order", "replaced_tokens": "replaced tokens",
          "language_model": "language model", "encoder": "encoder", "classifier": "classifier",
          "tagger": "tags", "span": "questions"}
_OTHERS = {
    "google": {"bert": "masked LM, next sentence", "albert": "masked LM, sentence order",
               "electra": "masked LM, replaced tokens"},
    "keras_hub": {**dict.fromkeys(("bert", "roberta", "albert", "electra"), "encoder"),
                  "gpt2": "language model"},
    "tf_models": {"bert": "encoder, masked LM, next sentence", "albert": "encoder"},
}


def _of_hf(classes):
    """Name what classes of transformers hold, each once: a family has several for some."""
    kinds = [task.get("sentence_task") or task["task"] for task, _, _ in classes]
    return ", ".join(dict.fromkeys(_NAMES[kind] for kind in kinds))


def table():
    """A line a family and format, as text."""
    rows = [("family", "format", "in and out")]
    for family in FAMILIES:
        rows.append((family, "bert_tf", "every task"))
        rows.append(("", "hf", _of_hf(MODELS[family])))
        if family != "gpt":
            tied = FAMILY_DEFAULTS[family].get("masked_lm_head") == "tied"
            rows.append(("", "sentence_transformers", "vectors and vectors of tokens" if tied else
                         "vectors, weights and vectors of tokens"))
        rows += [("", name, held[family]) for name, held in _OTHERS.items() if family in held]
    rows += [(name, "hf", f"in only, as a {hf_bert.MODEL_TYPES[name]}: {_of_hf(classes)}")
             for name, classes in READ_ONLY.items()]
    rows += [(name, "hf", f"as a {hf_variants.MODEL_TYPES[name]}: {_of_hf(classes)}")
             for name, classes in VARIANTS.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    return "\n".join(f"{family:{widths[0]}}  {name:{widths[1]}}  {held}".rstrip()
                     for family, name, held in rows)
