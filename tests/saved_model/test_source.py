"""Which exported version is a run's."""

import json

import pytest

from bert_tf.saved_model import save
from bert_tf.saved_model.source import RESULTS, find_source, marks, published_version
from bert_tf.storage import checksums, files


@pytest.fixture
def run(tmp_path):
    """Functions that train and export a run, as far as files tell."""
    folder, exported = tmp_path / "run", tmp_path / "exported"

    class Run:
        def train(self, weights):
            files.remove(str(folder / "model"))
            with checksums.new_folder(str(folder / "model")) as model:
                files.write_text(f"{model}/weights", weights)
            checksums.write_sealed(str(folder / RESULTS), {**marks(str(folder), "fingerprint"),
                                                           "metrics": {}})

        def export(self):
            version = exported / str(len([*exported.glob("*")]) + 1)
            with checksums.new_folder(str(version)) as new:
                extra = files.make_folder(f"{new}/assets.extra")
                files.copy(str(folder / RESULTS), f"{extra}/{RESULTS}")
            return str(version)

        def published(self):
            return published_version(str(exported), str(folder))

        def noted_earlier(self):
            """Before the digest of the model was noted."""
            results = checksums.read_sealed(str(folder / RESULTS))
            del results["model_digest"]
            checksums.write_sealed(str(folder / RESULTS), results)
    return Run()


def test_another_model_of_the_same_options_is_not_published_yet(run):
    run.train("first")
    assert run.published() is None
    first = run.export()
    assert run.published() == first
    run.train("first")  # the same bytes, as of a run whose results were deleted
    assert run.published() == first
    run.train("second")
    assert run.published() is None
    second = run.export()
    assert run.published() == second != first


def test_a_published_run_is_not_exported_again(run, tmp_path, monkeypatch, capsys):
    run.train("first")
    monkeypatch.setattr(save, "export_saved_model", lambda *folders: run.export())
    for told in (False, True):
        version = save.export_run(str(tmp_path / "run"), str(tmp_path / "exported"))
        assert version == str(tmp_path / "exported" / "1")
        assert ("this run is finished already" in capsys.readouterr().out) == told


def test_a_run_of_an_earlier_version_stays_published(run):
    run.train("first")
    run.noted_earlier()
    first = run.export()
    assert run.published() == first
    run.train("second")
    assert run.published() is None


@pytest.mark.parametrize(("files_of_run", "length"), [
    ({"run.json": {"objective": "mlm", "seq_length": 32}}, 32),  # its examples were deleted
    ({"run.json": {"objective": "mlm", "seq_length": 32}, "data/manifest.json": {"lr": 1}}, 32),
    ({"data/manifest.json": {"seq_length": 17}}, 17),
    ({"run.json": {"task": "classify", "seq_length": 64}}, None),
    ({"data/manifest.json": {"lr": 1}}, None)])  # somebody else's
def test_the_window_of_a_run_is_the_length_of_its_examples(tmp_path, files_of_run, length):
    for name, options in files_of_run.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps({"options": options}))
    for folder in (tmp_path, tmp_path / "masked_lm"):
        (folder / "model").mkdir(parents=True)
        (folder / "model/model_config.json").write_text("{}")
        (folder / RESULTS).write_text("{}")
        of_run = folder == tmp_path or "run.json" in files_of_run
        assert find_source(str(folder)).seq_length == (length if of_run else None)
    (tmp_path / RESULTS).unlink()
    assert find_source(str(tmp_path)).name == (tmp_path.name if length else "model")
