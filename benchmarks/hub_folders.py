"""How far off our numbers are for each small copy of a published folder, as a table.

    python benchmarks/hub_folders.py ../shared/reference/hub [--only NAME …]

Every folder is read, its states and logits are compared with what transformers computed, vectors
of sentence encoders with those of sentence-transformers; it is exported, asked for the vectors (and
a classifier's probabilities) of texts, fine-tuned for two steps, and written back.
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "converters")]
import hub_models  # noqa: E402

from bert_tf.converters import hf_safetensors, ours, weight_files  # noqa: E402
from bert_tf.converters.formats import find_format, load_format  # noqa: E402


def way_back(source, checkpoint, folder):
    """Whether their tensors come back bit for bit, as a word."""
    hf_safetensors.write(checkpoint, str(folder))
    theirs, back = (weight_files.read_folder(str(each)) for each in (source, folder))
    same = set(back) == set(theirs) - set(checkpoint.dropped) and all(
        np.array_equal(back[name], theirs[name]) for name in back)
    return "same" if same else "differs"


def row(source, work):
    """A line of the table."""
    checkpoint = hf_safetensors.read(str(source))
    errors = hub_models.errors_of(source, hub_models.model_of(checkpoint, source.name))
    of_kind = {"states": [], "logits": []}
    for (_, key, _), error in errors.items():
        of_kind["logits" if "logits" in key else "states"].append(error)
    ours.write(load_format(find_format(str(source))).read(str(source)), str(work / "ours"))
    served = hub_models.saved_model_error(source, work / "ours", work / "served")
    before, after = hub_models.two_steps(source, work / "ours")
    states, logits = (f"{max(each):.1e}" if each else "" for each in of_kind.values())
    return (f"| `{source.name}` | {states} | {logits} | {served:.1e} | {before:.3f} → {after:.3f} "
            f"| {way_back(source, checkpoint, work / 'hf')} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("hub", type=pathlib.Path, help="folder with the folders")
    parser.add_argument("--only", nargs="+", default=hub_models.FOLDERS)
    args = parser.parse_args()
    print("| folder | states | logits | SavedModel, text in | loss, two steps | way back |")
    print("|---|---|---|---|---|---|")
    for name in args.only:
        with tempfile.TemporaryDirectory() as work:
            print(row(args.hub / name, pathlib.Path(work)), flush=True)


if __name__ == "__main__":
    main()
