"""Pictures by matplotlib: figures without a display, fonts for any script, PNG and SVG files."""

import io
import os

from bert_tf.errors import UsageError, explain
from bert_tf.storage import files

SUFFIXES = (".png", ".svg")


def check_picture_path(path):
    """Raise UsageError unless `path` ends as a picture file does."""
    if not os.fspath(path).endswith(SUFFIXES):
        raise UsageError(explain(f"{path} is no picture file",
                                 f"a name that ends with {' or '.join(SUFFIXES)}"))


def new_figure(width, height):
    """An empty figure of `width` × `height` inches, with room made for all labels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write_figure(path, figure):
    """Write a figure as PNG or SVG, by the end of `path`; the same figure gives the same file.

    Raises:
        UsageError: `path` ends otherwise.
    """
    import matplotlib

    check_picture_path(path)
    kind = os.path.splitext(path)[1][1:]
    stream = io.BytesIO()
    # Ids of an SVG's parts are drawn at random, unless salted.
    with matplotlib.rc_context({"svg.hashsalt": "bert_tf"}):
        figure.savefig(stream, format=kind, metadata={"Date": None} if kind == "svg" else None)
    files.write_bytes(path, stream.getvalue())


def text_style(text):
    """Keyword arguments of matplotlib's text functions to draw `text` as it is.

    None where no installed font has all of its characters.
    """
    family = _font_with(text)
    return family and {"parse_math": False, "family": family}


def _font_with(text):
    """Family of an installed font that has every character of `text`; None without one.

    The first choice is the one that matplotlib ships.
    """
    from matplotlib import font_manager, ft2font

    wanted = {ord(character) for character in text if not character.isspace()} | {ord("…")}
    default = font_manager.findfont("DejaVu Sans")
    others = sorted((font.fname, font.name) for font in font_manager.fontManager.ttflist
                    if not font.name.startswith("Last Resort"))  # draws placeholders for all
    for path, family in [(default, "DejaVu Sans"), *others]:
        try:
            known = ft2font.FT2Font(path).get_charmap()
        except (OSError, RuntimeError):  # gone, or damaged, since matplotlib listed it
            continue
        if wanted <= known.keys():
            return family
    return None


def line_styles(count):
    """Keyword arguments of `plot` for lines to be told apart, by colour and by marker."""
    markers = "osD^vP*X<>"
    return [{"color": f"C{place % 10}", "marker": markers[(place + place // 10) % 10]}
            for place in range(count)]


def add_legend(figure, lines, names):
    """A legend below a figure's panels, names as they are; one that no font can draw is a number.

    Args:
        figure: as of `new_figure`.
        lines: matplotlib's lines, one a name.
        names: list of str.
    """
    # matplotlib itself leaves out names with a leading underscore and sets $…$ as formulas.
    legend = figure.legend(lines, [f"{place}" for place in range(1, len(names) + 1)],
                           loc="outside lower center", ncols=min(len(names), 4), frameon=False)
    for label, name in zip(legend.get_texts(), names, strict=True):
        style = text_style(name)
        if style:
            label.set(text=name, **style)
