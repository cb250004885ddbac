"""The page of the view `masking`: a table of one example, both ways to mask side by side."""

from bert_tf.visualization.static_page import element, table, write_page

REPLACEMENTS = ("mask", "random", "kept")  # of a predicted token
_STYLE = """
.sides { display: grid; gap: 1rem 2rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 32rem), 1fr)); }
.sides table { width: 100%; }
.sides th, .sides td { padding: 0.1rem 0.4rem; }
.sides tr.inside td { border-top-style: hidden; }
.sides tr.inside td.token { padding-inline-start: 1rem; }
td.place { width: 2rem; font-size: 0.8rem; }
.mask { background: light-dark(#cfe2ff, #173d73); }
.random { background: light-dark(#ffd9d6, #6b1f1a); }
.kept { background: light-dark(#d5efd8, #1e4d26); }
.key { border-radius: 0.3rem; padding: 0 0.4rem; }
.first { border-inline-start: 2px solid color-mix(in srgb, CanvasText 40%, transparent); }
@media (max-width: 40rem) {
  .sides { font-size: 0.8rem; }
  .sides th, .sides td { padding: 0.1rem 0.2rem; }
  .sides th { overflow-wrap: normal; }
  .sides tr.inside td.token { padding-inline-start: 0.6rem; }
  td.place { width: auto; }
}
dl { margin: 0.25rem 0 0.75rem; }
dt { font-size: 0.85rem; }
dd { margin: 0 0 0.3rem; }
"""
_WAYS = {"token": "token by token", "whole_word": "whole words"}
_REPLACEMENT_WORDS = {"mask": "[MASK]", "random": "random token", "kept": "kept"}


def count_replacements(masking):
    """Count the predicted tokens, and how many of them were replaced in each way: dict of int."""
    return {"chosen": len(masking["fates"]),
            **{each: masking["fates"].count(each) for each in REPLACEMENTS}}


def write_masking_page(path, example, about):
    """Write the page of an example of `read_examples`; `about` names it."""
    counts = {name: count_replacements(masking) for name, masking in example["maskings"].items()}
    rows = [["tokens", *([len(example["ids"])] * len(counts))],
            ["chosen", *(each["chosen"] for each in counts.values())]]
    rows += [[element("span", _REPLACEMENT_WORDS[way], class_=f"{way} key"),
              *(each[way] for each in counts.values())] for way in REPLACEMENTS]
    parts = [element("p", about, class_="quiet"), *_pair(example["pair"]),
             table(["", *(_WAYS[name] for name in counts)], rows),
             element("p", "Of the predicted tokens about 80 % become [MASK], 10 % a random token, "
                          "10 % are kept; each of them is to be predicted: its label is the "
                          "original token.")]
    ends = [place + 1 for place in range(len(example["ids"]) - 1)
            if example["segments"][place] != example["segments"][place + 1]]
    edges = [0, *ends, len(example["ids"])]
    sides = [_table(example, range(start, end))
             for start, end in zip(edges, edges[1:], strict=False)]
    write_page(path, "How an example is masked", _STYLE, *parts,
               element("div", *sides, class_="sides"))


def _pair(pair):
    """Describe the pair."""
    if pair is None:
        return []
    text = "the second segment follows the first; there is no label"
    if pair["task"]:
        text = f"{pair['task']}: label {pair['label']}, {pair['meaning']}"
    terms = [term for name, text in zip(("first segment", "second segment"), pair["segments"],
                                        strict=True)
             for term in (element("dt", name, class_="quiet"), element("dd", text, class_="text"))]
    return [element("p", element("b", text[0].upper() + text[1:] + ".")), element("dl", *terms)]


def _table(example, places):
    """Return the rows of one segment."""
    ways = example["maskings"]
    chosen = {name: {int(place): number for number, place in enumerate(masking["positions"])}
              for name, masking in ways.items()}
    head = [element("tr", element("th", colspan=2),
                    *(element("th", _WAYS[name], colspan=2, class_="first") for name in ways)),
            element("tr", element("th", ""), element("th", "token"),
                    *(cell for _ in ways for cell in (element("th", "input", class_="first"),
                                                      element("th", "label"))))]
    rows = []
    for place in places:
        cells = [element("td", str(place), class_="number place quiet"),
                 element("td", example["tokens"][place], class_="token")]
        for name, masking in ways.items():
            number = chosen[name].get(place)
            if number is None:
                cells += [element("td", masking["input"][place], class_="first quiet"),
                          element("td", "")]
                continue
            way = masking["fates"][number]
            cells += [element("td", masking["input"][place], class_=f"first {way}",
                              title=_REPLACEMENT_WORDS[way]),
                      element("td", masking["labels"][number], class_=way)]
        rows.append(element("tr", *cells,
                            class_="word" if example["word_starts"][place] else "inside"))
    return element("table", element("thead", *head), element("tbody", *rows))
