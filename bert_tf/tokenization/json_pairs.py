"""Tokenizers of a `tokenizer.json` that join pairs of pieces: of bytes, and of characters."""

from bert_tf.errors import explain
from bert_tf.tokenization.json_template import UnknownRules, expect, steps_of
from bert_tf.tokenization.pair_files import read_pairs
from bert_tf.tokenization.word_patterns import EXPRESSIONS

_BLANK = "\u2581"
# What Gemma and Llama 2 do with blanks, and Llama 2 before.
BLANKS_SHOWN = {"type": "Replace", "pattern": {"String": " "}, "content": _BLANK}
PREPENDED = {"type": "Prepend", "prepend": _BLANK}


def has_bytes(model):
    """Return whether each byte has a piece, so that nothing is unknown."""
    from bert_tf.tokenization.byte_pair import byte_alphabet

    return model["vocab"].keys() >= {*byte_alphabet()}


def byte_pair(values, model, _, description):
    """Return the tokenizer of a model `BPE`.

    Args:
        values: all of a `tokenizer.json`.
        model: what it has of the model.
        description: of `tokenizer_json`, what it says beside.

    Raises:
        UnknownRules: no tokenizer of ours runs it.
    """
    from bert_tf.tokenization.byte_pair import BytePairTokenizer

    path = description.path
    for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        expect(path, name, model.get(name) or None, None)
    if model.get("byte_fallback"):
        return _character_pair(values, model, description)
    if not has_bytes(model) and (
            model.get("unk_token") is None or model.get("fuse_unk")):
        raise UnknownRules(explain(
            f"{path}: bytes without a piece, which are left out or taken together",
            "a piece for each, or unk_token and fuse_unk=false"))
    normalizers = [step["type"] for step in steps_of(values.get("normalizer"), "normalizers")]
    if normalizers not in ([], ["NFC"]):
        raise UnknownRules(explain(f"{path}: the normalizers {', '.join(normalizers)}",
                                   "none, or NFC"))
    pattern, level = _read_words(values.get("pre_tokenizer"), path)
    return BytePairTokenizer(
        description.tokens, read_pairs(model["merges"], path),
        bool(level.get("add_prefix_space")), path, bool(normalizers), pattern,
        bool(model.get("ignore_merges")), **description.special)


def _character_pair(values, model, description):
    from bert_tf.tokenization.character_pair import CharacterPairTokenizer, missing_bytes

    path = description.path
    expect(path, "ignore_merges", model.get("ignore_merges") or None, None)
    missing = missing_bytes(model["vocab"])
    if missing:
        raise UnknownRules(explain(f"{path}: byte_fallback without the pieces "
                                   f"{' '.join(missing[:4])}", "a piece for each byte"))
    steps = steps_of(values.get("normalizer"), "normalizers")
    if steps not in ([BLANKS_SHOWN], [PREPENDED, BLANKS_SHOWN]):
        raise UnknownRules(explain(
            f"{path}: byte_fallback and the normalizers {', '.join(s['type'] for s in steps)}",
            f"Replace of ' ' by {_BLANK!r}, Prepend perhaps before it"))
    words = values.get("pre_tokenizer")
    if words is not None:  # there are no blanks any more at which it would split
        expect(path, "pre_tokenizer", words["type"], "Split")
        expect(path, "pattern", words["pattern"], {"String": " "})
        expect(path, "invert", words.get("invert", False), False)
    for entry in values.get("added_tokens") or []:
        if entry.get("normalized") and not entry.get("special"):
            raise UnknownRules(f"{path}: the added token {entry['content']!r} is looked for in "
                               "normalized text")
    return CharacterPairTokenizer(description.tokens, read_pairs(model["merges"], path),
                                  len(steps) == 2, path, **description.special)


def _read_words(pre_tokenizer, path):
    """The name of the pattern by which text is split, and the step `ByteLevel`."""
    steps = steps_of(pre_tokenizer, "pretokenizers")
    own = [step["type"] for step in steps] == ["Split", "ByteLevel"]
    if not own:
        expect(path, "pre_tokenizer", [step["type"] for step in steps], ["ByteLevel"])
        expect(path, "use_regex", steps[0].get("use_regex", True), True)
        return "gpt2", steps[0]
    split, level = steps
    expression = split["pattern"].get("Regex")
    pattern = next((name for name, known in EXPRESSIONS.items() if known == expression), None)
    if pattern is None:
        raise UnknownRules(explain(f"{path}: Split with the pattern {split['pattern']!r}",
                                   "that of GPT-2, of Llama 3 or of Qwen 2"))
    for name, found, right in (
            ("behavior", split["behavior"], "Isolated"), ("invert", split.get("invert"), False),
            ("use_regex", level.get("use_regex", True), False),
            ("add_prefix_space", level.get("add_prefix_space"), False)):
        expect(path, name, found, right)
    return pattern, level
