"""Pictures by matplotlib: figures without a display, fonts for any script, PNG and SVG files."""

import contextlib
import functools
import io
import os
import re

from bert_tf.errors import UsageError, explain
from bert_tf.storage import files

SUFFIXES = (".png", ".svg")
_NOT_IN_XML = re.compile(r"[\x0b\x0c\x1c-\x1f]")  # white space that no SVG file may hold
_DEFAULT = "DejaVu Sans"  # matplotlib ships it
_FONTS = ("install a font that has them: NanumGothic (of Debian's package fonts-nanum) for Hangul, "
          "Noto Sans CJK (fonts-noto-cjk) for Chinese and Japanese, Noto Sans (fonts-noto-core) "
          "for other scripts")


def check_picture_path(path):
    """Raise UsageError unless `path` ends as a picture file does."""
    if not os.fspath(path).endswith(SUFFIXES):
        raise UsageError(explain(f"{path} is not a picture file",
                                 f"a name that ends with {' or '.join(SUFFIXES)}"))


def new_figure(width, height):
    """Return an empty figure of `width` × `height` inches, laid out so that all labels fit."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    figure.numbered = {}  # names that no font can draw, by what stands for them
    return figure


def write_figure(path, figure):
    """Write a figure as PNG or SVG, by the end of `path`; the same figure gives the same file.

    Args:
        path: of the picture.
        figure: as of `new_figure`, its names drawn by `name_ticks` and `add_legend`.

    Returns: list of str, lines that list which names are numbers in the picture and what font to
        install; empty where fonts have all characters.

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
    if not figure.numbered:
        return []
    return [f"no installed font has all characters of these names, which are numbers in {path}; "
            f"{_FONTS}", *(f"  {number}: {name}" for number, name in figure.numbered.items())]


def text_style(text):
    """Return keyword arguments of matplotlib's text functions to draw `text` as it is.

    None where no installed font has all of its characters.
    """
    family = _font_with(text)
    return family and {"parse_math": False, "family": family}


def _font_with(text):
    """Return the family of an installed font that has every character of `text`; None without one.

    The first choice is the one that matplotlib ships.
    """
    needed = {ord(character) for character in text if not character.isspace()} | {ord("…")}
    return next((family for path, family in _fonts() if needed <= _characters(path)), None)


def _fonts():
    """Yield path and family of installed fonts, the default first."""
    from matplotlib import font_manager

    yield font_manager.findfont(_DEFAULT), _DEFAULT
    manager = font_manager.fontManager
    known = {font.fname for font in manager.ttflist}
    for path in font_manager.findSystemFonts():  # matplotlib's own list may be older
        if path not in known:
            with contextlib.suppress(OSError, RuntimeError):  # damaged
                manager.addfont(path)
    yield from sorted((font.fname, font.name) for font in manager.ttflist
                      if not font.name.startswith("Last Resort"))  # draws placeholders for all


@functools.cache
def _characters(path):
    """Return the code points that a font has; none where the file is gone, or damaged."""
    from matplotlib import ft2font

    try:
        return frozenset(ft2font.FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


def _drawn(figure, names, kind=""):
    """Return `(text, style)` to draw each of the names by: itself, or its number where no font has
    it.

    The figure keeps the numbers; `kind` distinguishes those of several lists in one figure.
    """
    drawn = []
    for number, name in enumerate(names, 1):
        style = text_style(name)
        if style is None:
            figure.numbered[f"{kind} {number}".strip()] = name
        drawn.append((str(number), {}) if style is None else (_NOT_IN_XML.sub(" ", name), style))
    return drawn


def name_ticks(axis, names, kind="", numbered=False, **further):
    """Put a name at each of an axis' ticks, as it is; one that no font can draw is a number.

    Args:
        axis: `axes.xaxis` or `axes.yaxis` of a figure of `new_figure`.
        names: list of str, for the places from 0 on.
        kind: what the names are, where the figure has several lists of them.
        numbered: whether their numbers, from 1, stand beside all names.
        further: keyword arguments of matplotlib's for the labels.
    """
    drawn = _drawn(axis.get_figure(), names, kind)
    texts = [f"{text}  {number}" if numbered and style else text
             for number, (text, style) in enumerate(drawn, 1)]
    axis.set_ticks(range(len(names)), texts, **further)
    for label, (_, style) in zip(axis.get_ticklabels(), drawn, strict=True):
        label.set(**style)


def line_styles(count):
    """Return keyword arguments of `plot` for lines that differ in colour and marker."""
    markers = "osD^vP*X<>"
    return [{"color": f"C{place % 10}", "marker": markers[(place + place // 10) % 10]}
            for place in range(count)]


def add_legend(figure, lines, names):
    """Add a legend below a figure's panels, names as they are; one that no font can draw is a
    number.

    Args:
        figure: as of `new_figure`.
        lines: matplotlib's lines, one a name.
        names: list of str.
    """
    # matplotlib itself leaves out names with a leading underscore and sets $…$ as formulas.
    legend = figure.legend(lines, ["-"] * len(names),
                           loc="outside lower center", ncols=min(len(names), 4), frameon=False)
    for label, (text, style) in zip(legend.get_texts(), _drawn(figure, names), strict=True):
        label.set(text=text, **style)
