"""The source of an export: the model folder of a finished run, or any model folder."""

import dataclasses
import os

from bert_tf.models.find import EXTRA, OURS, examples_path, find_model
from bert_tf.models.pretrained import TASK
from bert_tf.saved_model.server_config import versions
from bert_tf.storage import checksums, files, local_copies, manifest

RESULTS = "results.json"  # of a finished run, with `marks`
_MARKS = ("run", "model_digest")  # runs of an earlier version have the former alone
_RECORDS = ("train_config.json", "metrics.jsonl", RESULTS)


@dataclasses.dataclass(frozen=True)
class Source:
    """A model folder and what is known of its training."""

    model_folder: str
    name: str  # of the run, or else of the folder
    seq_length: int | None = None  # tokens of a training example
    records: tuple = ()  # files about the training


def find_source(path):
    """Find the `Source` at `path`.

    Args:
        path: a run folder (its subfolder `model/` is the model folder), that subfolder, or a
            model folder written by `save_pretrained`.

    Raises:
        UsageError: there is no model.
    """
    folder = files.absolute(find_model(path, OURS).folder)
    local, run = local_copies.local(folder), os.path.dirname(folder)
    if os.path.basename(folder) != "model":
        return Source(local, os.path.basename(folder))
    records = tuple(path for path in (os.path.join(run, name) for name in _RECORDS)
                    if files.exists(path))
    seq_length = _examples_length(run)
    if not (seq_length or records):
        return Source(local, os.path.basename(folder))
    task = os.path.join(folder, TASK)
    # A model that reads text has its own window, whatever its encoder was trained on last.
    reads = files.exists(task) and "reading" in files.read_json_object(task)
    return Source(local, os.path.basename(run), None if reads else seq_length, records)


def _examples_length(run):
    """Return the tokens of an example of a pre-training run; None of another folder."""
    data = examples_path(run)
    # The examples are the largest part of a finished run, and may have been deleted.
    record = os.path.join(os.path.dirname(os.path.dirname(data)), "run.json")
    for path, option in ((record, "objective"), (data, "seq_length")):
        options = manifest.read(path).get("options", {}) if files.exists(path) else {}
        if option in options and "seq_length" in options:
            return options["seq_length"]
    return None


def published_version(export_dir, run):
    """Return the path of the version in `export_dir` that the finished run in the folder `run`
    exported.

    None where there is none: both have a `results.json` with the same `marks`.
    """
    if not files.exists(os.path.join(run, RESULTS)):
        return None
    known = _known_marks(run)
    for version in versions(export_dir):
        path = os.path.join(export_dir, str(version))
        extra = os.path.join(path, EXTRA)
        if files.is_whole(path) and files.exists(os.path.join(extra, RESULTS)) and (
                _known_marks(extra) == known):
            checksums.opened(path)
            return path
    return None


def marks(run, mark):
    """Return what tells a trained model from others, for `results.json`: a dict.

    Files that a run reads by name, such as `--config`, and when it was stopped are in no run's
    mark: the model that it came to is one, too.

    Args:
        run: folder of the run, whose model is in `model/`.
        mark: of its options and inputs.
    """
    return dict(zip(_MARKS, (mark, checksums.digest(os.path.join(run, "model"))), strict=True))


def _known_marks(folder):
    return [read_results(folder).get(name) for name in _MARKS]


def read_results(folder):
    """Read the dict in the `results.json` of a folder.

    Raises:
        BertTfError: it is missing or damaged.
    """
    return checksums.read_sealed(os.path.join(folder, RESULTS),
                                 "deleting it, which the same command then makes anew")
