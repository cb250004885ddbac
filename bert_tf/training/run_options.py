"""Options of the commands that train in one process and export what they trained."""

import dataclasses
import os

from bert_tf.errors import UsageError, explain
from bert_tf.options import FRACTION, NOT_NEGATIVE, POSITIVE, REQUIRED, Options, option
from bert_tf.storage import files, hub
from bert_tf.storage.export_dirs import export_dir_beside
from bert_tf.training.config import DTYPES, STRATEGIES


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """How a model is trained, on what, and where it goes."""

    output_dir: str = option(REQUIRED, "run folder", metavar="DIR")
    export_dir: str | None = option(
        None, "where the SavedModel goes (default: named as the run folder)",
        metavar="saved_models/NAME")
    warmup_ratio: float = option(
        0.1, "fraction of the steps in which the learning rate rises", FRACTION, metavar="X")
    weight_decay: float = option(
        0.01, "decoupled; biases and LayerNorm are excluded", NOT_NEGATIVE, metavar="X")
    dtype: str = option("float32", "what layers compute in; weights stay float32", choices=DTYPES)
    strategy: str = option(
        "mirrored", "tf.distribute strategy",
        choices=tuple(name for name in STRATEGIES if name != "multi_worker"))
    num_devices: int = option(
        1, "logical CPU devices where there is no GPU, with --strategy mirrored a replica on each",
        POSITIVE, metavar="N")

    def with_folders(self, *models):
        """Return the options with `export_dir` filled in.

        Args:
            models: names of the fields with models that are read.

        Raises:
            UsageError: the run folder is where the SavedModel goes, or where a model is, or
                nothing could be loaded from `export_dir`.
        """
        export_dir = export_dir_beside(self.output_dir, self.export_dir)
        for name in models:
            check_apart(self.output_dir, name, getattr(self, name))
        return self.replace(export_dir=export_dir)


def check_apart(output_dir, name, path):
    """Raise UsageError where the run folder, which may be cleared, holds the model at `path`.

    Args:
        output_dir: the run folder.
        name: of the option that names the model.
        path: of the model, or the name of a repository; None for none.
    """
    folder = files.resolved(output_dir)
    path = path and files.resolved(hub.repository(path) or path)
    if path and f"{path}{os.sep}".startswith(folder + os.sep):
        raise UsageError(explain(f"--output_dir {output_dir} holds the model of --{name}",
                                 attempt="another output folder"))
