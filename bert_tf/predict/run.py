"""A prediction: blocks of the input become shards of predictions, in order, each whole or absent.

| in the output folder | holds |
|---|---|
| `begun.json` | options and inputs, by which an interrupted prediction resumes |
| `predictions/part-00000.parquet` … | a shard of predictions each, in the order of the input |
| `bad_rows.jsonl` | file, line and reason of each row that was not predicted |
| `manifest.json` | written last: what was predicted, of what, metrics, checksums |
"""

import contextlib
import json
import os
import sys

import tqdm

from bert_tf.data.processes import in_order
from bert_tf.embedder import model_digest
from bert_tf.errors import BertTfError, explain
from bert_tf.finetune.known import completed, known_options
from bert_tf.models.find import find_model
from bert_tf.predict.measure import measure
from bert_tf.predict.progress import count_rows
from bert_tf.predict.rows import Rows
from bert_tf.predict.writer import FORMATS
from bert_tf.predictor import Predictor
from bert_tf.storage import checksums, files, manifest
from bert_tf.tasks.registry import answering_signatures
from bert_tf.training.strategy import make_strategy

MANIFEST, BEGUN, PREDICTIONS, BAD_ROWS = (
    "manifest.json", "begun.json", "predictions", "bad_rows.jsonl")
# Options that decide nothing, or what is known otherwise: the model by its digest.
_UNSTORED = ("model", "input", "num_processes")


class Prediction:
    """One prediction and its folder.

    Args:
        options: `PredictConfig`.
        command: the command line, for the manifest.
    """

    def __init__(self, options, command):
        _, known = known_options(find_model(options.model))
        known = completed(options, known)
        self.task = known.task
        self.options = known.replace(task=options.task)
        self.command = command

    def path(self, *names):
        """Return a path in the output folder."""
        return os.path.join(self.options.output_dir, *names)

    def finish(self):
        """Predict what is not predicted yet; return the manifest."""
        options = self.options
        paths = files.expand(options.input)
        stored = {name: value for name, value in options.stored().items()
                  if name not in _UNSTORED} | {"model_digest": model_digest(options.model)}
        before = manifest.finished(self.path(MANIFEST), stored, paths, options.overwrite,
                                   options.verify_inputs)
        if before:
            print(f"{self.path()}: this is predicted already; nothing to do")
            return before
        # What the options or the columns are wrong for leaves nothing behind.
        predictor = _load(options)
        rows = Rows(paths, predictor.inputs, options.columns(), options.form(),
                    options.shard_size)
        writer = FORMATS[options.format](rows, predictor)
        manifest.resumed(self.path(), MANIFEST, BEGUN, stored, paths, options.overwrite,
                         options.verify_inputs, option="strict", made=self.made)
        files.clean_temporary(files.make_folder(self.path(PREDICTIONS)))
        with BadRows(self.path(BAD_ROWS), options.strict) as bad:
            shards, count = self._predict(rows, predictor, writer, bad)
        if not count:
            raise bad.first or BertTfError(explain(f"{', '.join(paths)}: no rows", "one or more"))
        metrics, labelled = self._metrics(rows, predictor, writer)
        return manifest.write(
            self.path(MANIFEST), stored, paths, model=options.model, signature=predictor.signature,
            rows=count, bad_rows=bad.count, shards=len(shards), metrics=metrics,
            labelled=labelled, command=self.command,
            files=checksums.facts(self.path(), [BAD_ROWS, *(
                f"{PREDICTIONS}/{name}" for name in files.list_folder(self.path(PREDICTIONS)))]))

    def made(self):
        """Return the names of what is made in the folder, as far as it is there."""
        return [name for name in (PREDICTIONS, BAD_ROWS) if files.exists(self.path(name))]

    def shard(self, number, suffix):
        """Return the path of a shard of predictions."""
        return self.path(PREDICTIONS, f"part-{number:05d}{suffix}")

    def _predict(self, rows, predictor, writer, bad):
        """Write the shards that are not there; return their paths and the number of rows."""
        options, shards, count = self.options, [], 0
        convert = _converter(rows, options.format, bad)
        alone = options.num_processes == 1
        with tqdm.tqdm(desc="rows", unit="", unit_scale=True, total=count_rows(rows.sources),
                       mininterval=0.2 if sys.stderr.isatty() else 10.0) as bar:
            def missing():
                nonlocal count
                for block in rows.blocks(bad):
                    block = convert(block)
                    count += len(block.places)
                    path = self.shard(block.number, writer.suffix)
                    shards.append(path)
                    if files.exists(path) and writer.count_rows(path) == len(block.places):
                        bar.initial += len(block.places)  # counts for no rate
                        bar.update(len(block.places))
                    else:
                        yield path, block

            start = _start_alone if alone else _start_process
            arguments = (predictor, writer, bar.update) if alone else (
                options, writer, *_core_groups(options.num_processes))
            for (_, block), _ in in_order(missing(), _work, start, arguments,
                                          options.num_processes, "predicted"):
                if not alone:
                    bar.update(len(block.places))
        return shards, count


    def _metrics(self, rows, predictor, writer):
        """Return what `measure` does; of vectors nothing."""
        if predictor.signature not in answering_signatures(self.task):
            return {}, 0

        def ignore(where, error):
            pass

        convert = _converter(rows, self.options.format, ignore)
        shards = ((convert(block).places, writer.read(self.shard(block.number, writer.suffix)))
                  for block in rows.blocks(ignore))
        return measure(self.task, "chosen" in predictor.columns, rows, self.options.columns(),
                       shards)


class BadRows:
    """The side file of bad rows: a context that is called with each.

    Args:
        path: of the file.
        strict: raise the first one.

    Attributes:
        count: how many there were.
        first: the first one, or None.
    """

    def __init__(self, path, strict):
        self.path, self.strict = path, strict
        self.count, self.first = 0, None
        self._open = contextlib.ExitStack()

    def __enter__(self):
        temporary = self._open.enter_context(files.atomic_path(self.path))
        self._stream = self._open.enter_context(open(temporary, "wb"))
        return self

    def __exit__(self, *error):
        return self._open.__exit__(*error)

    def __call__(self, where, error):
        """Write where the row is and what its error says."""
        if self.strict:
            raise error
        self.first = self.first or error
        self.count += 1
        reason = str(error).removeprefix(f"{where}: ")
        self._stream.write(json.dumps({"where": where, "reason": reason}).encode() + b"\n")


def _converter(rows, form, bad):
    """Return a function that makes of a `Block` what the writer of a format takes."""
    if form != "parquet":
        return lambda block: block
    from bert_tf.predict.carried import Carried

    carried = Carried(rows)
    return lambda block: carried.convert(block, bad)


def _load(options):
    """Return the `Predictor`; of several GPUs each is a replica."""
    import tensorflow as tf

    strategy = make_strategy() if len(tf.config.list_logical_devices("GPU")) > 1 else None
    return Predictor(options.model, options.task, options.dtype, strategy)


_predictor = _writer = _done = None  # of this process


def _work(path, block):
    _writer.write(path, block, _predictor(block.texts, _done))


def _start_alone(predictor, writer, done):
    global _predictor, _writer, _done
    _predictor, _writer, _done = predictor, writer, done


def _core_groups(count):
    """Return `(groups, next)`: a set of cores for each process, and a counter of those taken."""
    import multiprocessing

    cores = sorted(os.sched_getaffinity(0))
    groups = [cores[number * len(cores) // count:(number + 1) * len(cores) // count] or cores
              for number in range(count)]
    return groups, multiprocessing.get_context("spawn").Value("i", 0)


def _start_process(options, writer, groups, taken):
    import tensorflow as tf

    with taken.get_lock():
        group = groups[taken.value % len(groups)]
        taken.value += 1
    os.sched_setaffinity(0, group)
    tf.config.threading.set_intra_op_parallelism_threads(len(group))
    _start_alone(_load(options), writer, None)
