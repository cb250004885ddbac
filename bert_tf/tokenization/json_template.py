"""Which special tokens a `tokenizer.json` puts around one segment, and around two."""

from bert_tf.errors import NoTextError, UsageError, explain


class UnknownRules(NoTextError):
    """A pipeline that none of our tokenizers runs."""


def steps_of(step, key):
    """Return a step, or those of a sequence, as a list; `key` is where a sequence has them."""
    if step is None:
        return []
    if step["type"] == "Sequence":
        return [inner for each in step[key] for inner in steps_of(each, key)]
    return [step]


def expect(path, name, found, expected):
    """Raise UnknownRules, which names the file and the key, unless two values are equal."""
    if found != expected:
        raise UnknownRules(explain(f"{path}: {name}={found!r}", repr(expected)))


def read_template(processor, tokens, path):
    """Return `(cls, sep, around)`: the tokens, None of one that stands nowhere, and a dict of how
    they stand around segments, arguments of `Vocabulary`.

    Args:
        processor: the value of `post_processor`.
        tokens: all tokens, in the order of their ids.
        path: of the file, for errors.

    Raises:
        UnknownRules: they stand elsewhere.
        UsageError: it has other ids for them than the vocabulary.
    """
    steps = steps_of(processor, "processors")
    trims = any(step["type"] == "ByteLevel" for step in steps)  # offsets, and that is all it does
    steps = [step for step in steps if step["type"] != "ByteLevel"]
    bare = [step for step in steps if step["type"] == "TemplateProcessing" and [
        _item(item)[0] for item in step["single"] + step["pair"]] == ["A", "A", "B"]]
    if (trims or bare) and steps == bare:
        return None, None, {"pair_separators": 0, "pair_types": False, "initial_token": False,
                            "final_separator": False}
    kind = steps[0]["type"] if len(steps) == 1 else None
    if kind in ("RobertaProcessing", "BertProcessing"):
        bert = kind == "BertProcessing"
        pairs = [steps[0]["cls"], steps[0]["sep"]]
        _check_ids({name: [number] for name, number in pairs}, tokens, path)
        return pairs[0][0], pairs[1][0], {"pair_separators": 1 if bert else 2, "pair_types": bert}
    found = _read_forms(steps[0]) if kind == "TemplateProcessing" else None
    if found is None:
        raise UnknownRules(explain(f"{path}: a post_processor of another form",
                                   "cls a sep, and cls a sep b sep or cls a sep sep b sep; or one "
                                   "of cls a sep, cls a and a sep, and the same again for b"))
    _check_ids({name: steps[0]["special_tokens"][name]["ids"] for name in found[:2]
                if name is not None}, tokens, path)
    return found


def _read_forms(template):
    """What `read_template` returns, of a `TemplateProcessing`; None of forms that are not known."""
    single, pair = ([_item(item) for item in template[name]] for name in ("single", "pair"))
    if ("A", 0) not in single:
        return None
    place, last = single.index(("A", 0)), pair[-1][1]
    before, after = single[:place], single[place + 1:]
    if len(before) > 1 or len(after) > 1 or not single[1:] or {kind for _, kind in single} != {0}:
        return None
    cls, sep = (part[0][0] if part else None for part in (before, after))
    second = [(name, last) for name in (*(name for name, _ in before), "B",
                                        *(name for name, _ in after))]
    if pair == single + second and last in (0, 1):  # each as if it was alone, no types
        if not after:
            return cls, None, {"pair_separators": 1, "pair_types": False, "final_separator": False}
        if not before:
            return None, sep, {"pair_separators": 1, "pair_types": False, "initial_token": False}
        return cls, sep, {"pair_separators": 2, "pair_types": False, "initial_again": True}
    between = [(sep, 0)] * (len(pair) - 4)
    if before and after and len(between) in (1, 2) and last in (0, 1) and pair == [
            (cls, 0), ("A", 0), *between, ("B", last), (sep, last)]:
        return cls, sep, {"pair_separators": len(between), "pair_types": last == 1}
    return None


def _check_ids(numbers, tokens, path):
    """Refuse ids, a list for each token, that are not those of the vocabulary."""
    for name, each in numbers.items():
        if [tokens[number] for number in each] != [name]:
            raise UsageError(explain(f"{path}: the post_processor has the ids {each!r} for "
                                     f"{name!r}", "its one id in the vocabulary"))


def _item(item):
    (kind, value), = item.items()
    return (value["id"] if kind in ("SpecialToken", "Sequence") else None), value["type_id"]
