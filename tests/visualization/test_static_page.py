"""Pages without scripts: text stays text, nothing is loaded, and they fit any window."""

import numpy as np
from browser import opened
from tiny_model import byte_pair, word_piece

from bert_tf.visualization.masking_page import write_masking_page
from bert_tf.visualization.static_page import element, table, visible, write_page
from bert_tf.visualization.tokens import count_pieces, tokenize_texts
from bert_tf.visualization.tokens_page import write_tokens_page

HOSTILE = "</b><script>document.title = 'ran'</script><img src='http://a.org/x'> &amp; 안녕 😀"


def _write_pages(folder):
    texts = [HOSTILE, "the quick brown fox " * 30, "\n \0 wide" + "w" * 150]
    tokenizers = [word_piece(), byte_pair()]
    cuts = [tokenize_texts(tokenizer, texts) for tokenizer in tokenizers]
    tables = [{"name": HOSTILE, "kind": "a kind", "vocabulary": 9, **count_pieces(cut)}
              for cut in cuts]
    write_tokens_page(f"{folder}/tokens.html", texts, tables, cuts)
    tokens = ["[CLS]", "<script>", "long" * 12, "##s", "[SEP]", "안녕", "😀", "[SEP]"]
    chosen = {"positions": np.array([1, 2, 3]), "labels": tokens[1:4],
              "fates": ["mask", "random", "kept"]}
    masked = {**chosen, "input": ["[CLS]", "[MASK]", "word", *tokens[3:]]}
    write_masking_page(f"{folder}/masking.html", {
        "tokens": tokens, "ids": np.arange(8), "segments": np.array([0] * 5 + [1] * 3),
        "word_starts": np.array([1, 1, 1, 0, 1, 1, 1, 1], bool),
        "maskings": {"token": masked, "whole_word": masked},
        "pair": {"task": "sentence order prediction", "label": 1, "meaning": "changed",
                 "segments": [HOSTILE, "b" * 300]}}, HOSTILE)
    write_page(f"{folder}/plain.html", HOSTILE, "p { margin: 0; }", HOSTILE,
               element("p", HOSTILE, element("b", 1.5), HOSTILE, title=f'"{HOSTILE}"'),
               table([HOSTILE], [[HOSTILE], [3]]))
    return ["tokens", "masking", "plain"]


def test_text_stays_text_and_pages_fit(browser, tmp_path):
    for name in _write_pages(tmp_path):
        with opened(browser, f"file://{tmp_path}/{name}.html") as page:
            assert page.title() == page.locator("h1").inner_text() != "ran"
            assert page.locator("script, img").count() == 0
            assert page.get_by_text(HOSTILE, exact=True).count() > 0
            for width in (320, 1400):
                page.set_viewport_size({"width": width, "height": 700})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            if name == "plain":
                assert page.locator("p").get_attribute("title") == f'"{HOSTILE}"'
                assert page.locator("p").inner_text() == f"{HOSTILE}1.5{HOSTILE}"
                continue
            # Wide windows have the parts side by side, narrow ones one below the other.
            for width, columns in ((320, 1), (1400, 2)):
                page.set_viewport_size({"width": width, "height": 700})
                lefts = page.locator(".sides").first.evaluate(
                    "sides => [...sides.children].map(e => e.getBoundingClientRect().left)")
                assert len(set(lefts)) == columns and len(lefts) == 2


def test_white_space_is_seen():
    assert [visible(text) for text in (" ", "\n\t", "\0", "a b", " a", "")] == [
        "␣", "⏎⇥", "␀", "a b", " a", ""]
