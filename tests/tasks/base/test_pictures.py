"""Fonts for any script, and files that are the same for the same figure."""

from xml.etree import ElementTree

import pytest
from matplotlib import font_manager, image

from bert_tf.errors import UsageError
from bert_tf.tasks.base.pictures import (
    add_legend,
    line_styles,
    new_figure,
    text_style,
    write_figure,
)


def test_the_font_has_every_character():
    assert text_style("abc é")["family"] == "DejaVu Sans"
    assert text_style("a\U0010FFFD") is None  # for private use


def test_a_font_that_is_gone_is_passed_over(tmp_path, monkeypatch):
    gone = font_manager.FontEntry(fname=str(tmp_path / "gone.ttf"), name="Gone")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [gone])
    assert text_style("a\U0010FFFD") is None


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_same_figure_gives_the_same_file(tmp_path, suffix):
    written = []
    for name in "ab":
        figure = new_figure(2, 1)
        figure.subplots().plot([0, 1], [2, 3], clip_on=True)
        write_figure(str(tmp_path / f"{name}.{suffix}"), figure)
        written.append((tmp_path / f"{name}.{suffix}").read_bytes())
    assert written[0] == written[1]
    if suffix == "png":
        assert image.imread(tmp_path / "a.png").shape[:2] == (120, 240)
    with pytest.raises(UsageError, match="a.pdf is not a picture file; expected a name that ends"):
        write_figure(str(tmp_path / "a.pdf"), figure)


def test_a_legend_has_names_as_they_are():
    names = ["_a", "$b$", "\U0010FFFD"]
    figure = new_figure(3, 2)
    axes = figure.subplots()
    lines = [axes.plot([0, 1], [0, 1], **style)[0] for style in line_styles(3)]
    add_legend(figure, lines, names)
    labels = figure.legends[0].get_texts()
    assert [label.get_text() for label in labels] == ["_a", "$b$", "3"]
    assert not labels[1].get_parse_math()
    assert len({(line.get_color(), line.get_marker()) for line in (
        axes.plot([0], [0], **style)[0] for style in line_styles(60))}) == 60


def test_an_svg_file_is_well_formed_whatever_the_names(tmp_path):
    figure = new_figure(3, 2)
    line = figure.subplots().plot([0, 1], [0, 1])
    add_legend(figure, line, ["bank\x0c<&>\x1f-->"])
    write_figure(str(tmp_path / "a.svg"), figure)
    ElementTree.parse(tmp_path / "a.svg")  # noqa: S314 of our own making
