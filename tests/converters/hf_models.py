"""Reference folders of Hugging Face models, and changed copies of them."""

import json
import shutil

import numpy as np
from safetensors.numpy import load_file, save_file

from bert_tf.converters import hf_safetensors

MODELS = ("hf_bert", "hf_bert_tasks/sequence_classification", "hf_bert_tasks/question_answering",
          "hf_bert_tasks/token_classification", "hf_albert", "hf_electra/generator",
          "hf_electra/discriminator", "hf_roberta", "hf_gpt")


def read(shared, name):
    """The `Checkpoint` of a reference folder."""
    return hf_safetensors.read(str(shared / "reference" / name))


def expected(shared, name):
    """The arrays of a reference folder's `expected.npz`."""
    with np.load(shared / "reference" / name / "expected.npz") as arrays:
        return dict(arrays)


def tensors(folder):
    """`{name: array}` of a folder, as the safetensors library reads them."""
    return load_file(folder / "model.safetensors")


def changed(shared, name, folder, config=None, change=None):
    """A copy of a reference folder.

    Args:
        name: the reference.
        folder: where to; made anew.
        config: keys of `config.json` to change; None as a value takes the key away.
        change: `change(tensors)` changes the dict of arrays in place or returns another one.
    """
    source = shared / "reference" / name
    folder.mkdir(parents=True)
    values = json.loads((source / "config.json").read_text()) | (config or {})
    values = {key: value for key, value in values.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(values))
    if change is None:
        shutil.copyfile(source / "model.safetensors", folder / "model.safetensors")
    else:
        arrays = tensors(source)
        save_file(change(arrays) or arrays, folder / "model.safetensors", {"format": "pt"})
    return str(folder)


def electra_pair(shared, folder, **generator):
    """Both ELECTRA references in one folder, with the discriminator's embeddings; its path.

    Args:
        generator: options of `changed` for the generator.
    """
    changed(shared, "hf_electra/discriminator", folder / "discriminator")
    embeddings = {key: array for key, array in tensors(
        shared / "reference" / "hf_electra" / "discriminator").items() if ".embeddings." in key}
    changed(shared, "hf_electra/generator", folder / "generator",
            change=lambda arrays: arrays | embeddings, **generator)
    return str(folder)
