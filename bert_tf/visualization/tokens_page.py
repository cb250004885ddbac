"""The page of the view `tokens`: every piece a box, tokenizers side by side."""

from bert_tf.visualization.static_page import element, table, visible, write_page

_MOST_PIECES = 20_000  # on a page, which stays quick then
_MOST_CHARACTERS = 100_000  # of a text in one line
_STYLE = """
td:first-child { overflow-wrap: normal; }
.sides { display: grid; gap: 0 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)); }
.name { font-size: 0.85rem; margin: 0.5rem 0 0.25rem; }
li.inside { margin-inline-start: -0.3rem; }
ol { display: flex; flex-wrap: wrap; gap: 0.3rem; list-style: none; margin: 0; padding: 0; }
.piece { border: 1px solid color-mix(in srgb, CanvasText 25%, transparent); border-radius: 0.3rem;
  display: flex; flex-direction: column; align-items: center; padding: 0.1rem 0.4rem;
  max-width: 100%; box-sizing: border-box; overflow-wrap: anywhere; }
.inside { border-inline-start-style: dashed; }
.unknown { background: light-dark(#ffd9d6, #6b1f1a); border-color: #c62828; }
.only b { text-decoration: underline 2px #1565c0; text-underline-offset: 0.2em; }
.piece b { font-weight: 600; }
.piece code { font-size: 0.8rem; }
.piece small { font-size: 0.7rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
.key { display: inline-flex; flex-direction: row; margin-inline-end: 0.3rem; font-size: 0.85rem; }
"""
_COUNTS = {"texts": "texts", "words": "words", "pieces": "pieces",
           "pieces_per_word": "pieces a word", "whole_word_share": "words of one piece",
           "unknown_word_share": "unknown words", "unknown_pieces": "unknown pieces"}


def write_tokens_page(path, texts, tables, cuts):
    """Write the page.

    Args:
        path: of the file.
        texts: list of str.
        tables: of every tokenizer a dict of `name`, `kind`, `vocabulary` and what `count_pieces`
            gives.
        cuts: of every tokenizer what `tokenize_texts` gives.

    Returns: list of the lines to print: what is not shown, if anything.
    """
    left, sections, notes = _MOST_PIECES, [], []
    for number, (text, *cut) in enumerate(zip(texts, *cuts, strict=True), 1):
        others = cut[::-1] if len(cut) == 2 else [None]
        sides = [_side(text, one, table["name"], other, left)
                 for one, table, other in zip(cut, tables, others, strict=True)]
        sections += [element("h2", f"Text {number}"),
                     element("p", text[:_MOST_CHARACTERS], class_="text"),
                     element("div", *sides, class_="sides")]
        if len(text) > _MOST_CHARACTERS:
            notes.append(f"text {number:,} is shown up to character {_MOST_CHARACTERS:,}")
        left -= max(len(one["pieces"]) for one in cut)
        if left < 0:
            notes.append(f"the page ends in text {number:,} of {len(texts):,}, after "
                         f"{_MOST_PIECES:,} pieces; .json and .tsv hold all")
            break
    write_page(path, "How text is tokenized", _STYLE, _count_table(tables), _legend(tables),
               *(element("p", note, class_="quiet") for note in notes), *sections)
    return notes


def _count_table(tables):
    def shown(name, value):
        if value is None:
            return "–"
        return f"{value:.1%}" if name.endswith("share") else (
            f"{value:.2f}" if isinstance(value, float) else f"{value:,}")

    rows = [["kind", *(each["kind"] for each in tables)]]
    rows += [[label, *(element("span", shown(name, each[name]), class_="number")
                       for each in tables)]
             for name, label in {"vocabulary": "entries", **_COUNTS}.items()]
    return table(["", *(each["name"] for each in tables)], rows)


def _legend(tables):
    parts = ["A box is a piece: what it stands for in the text, the piece as the vocabulary has "
             "it, its id and its characters in the text. ",
             element("span", "dashed", class_="piece inside key"),
             " on the left: it continues a word. ",
             element("span", "unknown", class_="piece unknown key"),
             " no piece of the vocabulary. "]
    if len(tables) == 2:
        parts += [element("span", element("b", "underlined"), class_="piece only key"),
                  " a piece of other characters than any of the other tokenizer. "]
    parts.append(" Words are separated by white space.")
    return element("p", *parts)


def _side(text, one, name, other, most):
    """Return one tokenizer's pieces of a text."""
    elsewhere = None
    if other is not None:
        elsewhere = set(zip(other["starts"].tolist(), other["ends"].tolist(), strict=True))
    boxes = [_box(text, one, place, elsewhere) for place in range(min(len(one["pieces"]), most))]
    count = f"{name}: {len(one['pieces']):,} pieces"
    return element("div", element("p", count, class_="name quiet"), element("ol", *boxes))


def _box(text, one, place, elsewhere):
    piece, unknown = one["pieces"][place], one["unknown"][place]
    classes, lines = ["piece"], []
    start, end = int(one["starts"][place]), int(one["ends"][place])
    numbers = f"{one['ids'][place]} · {start}–{end}"
    inside = 0 < start < len(text) and not (text[start - 1].isspace() or text[start].isspace())
    if inside:
        classes.append("inside")
    if elsewhere is not None and (start, end) not in elsewhere:
        classes.append("only")
    lines.append(element("b", visible(text[start:end])))
    if unknown:
        classes.append("unknown")
    if piece != text[start:end]:
        lines.append(element("code", visible(piece)))
    lines.append(element("small", numbers, class_="quiet"))
    return element("li", *lines, class_=" ".join(classes))
