"""The attention page in headless Chromium, from a file."""

import math

import numpy as np
import pytest
from browser import check_contrast, opened

from bert_tf.visualization.attention import attention_page

TEXTS = ("<script>document.title = 'bad'</script> & 안녕하세요 👩‍👩‍👧",
         "</script> second <b>text</b>")
TOKENS = ["[CLS]", "<script>", "안녕", "##하세요", "👩‍👩‍👧", "[SEP]", "second", "</script>", "é",
          "[SEP]"]
SEGMENTS = np.repeat([0, 1], [6, 4])
SPECIAL = np.array([token in ("[CLS]", "[SEP]") for token in TOKENS])
ALL = list(range(len(TOKENS)))
LAYERS, HEADS = 3, 4


def probabilities(layers, heads, length, seed=0):
    scores = np.exp(2 * np.random.default_rng(seed).normal(size=(layers, heads, length, length)))
    return (scores / scores.sum(-1, keepdims=True)).astype(np.float32)


PROBABILITIES = probabilities(LAYERS, HEADS, len(TOKENS))


def seen_of(given, tokens, segments, special, **more):
    return {"probabilities": given, "tokens": tokens, "labels": tokens, "segments": segments,
            "special": special, "offsets": np.full((len(tokens), 2), -1), "cut": 0, **more}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    seen = seen_of(PROBABILITIES, TOKENS, SEGMENTS, SPECIAL, cut=5)
    path.write_text(attention_page(seen, "runs/<b>small</b>", *TEXTS))
    return path.as_uri()


@pytest.fixture
def page(browser, address):
    with opened(browser, address) as page:
        yield page


def check_lines(page, layer, heads, rows=ALL, columns=ALL, least=0.05):
    """What is drawn are all lines of a weight of at least `least`, with the right weights."""
    drawn = {(line["head"], line["from"], line["to"]): line["weight"]
             for line in page.evaluate("drawn.lines")}
    expected = {(head, row, column): PROBABILITIES[layer, head, row, column]
                for head in heads for row in rows for column in columns
                if PROBABILITIES[layer, head, row, column] >= max(least, 1e-5)}
    assert drawn.keys() == expected.keys() and drawn
    for line, weight in drawn.items():
        assert abs(weight - expected[line]) < 8e-6
    return drawn


def shown(page, side):
    return page.locator(f"#{side} .label").all_inner_texts()


def test_text_of_the_user_stays_text(page):
    assert page.locator("dd").all_inner_texts() == list(TEXTS)
    assert page.title().startswith(f"Attention: {TEXTS[0]}")
    assert "runs/<b>small</b>: 3 layers of 4 heads, 10 tokens" in page.inner_text("#about")
    assert page.inner_text("#cut") == "The texts are longer than 10 tokens: 5 are left out."
    assert shown(page, "from") == shown(page, "to") == TOKENS
    assert page.locator("b").count() == 0


def test_layer_and_heads_choose_the_lines(page):
    check_lines(page, 0, range(HEADS))
    page.get_by_role("combobox", name="Layer").select_option("3 (topmost)")
    check_lines(page, 2, range(HEADS))
    page.get_by_role("checkbox", name="Head 2").uncheck()
    page.get_by_role("checkbox", name="Head 4").uncheck()
    check_lines(page, 2, [0, 2])
    page.get_by_role("button", name="None").click()
    assert page.evaluate("drawn.lines") == []
    assert page.inner_text("#readout") == "No head is chosen."
    page.locator("#heads label").nth(1).dblclick()
    check_lines(page, 2, [1])
    page.get_by_label("Draw weights from").fill("0.3")
    drawn = check_lines(page, 2, [1], least=0.3)
    assert f"{len(drawn)} of 100 lines are drawn" in page.inner_text("#readout")
    page.get_by_role("button", name="All").click()
    check_lines(page, 2, range(HEADS), least=0.3)


def test_lines_have_the_colour_of_their_head_and_stand_where_their_tokens_are(page):
    page.locator("#heads label").nth(2).dblclick()
    # Of each line the darkest pixel near its middle, and the pixel that it should look like.
    found = page.evaluate("""() => {
        const canvas = $("lines"), pen = canvas.getContext("2d");
        const ofHead = colourOf(2);
        return drawn.lines.slice(-3).map(({ from, to }) => {
            const scale = canvas.height / (ROW * data.tokens.length);
            const y = (from + to + 1) / 2 * ROW * scale;
            const { data: pixels } = pen.getImageData(canvas.width / 2, y - 2, 1, 5);
            const at = Math.max(...[0, 1, 2, 3, 4].map((i) => 1000 * pixels[4 * i + 3] + i)) % 1000;
            return [[...pixels.slice(4 * at, 4 * at + 4)],
                [1, 3, 5].map((place) => parseInt(ofHead.slice(place, place + 2), 16))];
        });
    }""")
    for (*colour, alpha), expected in found:
        assert alpha > 100
        np.testing.assert_allclose(colour, expected, atol=6)


def test_a_token_under_the_pointer_shows_its_row_alone(page):
    page.locator("#from button").nth(4).hover()
    check_lines(page, 0, range(HEADS), rows=[4], least=0)
    mean = PROBABILITIES[0, :, 4].mean(0)
    assert page.locator("#to .weight").all_inner_texts() == [f"{share:.3f}" for share in mean]
    assert set(page.locator("#from .weight").all_inner_texts()) == {""}
    best = int(mean.argmax())
    assert page.inner_text("#readout").startswith(
        f"Layer 1, mean of all heads: “{TOKENS[4]}” attends to {TOKENS[best]} {mean[best]:.3f}, ")
    page.locator("#to button").nth(1).hover()
    check_lines(page, 0, range(HEADS), columns=[1], least=0)
    given = PROBABILITIES[0, :, :, 1].mean(0)
    assert page.locator("#from .weight").all_inner_texts() == [f"{share:.3f}" for share in given]
    page.locator("h1").hover()
    check_lines(page, 0, range(HEADS))
    page.locator("#from button").nth(2).click()
    page.get_by_role("checkbox", name="Head 1").uncheck()
    check_lines(page, 0, [1, 2, 3], rows=[2], least=0)  # it is kept
    page.keyboard.press("Escape")
    check_lines(page, 0, [1, 2, 3])


@pytest.mark.long
def test_keyboard_alone_is_enough(page):
    page.get_by_label("Draw weights from").focus()
    page.keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowDown", "End", "ArrowUp"):
        page.keyboard.press(key)
    check_lines(page, 0, range(HEADS), rows=[8], least=0)
    page.keyboard.press("Tab")
    check_lines(page, 0, range(HEADS), columns=[0], least=0)
    page.get_by_role("radio", name="Heads of a layer").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#model-view").is_visible()
    page.locator("#grid button").first.focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    check_lines(page, 1, [1])


def test_filters(page):
    for name, rows, columns in (
            ("A → A", ALL[:6], ALL[:6]), ("A → B", ALL[:6], ALL[6:]), ("B → A", ALL[6:], ALL[:6]),
            ("B → B", ALL[6:], ALL[6:])):
        page.get_by_role("combobox", name="From → to").select_option(name)
        page.get_by_label("Hide special tokens").uncheck()
        assert shown(page, "from") == [TOKENS[row] for row in rows]
        assert shown(page, "to") == [TOKENS[column] for column in columns]
        check_lines(page, 0, range(HEADS), rows, columns)
        page.get_by_label("Hide special tokens").check()
        rows, columns = ([token for token in side if not SPECIAL[token]]
                         for side in (rows, columns))
        assert shown(page, "from") == [TOKENS[row] for row in rows]
        check_lines(page, 0, range(HEADS), rows, columns)


def test_every_head_has_a_picture_that_leads_to_its_lines(page):
    page.get_by_role("radio", name="All layers and heads").check()
    alphas = page.evaluate("""() => [...document.querySelectorAll("#grid canvas")].map((canvas) =>
        [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data]
            .filter((_, place) => place % 4 === 3))""")
    length = len(TOKENS)
    expected = np.sqrt(PROBABILITIES).reshape(LAYERS * HEADS, length * length) * 255
    np.testing.assert_allclose(alphas, expected, atol=1)
    page.get_by_role("combobox", name="From → to").select_option("B → A")
    assert page.locator("#grid canvas").first.evaluate(
        "({ width, height }) => [width, height]") == [6, 4]
    page.get_by_role("button", name="Layer 2, head 3").click()
    assert page.get_by_role("combobox", name="Layer").input_value() == "1"
    check_lines(page, 1, [2], ALL[6:], ALL[:6])


@pytest.mark.long
@pytest.mark.parametrize("width", [360, 1600])
def test_it_fits_narrow_and_wide_windows(browser, address, width):
    with opened(browser, address, viewport={"width": width, "height": 800}) as page:
        beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        for view in ("All layers and heads", "Heads of a layer"):
            page.get_by_role("radio", name=view).check()
            assert page.evaluate(beyond) == 0
        page.locator("#from button").nth(3).focus()
        page.set_viewport_size({"width": width, "height": 700})  # the token stays chosen
        check_lines(page, 0, range(HEADS), rows=[3], least=0)
        assert page.evaluate(beyond) == 0
        left, middle, right = (page.locator(part).bounding_box() for part in (
            "#from", "#lines", "#to"))
        assert left["x"] >= 0 and min(left["width"], middle["width"], right["width"]) > 80
        assert math.isclose(left["x"] + left["width"], middle["x"], abs_tol=1)
        assert math.isclose(middle["x"] + middle["width"], right["x"], abs_tol=1)
        assert right["x"] + right["width"] <= width
        assert left["height"] == middle["height"] == right["height"]


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(page, scheme):
    check_contrast(page, scheme)


@pytest.mark.long
def test_a_large_page_draws_the_heaviest_lines(browser, tmp_path):
    given = probabilities(2, 12, 128)
    tokens = [f"단어{number}" for number in range(128)]
    path = tmp_path / "large.html"
    path.write_text(attention_page(seen_of(
        given, tokens, np.zeros(128, int), np.zeros(128, bool)), "large", "텍스트"))
    with opened(browser, path.as_uri()) as page:
        assert not page.get_by_role("combobox", name="From → to").is_visible()  # one text
        page.get_by_label("Draw weights from").fill("0")
        page.get_by_role("combobox", name="Layer").select_option("2 (topmost)")
        drawn = page.evaluate("drawn.lines.map(({ weight }) => weight)")
        np.testing.assert_allclose(drawn, np.sort(given[1], axis=None)[-20_000:], atol=8e-6)
        assert "20,000 of 196,608 lines are drawn" in page.inner_text("#readout")
