"""Where SavedModels go."""

import pytest

from bert_tf.storage.export_dirs import export_dir_beside


@pytest.mark.parametrize("run, given, export_dir, is_told", [
    ("memory://runs/base", None, "saved_models/base", True),
    ("memory://runs/base", "memory://served/base", "memory://served/base", False),
    ("runs/base", None, "saved_models/base", False)])
def test_of_a_run_in_a_store_an_export_to_the_local_disk_is_told(
        capsys, run, given, export_dir, is_told):
    assert export_dir_beside(run, given) == export_dir
    told = capsys.readouterr().err
    assert (f"note: the SavedModel goes to {export_dir} on this machine" in told) == is_told
