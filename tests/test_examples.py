"""The programs in `examples/` run as they stand, each in a process of its own, and say so."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

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
    "save_and_export.py": {r"largest difference in a fresh process: (.*)": (0, 1e-5),
                           r"largest difference as served: (.*)": (0, 1e-4),
                           r"das brot ist alt: german \((.*)\)": (0.5, 1)},
}


def test_every_program_is_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAID)


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
