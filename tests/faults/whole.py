"""What must hold of a folder after any fault: what has its name is whole, and nothing is left."""

import json
import re

from bert_tf.data import records
from bert_tf.retrieval.build_index import BEGUN, MANIFEST
from bert_tf.retrieval.vector_index import VectorIndex
from bert_tf.storage import checksums, manifest
from bert_tf.training.checkpoint import Checkpoints

_SEALED = ("run.json", "vocab.json", "manifest.json", "started.json", "evaluation.json",
           "results.json", "trial.json")


def check_whole(folder):
    """Read all that stands under its final name in `folder`.

    Raises:
        BertTfError, AssertionError: something there is not whole.
    """
    for path in sorted(folder.rglob("*")):
        if any(part.startswith(".tmp-") for part in path.parts):
            continue
        if path.name in ("model_config.json", "saved_model.pb", "config.json"):
            inner = path.parent
            if path.parent.name == "assets.extra":
                inner = inner.parent
            if inner.name != "run":  # of which that file is one of many
                assert (inner / checksums.NAME).exists(), f"{inner} has no checksums"
                checksums.check(str(inner))
        elif re.fullmatch(r"step_\d+", path.name):
            Checkpoints(str(path.parent)).load(int(path.name[5:]))
        elif re.fullmatch(r"shard-\d+", path.name):
            assert (path / checksums.NAME).exists(), f"{path} has no checksums"
            checksums.check(str(path))
        elif path.name == BEGUN:
            # A prediction has files of these names, too.
            if (path.parent / MANIFEST).exists() and any(path.parent.glob("shard-*")):
                VectorIndex(str(path.parent), None, verify=True)
        elif path.suffix == ".tfrecord":
            found = records.Records([str(path)])
            found.read(range(len(found)))
        elif path.name in _SEALED or path.name.endswith(".manifest.json"):
            checksums.read_sealed(str(path))
            if path.name == "vocab.json":
                manifest.check_made(str(path))
        elif path.suffix == ".json":
            json.loads(path.read_text())


def check_tidy(folder):
    """Raise AssertionError where something temporary, or a lock, is left in `folder`."""
    left = [str(path) for path in folder.rglob("*") if path.name.startswith((".tmp-", ".lock"))]
    assert not left, left
