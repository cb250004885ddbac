"""How far off our numbers are for each small copy of a published folder, as a table.

    python benchmarks/hub_folders.py ../shared/reference/hub [--only NAME …] [--peer_python PYTHON]

Every folder is read, its states and logits are compared with what transformers computed, vectors
of sentence encoders with those of sentence-transformers; it is exported, asked for the vectors (and
a classifier's probabilities) of texts, fine-tuned for two steps, and written back. With
`--peer_python`, of an environment with transformers and sentence-transformers, these read what was
written back.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "converters")]
import hub_models  # noqa: E402

from bert_tf.converters import (  # noqa: E402
    hf_safetensors,
    ours,
    sentence_transformers,
    weight_files,
)
from bert_tf.converters.formats import find_format, load_format  # noqa: E402


def way_back(source, checkpoint, folder):
    """Whether their tensors come back bit for bit, as a word."""
    hf_safetensors.write(checkpoint, str(folder))
    theirs, back = (weight_files.read_folder(str(each)) for each in (source, folder))
    same = set(back) == set(theirs) - set(checkpoint.dropped) and all(
        np.array_equal(back[name], theirs[name]) for name in back)
    return "same" if same else "differs"


class Peer:
    """The process in which others read what we wrote; without a Python it says nothing."""

    def __init__(self, python):
        program = str(ROOT / "benchmarks" / "peers" / "read_back.py")
        self._process = python and subprocess.Popen(
            [python, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)

    def read(self, source, work):
        """What it says of the folders that were written, as cells of the table."""
        if not self._process:
            return ""
        request = {"reference": str(source), "hf": str(work / "hf")}
        if (source / "modules.json").exists():
            request |= written_vectors(source, work)
        print(json.dumps(request), file=self._process.stdin, flush=True)
        told = json.loads(self._process.stdout.readline())
        if "failed" in told:
            return f"| {told['failed']} | | "
        states = "; ".join([f"{told['error']:.1e}", *told["notes"]])
        vectors = "" if told["vectors"] is None else f"{told['vectors']:.1e}"
        return f"| {states} | {told['ids'] or 'same'} | {vectors} "

    def close(self):
        if self._process:
            self._process.stdin.close()
            self._process.wait()


def written_vectors(source, work):
    """What a request says of a sentence encoder: its folder, texts and expected vectors."""
    sentence_transformers.write(sentence_transformers.read(str(source)), str(work / "vectors"))
    texts = json.loads((source / "expected.json").read_text())["sentence_embeddings_of"]
    with np.load(source / "sentence_embeddings.npz") as arrays:
        expected = arrays["sentence_embeddings"]
    np.save(work / "vectors.npy", expected)
    return {"sentence_transformers": str(work / "vectors"), "texts": texts,
            "vectors": str(work / "vectors.npy")}


def row(source, work, peer):
    """A line of the table."""
    checkpoint = hf_safetensors.read(str(source))
    errors = hub_models.errors_of(source, hub_models.model_of(checkpoint, source.name))
    of_kind = {"states": [], "logits": []}
    for (_, key, _), error in errors.items():
        of_kind["logits" if "logits" in key else "states"].append(error)
    ours.write(load_format(find_format(str(source))).read(str(source)), str(work / "ours"))
    served = hub_models.saved_model_error(source, work / "ours", work / "served")
    before, after = hub_models.two_steps(source, work / "ours")
    states, logits = (f"{np.max(each):.1e}" if each else "" for each in of_kind.values())
    text_in = "" if served is None else f"{served:.1e}"  # None: no graph reads its text
    back = way_back(source, checkpoint, work / "hf")
    return (f"| `{source.name}` | {states} | {logits} | {text_in} | {before:.3f} → {after:.3f} "
            f"| {back} {peer.read(source, work)}|")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("hub", type=pathlib.Path, help="folder with the folders")
    parser.add_argument("--only", nargs="+", default=hub_models.FOLDERS)
    parser.add_argument("--peer_python", help="Python with transformers and sentence-transformers")
    args = parser.parse_args()
    peer = Peer(args.peer_python)
    columns = ["folder", "states", "logits", "SavedModel, text in", "loss, two steps", "way back"]
    if args.peer_python:
        columns += ["transformers reads it", "ids", "sentence-transformers reads it"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for name in args.only:
        with tempfile.TemporaryDirectory() as work:
            print(row(args.hub / name, pathlib.Path(work), peer), flush=True)
    peer.close()


if __name__ == "__main__":
    main()
