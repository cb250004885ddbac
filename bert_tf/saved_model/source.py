"""What is exported: the model folder of a finished run, or any model folder."""

import dataclasses
import os

from bert_tf import files
from bert_tf.errors import BertTfError, explain
from bert_tf.models.pretrained import CONFIG
from bert_tf.saved_model.server_config import versions

_RESULTS = "results.json"  # of a finished run, whose mark it has as `run`
_RECORDS = ("train_config.json", "metrics.jsonl", _RESULTS)


@dataclasses.dataclass(frozen=True)
class Source:
    """A model folder and what is known of its training."""

    model_folder: str
    name: str  # of the run, or else of the folder
    seq_length: int | None = None  # tokens of a training example
    records: tuple = ()  # files about the training


def find_source(path):
    """The `Source` at `path`.

    Args:
        path: a run folder (its subfolder `model/` is the model folder), that subfolder, or a
            model folder written by `save_pretrained`.

    Raises:
        BertTfError: there is no model.
    """
    folder = os.path.abspath(path)
    if files.exists(os.path.join(folder, "model", CONFIG)):
        folder = os.path.join(folder, "model")
    if not files.exists(os.path.join(folder, CONFIG)):
        raise BertTfError(explain(
            f"{path} holds no model",
            f"a model folder (with {CONFIG}) or the folder of a finished run"))
    run = os.path.dirname(folder)
    records = tuple(path for path in (os.path.join(run, name) for name in _RECORDS)
                    if files.exists(path))
    data = os.path.join(run, "data", "manifest.json")  # of examples for pre-training
    pretrained = files.exists(data)
    if os.path.basename(folder) != "model" or not (pretrained or records):
        return Source(folder, os.path.basename(folder))
    seq_length = files.read_json(data)["options"]["seq_length"] if pretrained else None
    return Source(folder, os.path.basename(run), seq_length, records)


def published_version(export_dir, run):
    """Path of the version in `export_dir` that the finished run in the folder `run` exported.

    None where there is none: both have a `results.json` with the same mark.
    """
    results = os.path.join(run, _RESULTS)
    if not files.exists(results):
        return None
    mark = files.read_json(results)["run"]
    for version in versions(export_dir):
        path = os.path.join(export_dir, str(version))
        exported = os.path.join(path, "assets.extra", _RESULTS)
        if files.exists(exported) and files.read_json(exported).get("run") == mark:
            return path
    return None
