"""Model folders and their exports, made once."""

import pytest
from tiny_model import TOP_K, Caller, save_model

from bert_tf.saved_model.save import export_saved_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """Lower-casing, with a next-sentence head."""
    return save_model(str(tmp_path_factory.mktemp("saved_model") / "model"))


@pytest.fixture(scope="session")
def cased_folder(tmp_path_factory):
    """Case is kept, no next-sentence head."""
    return save_model(str(tmp_path_factory.mktemp("saved_model") / "cased"), next_sentence=False,
                      lower_case=False)


@pytest.fixture(scope="session")
def version(model_folder, tmp_path_factory):
    """The exported `model_folder`."""
    return export_saved_model(model_folder, str(tmp_path_factory.mktemp("export") / "bert"),
                              top_k=TOP_K)


@pytest.fixture(scope="session")
def cased_version(cased_folder, tmp_path_factory):
    """The exported `cased_folder`, computing in bfloat16."""
    return export_saved_model(cased_folder, str(tmp_path_factory.mktemp("export") / "cased"),
                              dtype="bfloat16")


@pytest.fixture(scope="session")
def call(version):
    """`call(signature, **inputs)` -> dict of arrays, by the exported `model_folder`."""
    return Caller(version)


@pytest.fixture(scope="session")
def cased_call(cased_version):
    """The same by the exported `cased_folder`."""
    return Caller(cased_version)
