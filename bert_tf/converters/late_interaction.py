"""Vectors of tokens: a MultiVectorEncoder of sentence-transformers, and what PyLate wrote before.

Its folder is that of an encoder; a module `Dense` projects its states, `MultiVectorMask` says which
tokens have vectors. PyLate's names the first two modules alone, and all else in
`config_sentence_transformers.json`. Stanford's ColBERT has the projection beside the encoder's
tensors, and the rest in `artifact.metadata`.
"""

import dataclasses
import json
import os
import string

from bert_tf.converters import hf_safetensors, safetensors_file, weight_files
from bert_tf.converters.checkpoint import Tensors, check_shapes
from bert_tf.converters.dense_module import CONFIG, activation_of, read_checked
from bert_tf.errors import UsageError, explain
from bert_tf.models.find import MULTI_VECTOR_MASK
from bert_tf.storage import files
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.embedding.multi_vector.reading import PASSAGE, Reading, marker_of
from bert_tf.tokenization.load import load_tokenizer

MODULES = ["Transformer", "Dense", MULTI_VECTOR_MASK, "Normalize"]
PYLATE_MODULES = MODULES[:2]
TYPES = {"Transformer": "sentence_transformers.base.modules.transformer",
         "Dense": "sentence_transformers.base.modules.dense",
         MULTI_VECTOR_MASK: "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask",
         "Normalize": "sentence_transformers.base.modules.normalize"}
ABOUT = {"model_type": "MultiVectorEncoder", "similarity_fn_name": "maxsim"}
LENGTHS = ("query_length", "document_length", "query_expansion")  # in the options of the encoder
_KERNEL, _WEIGHT = "cls/projection/kernel", "linear.weight"
_TOKENS = {"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}
_DENSE = {**_TOKENS, "bias": False, "use_residual": False}
_ACTIVATION = "torch.nn.modules.linear.Identity"
_MASK = {"skiplist_tasks": ["document"], "keep_only_token_ids": None}
_PREFIXES = {"query": "query_prefix", "document": "document_prefix"}
_EXPANSION = ("strategy", "attend", "token", "length")
_QUERY_LENGTH = 32  # of PyLate and of Stanford, where nothing is said
_METADATA = "artifact.metadata"
# Their key -> the prompt's name, and the token where nothing is said.
_MARKERS = {"query_token_id": ("query", "[unused0]"), "doc_token_id": ("document", "[unused1]")}
_PYLATE = (*LENGTHS, "do_query_expansion", "attend_to_expansion_tokens", "attend_to_mask_tokens",
           "skiplist_words", *_PREFIXES.values())


def read(encoder, reading, folders, sources, prompts):
    """The `Checkpoint` of a `MultiVectorEmbedder`.

    Args:
        encoder: the `Checkpoint` of its encoder.
        reading: as of `TextPreprocessor.reading`, whose window is the longest that is read.
        folders: those of the modules after the encoder's.
        sources: paths of the options of the encoder, and of what is said about the modules; neither
            need be there.
        prompts: `{name: text}`, those in the latter.

    Raises:
        BertTfError: a file is missing or damaged.
        UsageError: an option that we do not compute; it is named.
    """
    options, about = (files.read_json_object(source) if files.exists(source) else {}
                      for source in sources)
    lengths = _of_pylate(about) | {name: options[name] for name in LENGTHS if name in options}
    source = sources[0 if set(LENGTHS) & options.keys() else 1]
    longest, config = reading["seq_length"], encoder.config
    _check_whole({name: lengths.get(name) for name in LENGTHS[:2]}, source)
    expansion = _read_expansion(lengths.get("query_expansion"), encoder, source)
    least = expansion["length"]
    query_length = least if expansion["strategy"] == "fixed" else min(
        max(lengths.get("query_length") or longest, least), config.longest)
    length = min(lengths.get("document_length") or longest, config.longest)
    task = {"task": MultiVectorEmbedder.saved_as, "dim": 0, "query_length": query_length,
            "expansion": least, "attends_expansion": expansion["attend"],
            "skiplist": _read_skiplist(folders, about, sources[1]),
            "reading": {**reading, "seq_length": length, "stride": max(1, length // 2)}}
    try:
        Reading(query_length, least, expansion["attend"], task["skiplist"], {}).check(
            config.longest)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None
    check_expansion(config, task, source)
    prompts = _with_prefixes(prompts, about, sources[1])
    if prompts:
        task["prompts"] = prompts
    task["dim"], tensors = _read_projection(folders[0], encoder)
    mean = about.get("similarity_fn_name") == "meanmaxsim"
    notes = (f"{sources[1]}: similarity_fn_name='meanmaxsim'; here the maxima are summed",) * mean
    return dataclasses.replace(encoder, task=task, tensors=tensors,
                               notes=(*encoder.notes, *notes))


def read_stanford(folder):
    """The `Checkpoint` in a folder of Stanford's ColBERT, whose class is `HF_ColBERT`.

    Raises: as of `read`.
    """
    encoder, source = hf_safetensors.read_encoder(folder, [_WEIGHT]), os.path.join(
        folder, _METADATA)
    about = files.read_json_object(source) if files.exists(source) else {}
    lengths = {name: about.get(name) for name in ("query_maxlen", "doc_maxlen")}
    _check_whole(lengths, source)
    longest = encoder.config.longest
    least = lengths["query_maxlen"] or min(_QUERY_LENGTH, longest)
    length = min(lengths["doc_maxlen"] or longest, longest)
    theirs = weight_files.read_folder(folder)
    shape = theirs.shapes.get(_WEIGHT, (0, 0))
    check_shapes({_WEIGHT: (shape[0], encoder.config.hidden_size)},
                 {name: each for name, each in theirs.shapes.items() if name == _WEIGHT}, folder)
    prompts = {name: f"{about.get(key) or token} " for key, (name, token) in _MARKERS.items()}
    skiplist = list(string.punctuation) if about.get("mask_punctuation", True) else []
    task = {"task": MultiVectorEmbedder.saved_as, "dim": shape[0], "query_length": least,
            "expansion": least, "attends_expansion": bool(about.get("attend_to_mask_tokens")),
            "skiplist": skiplist, "prompts": prompts,
            "reading": {"seq_length": length, "long": "head", "stride": max(1, length // 2),
                        "pair": False}}
    return dataclasses.replace(encoder, task=task, tensors=_projected(encoder, theirs),
                               dropped=tuple(name for name in encoder.dropped if name != _WEIGHT))


def check_expansion(config, task, source):
    """Raise UsageError for tokens that are added to queries and not seen, where theirs see nothing.

    Args:
        config: a `ModelConfig`.
        task: that of a `MultiVectorEmbedder`.
        source: what the error names.
    """
    least, reach = task["expansion"], config.local_attention // 2
    if not least or task["attends_expansion"]:
        return
    if config.family in ("deberta", "deberta_v1"):
        raise UsageError(explain(f"{source}: query_expansion.attend=false of a DeBERTa, which "
                                 "gives such tokens no embedding", "true"))
    if reach and least - 2 > reach:
        raise UsageError(explain(f"{source}: query_expansion.attend=false with {least} tokens, of "
                                 f"which the last may see none within {reach}",
                                 f"at most {reach + 2}"))


def write_module(name, folder, checkpoint):
    """Write the files of a module after the encoder's into a folder that exists."""
    values = {"Dense": {"in_features": checkpoint.config.hidden_size,
                        "out_features": checkpoint.task["dim"], **_DENSE,
                        "activation_function": _ACTIVATION},
              MULTI_VECTOR_MASK: {"skiplist_words": checkpoint.task["skiplist"], **_MASK},
              "Normalize": _TOKENS}[name]
    files.write_json(os.path.join(folder, CONFIG), values)
    if name == "Dense":
        safetensors_file.write_file(os.path.join(folder, safetensors_file.FILE), Tensors(
            {_WEIGHT: checkpoint.tensors.shapes[_KERNEL][::-1]},
            lambda _: checkpoint.tensors[_KERNEL].T))


def lengths_of(task):
    """What the options of the encoder say of queries and passages."""
    query_length, least = task["query_length"], task["expansion"]
    fixed = least == query_length
    return {"document_length": task["reading"]["seq_length"],
            "query_length": None if fixed else query_length,
            "query_expansion": {"strategy": "fixed" if fixed else "min", "length": least,
                                "attend": task["attends_expansion"],
                                "token": None} if least else None}


def about_of(checkpoint):
    """What is said about the modules: prompts, and which of them begin with a token that text does
    not give."""
    prompts = {"document" if name == PASSAGE else name: prompt
               for name, prompt in (checkpoint.task.get("prompts") or {}).items()}
    tokenizer = checkpoint.tokenizer and load_tokenizer(checkpoint.tokenizer)
    return {**ABOUT, "prompts": prompts, **{
        _PREFIXES[name]: prompt for name, prompt in prompts.items()
        if name in _PREFIXES and tokenizer and marker_of(prompt, tokenizer)[0] is not None}}


def _of_pylate(about):
    """The lengths that PyLate has, as sentence-transformers has them; none of another folder."""
    if not any(name in about for name in _PYLATE):
        return {}
    found = {name: about[name] for name in LENGTHS if about.get(name) is not None
             or name == "query_expansion" and name in about}
    if "query_expansion" not in found:
        length = found.pop("query_length", None) or _QUERY_LENGTH
        attend = about.get("attend_to_expansion_tokens", about.get("attend_to_mask_tokens"))
        found |= {"query_length": length, "query_expansion": None} if (
            about.get("do_query_expansion") is False) else {
            "query_expansion": {"strategy": "fixed", "attend": bool(attend), "length": length}}
    return found


def _read_expansion(stated, encoder, source):
    """Strategy, length and whether it is attended, of what the options have."""
    if stated is None:
        return {"strategy": None, "attend": False, "length": 0}
    where = f"{source}: query_expansion"
    if not isinstance(stated, dict) or set(stated) - {*_EXPANSION} or stated.get(
            "strategy") not in ("fixed", "min"):
        raise UsageError(explain(f"{where}={stated!r}", "null, or strategy fixed or min, length "
                                 "and attend"))
    found = {"attend": False, **stated}
    if type(found["attend"]) is not bool or type(found.get("length")) is not int:
        raise UsageError(explain(f"{where}={stated!r}", "attend true or false, length an integer"))
    token = found.get("token")
    if token is not None:
        mask = encoder.tokenizer and load_tokenizer(
            encoder.tokenizer).vocabulary.special_tokens[-1]
        if token != mask:
            raise UsageError(explain(f"{where}.token={token!r}", json.dumps(mask)))
    return found


def _check_whole(lengths, source):
    for name, value in lengths.items():
        if value is not None and (type(value) is not int or value < 3):
            raise UsageError(explain(f"{source}: {name}={value!r}", "an integer from 3 on"))


def _read_skiplist(folders, about, source):
    if len(folders) == 1:
        words = about.get("skiplist_words")
        return list(string.punctuation) if words is None else _words(
            words, f"{source}: skiplist_words")
    source = os.path.join(folders[1], CONFIG)
    values = read_checked(source, _MASK)
    read_checked(os.path.join(folders[2], CONFIG), _TOKENS)
    return _words(values.get("skiplist_words") or [], f"{source}: skiplist_words")


def _words(words, where):
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UsageError(explain(f"{where}={words!r}", "a list of words"))
    return words


def _with_prefixes(prompts, about, source):
    """Prompts after what PyLate puts before them as a token of its own."""
    found = {name: prompt for name, prompt in prompts.items() if prompt}
    for name, key in _PREFIXES.items():
        prefix = about.get(key)
        if prefix is not None and not isinstance(prefix, str):
            raise UsageError(explain(f"{source}: {key}={prefix!r}", "a text"))
        if prefix:
            found[name] = prefix + found.get(name, "").removeprefix(prefix)
    return found


def _read_projection(folder, encoder):
    """The length of a vector, and all tensors with that of the projection."""
    source = os.path.join(folder, CONFIG)
    values = read_checked(source, _DENSE)
    units, act = values.get("out_features"), values.get("activation_function")
    if activation_of(str(act)) != "Identity":
        raise UsageError(explain(f"{source}: activation_function={act!r}", json.dumps(_ACTIVATION)))
    if type(units) is not int or units < 1:
        raise UsageError(explain(f"{source}: out_features={units!r}", "an integer from 1 on"))
    theirs = weight_files.read_folder(folder)
    check_shapes({_WEIGHT: (units, encoder.config.hidden_size)}, theirs.shapes, folder)
    return units, _projected(encoder, theirs)


def _projected(encoder, theirs):
    """The tensors of an encoder's `Checkpoint`, and of the projection."""
    return Tensors(encoder.tensors.shapes | {_KERNEL: theirs.shapes[_WEIGHT][::-1]},
                   lambda name: theirs[_WEIGHT].T if name == _KERNEL else encoder.tensors[name])
