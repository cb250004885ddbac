"""The server's page searches indexes by the vectors of its models."""

import pathlib

import httpx
import numpy as np
import pytest
from browser import opened
from server_harness import PATIENCE
from small_server import save_small_model, serving

from bert_tf.errors import BertTfError, UsageError
from bert_tf.retrieval.build_index import build_index
from bert_tf.retrieval.served_indexes import ServedIndexes
from bert_tf.retrieval.vector_index import StoredVectors

PASSAGES = ["aaa", "<b>eee</b>", "iii", "aei"]


def counts(passages):
    return np.array([[passage.text.count(letter) for letter in "aei"] for passage in passages],
                    np.float32)


def build(folder, name, digest, **facts):
    """Build an index of the passages in the folder `name`; its path."""
    (folder / "corpus.txt").write_text("\n".join(PASSAGES))
    options = {"dimensions": None, "precision": "float32", "shard_size": 9,
               "approximate": False, "seed": 0, "model_digest": digest}
    build_index(str(folder / name), options, [str(folder / "corpus.txt")],
                lambda: StoredVectors(options, counts), facts)
    return str(folder / name)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    for name in ("wiki", "others"):
        build(folder, name, name)
    indexes = ServedIndexes([str(folder / "wiki"), str(folder / "others")], lambda _: "wiki")
    with pytest.raises(UsageError, match="two indexes called wiki"):
        ServedIndexes([str(folder / "wiki")] * 2, None)
    save_small_model(str(folder / "small"))
    with serving(str(folder / "small"), indexes=indexes) as served:
        yield served.address


def of_words(page):
    """Open the page anew as if the model, one of morphemes, took text as it is."""
    page.route("**:predict", lambda route: route.fulfill(
        body=route.fetch().text().replace("morphemes", "")))
    page.reload()
    page.wait_for_selector("#fields textarea")


def test_no_search_by_a_model_whose_query_is_to_be_analysed(browser, address):
    with opened(browser, address) as page:
        page.wait_for_selector("#fields textarea")
        names = page.get_by_label("Signature").locator("option").all_inner_texts()
        assert "embed" in names and not [name for name in names if name.startswith("search")]
        page.get_by_label("Signature").select_option("embed")
        page.get_by_text("bert_tf.index search does it").wait_for()


def test_the_nearest_passages_are_shown(browser, address):
    with opened(browser, address) as page:
        of_words(page)
        names = page.get_by_label("Signature").locator("option").all_inner_texts()
        assert [name for name in names if name.startswith("search")] == ["search wiki"]
        page.get_by_label("Signature").select_option("search wiki")
        page.locator("textarea[name=query]").fill("e and e")
        # By the version that the index is of, were there a later one by now.
        with page.expect_request("**/v1/models/small/versions/7:predict"):
            page.get_by_role("button", name="Run").click()
        page.wait_for_selector("#answer td")
        cells = page.locator("#answer td").all_inner_texts()
        # (1, 2, 0), whose cosines with the passages follow by hand.
        assert cells == ["1", "<b>eee</b>", f"{2 / 5 ** .5:.4f}", "2", "aei",
                         f"{3 / 15 ** .5:.4f}", "3", "aaa", f"{1 / 5 ** .5:.4f}", "4", "iii",
                         "0.0000"]


def test_packed_bits_are_searched_as_components(browser, address):
    sent = []

    def metadata(route):
        route.fulfill(body=route.fetch().text().replace("DT_FLOAT", "DT_UINT8"))

    def search(route):
        sent.append(route.request.post_data_json["vector"])
        route.fulfill(json=[])

    with opened(browser, address) as page:
        page.route("**/metadata", metadata)
        page.route("**/page/search", search)
        of_words(page)
        page.get_by_label("Signature").select_option("search wiki")
        page.route("**:predict", lambda route: route.fulfill(json={"outputs": [[160, 1]]}))
        page.locator("textarea[name=query]").fill("e")
        with page.expect_response("**/page/search"):
            page.get_by_role("button", name="Run").click()
    np.testing.assert_array_equal(np.array(sent) > 0, [np.unpackbits(np.uint8([160, 1])) > 0])
    assert set(np.abs(sent).flat) == {1}


def test_a_version_whose_number_comes_again_is_another_one(tmp_path):
    path = tmp_path / "7/saved_model.pb"
    path.parent.mkdir()
    indexes = ServedIndexes([build(tmp_path, "wiki", "second")], lambda _: path.read_text())
    path.write_text("first")
    assert indexes.names(str(path.parent)) == []
    path.write_text("second")
    assert indexes.names(str(path.parent)) == ["wiki"]


def test_an_index_of_a_model_that_nobody_serves(tmp_path):
    index = build(tmp_path, "wiki", "of a run", model=str(tmp_path))
    with pytest.raises(UsageError, match="wiki, built by .*; expected one built by what is served"):
        ServedIndexes([index], str)


def test_an_index_that_no_page_offers_is_named(tmp_path, caplog):
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "saved_model.pb").write_text(f"model {version}")
    indexes = ServedIndexes([build(tmp_path, "wiki", "model 2"),
                             build(tmp_path, "old", "model 0", model="user/model")],
                            lambda path: pathlib.Path(path, "saved_model.pb").read_text())
    indexes.warn_of_unowned([str(tmp_path / version) for version in ("1", "2")])
    [warning] = caplog.messages
    assert f"{tmp_path}/old is of no version" in warning and "built by user/model" in warning


def test_what_is_asked_and_refused(address):
    def names(**query):
        return httpx.get(f"{address}/page/indexes", params=query, timeout=PATIENCE).json()

    assert names(model="small") == names(model="small", version="7") == ["wiki"]
    assert names(model="none") == names() == names(model="small", version="x") == []

    def search(content):
        answer = httpx.post(f"{address}/page/search", content=content, timeout=PATIENCE)
        return answer.status_code, answer.json()

    status, found = search('{"index": "wiki", "vector": [0, 0, 2]}')
    assert status == 200 and found[0] == {"id": "3", "text": "iii", "title": "", "score": 1.0}
    for content, message in [
            ("", "Expecting value"), ("[]", "Expected"), ('{"index": "wiki"}', "Expected"),
            ('{"index": "wiki", "vector": []}', "Expected"),
            ('{"index": "wiki", "vector": ["a"]}', "Expected"),
            ('{"index": "wiki", "vector": [true, 1, 2]}', "Expected"),
            ('{"index": "wiki", "vector": [[1], [2], [3]]}', "Expected"),
            ('{"index": "none", "vector": [1, 2, 3]}', "no index 'none'"),
            ('{"index": "wiki", "vector": [1, 2]}', "for vectors of 3"),
            ('{"index": "wiki", "vector": [NaN, 2, 3]}', "not finite"),
            ('{"index": "wiki", "vector": [1e39, 2, 3]}', "not finite"),  # as float32
            ('{"index": "wiki", "vector": [1' + "0" * 400 + ', 2, 3]}', "too large"),
            ("[" * 100_000, "Expected"), (b"\xff", "utf-8"), (" " * (2 << 20), "too long")]:
        status, found = search(content)
        assert status == 400 and message in found["error"]


def test_what_is_damaged_is_told_in_the_log_alone(tmp_path, caplog):
    class Damaged:
        def page(self, *_):
            raise BertTfError("/secret is damaged")

        search = page

    save_small_model(str(tmp_path))
    with serving(str(tmp_path), attention=Damaged(), indexes=Damaged()) as served:
        for method, path, status in (("GET", "attention?model=small&text=a", 404),
                                     ("POST", "search", 500)):
            answer = httpx.request(method, f"{served.address}/page/{path}", timeout=PATIENCE,
                                   content='{"index": "wiki", "vector": [1]}')
            assert answer.status_code == status and "secret" not in answer.text
            assert caplog.messages == ["/secret is damaged"]
            caplog.clear()


def test_a_server_without_indexes(tmp_path):
    save_small_model(str(tmp_path))
    with serving(str(tmp_path)) as served:
        assert httpx.get(f"{served.address}/page/indexes?model=small",
                         timeout=PATIENCE).json() == []
        answer = httpx.post(f"{served.address}/page/search", content="{}", timeout=PATIENCE)
        assert answer.status_code == 404 and "no indexes" in answer.json()["error"]
