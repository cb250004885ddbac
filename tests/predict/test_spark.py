"""The examples of docs/spark.md, as they stand there, on a local PySpark."""

import os
import pathlib
import re
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
from sentiment import examples

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/spark.md"


@pytest.mark.long
def test_the_page_works_as_typed(model, loaded, tmp_path, monkeypatch):
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'pyspark>=4,<5'")
    if shutil.which("java") is None:
        pytest.skip("no Java runtime: apt-get install openjdk-17-jre-headless")
    monkeypatch.chdir(tmp_path)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    os.makedirs("runs")
    os.symlink(model, "runs/reviews")
    texts = [each.text_a for each in examples(12)]
    pd.DataFrame({"id": range(12), "text": texts}).to_parquet("reviews.parquet")
    names = {}
    try:
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S):
            exec(compile(block, PAGE.name, "exec"), names)
        assert list(pd.read_parquet("labels").sort_values("id")["label"]) == (
            loaded[None](texts)["label"])
        found = np.stack(pd.read_parquet("vectors").sort_values("id")["embedding"])
        np.testing.assert_allclose(found, loaded["embed"](texts)["embedding"], atol=1e-6)
    finally:
        if "spark" in names:
            names["spark"].stop()
