"""Which special tokens a `tokenizer.json` puts around one segment, and around two."""

from bert_tf.errors import UsageError, explain


class UnknownRules(UsageError):
    """A pipeline that none of our tokenizers runs."""


def steps_of(step, key):
    """Return a step, or those of a sequence, as a list; `key` is where a sequence has them."""
    if step is None:
        return []
    if step["type"] == "Sequence":
        return [inner for each in step[key] for inner in steps_of(each, key)]
    return [step]


def read_template(processor, tokens, path):
    """Return `(cls, sep, separators between segments, whether the second has type 1)`.

    `sep` is None where nothing stands at the end, and the second segment begins as the first.

    Args:
        processor: the value of `post_processor`.
        tokens: all tokens, in the order of their ids.
        path: of the file, for errors.

    Raises:
        UnknownRules: they stand elsewhere.
        UsageError: it has other ids for them than the vocabulary.
    """
    steps = steps_of(processor, "processors")
    steps = [step for step in steps if step["type"] != "ByteLevel"]  # which trims offsets
    kind = steps[0]["type"] if len(steps) == 1 else None
    if kind in ("RobertaProcessing", "BertProcessing"):
        bert = kind == "BertProcessing"
        pairs = [steps[0]["cls"], steps[0]["sep"]]
        _check_ids({name: [number] for name, number in pairs}, tokens, path)
        return pairs[0][0], pairs[1][0], 1 if bert else 2, bert
    if kind == "TemplateProcessing":
        single, pair = ([_item(item) for item in steps[0][name]] for name in ("single", "pair"))
        cls, sep = single[0][0], single[-1][0]
        if single == [(cls, 0), ("A", 0)] and pair in (
                [*single, (cls, kind), ("B", kind)] for kind in (0, 1)):
            _check_ids({cls: steps[0]["special_tokens"][cls]["ids"]}, tokens, path)
            return cls, None, 1, False
        between = [(sep, 0)] * (len(pair) - 4)
        last = pair[-1][1]
        if single == [(cls, 0), ("A", 0), (sep, 0)] and len(between) in (1, 2) and pair == [
                (cls, 0), ("A", 0), *between, ("B", last), (sep, last)] and last in (0, 1):
            _check_ids({name: steps[0]["special_tokens"][name]["ids"] for name in (cls, sep)},
                       tokens, path)
            return cls, sep, len(between), last == 1
    raise UnknownRules(explain(f"{path}: a post_processor of another form",
                               "cls a sep, and cls a sep b sep or cls a sep sep b sep; or cls a, "
                               "and cls a cls b"))


def _check_ids(numbers, tokens, path):
    """Refuse ids, a list for each token, that are not those of the vocabulary."""
    for name, each in numbers.items():
        if [tokens[number] for number in each] != [name]:
            raise UsageError(explain(f"{path}: the post_processor has the ids {each!r} for "
                                     f"{name!r}", "its one id in the vocabulary"))


def _item(item):
    (kind, value), = item.items()
    return (value["id"] if kind in ("SpecialToken", "Sequence") else None), value["type_id"]
