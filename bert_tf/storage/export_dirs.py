"""Where SavedModels go: the folder of a model's versions."""

import glob
import os
import sys

from bert_tf.errors import UsageError, explain, print_note
from bert_tf.storage import files


def export_dir_of(name, given=None):
    """Return the folder of a model's versions: `given`, or `saved_models/NAME`.

    Raises:
        UsageError: TensorFlow could not load anything from it.
    """
    export_dir = os.fspath(given or os.path.join("saved_models", name))
    if glob.escape(export_dir) != export_dir:
        raise UsageError(explain(
            f"--export_dir {export_dir}", "no *, ? or [ in it, TensorFlow's signs of a pattern "
            "where it loads a SavedModel", "another one"))
    return export_dir


def export_dir_beside(output_dir, given=None):
    """Return where the SavedModel of a run goes: `given`, or named as the run folder, on the local
    disk, which is told of a run in an object store.

    Raises:
        UsageError: it is the run folder, or as of `export_dir_of`.
    """
    name, run = files.base_name(output_dir), files.resolved(output_dir)
    export_dir = export_dir_of(name, given)
    if not given and files.is_remote(output_dir):
        print_note(f"the SavedModel goes to {export_dir} on this machine's disk, not beside the "
                   "run; --export_dir names another place", file=sys.stderr)
    if files.resolved(export_dir) == run:
        usual = os.path.join("saved_models", name)
        raise UsageError(explain(
            f"--export_dir {export_dir} is the run folder",
            attempt="another --output_dir" if files.resolved(usual) == run
            else f"--export_dir {usual}"))
    return export_dir
