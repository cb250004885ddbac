"""A page that stands by itself: one HTML file without scripts, which loads nothing."""

import xml.etree.ElementTree as tree

from bert_tf.storage import files

# The reader's colours and fonts, light or dark; what a view marks has colours for both.
_STYLE = """
:root { color-scheme: light dark; font-family: system-ui, sans-serif; line-height: 1.4; }
body { margin: 0 auto; max-width: 80rem; padding: 0 1rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 1rem 0 0.5rem; }
h2 { font-size: 1.1rem; margin: 1.5rem 0 0.25rem; }
p { margin: 0.25rem 0 0.75rem; }
table { border-collapse: collapse; }
th, td { border-bottom: 1px solid color-mix(in srgb, CanvasText 25%, transparent);
  padding: 0.2rem 0.6rem; text-align: start; vertical-align: top; }
.number { font-variant-numeric: tabular-nums; text-align: end; }
.quiet { color: color-mix(in srgb, CanvasText 65%, transparent); }
.text { white-space: pre-wrap; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # nothing runs, nothing is requested
# Characters of which a browser shows nothing, by pictures of them.
_SEEN = {" ": "␣", "\n": "⏎", "\t": "⇥", "\0": "␀"}


def element(name, /, *children, **attributes):
    """Return an HTML element; children are elements or text, which stays text.

    An attribute that is no Python name ends in `_`: `class_`.
    """
    made = tree.Element(name, {key.rstrip("_"): str(value) for key, value in attributes.items()})
    last = None
    for child in children:
        if isinstance(child, tree.Element):
            made.append(child)
            last = child
        elif last is None:
            made.text = (made.text or "") + str(child)
        else:
            last.tail = (last.tail or "") + str(child)
    return made


def table(headings, rows):
    """Return a table; a cell is an element or text, a number is aligned to the right."""
    def cell(name, content):
        numeric = isinstance(content, (int, float))
        return element(name, content, **({"class_": "number"} if numeric else {}))

    return element("table",
                   element("thead", element("tr", *(element("th", text) for text in headings))),
                   element("tbody", *(element("tr", *(cell("td", content) for content in row))
                                      for row in rows)))


def visible(text):
    """Return `text` with something to see where white space is all there is."""
    return "".join(_SEEN.get(c, c) for c in text) if not text.strip("\0 \n\t") else text


def write_page(path, title, style, *children):
    """Write a page.

    Args:
        path: of the file.
        title: text, also the page's first heading.
        style: CSS beside that of every page.
        children: elements and text.
    """
    page = element(
        "html",
        element("head", element("meta", charset="utf-8"),
                element("meta", **{"http-equiv": "Content-Security-Policy", "content": _POLICY}),
                element("meta", name="viewport", content="width=device-width, initial-scale=1"),
                element("title", title), element("style", _STYLE + style)),
        element("body", element("h1", title), *children), lang="en")
    written = tree.tostring(page, encoding="unicode", method="html")
    files.write_text(path, f"<!doctype html>\n{written}\n")
