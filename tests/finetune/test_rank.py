"""The whole way of a reranker: trained, killed and resumed, exported, served, asked, evaluated."""

import json

import numpy as np
import pytest
from browser import opened
from queries import queries
from sentiment import TINY
from small_server import serving

import bert_tf
from bert_tf import cli, query
from bert_tf.serving.client import Client
from bert_tf.storage import files

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """With a table of queries, and a run on it and its export."""
    root = tmp_path_factory.mktemp("rank")
    made = queries(48, negatives=3)
    files.write_json_lines(str(root / "train.jsonl"), (
        {"id": each.id, "query": each.query, "positive": each.positives[0],
         "negatives": list(each.negatives)} for each in made))
    bert_tf.preset("bert", "tiny", vocab_size=90).replace(**TINY).save(str(root / "config.json"))
    train(root, "run")
    return root


def train(root, name, **options):
    return bert_tf.finetune(**{
        "task": "rank", "train": str(root / "train.jsonl"), "dev": 0.25, "seed": 3, "negatives": 2,
        "output_dir": str(root / name), "config": str(root / "config.json"), "epochs": [10],
        "learning_rate": [1e-2], "batch_size": 12, "max_seq_length": 24, "dropout": 0.1,
        "export_dir": str(root / f"served_{name}"), **options})


def weights(folder):
    from bert_tf.storage.variables import read_variables

    return read_variables(str(folder / "model" / "model"))


def test_it_learns_and_is_measured_the_same_from_every_folder(root):
    results = files.read_json(str(root / "run" / "results.json"))
    assert results["metrics"]["mrr@10"] > 0.9 and results["monitor"] == "mrr@10"
    found = [bert_tf.evaluate(task="rank", model=str(root / model), data=str(root / "train.jsonl"),
                              output_dir=str(root / output))
             for model, output in (("run", "e1"), ("served_run/1", "e2"))]
    assert found[0]["metrics"] == found[1]["metrics"]
    assert "learned from" in found[0]["notes"][-1]
    retrieval = bert_tf.evaluate(
        task="retrieval", model="bm25", data=str(root / "train.jsonl"), rerank=200, depth=200,
        reranker=str(root / "served_run" / "1"), output_dir=str(root / "e3"))
    # All queries have the same mark: their passages come before those of the other mark. Of 48
    # positives 27 have a word of their query, without which they are not found.
    assert retrieval["systems"]["bm25 + reranker"]["recall@100"] == pytest.approx(27 / 48)


def test_a_stopped_run_ends_in_the_same_bytes(root, monkeypatch):
    from bert_tf.training import loop

    save = loop._Run.save

    def stop(run):
        save(run)
        if run.step == 9:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop._Run, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            train(root, "again")
    train(root, "again")
    before, after = weights(root / "run"), weights(root / "again")
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(value, after[name])


def test_two_replicas_learn_what_one_does(root):
    train(root, "two", num_devices=2, epochs=[2])
    train(root, "one", epochs=[2])
    for name, value in weights(root / "one").items():
        np.testing.assert_allclose(weights(root / "two")[name], value, atol=2e-3)


def test_it_is_served_asked_and_on_the_page(root, capsys, browser):
    model = bert_tf.from_pretrained(str(root / "run"))
    passages = ["the story dull", "fine great film", "dull music"]
    expected = model.rank("the end 1", passages)
    assert expected[0]["index"] == 1
    with serving(str(root / "served_run"), name="reranker") as served:
        with Client(served.address, "reranker") as client:
            found = client.rank("the end 1", passages)
            assert [each["text"] for each in found] == [each["text"] for each in expected]
            np.testing.assert_allclose([each["score"] for each in found],
                                       [each["score"] for each in expected], atol=1e-4)
        words = ["reranker", *passages, "--query", "the end 1", "--address", served.address]
        assert cli.run(query.main, words) == 0
        assert capsys.readouterr().out.startswith("1. ")
        assert cli.run(query.main, [*words, "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[0])["index"] == 1
        assert cli.run(query.main, [*words, "--pair", "a"]) == 2
        with opened(browser, served.address) as page:
            page.wait_for_selector("#fields textarea")
            assert page.get_by_label("Signature").input_value() == "rank"
            page.locator("textarea[name=query]").fill("the end 1")
            page.locator("textarea[name=passage]").fill("\n".join(passages))
            page.get_by_role("button", name="Run").click()
            page.wait_for_selector("#best")
            assert page.locator("#best").inner_text() == passages[1]
