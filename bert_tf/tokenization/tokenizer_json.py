"""Hugging Face's `tokenizer.json`, which describes a tokenizer whole, as one of ours.

What it says decides, but for what `hf_options.as_built` takes from the configuration beside it.
"""

import base64
import binascii
import contextlib
import dataclasses

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.storage import files
from bert_tf.tokenization import hf_options, json_pairs
from bert_tf.tokenization.json_template import UnknownRules, expect, read_template, steps_of
from bert_tf.tokenization.sentence_piece_model import BYTE, CONTROL, NORMAL, UNKNOWN, make_model
from bert_tf.tokenization.vocabulary import Vocabulary, fits_line

NAME = "tokenizer.json"
_ROLE_NAMES = {"pad_token": ("[PAD]", "<pad>", "<|pad|>"), "unk_token": ("[UNK]", "<unk>"),
               "mask_token": ("[MASK]", "<mask>", "<|mask|>", "<extra_id_0>")}  # the last: T5's
_NOTHING_AROUND = {"type": "ByteLevel"}
_METASPACE = "\u2581"
_BLANKS = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
# What transformers 4 made of a SentencePiece model, beside its rules: DeBERTa-v3's, and others'.
_STRIPPED = [[{"type": "Strip", "strip_left": left, "strip_right": True},
              {**_BLANKS, "content": blank}] for left, blank in ((True, " "), (False, _METASPACE))]
DEBERTA = [{"type": "Replace", "pattern": {"Regex": r"\s{2,}|[\n\r\t]"}, "content": " "},
            {"type": "NFC"}, {"type": "Strip", "strip_left": False, "strip_right": True}]
# After a `BertNormalizer` that keeps accents: they are removed, while Hangul comes back whole.
KEEPS_HANGUL = [{"type": "NFD"},
                {"type": "Replace", "pattern": {"Regex": r"\p{Mn}"}, "content": ""},
                {"type": "NFC"}]
# Before the rules of an `albert` model: what removes accents, and lower-cases.
_DECOMPOSED = [{"type": "NFKD"}, {"type": "StripAccents"}]
_LOWERCASE = [{"type": "Lowercase"}]
# Normalizers after which a token may be there that was not, or a blank gone beside one.
_CHANGES = ("Lowercase", "StripAccents", "Strip")


@dataclasses.dataclass(frozen=True)
class _Description:
    """What a `tokenizer.json` says beside its normalizer, pre-tokenizer and model."""

    tokens: list  # in the order of their ids
    special: dict  # arguments of `Vocabulary`
    path: str


def albert_steps(do_lower_case, keep_accents, composes):
    """The normalizers of ALBERT's text before the rules of the model, a list.

    Args:
        do_lower_case, keep_accents: as of `SentencePieceTokenizer`.
        composes: whether the model's rules make syllables of jamo, which `Precompiled`, as it
            looks at each character alone, does not.
    """
    return [*([] if keep_accents else _DECOMPOSED), *([{"type": "NFC"}] if composes else []),
            *(_LOWERCASE if do_lower_case else [])]


def is_tokenizer_json(path):
    """Whether there is such a file; keras-hub has another of the same name."""
    return read_values(path) is not None


def read_values(path):
    """What a `tokenizer.json` has, a dict; None where there is none."""
    values = files.read_json_object(path) if files.exists(path) else {}
    return values if "model" in values else None


def stated_truncation(path):
    """How a `tokenizer.json` says that texts are truncated, a dict; `{}` where it does not."""
    stated = files.exists(path) and files.read_json_object(path).get("truncation") or {}
    if not isinstance(stated, dict):
        raise UsageError(explain(f"{path}: truncation={stated!r}", "null or an object"))
    return stated


def read_tokenizer(path, config, values=None):
    """The tokenizer that a `tokenizer.json` describes.

    Args:
        path: the file.
        config: dict, the `tokenizer_config.json` beside it, `{}` where there is none.
        values: what `read_values` read; None where it has not.

    Returns: Tokenizer, BytePairTokenizer, CharacterPairTokenizer or SentencePieceTokenizer.

    Raises:
        BertTfError: the file is damaged.
        UnknownRules: it has rules that none of ours has; the first is named.
        UsageError: it contradicts itself.
    """
    values = files.read_json_object(path) if values is None else values
    model = values.get("model")
    kind = model.get("type") if isinstance(model, dict) else None
    if kind is None and isinstance(model, dict):  # before tokenizers 0.10
        kind = "BPE" if "merges" in model else "WordPiece"
    makers = {"WordPiece": _word_piece, "BPE": json_pairs.byte_pair, "Unigram": _unigram}
    if not isinstance(kind, str) or kind not in makers:
        raise UnknownRules(explain(f"{path}: a model of type {str(kind)[:40]!r}",
                                   f"one of {', '.join(makers)}"))
    model = {**model, "type": kind}
    with damage_named(path):
        description = _describe(values, model, config, path)
        return makers[kind](values, model, config, description)


def read_special(path, config):
    """What a `tokenizer.json` of any rules says of special tokens: arguments of `Vocabulary`.

    Args:
        path, config: as of `read_tokenizer`.

    Raises:
        BertTfError: the file is damaged.
        UnknownRules: special tokens go to other places, or nothing says which they are.
    """
    values = files.read_json_object(path)
    with damage_named(path):
        model = values["model"]
        return _special(values, model, _all_tokens(values, model, path), config, path)


@contextlib.contextmanager
def damage_named(path):
    """Raise BertTfError where what is in a `tokenizer.json` has no such form."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError,
            RecursionError) as error:
        said = str(error).partition("\n")[0]
        raise BertTfError(f"{path} is no tokenizer.json: {type(error).__name__} {said}") from error


def _special(values, model, tokens, config, path):
    # As transformers 5 writes a file that puts nothing around a text.
    usual = _NOTHING_AROUND if model["type"] == "BPE" else None
    cls, sep, around = read_template(values.get("post_processor") or usual, tokens, path)
    name = hf_options.model_name(path, config)
    if cls is sep is None and hf_options.adds_tokens(name):
        raise UnknownRules(explain(f"{path}: no special tokens around a text",
                                   f"those of {name}"))
    stated = dict(zip(hf_options.ROLES, hf_options.special_tokens(config, path), strict=True))
    if sep is None:  # what ends a text that is written
        sep = hf_options.token(config, "eos_token", path) or (
            hf_options.END_OF_TEXT if hf_options.END_OF_TEXT in tokens else None)
    if cls is None:  # what would begin one
        cls = hf_options.token(config, "bos_token", path) or sep
    unknown = model.get("unk_token")
    if model.get("unk_id") is not None:
        unknown = model["vocab"][_natural(model, "unk_id")][0]
    found = {"cls_token": cls, "sep_token": sep, "unk_token": unknown}
    has_bytes = model["type"] == "BPE" and json_pairs.has_bytes(model)
    # Among pieces of bytes there may be text of that form, as Qwen has a `<unk>`.
    known = {entry["content"] for entry in values.get("added_tokens") or []} if (
        has_bytes) else {*tokens}
    names = {}
    for role in hf_options.ROLES:
        usual = [name for name in _ROLE_NAMES.get(role, ()) if name in known]
        names[role] = found.get(role) or stated[role] or (usual[0] if usual else None)
    if names["pad_token"] is None and not any(
            around.get(name, True) for name in ("initial_token", "final_separator")):
        names["pad_token"] = sep  # of a language model that was not trained with any
    if names["unk_token"] is None and has_bytes:
        names["unk_token"] = _spare(values, names)
    if names["mask_token"] is None and not around.get("initial_token", True):
        names["mask_token"] = _spare(values, names)  # of a model that never had any
    for role, name in names.items():
        if name is None:
            raise UnknownRules(explain(f"{path}: nothing says which token is the {role}",
                                       "bos_token, eos_token, unk_token, pad_token and mask_token "
                                       "in the tokenizer_config.json beside it"))
    return {"special_tokens": tuple(names.values()), **around,
            "pair_types": around["pair_types"] and hf_options.has_types(config)}


def _spare(values, names):
    """A token for a role that nothing plays: a special one without a role, or that of padding."""
    return next((entry["content"] for entry in values.get("added_tokens") or []
                 if entry.get("special") and entry["content"] not in names.values()),
                names["pad_token"])


def _describe(values, model, config, path):
    tokens = _all_tokens(values, model, path)
    special = _special(values, model, tokens, config, path)
    names = special["special_tokens"]
    added = hf_options.decoded_tokens(values.get("added_tokens") or [], names, path)
    steps = [step for step in steps_of(values.get("normalizer"), "normalizers")
             if step["type"] != "NFC"]
    changed = any(step.get("lowercase") or step.get("strip_accents") or step["type"] in _CHANGES
                  for step in steps)
    for entry in values.get("added_tokens") or []:
        name = f"{path}: the added token {entry['content']!r}"
        if entry.get("single_word") or entry.get("rstrip"):
            raise UnknownRules(f"{name} has single_word or rstrip")
        if entry.get("normalized") and not entry.get("special") and (
                changed or steps and not entry["content"].isprintable()):
            raise UnknownRules(f"{name} is looked for in normalized text")
    return _Description(tokens, {**special, "added_tokens": tuple(added)}, path)


def _all_tokens(values, model, path):
    """Tokens of the model and added ones, in the order of their ids."""
    vocab = model["vocab"]
    ids = {piece[0]: number for number, piece in enumerate(vocab)} if isinstance(
        vocab, list) else dict(vocab)
    repeated = isinstance(vocab, list) and len(ids) < len(vocab)
    for entry in values.get("added_tokens") or []:
        ids.setdefault(entry["content"], entry["id"])
    tokens = sorted(ids, key=ids.get)
    if repeated or [ids[token] for token in tokens] != list(range(len(tokens))):
        raise UsageError(explain(f"{path}: the ids of its vocabulary have gaps, or one token has "
                                 "several", "0, 1, 2, …"))
    return tokens


def _word_piece(values, model, config, description):
    from bert_tf.tokenization.tokenizer import (
        CONTINUATION_PREFIX,
        MOST_CHARACTERS,
        Tokenizer,
    )

    path = description.path
    steps = steps_of(values.get("normalizer"), "normalizers")
    composes, keeps_hangul = steps[:1] == [{"type": "NFC"}], steps[2:] == KEEPS_HANGUL
    normalizer = (steps[composes:] or [{}])[0]
    expect(path, "normalizer", [step["type"] for step in steps[composes:]],
            ["BertNormalizer", *(["NFD", "Replace", "NFC"] if composes and keeps_hangul else [])])
    expect(path, "clean_text", normalizer.get("clean_text", True), True)
    expect(path, "pre_tokenizer", (values.get("pre_tokenizer") or {}).get("type"),
            "BertPreTokenizer")
    expect(path, "continuing_subword_prefix",
            model.get("continuing_subword_prefix", CONTINUATION_PREFIX), CONTINUATION_PREFIX)
    longest = _natural({"max_input_chars_per_word": hf_options.CHARACTERS_PER_WORD, **model},
                       "max_input_chars_per_word")
    if not 0 < longest <= MOST_CHARACTERS:
        raise UnknownRules(explain(f"{path}: max_input_chars_per_word={longest}",
                                   f"1 to {MOST_CHARACTERS}"))
    for each in description.special["added_tokens"]:
        if not each.special and each.token.isalnum() and each.token in model["vocab"]:
            raise UnknownRules(f"{path}: the added token {each.token!r} is a piece of words, too")
    for token in description.tokens:
        if not fits_line(token):  # `vocab.txt` could not hold it
            raise UnknownRules(f"{path}: the token {token!r} has a line break")
    accents, lower_case = normalizer.get("strip_accents"), bool(normalizer.get("lowercase"))
    strips = lower_case if accents is None else bool(accents)
    # That takes Hangul apart, whether it was composed before or not.
    composes = composes and (keeps_hangul or not strips)
    return Tokenizer(
        Vocabulary(description.tokens, path, **description.special), lower_case,
        keeps_hangul or strips, config.get("pretokenize"), "nfc" if composes else "huggingface",
        tokenize_chinese_chars=bool(normalizer.get("handle_chinese_chars", True)),
        max_characters_per_word=longest)


def _unigram(values, model, config, description):
    from bert_tf.tokenization.sentence_piece import SentencePieceTokenizer

    path = description.path
    bytes_of_unknown = {f"<0x{byte:02X}>" for byte in range(256)} if (
        model.get("byte_fallback")) else set()
    expect(path, "bytes without a piece", sorted(bytes_of_unknown - {*description.tokens}), [])
    parts = steps_of(values.get("pre_tokenizer"), "pretokenizers")
    steps = [step for step in parts if step["type"] != "WhitespaceSplit"]
    expect(path, "pre_tokenizer", [step["type"] for step in steps], ["Metaspace"])
    scheme = steps[0].get("prepend_scheme") or (
        "always" if steps[0].get("add_prefix_space", True) else "never")
    expect(path, "prepend_scheme", scheme, "always")
    expect(path, "replacement", steps[0].get("replacement"), _METASPACE)
    expect(path, "split", steps[0].get("split", True), True)
    options, charsmap, strips = _read_normalizer(values.get("normalizer"), config, path)
    name = hf_options.model_name(path, config)
    if steps == parts and not strips and not hf_options.splits_at_blanks(name):
        raise UnknownRules(explain(f"{path}: blanks that stay as they are",
                                   "WhitespaceSplit, or a normalizer that strips and joins them"))
    added = {each.token for each in description.special["added_tokens"]}
    scores = dict(model["vocab"])
    unknown = description.special["special_tokens"][1]
    types = [UNKNOWN if token == unknown else CONTROL if token in added else
             BYTE if token in bytes_of_unknown else NORMAL for token in description.tokens]
    proto = make_model([(token, scores.get(token, 0.0)) for token in description.tokens], types,
                       charsmap, bool(bytes_of_unknown))
    return SentencePieceTokenizer(proto.SerializeToString(), source=path, **options,
                                  **description.special)


def _read_normalizer(normalizer, config, path):
    """Options of `SentencePieceTokenizer`, the rules that the model applies, as bytes, and whether
    blanks are stripped and joined."""
    steps = steps_of(normalizer, "normalizers")
    rules = [step for step in steps if step["type"] == "Precompiled"]
    others = [step for step in steps if step not in rules]
    # The model strips and joins blanks itself.
    strips = len(rules) == 1 and others in _STRIPPED
    steps = rules if strips else [step for step in steps if step != _BLANKS]
    if steps == DEBERTA:
        return {"normalization": "deberta"}, b"", True
    charsmap = b""
    if steps and steps[-1]["type"] == "Precompiled":
        try:
            charsmap = base64.b64decode(steps.pop()["precompiled_charsmap"], validate=True)
        except binascii.Error as error:
            raise BertTfError(f"{path}: precompiled_charsmap is damaged: {error}") from error
    keeps, lowers = _DECOMPOSED[1] not in steps, steps[-1:] == _LOWERCASE
    flags = {"do_lower_case": lowers, "keep_accents": keeps}
    # Nothing here tells of its rule for commas, so that the configuration has to.
    if config.get("normalization") == "albert" and (
            steps == albert_steps(lowers, keeps, bool(charsmap))):
        return {"normalization": "albert", **flags}, charsmap, False
    if not steps:
        return {"normalization": "sentencepiece"}, charsmap, strips
    if steps == [*hf_options.ALBERT_QUOTES, *albert_steps(lowers, keeps, False)]:
        return {"normalization": "albert_huggingface", **flags}, charsmap, False
    raise UnknownRules(explain(
        f"{path}: the normalizers {', '.join(step['type'] for step in steps)}",
        "those of ALBERT, XLM-R, CamemBERT or DeBERTa-v3"))


def _natural(model, key):
    """The value of a key: an int from 0 on."""
    value = model[key]
    if type(value) is not int or value < 0:
        raise ValueError(f"{key}={value!r}")
    return value
