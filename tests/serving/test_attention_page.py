"""The server's page leads to pages that show what its models attend to."""

import concurrent.futures
import itertools
import threading

import httpx
import numpy as np
import pytest
from browser import opened
from server_harness import PATIENCE, Server
from small_model import save_small
from small_server import save_small_model, serving
from tensorflow_serving.config import model_server_config_pb2
from tiny_model import export_once

from bert_tf.errors import UsageError
from bert_tf.serving.server.page import MOST_CHARACTERS
from bert_tf.visualization.attention import attention
from bert_tf.visualization.source import load_encoder

pytestmark = pytest.mark.long
TEXT, PAIR = "The quick <b>fox</b> 안녕하세요 😀", "over the lazy dog &"
OURS, OTHERS = "ours/ & 우리", "others"


@pytest.fixture(scope="module")
def version(made_once):
    """An exported BERT."""
    return export_once(str(made_once), "bert")[1]


@pytest.fixture(scope="module")
def model(version):
    """Its encoder and its tokenizer."""
    return load_encoder(version, attention_probs=True)


@pytest.fixture(scope="module")
def rest(version, tmp_path_factory):
    """Address of `bert_tf.serve` with that model and one of other origin."""
    folder = tmp_path_factory.mktemp("served")
    save_small(folder / OTHERS)
    config = model_server_config_pb2.ModelServerConfig()
    for name, path in ((OURS, version.removesuffix("/1")), (OTHERS, str(folder / OTHERS))):
        config.model_config_list.config.add(name=name, base_path=path,
                                            model_platform="tensorflow")
    (folder / "models.config").write_text(str(config))
    server = Server(f"--model_config_file={folder / 'models.config'}",
                    "--enable_model_warmup=false")
    yield server.rest
    server.stop()


@pytest.fixture
def page(browser, rest):
    with opened(browser, rest) as page:
        page.wait_for_selector("#fields textarea")
        yield page


def choose(page, model, signature):
    own = {OURS: "next_sentence", OTHERS: "ids"}[model]  # which the other one has not
    page.get_by_role("combobox", name="Model").select_option(model)
    page.wait_for_selector(f"#signature option[value={own}]", state="attached")
    page.get_by_role("combobox", name="Signature").select_option(signature)


@pytest.mark.parametrize(("signature", "texts", "name"), [
    ("fill_mask", {"text": TEXT}, "Show attention"),
    ("next_sentence", {"text_a": TEXT, "text_b": PAIR}, "Show attention"),
    ("embed", {"second": TEXT}, "Show attention: Second sentence")])
def test_the_text_at_hand_has_a_page(page, model, signature, texts, name):
    choose(page, OURS, signature)
    for field, text in texts.items():
        page.locator(f"textarea[name={field}]").fill(text)
    link = page.get_by_role("link", name=name)
    address = link.evaluate("link => link.href")
    with page.expect_popup() as opening:
        link.click()
    opening.value.close()
    with opened(page.context.browser, address) as shown:
        assert shown.locator("dd").all_inner_texts() == list(texts.values())
        assert shown.inner_text("#about").startswith(f"{OURS}, version 1: 1 layers of 2 heads")
        seen = attention(*model, *texts.values())
        assert shown.locator("#to .label").all_inner_texts() == seen["labels"]
        found = shown.evaluate("[...weights].map((step) => step / data.steps)")
        np.testing.assert_allclose(found, seen["probabilities"].ravel(), atol=1e-5)


def test_other_models_have_no_link_and_it_is_said_why(page, rest):
    choose(page, OTHERS, "ids")
    assert page.get_by_role("link", name="Show attention").count() == 0
    answer = httpx.get(f"{rest}/page/attention", timeout=PATIENCE,
                       params={"model": OTHERS, "text": "a"})
    assert answer.status_code == 404
    assert "There is no attention page of this model" in answer.text
    assert "expected a version that python -m bert_tf.export wrote" in answer.text


@pytest.mark.parametrize(("query", "status", "sentence"), [
    ({"model": OURS}, 400, "No text"),
    ({"model": OURS, "text": "a" * MOST_CHARACTERS, "text_pair": "b"}, 413, "too long"),
    ({"model": "nobody", "text": "a"}, 404, "nobody"),
    ({"model": OURS, "version": "2", "text": "a"}, 404, "Specific"),
    ({"model": OURS, "version": "9" * 5000, "text": "a"}, 400, "expected a number")])
def test_what_cannot_be_shown_is_answered_with_a_sentence(rest, query, status, sentence):
    answer = httpx.get(f"{rest}/page/attention", params=query, timeout=PATIENCE)
    assert (answer.status_code, answer.headers["content-type"]) == (
        status, "text/plain; charset=utf-8")
    assert sentence in answer.text


def test_the_longest_text_is_cut_to_the_models_window(rest):
    query = {"model": OURS, "version": "1", "text": "한" * MOST_CHARACTERS}
    answer = httpx.get(f"{rest}/page/attention", params=query, timeout=PATIENCE)
    assert answer.status_code == 200
    policy = dict(part.strip().split(" ", 1)
                  for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert "connect-src" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


class Slow:
    """Draws nothing until it is let go."""

    def __init__(self):
        self.begun, self.go = threading.Event(), threading.Event()

    def has_page(self, folder):
        return True

    def page(self, folder, name, text, text_pair):
        self.begun.set()
        assert self.go.wait(PATIENCE)
        if text == "refused":
            raise UsageError("it has its reasons")
        return f"{name}: {text}"


def test_requests_do_not_wait_for_pages(tmp_path):
    save_small_model(str(tmp_path))
    slow = Slow()
    with serving(str(tmp_path), attention=slow) as served, \
            concurrent.futures.ThreadPoolExecutor(12) as pool:
        def ask(text):
            return httpx.get(f"{served.address}/page/attention", timeout=PATIENCE,
                             params={"model": "small", "text": text})

        asked = [pool.submit(ask, "refused" if number == 3 else "text") for number in range(12)]
        assert slow.begun.wait(PATIENCE)
        answer = httpx.post(f"{served.address}/v1/models/small:predict", timeout=PATIENCE,
                            json={"signature_name": "rate", "instances": ["0123456789"]})
        assert answer.json() == {"predictions": [0.5]}
        assert httpx.get(f"{served.address}/page/has_attention?model=small",
                         timeout=PATIENCE).json() is True
        # None is drawn before all that are too many are refused.
        refused = itertools.islice(concurrent.futures.as_completed(asked, PATIENCE), 4)
        busy = [done.result().status_code for done in refused]
        slow.go.set()
        answers = [each.result() for each in asked]
    assert busy == [503] * 4
    assert sorted(answer.status_code for answer in answers) in (
        [200] * 7 + [404] + [503] * 4, [200] * 8 + [503] * 4)
    assert {answer.text for answer in answers if answer.status_code == 200} == {
        "small, version 7: text"}


def test_a_server_without_them_says_so(tmp_path):
    save_small_model(str(tmp_path))
    with serving(str(tmp_path)) as served:
        assert httpx.get(f"{served.address}/page/has_attention?model=small",
                         timeout=PATIENCE).json() is False
        answer = httpx.get(f"{served.address}/page/attention?model=small&text=a",
                           timeout=PATIENCE)
        assert (answer.status_code, answer.text) == (
            404, "This server draws no attention pages.\n")
