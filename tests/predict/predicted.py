"""The command `predict` as tests call it, and what it wrote."""

import json
import os

from pyarrow import parquet

from bert_tf import cli, predict

LABELS = ["bad", "good"]
COUNT = 40


def run(model, source, output, *words):
    return cli.run(predict.main, ["--model", model, "--input", str(source), "--output_dir",
                                  str(output), "--shard_size", "16", *words])


def parts(output):
    return [output / "predictions" / name for name in sorted(os.listdir(output / "predictions"))]


def read(output):
    """All rows of the output, which is Parquet or JSON lines."""
    rows = []
    for path in parts(output):
        rows += parquet.read_table(path).to_pylist() if path.suffix == ".parquet" else map(
            json.loads, path.read_text().splitlines())
    return rows


def bad_rows(output):
    return [json.loads(line) for line in (output / "bad_rows.jsonl").read_text().splitlines()]


def bytes_of(output):
    """What must not depend on how the work was divided."""
    return {path.name: path.read_bytes() for path in [*parts(output), output / "bad_rows.jsonl"]}
