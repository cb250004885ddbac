"""The page at `/` in headless Chromium, in front of a small SavedModel."""

import json

import httpx
import pytest
from browser import check_contrast, opened
from server_harness import PATIENCE
from small_server import CITY, FACE, MASK, save_small_model, serving

from bert_tf.serving.apis.keys import Keys


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("small"))
    save_small_model(folder)
    return folder


@pytest.fixture(scope="module")
def address(folder):
    with serving(folder, name="a/small model") as served:
        yield served.address


@pytest.fixture
def page(browser, address):
    """The page, loaded."""
    with opened(browser, address) as page:
        page.wait_for_selector("#fields textarea")
        yield page


def choose(page, signature):
    page.get_by_label("Signature").select_option(signature)


def run(page, **texts):
    """Fill in the fields, send the form and wait for its answer."""
    for name, text in texts.items():
        page.locator(f"textarea[name={name}]").fill(text)
    page.evaluate("document.getElementById('answer').replaceChildren()")
    page.get_by_role("button", name="Run").click()
    page.wait_for_selector("#answer > *")
    return page.locator("#answer")


def cells(tables):
    return [text.strip() for text in tables.locator("td").all_inner_texts()]


def highlights(answer):
    """`[(text before, highlighted text, label)]` of the text that is shown."""
    return answer.locator(".text").evaluate("""shown => {
        let before = "";
        const found = [];
        for (const node of shown.childNodes) {
            const own = node.nodeName === "MARK" ? node.firstChild.data : node.textContent;
            if (node.nodeName === "MARK")
                found.push([before, own, node.querySelector(".label")?.textContent ?? null]);
            before += own;
        }
        return found;
    }""")


def test_models_and_their_states_are_listed(page):
    assert cells(page.locator("#models")) == ["a/small model", "7", "AVAILABLE"]
    assert page.get_by_label("Version").locator("option").all_inner_texts() == ["latest", "7"]
    names = page.get_by_label("Signature").locator("option").all_inner_texts()
    # What people want comes first, and is what the page opens on.
    assert names[:5] == ["answer", "predict", "tag", "fill_mask", "rate"]
    assert names.index("embed") < names.index("describe") < names.index("double")
    assert {"serving_default", "classify", "regress", "echo", "sample_ids", "slow"} <= set(names)
    assert page.get_by_label("Signature").input_value() == "answer"


def test_a_key_is_asked_for_and_shown(browser, folder):
    with serving(folder, keys=Keys(["right"])) as served, opened(
            browser, served.address) as page:
        for given in ("wrong", "right"):
            page.wait_for_selector("#answer .error")
            assert "API key" in page.locator("#answer .error").inner_text()
            page.get_by_label("API key").fill(given)
            page.get_by_role("button", name="Show it").click()
        page.wait_for_selector("#fields textarea")
        choose(page, "embed")
        assert run(page, first="a", second="a").locator("#cosine").inner_text() == "1.0000"


def test_fill_mask(page):
    choose(page, "fill_mask")
    # What the model says of itself: its mask, and how it wants its text.
    assert page.locator("#about").inner_text() == (
        f"Write {MASK} where a word is missing. "
        "Text has to be split into morphemes for this model.")
    assert page.locator("textarea").input_value() == f"The capital of France is {MASK}."
    answer = run(page, text=f"In {MASK} and {MASK}.")
    assert answer.locator("h3").all_inner_texts() == ["Mask 1", "Mask 2"]
    assert cells(answer.locator("table").first) == [f"Ġ{CITY}", "75.0 %", "city", "12.5 %"]
    assert "no mask" in run(page, text="None.").inner_text()


def test_a_model_that_describes_its_results_has_texts_of_what_fills_a_mask(page):
    described = json.dumps({"results": {"fill_mask": {"masks": {
        "kind": "candidates", "text": "tokens", "written": "texts", "score": "scores"}}}})
    page.route("**:predict", lambda route: route.fulfill(json={"outputs": [described]})
               if "describe" in route.request.post_data else route.fallback())
    page.reload()
    page.wait_for_selector("#fields textarea")
    choose(page, "fill_mask")
    assert cells(run(page, text=MASK).locator("table")) == [
        f"Ġ{CITY}", CITY, "75.0 %", "city", "city", "12.5 %"]


@pytest.mark.long
def test_compare_two_sentences(page):
    choose(page, "embed")
    # Counted are a, e and i: (1, 2, 0) and (3, 0, 4).
    answer = run(page, first="a e e", second="a a a i i i i")
    assert answer.locator("#cosine").inner_text() == f"{3 / (5 ** 0.5 * 5):.4f}"


@pytest.mark.long
def test_classify(page):
    choose(page, "predict")
    answer = run(page, text="0123456789" * 2)
    assert answer.locator("#best").inner_text() == "long"
    assert cells(answer) == ["long", "100.0 %", "short", "0.0 %"]
    choose(page, "rate")
    assert run(page, text="0123456789").inner_text() == "Score 0.5"


@pytest.mark.long
def test_an_answer_is_highlighted_where_it_stands(page):
    choose(page, "answer")
    before = f"{FACE}{FACE} 가족과 \n"
    answer = run(page, question="어디?", context=f"{before}{CITY}에 산다. {CITY}.")
    assert answer.locator("#best").inner_text() == CITY
    assert highlights(answer) == [[before, CITY, None]]
    answer = run(page, question="?", context="<b>nothing</b>")
    assert highlights(answer) == []
    assert "<b>nothing</b>" in answer.inner_text()


@pytest.mark.long
def test_entities_are_highlighted(page):
    choose(page, "tag")
    before = "👩‍👩‍👧 e\u0301 "
    answer = run(page, text=f"{before}{FACE} in {CITY}에서")
    assert highlights(answer) == [[before, FACE, "FACE"], [f"{before}{FACE} in ", CITY, "LOC"]]
    assert cells(answer) == [CITY, "LOC", "50.0 %", FACE, "FACE", "50.0 %"]


@pytest.mark.long
def test_token_ids_are_written_as_numbers(page):
    choose(page, "sample_ids")
    names = [label.split(":")[0] for label in page.locator("#fields label").all_inner_texts()]
    assert names == ["input_word_ids", "input_mask", "input_type_ids", "Seed"]
    # As the form opens: mask and segments are filled in.
    assert cells(run(page)) == ["mask", "1 × 5", "1, 1, 1, 1, 1",
                                "seed", "1", "1",
                                "sequence_output", "1 × 5 × 4", ", ".join("0" * 12) + " …",
                                "word", "1 × 5", "2, 5, 6, 7, 3"]
    # The shorter text is padded.
    answer = run(page, input_word_ids="2, 9, 3\n\n 2 3\n", input_type_ids="0 0 1\n0,1",
                 seed="4")
    assert cells(answer)[::3] == ["mask", "seed", "sequence_output", "word"]
    assert cells(answer)[1::3] == ["2 × 3", "2", "2 × 3 × 4", "2 × 3"]
    assert cells(answer)[2::3] == ["1, 1, 1, 1, 1, 0", "4, 4",
                                   "0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1 …", "2, 9, 3, 2, 3, 0"]
    whole = answer.locator("details pre")
    assert not whole.is_visible()
    answer.get_by_text("JSON").click()
    page.wait_for_selector("details pre:not(:empty)")
    assert json.loads(whole.inner_text()) == {
        "mask": [[1, 1, 1], [1, 1, 0]], "seed": [4, 4], "word": [[2, 9, 3], [2, 3, 0]],
        "sequence_output": [[[0] * 4, [0] * 4, [1] * 4], [[0] * 4, [1] * 4, [0] * 4]]}


@pytest.mark.long
def test_what_are_no_token_ids_is_told(page):
    choose(page, "sample_ids")
    for texts, told in (
            ({"input_word_ids": "2 cat 3"}, "input_word_ids: cat is no whole number."),
            ({"input_word_ids": " "}, "input_word_ids is empty."),
            ({"input_word_ids": "2 3\n2 5 3", "input_mask": "1 1 1\n1 1 1"},
             "input_mask has lines of 3 and 3 numbers, but input_word_ids of 2 and 3.")):
        assert run(page, **texts).get_by_role("alert").inner_text().startswith(told)


@pytest.mark.long
def test_any_other_signature_has_a_form_of_json(page):
    choose(page, "echo")
    answer = run(page, floats="[[0.5, 1]]", ints="[7]", flags="[true]", raw_bytes="네")
    assert cells(answer) == ["first", "", "7", "flags", "1", "true", "floats", "1 × 2", "0.5, 1",
                             "ints", "1", "7", "raw_bytes", "1", "64Sk"]
    assert "ints is not JSON" in run(page, ints="[7").get_by_role("alert").inner_text()
    choose(page, "double")
    assert cells(run(page, x="[[1, 2]]")) == ["y", "1 × 2", "2, 4"]
    assert cells(run(page, x=json.dumps([[1 / 3] * 40]))) == [
        "y", "1 × 40", ", ".join(["0.6667"] * 12) + " …"]


@pytest.mark.long
def test_examples(page):
    choose(page, "classify")
    answer = run(page, examples='[{"text": "네"}]')
    assert cells(answer) == ["long", "3", "짧은", "-3"]
    choose(page, "regress")
    assert run(page, examples='[{"text": "네"}]').inner_text() == "Score 3"


@pytest.mark.long
def test_what_a_model_says_of_itself(page):
    choose(page, "describe")
    told = cells(run(page))
    assert dict(zip(told[::2], told[1::2], strict=True))["pretokenize"] == "morphemes"


def test_the_servers_words_are_shown_when_it_refuses(page):
    choose(page, "double")
    alert = run(page, x='["a"]').get_by_role("alert")
    assert alert.inner_text() == "'a' is no float32"


@pytest.mark.long
def test_keyboard_alone_is_enough(page):
    page.locator("#refresh").focus()
    visited = []
    for _ in range(6):
        page.keyboard.press("Tab")
        visited.append(page.evaluate("document.activeElement.id || document.activeElement.name"))
    assert visited == ["model", "version", "signature", "question", "context", "run"]
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer > *")
    assert page.evaluate("document.activeElement.id") == "run"


@pytest.mark.long
def test_the_chosen_signature_is_in_the_address(page, browser):
    choose(page, "tag")
    again = browser.new_page()
    again.goto(page.url)
    again.wait_for_selector("#fields textarea")
    assert again.get_by_label("Signature").input_value() == "tag"
    again.close()


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(page, scheme):
    check_contrast(page, scheme)


@pytest.mark.long
def test_every_field_has_a_name_and_lists_have_headings(page):
    for signature in ("answer", "echo", "sample_ids", "classify"):
        choose(page, signature)
        unnamed = page.evaluate("""() => [...document.querySelectorAll("textarea, select, button")]
            .filter((field) => !(field.labels?.[0]?.textContent || field.textContent).trim())""")
        assert unnamed == []
    assert page.locator("th:not([scope])").count() == 0
    assert page.locator("html").get_attribute("lang") == "en"


def test_nothing_from_elsewhere_may_be_loaded(address):
    answer = httpx.get(address, timeout=PATIENCE)
    assert answer.headers["content-type"].startswith("text/html")
    policy = dict(part.strip().split(" ", 1)
                  for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[f"{kind}-src"] for kind in ("script", "style", "connect")} == {"'self'"}
