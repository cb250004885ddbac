"""The digest by which an index knows the model it was built with."""

import shutil

from bert_tf.embedder import model_digest


def test_every_module_of_sentence_transformers_counts(shared, tmp_path):
    source = next(path.parent for path in sorted((shared / "reference" / "hub").glob(
        "*/modules.json")))
    copy = tmp_path / "copy"
    shutil.copytree(source, copy, copy_function=shutil.copyfile)
    assert model_digest(str(copy)) == model_digest(str(source))
    copy.chmod(0o755)
    config = next(copy.glob("1_*/config.json"))
    config.parent.chmod(0o755)
    config.write_text(config.read_text() + " ")
    assert model_digest(str(copy)) != model_digest(str(source))
