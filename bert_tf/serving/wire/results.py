"""What the outputs of a signature mean: results of a few kinds, whatever the task.

The signature `describe` has them as `results`: by signature and name, `{"kind": kind, part: name}`,
the name being that of an output `[B, …]`, of `of` that of the input which a result is cut from. `name`
is what the text of a span is called, `text` where it is not there.
Clients and pages know the kinds and nothing about tasks.

| kind | parts | a row's plain value |
|---|---|---|
| `span` | `text`, `score`, `start`, `end`, `of`, `given` | dict of the first four, None where there is none |
| `label` | `label`, `score`, `labels`, `probabilities`, `chosen` | dict of `label`, `score`, `probabilities` by label, and the labels `chosen` |
| `spans` | `text`, `label`, `score`, `start`, `end`, `of`, `count` | list of dicts |
| `continuation` | `text`, `of` | str |
| `candidates` | `text`, `written`, `score`, `position`, `count` | for each place a list of dicts of `token`, `score` and the `text` that is written, best first |
| `relevance` | `value`, `of` | float, by which passages are ranked |
| `number` | `value` | float |
| `terms` | `text`, `id`, `score`, `count` | dict of float by token, heaviest first |
| `vector` | `value` | array |
| `vectors` | `value`, `count` | array, a row for each vector |
| `tokens` | `text`, `id`, `score`, `vector`, `count` | list of dicts |
| `json` | `value` | what the text holds |

The order is that in which people want them of a model.
"""  # noqa: E501 (rows of a table)

import json

# Of exports until 0.1, whose `describe` says nothing of results: known by their outputs' names.
_EARLIER = {
    "answer": {"kind": "span", "of": "context", "name": "answer", "text": "answer",
               "score": "score", "start": "start", "end": "end", "given": "has_answer"},
    "label": {"kind": "label", "label": "label", "score": "score", "labels": "labels",
              "probabilities": "probabilities"},
    "entities": {"kind": "spans", "of": "text", "text": "entities", "label": "labels",
                 "score": "scores", "start": "starts", "end": "ends", "count": "num_entities"},
    "answers": {"kind": "spans", "of": "context", "name": "answer", "text": "answers",
                "score": "scores", "start": "starts", "end": "ends"},
    "masks": {"kind": "candidates", "text": "tokens", "score": "scores", "position": "positions",
              "count": "num_masks"},
    "continuation": {"kind": "continuation", "of": "text", "text": "text"},
    "tokens": {"kind": "tokens", "text": "tokens", "count": "num_tokens"},
    "embedding": {"kind": "vector", "value": "embedding"},
    "description": {"kind": "json", "value": "description"},
    "probability": {"kind": "number", "value": "probability"},
    "no_answer_score": {"kind": "number", "value": "no_answer_score"},
    "score": {"kind": "number", "value": "score"},
}
# Kinds whose values are compared with those of other rows, or ranked among them.
_COMPARED = ("relevance", "terms", "vector", "vectors")
# What several results of one signature share; the first that has it keeps it.
_TOKENS = {"id": "output_word_ids", "score": "probability", "vector": "sequence_output"}


def outputs_of(result):
    """Return the names of a result's outputs, a list of str."""
    return [name for part, name in result.items() if part not in ("kind", "of", "name")]


def are_compared(results):
    """Return whether rows are to be of one version: two versions' vectors are of two spaces."""
    return any(result["kind"] in _COMPARED for result in results.values())


def results_by_name(outputs):
    """Return the results of a signature that does not describe them, by its outputs' names."""
    found, taken = {}, set()
    for name, result in _EARLIER.items():
        result = dict(result)
        if name == "label" and "chosen" in outputs:
            result["chosen"] = "chosen"
        if name == "tokens":
            result |= {part: output for part, output in _TOKENS.items() if output in outputs}
        needed = set(outputs_of(result))
        if needed <= set(outputs) and not needed & taken:
            found[name] = result
            taken |= needed
    return found


def preferred(signatures):
    """Return names of signatures, those first whose results people want.

    Args:
        signatures: `{name: results}`.
    """
    def place(name):
        results = signatures[name].values()
        return min((KINDS.index(result["kind"]) for result in results if result["kind"] in KINDS),
                   default=len(KINDS))
    return sorted(signatures, key=place)


def cut_padding(row, results):
    """Cut what a count counts out of a row of outputs; a dict of arrays and numbers."""
    for result in results.values():
        if "count" in result and result["count"] in row:
            for name in outputs_of(result):
                if name in row and name != result["count"]:
                    row[name] = row[name][:row[result["count"]]]
    return row


def plain(result, row):
    """Return the plain value of a result, see the table above.

    Args:
        result: dict of its kind and parts.
        row: dict of the outputs of one row, without padding.
    """
    return _PLAIN[result["kind"]](result, row)


def _span(result, row):
    name = result.get("name", "text")
    if "given" in result and not row[result["given"]]:
        return dict.fromkeys((name, "score", "start", "end"))
    return {name: row[result["text"]],
            **{part: row[result[part]] for part in ("score", "start", "end")}}


def _label(result, row):
    labels = row[result["labels"]]
    value = {"label": row[result["label"]], "score": row[result["score"]],
             "probabilities": dict(zip(labels, _listed(row[result["probabilities"]]),
                                       strict=True))}
    if "chosen" in result:
        value["chosen"] = [label for label, chosen in zip(labels, row[result["chosen"]],
                                                          strict=True) if chosen]
    return value


def _spans(result, row):
    name = result.get("name", "text")
    found = [{name: each.pop("text"), **each}
             for each in _beside(result, row, ("text", "label", "start", "end", "score"))]
    return found if "count" in result else [each for each in found if each[name]]


def _candidates(result, row):
    keys = {"token": "text", "score": "score", "text": "written"}
    columns = {key: row[result[part]] for key, part in keys.items() if part in result}
    return [[dict(zip(columns, values, strict=True))
             for values in zip(*map(_listed, place), strict=True)]
            for place in zip(*columns.values(), strict=True)]


def _tokens(result, row):
    return _beside(result, row, ("text", "id", "score", "vector"))


def _beside(result, row, parts):
    """Dicts of what stands side by side in the lists of a row."""
    parts = [part for part in parts if part in result]
    columns = [_listed(row[result[part]]) if part != "vector" else row[result[part]]
               for part in parts]
    return [dict(zip(parts, values, strict=True)) for values in zip(*columns, strict=True)]


def _listed(values):
    return values.tolist() if hasattr(values, "tolist") else values


_PLAIN = {
    "span": _span, "label": _label, "spans": _spans,
    "continuation": lambda result, row: row[result["text"]],
    "candidates": _candidates,
    "relevance": lambda result, row: row[result["value"]],
    "number": lambda result, row: row[result["value"]],
    "terms": lambda result, row: dict(zip(row[result["text"]], _listed(row[result["score"]]),
                                          strict=True)),
    "vector": lambda result, row: row[result["value"]],
    "vectors": lambda result, row: row[result["value"]],
    "tokens": _tokens,
    "json": lambda result, row: json.loads(row[result["value"]]),
}
KINDS = tuple(_PLAIN)
