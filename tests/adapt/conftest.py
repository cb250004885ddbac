"""The model and the text of `adapting` on disk."""

import pytest
from adapting import TEXT, embedder

from bert_tf.adapt import run as run_module
from bert_tf.pretrain import run as pretrain_module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with the model folder `embedder`, and `text.txt`."""
    folder = tmp_path_factory.mktemp("adapt")
    embedder().save_pretrained(str(folder / "embedder"))
    (folder / "text.txt").write_text(TEXT)
    return folder


@pytest.fixture
def unexported(monkeypatch):
    for module, name in ((run_module, "export_run"), (pretrain_module, "export_saved_model")):
        monkeypatch.setattr(module, name, lambda run, export: export)
