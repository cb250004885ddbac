"""A type of task in a folder of its own and one line in the registry goes all the way."""

import json

import pytest
from browser import opened
from small_server import serving

import bert_tf
from bert_tf import cli, query
from bert_tf.serving.client import Client
from bert_tf.tasks import registry

pytestmark = pytest.mark.long

TEXTS = [("a calm sea", "quiet"), ("the calm night", "quiet"), ("a loud storm", "noisy"),
         ("the loud street", "noisy")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a fine-tuning on the toy task, and its exported version's folder."""
    root = tmp_path_factory.mktemp("toy")
    table = root / "tones.tsv"
    rows = [f"{text} {number}\t{tone}" for number in range(8) for text, tone in TEXTS]
    table.write_text("text\ttone\n" + "\n".join(rows) + "\n")
    config = root / "config.json"
    bert_tf.preset("bert", "tiny", vocab_size=60).replace(
        hidden_size=16, num_attention_heads=2, intermediate_size=32, num_hidden_layers=1,
        max_position_embeddings=32).save(str(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.TYPES, "toy", "toy_task")  # the one line
        bert_tf.finetune(task="tone", train=str(table), dev=0.25, output_dir=str(root / "run"),
                         config=str(config), epochs=[12], learning_rate=[3e-2], batch_size=8,
                         dropout=0.0, seed=3, export_dir=str(root / "served"))
        bert_tf.evaluate(model=str(root / "run"), data=str(table),
                         output_dir=str(root / "evaluation"))
        yield root


def test_it_is_learned_and_evaluated(run):
    for name in ("run", "evaluation"):
        results = json.loads((run / name / "results.json").read_text())
        assert results["task"] == "tone" and results["metrics"]["accuracy"] == 1
    lines = (run / "run" / "predictions.jsonl").read_text().splitlines()
    assert {"text", "gold", "tone"} <= json.loads(lines[0]).keys()


def test_it_is_served_and_asked(run, capsys):
    assert bert_tf.from_pretrained(str(run / "run")).labels == ["noisy", "quiet"]
    with serving(str(run / "served"), name="tones") as served:
        with Client(served.address, "tones") as client:
            [row] = client.ask("tone", text=["a calm sea"])
            assert row["tone"]["label"] == "quiet"
            assert row["tone"]["probabilities"]["quiet"] == row["tone"]["score"] > 0.5
            assert client.describe()["results"]["tone"]["tone"]["kind"] == "label"
        assert cli.run(query.main, ["tones", "a loud storm", "--address", served.address]) == 0
        assert "label: noisy" in capsys.readouterr().out


@pytest.mark.long
def test_what_is_served_is_evaluated(run):
    bert_tf.evaluate(model=str(run / "served" / "1"), data=str(run / "tones.tsv"), task="tone",
                     output_dir=str(run / "of_served"))
    assert json.loads((run / "of_served" / "results.json").read_text())["metrics"]["accuracy"] == 1


@pytest.mark.long
def test_the_page_shows_it(run, browser):
    with (serving(str(run / "served"), name="tones") as served,
          opened(browser, served.address) as page):
        page.wait_for_selector("#fields textarea")
        assert page.get_by_label("Signature").input_value() == "tone"
        page.locator("textarea[name=text]").fill("the calm night")
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector("#best")
        assert page.locator("#best").inner_text() == "quiet"
