"""Teachers on disk, and texts."""

import pytest
from sentiment import examples
from teachers import classifier, embedder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with the model folders `embedder` and `classifier`, and `texts.txt`."""
    folder = tmp_path_factory.mktemp("distill")
    embedder().save_pretrained(str(folder / "embedder"))
    classifier().save_pretrained(str(folder / "classifier"))
    (folder / "texts.txt").write_text("\n".join(each.text_a for each in examples(200)))
    return folder
