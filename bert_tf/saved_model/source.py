"""What is exported: the model folder of a finished run, or any model folder."""

import dataclasses
import os

from bert_tf import files
from bert_tf.errors import BertTfError, explain
from bert_tf.models.pretrained import CONFIG

_RECORDS = ("train_config.json", "metrics.jsonl", "results.json")


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
    data = os.path.join(run, "data", "manifest.json")
    if os.path.basename(folder) != "model" or not files.exists(data):
        return Source(folder, os.path.basename(folder))
    records = [os.path.join(run, name) for name in _RECORDS]
    return Source(folder, os.path.basename(run), files.read_json(data)["options"]["seq_length"],
                  tuple(filter(files.exists, records)))
