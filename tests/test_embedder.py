"""The digest by which an index knows the model it was built with."""

import shutil

from bert_tf.embedder import deciding_files, model_digest


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


def test_a_checkpoint_in_a_folder_with_brackets(shared, tmp_path):
    folder = tmp_path / "bert[1]"
    shutil.copytree(shared / "reference" / "google_bert", folder, copy_function=shutil.copyfile)
    found = deciding_files(str(next(folder.glob("*.index")).with_suffix("")))
    assert {*found} == {str(path) for name in ("*.ckpt*", "bert_config.json", "vocab.txt")
                        for path in folder.glob(name)}
