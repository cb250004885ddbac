"""The programs in `examples/` run as they stand, each in a process of its own, and say so."""

import ast
import base64
import importlib
import io
import os
import pathlib
import re
import runpy
import subprocess
import sys

import nbclient
import nbformat
import numpy as np
import pytest
from matplotlib import image

import bert_tf

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
# What each program says at its end, and what the number in it may be.
SAID = {
    "classify_text.py": {r"accuracy on 12 reviews: (.*)": (0.9, 1),
                         r"a wonderful story: good \((.*)\)": (0.5, 1),
                         r"dull and empty: bad \((.*)\)": (0.5, 1)},
    "functional_model.py": {r"largest difference after loading: (.*)": (0, 1e-5),
                            r"accuracy on 36 letters: (.*)": (0.9, 1)},
    "from_keras_nlp.py": {r"largest difference from keras-nlp: (.*)": (0, 1e-4),
                          r"accuracy on 12 sentences: (.*)": (0.9, 1)},
    "train_embedder.py": {r"found of 6 phrases held out: (.*)": (0.6, 1),
                          r"zwei hunde: two dogs \((.*)\)": (0.5, 1)},
    "save_and_export.py": {r"largest difference in a fresh process: (.*)": (0, 1e-5),
                           r"largest difference as served: (.*)": (0, 1e-4),
                           r"das brot ist alt: german \((.*)\)": (0.5, 1)},
}


@pytest.mark.parametrize("ending", ["", "_ko"])
def test_new_reviews_are_new(ending, tmp_path):
    runpy.run_path(str(EXAMPLES / "data" / "make_data.py"))["main"](str(tmp_path))
    known, new = ((tmp_path / f"{name}{ending}.csv").read_text().splitlines()[1:]
                  for name in ("reviews", "new_reviews"))
    assert len(known) == len(new) == 200 and not set(known) & set(new)


def test_every_program_is_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAID)


@pytest.mark.parametrize("name", [*SAID, "look_inside.ipynb"])
def test_what_a_program_takes_from_the_package_is_there(name):
    source = (EXAMPLES / name).read_text()
    if name.endswith(".ipynb"):
        source = "\n".join(cell.source.replace("%", "# %", 1) if cell.source[:1] == "%"
                           else cell.source for cell in nbformat.reads(source, as_version=4).cells
                           if cell.cell_type == "code")
    found = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("bert_tf"):
            module = importlib.import_module(node.module)
            taken = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "bert_tf":
            module, taken = bert_tf, [node.attr]
        else:
            continue
        for each in taken:
            assert hasattr(module, each) or importlib.import_module(f"{module.__name__}.{each}")
            found += 1
    assert found


@pytest.mark.long
@pytest.mark.parametrize("name", SAID)
def test_example(name, tmp_path):
    result = subprocess.run([sys.executable, str(EXAMPLES / name)], cwd=tmp_path, text=True,
                            capture_output=True,
                            env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)})
    assert result.returncode == 0, result.stderr[-2000:]
    for pattern, (least, most) in SAID[name].items():
        found = re.search(f"^{pattern}$", result.stdout, re.MULTILINE)
        assert found, f"{pattern} not in\n{result.stdout}"
        assert least <= float(found[1]) <= most, found[0]
    assert not list(tmp_path.iterdir())  # nothing is left behind


@pytest.mark.long
def test_notebook(tmp_path):
    """Every cell runs, numbers are as they should be, pictures show something."""
    notebook = nbformat.read(EXAMPLES / "look_inside.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells)  # kept without
    client = nbclient.NotebookClient(notebook, timeout=300,
                                     resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)})
    outputs = [output for cell in cells for output in cell.outputs]
    said = "".join(output.text for output in outputs if output.get("name") == "stdout")
    for pattern, (least, most) in {r"held-out accuracy (.*)": (0.6, 1),
                                   r"rows of attention sum to 1 within (.*)": (0, 1e-5),
                                   r"best: .*, accuracy (.*)": (0.6, 1)}.items():
        (found,) = re.findall(f"^{pattern}$", said, re.MULTILINE)
        assert least <= float(found) <= most, said
    (cosines,) = re.findall("last layer: cosine (.*) within a topic, (.*) between", said)
    assert float(cosines[0]) > float(cosines[1]) + 0.2, said
    pictures = [output.data["image/png"] for output in outputs
                if "image/png" in output.get("data", {})]
    assert len(pictures) == 4
    for picture in pictures:
        pixels = image.imread(io.BytesIO(base64.b64decode(picture)))[..., :3]
        assert len(np.unique((pixels * 15).round().reshape(-1, 3), axis=0)) > 20
    assert not list(tmp_path.iterdir())  # nothing is left behind
