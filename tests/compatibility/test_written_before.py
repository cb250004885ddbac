"""Folders, files and SavedModels that an earlier version wrote; README.md says which and how."""

import json
import pathlib
import tarfile
import warnings

import pytest
import tensorflow as tf
from compatibility import cases
from small_server import serving

import bert_tf
from bert_tf import evaluate, export, pretrain
from bert_tf.serving.client import Client

DATA = pathlib.Path(__file__).parent / "data"
EXPECTED = json.loads((DATA / "expected.json").read_text())
# Of each class and way of reading one; what is written of the others is of the same kinds.
QUICK = {"models": ("pretraining", "language_model", "replaced_tokens", "classifier",
                    "span", "tagger_character", "embedder"),
         "keras": ("classifier",), "saved_models": ("embedder",)}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Folder of all that was written."""
    folder = tmp_path_factory.mktemp("written")
    for path in DATA.glob("*.tar.xz"):
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def in_written(written, monkeypatch):
    """The same, as the current folder: commands of runs have paths relative to it."""
    monkeypatch.chdir(written)
    return written


def written_names(kind):
    return [pytest.param(name, marks=[pytest.mark.long] * (name not in QUICK[kind]))
            for name in EXPECTED[kind]]


@pytest.mark.parametrize("name", written_names("models"))
def test_model_folders(name, written, eager):
    model = bert_tf.from_pretrained(str(written / "models" / name))
    assert model.fresh_variables == ()
    cases.assert_same(cases.answers_of(name, model), EXPECTED["models"][name])


@pytest.mark.parametrize("name", written_names("keras"))
def test_keras_files_answer_and_learn_on(name, written, eager):
    expected = EXPECTED["keras"][name]
    model = bert_tf.load_model(str(written / "keras" / f"{name}.keras"))
    cases.assert_same(cases.answers_of(name, model), expected["answers"])
    inputs, labels = (tf.nest.map_structure(tf.constant, cases.arrays(expected[part]))
                      for part in ("inputs", "labels"))
    loss = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    cases.assert_same(cases.plain(loss), expected["loss"])
    model.fit(inputs, labels, verbose=0)
    cases.assert_same(cases.answers_of(name, model), expected["answers_later"])


@pytest.mark.parametrize(("name", "model"), [("run", "runs/reviews"),
                                             ("saved_model", "saved_models/reviews/1")])
def test_a_finished_run_is_measured(name, model, in_written):
    evaluate.main(["--model", model, "--data", "new_reviews.csv", "--output_dir", name])
    results = json.loads((in_written / name / "results.json").read_text())
    cases.assert_same(results["metrics"], EXPECTED["runs"][f"metrics_of_{name}"])


@pytest.mark.long
def test_a_killed_pretraining_goes_on(in_written, eager):
    # No export, which takes most of the time: a file is in its place.
    (in_written / "saved_models/killed").write_text("")
    with pytest.raises(bert_tf.BertTfError, match="saved_models/killed"):
        pretrain.main(EXPECTED["runs"]["pretrain"])
    lines = [json.loads(line) for line in (
        in_written / "runs/killed/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line.get("split") == "train"] == list(range(1, 9))
    weights = bert_tf.from_pretrained("runs/killed").weights
    # A key's bias shifts all scores of a query alike: its gradient is rounding, which differs by
    # processor and which AdamW brings to full size.
    expected = {name: values for name, values in EXPECTED["runs"]["weights"].items()
                if not name.endswith("/key/bias")}
    cases.assert_same({weight.path: cases.plain(weight.numpy()) for weight in weights}, expected)


@pytest.mark.parametrize("name", written_names("saved_models"))
def test_saved_models(name, written):
    version = str(written / "saved_models" / name / "1")
    found = cases.asked(tf.saved_model.load(version).signatures)
    cases.assert_same(cases.plain(found), EXPECTED["saved_models"][name])
    export.main(["--check", version])


def entities_from(client):
    return client.tag(cases.TEXTS), [row["entities"] for row in EXPECTED["models"]["tagger"]]


def answers_from(client):
    outputs = EXPECTED["models"]["span"]
    expected = []
    for row, score in enumerate(outputs["no_answer_score"]):
        found = [{"answer": text, "score": score, "start": start, "end": end}
                 for text, score, start, end in zip(*(outputs[name][row] for name in (
                     "answers", "scores", "starts", "ends")), strict=True)]
        expected.append({**found[0], "no_answer_score": score, "answers": found})
    return client.answer(cases.QUESTIONS, cases.CONTEXTS), expected


def labels_from(client):
    outputs = EXPECTED["saved_models"]["reviews"]["predict"]
    return client.classify(cases.TEXTS), [
        {"label": label, "score": score, "probabilities": dict(zip(labels, each, strict=True))}
        for label, score, labels, each in zip(*(outputs[name] for name in (
            "label", "score", "labels", "probabilities")), strict=True)]


@pytest.mark.long
@pytest.mark.parametrize(("name", "asked_and_expected"), [
    ("reviews", labels_from), ("span", answers_from), ("tagger", entities_from)])
def test_the_client_reads_earlier_exports(name, asked_and_expected, written):
    with (serving(written / "saved_models" / name, name) as served,
          Client(served.address, name) as client):
        cases.assert_same(*asked_and_expected(client))


@pytest.mark.parametrize(("name", "now"), [
    ("Span", "QuestionAnswering"), ("Tagger", "TokenClassifier"),
    ("TextReader", "TextPreprocessor"), ("QuestionReader", "QuestionPreprocessor"),
    ("WordReader", "WordPreprocessor")])
def test_earlier_names_of_classes(name, now):
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        found = getattr(bert_tf, name)
    assert found is getattr(bert_tf, now)
    [warning] = given
    assert issubclass(warning.category, DeprecationWarning) and now in str(warning.message)
