"""Pairs that a `CrossEncoder` of sentence-transformers reads as messages of a chat, as of
`template` of our `TextPreprocessor`.

The query is a message of the role `query`, the passage one of the role `document`, and the prompt
of the folder, if one is used by default, that of the system.
"""

import os

from bert_tf.converters import hf_reading
from bert_tf.converters.chat_template import around_pairs, as_chat_template
from bert_tf.converters.cross_encoder import LOGITS, about_of
from bert_tf.converters.dense_module import read_checked
from bert_tf.errors import UsageError, explain
from bert_tf.models.find import ABOUT_MODULES, MODULES
from bert_tf.storage import files
from bert_tf.storage.encodings import Decoder, EncodingError
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tokenization import hf_options, tokenizer_config
from bert_tf.tokenization.load import load_tokenizer

CHAT_TEMPLATE = "chat_template.jinja"
_IN_CONFIG = "chat_template"  # of the tokenizer's configuration, in older folders
_FLAGS = {"add_generation_prompt", "enable_thinking"}
# A list of what a message holds, or the text itself.
_FORMATS = {"flat": lambda text: text,
            "structured": lambda text: [{"type": "text", "text": text}]}
_TYPE = "sentence_transformers.base.modules.transformer.Transformer"


def template_of(folder):
    """Return the `template` of a folder, a list of str; None where pairs are no messages.

    Raises:
        UsageError: messages are made into text in a way that is not reproduced here.
    """
    about_path, about = about_of(folder)
    source = hf_reading.options_of(folder)
    options = read_checked(source, {"do_lower_case": False}) if about else {}
    modalities = _object(options, "modality_config", source)
    if "message" not in modalities:
        return None
    form = _object(modalities, "message", f"{source}: modality_config").get("format")
    if form not in [*_FORMATS]:
        raise UsageError(explain(f"{source}: format={form!r} of messages",
                                 " or ".join(map(repr, _FORMATS))))
    prompts, name = _object(about, "prompts", about_path), about.get("default_prompt_name")
    prompt = (prompts.get(name) or "") if isinstance(name, str | None) else None
    if not isinstance(prompt, str):
        raise UsageError(explain(f"{about_path}: default_prompt_name={name!r} of the prompts "
                                 f"{prompts!r}", "the name of a text, or null"))
    content = _FORMATS[form]

    def messages_of(query, passage):
        roles = {**({"system": prompt} if prompt else {}), "query": query, "document": passage}
        return [{"role": role, "content": content(text)} for role, text in roles.items()]

    where, template = _chat_template(folder)
    return around_pairs(template, messages_of, _variables(folder, options, source), where)


def with_template(reading, folder):
    """Return a `reading` of pairs, a dict, with the `template` of its folder where it has one.

    Raises:
        UsageError: as of `template_of`, or the window has no space for it.
    """
    template = template_of(folder)
    if template is None:
        return reading
    return TextPreprocessor(load_tokenizer(folder), **reading, template=template).reading()


def write(folder, reading):
    """Write into a folder of a classifier that exists how `CrossEncoder` reads pairs as we do.

    Args:
        folder: of the hf format.
        reading: with a `template`.
    """
    form = {"method": "forward", "method_output_name": "logits"}
    files.write_json(os.path.join(folder, MODULES), [
        {"idx": 0, "name": "0", "path": "", "type": _TYPE}])
    files.write_json(os.path.join(folder, hf_reading.OPTIONS), {
        "transformer_task": "sequence-classification", "module_output_name": "scores",
        "modality_config": {"text": form, "message": {**form, "format": "flat"}},
        "max_seq_length": reading["seq_length"]})
    files.write_json(os.path.join(folder, ABOUT_MODULES), {
        "model_type": "CrossEncoder", **next(iter(LOGITS.values())), "prompts": {},
        "default_prompt_name": None})
    files.write_text(os.path.join(folder, CHAT_TEMPLATE), as_chat_template(reading["template"]))


def _object(values, key, where):
    """Return the dict of a key, empty where there is none; UsageError for anything else."""
    stated = values.get(key) or {}
    if not isinstance(stated, dict):
        raise UsageError(explain(f"{where}: {key}={stated!r}", "an object"))
    return stated


def _chat_template(folder):
    """Return what errors call the chat template of a folder, and that."""
    path = os.path.join(folder, CHAT_TEMPLATE)
    if files.exists(path):
        with files.open_binary(path) as stream:  # line breaks at its end count
            written = stream.read()
        try:
            return path, Decoder(path, written, "utf-8").decode(written, final=True)
        except EncodingError as error:
            raise UsageError(str(error)) from error
    path = os.path.join(folder, tokenizer_config.NAME)
    stated = tokenizer_config.read_config(path).get(_IN_CONFIG)
    if isinstance(stated, list):
        stated = next((each.get("template") for each in stated if isinstance(each, dict)
                       and each.get("name") == "default"), None)
    if not isinstance(stated, str):
        raise UsageError(explain(f"{folder} has no {CHAT_TEMPLATE}",
                                 "one, since pairs are messages"))
    return f"{path}: {_IN_CONFIG}", stated


def _variables(folder, options, source):
    """Return what a chat template is given beside messages, as transformers does."""
    stated = _object(options, "processing_kwargs", source)
    flags = _object(stated, "chat_template", f"{source}: processing_kwargs")
    if not {*stated} <= {"chat_template"} or not {*flags} <= _FLAGS:
        raise UsageError(explain(f"{source}: processing_kwargs={stated!r}",
                                 f"of chat_template {' and '.join(sorted(_FLAGS))} alone"))
    path = os.path.join(folder, tokenizer_config.NAME)
    config = tokenizer_config.read_config(path)
    names = {key: hf_options.token(config, key, path)
             for key in (*hf_options.ROLES, "bos_token", "eos_token")}
    return {"add_generation_prompt": False, "tools": None, "documents": None,
            **{key: token for key, token in names.items() if token is not None}, **flags}
