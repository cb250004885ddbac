"""Texts that a run was trained on: digests, by which an evaluation on the same texts is known."""

import io
import os

import numpy as np

from bert_tf.storage import files
from bert_tf.tasks.base.split import content_digests

TRAINED_ON = "trained_on.npy"  # stays with the run: an export could be asked for a guessed text


def write_trained_on(folder, examples):
    """Write the digests of examples, 8 bytes each, into a run's folder."""
    stream = io.BytesIO()
    np.save(stream, np.unique(_digests(examples)[0]))
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
    digests, numbers = _digests(examples, mirrored=True)
    count = len(np.unique(numbers[np.isin(digests, known)]))
    if not count:
        return []
    return [f"{model} learned from {count:,} of these {len(examples):,} examples: how well it does "
            "on new ones they cannot say"]


def _digests(examples, mirrored=False):
    """Return `(digests, numbers)`: uint64 `[n]`, and int64 `[n]`, the example that each is of."""
    found = [content_digests(example, mirrored) for example in examples]
    digests = b"".join(digest[:8] for each in found for digest in each)
    return (np.frombuffer(digests, np.uint64),
            np.repeat(np.arange(len(found)), list(map(len, found))))
