"""Texts that a run was trained on: digests, by which an evaluation on the same texts is known."""

import io
import os

import numpy as np

from bert_tf.storage import files
from bert_tf.tasks.base.split import content_digest

TRAINED_ON = "trained_on.npy"


def write_trained_on(folder, examples):
    """Write the digests of examples, 8 bytes each, into a run's folder."""
    stream = io.BytesIO()
    np.save(stream, np.unique(_digests(examples)))
    files.write_bytes(os.path.join(folder, TRAINED_ON), stream.getvalue())


def trained_on_notes(model, examples):
    """Return whether the run in the folder `model` was trained on texts of these examples: at most
    a line.

    Raises:
        BertTfError: its digests cannot be read.
    """
    path = os.path.join(model, TRAINED_ON)
    if not files.exists(path):
        return []
    with files.explained("read", path), files.open_binary(path) as stream:
        known = np.load(io.BytesIO(stream.read()), allow_pickle=False)
    count = int(np.isin(_digests(examples), known).sum())
    if not count:
        return []
    return [f"{model} learned from {count:,} of these {len(examples):,} examples: how well it does "
            "on new ones they cannot say"]


def _digests(examples):
    """Return a digest of each text, uint64 `[n]`."""
    return np.frombuffer(b"".join(content_digest(example)[:8] for example in examples), np.uint64)
