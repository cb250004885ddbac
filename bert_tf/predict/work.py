"""The work of a prediction, as every process that does a part of it needs it: it can be pickled."""

import dataclasses
import json
import shutil
import tempfile
import typing

from bert_tf.predict.config import PredictConfig
from bert_tf.predict.rows import Rows
from bert_tf.predictor import Predictor
from bert_tf.storage import files
from bert_tf.training.run_folder import OutputFolder
from bert_tf.training.strategy import make_strategy

PREDICTIONS, BAD_ROWS = "predictions", "bad_rows.jsonl"
_IN_MEMORY = 1 << 20  # bytes of bad rows


@dataclasses.dataclass(frozen=True)
class Work(OutputFolder):
    """What is predicted, and what becomes of it.

    Attributes:
        options: `PredictConfig`.
        rows: the `Rows` of the input.
        writer: one of `writer.FORMATS`.
    """

    options: PredictConfig
    rows: Rows
    writer: typing.Any

    def shard(self, number):
        """Return the path of a shard: sorted by their names, they are in the order of the input."""
        name = f"{number:05d}" if number < 100_000 else f"x{number:010d}"
        return self.path(PREDICTIONS, f"part-{name}{self.writer.suffix}")

    def blocks(self, bad, part=0, parts=1):
        """Yield every `parts`-th block from number `part` on, as the writer takes it.

        Args:
            bad: called with file and line of each bad row, and its `BadRow`; of the blocks of other
                parts some are not reported, unless `part` is 0.
        """
        for block in self.rows.blocks(bad):
            own = block.number % parts == part
            if self.options.format == "parquet" and (own or part == 0):
                block = self.writer.convert(block, bad)
            if own:
                yield block

    def is_done(self, block):
        """Return whether the shard of a block is there, of as many rows."""
        path = self.shard(block.number)
        return files.exists(path) and self.writer.count_rows(path) == len(block.places)

    def do(self, block, predictor, done=None):
        """Predict a block and write its shard."""
        self.writer.write(self.shard(block.number), block, predictor(block.texts, done))

    def bad_rows(self):
        """Return the `BadRows`, to be entered."""
        return BadRows(self.path(BAD_ROWS), self.options.strict)


def load(options):
    """Return the `Predictor` that options of a prediction ask for; of several GPUs each is a
    replica."""
    import tensorflow as tf

    strategy = make_strategy() if len(tf.config.list_logical_devices("GPU")) > 1 else None
    return Predictor(options.model, options.task, options.dtype, strategy)


def ignored(where, error):
    """Do nothing with a bad row."""


class BadRows:
    """The side file of bad rows, which appears at the end of a `with` block; called with each.

    Args:
        path: of the file.
        strict: raise the first one.

    Attributes:
        count: how many there were.
        first: what is wrong with the first one, or None.
    """

    def __init__(self, path, strict):
        self.path, self.strict = path, strict
        self.count, self.first = 0, None

    def __enter__(self):
        self._lines = tempfile.SpooledTemporaryFile(_IN_MEMORY)
        return self

    def __exit__(self, kind, *error):
        with self._lines:
            if kind is None:
                self._lines.seek(0)
                with files.atomic_path(self.path) as temporary, open(temporary, "wb") as stream:
                    shutil.copyfileobj(self._lines, stream)

    def __call__(self, where, error):
        """Note where the row is and what its error says."""
        if self.strict:
            raise error
        self.first = self.first or str(error)
        self.count += 1
        reason = str(error).removeprefix(f"{where}: ")
        self._lines.write(json.dumps({"where": where, "reason": reason}).encode() + b"\n")
