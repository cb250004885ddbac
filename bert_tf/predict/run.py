"""A prediction: blocks of the input become shards of predictions, in order, each whole or absent.

| in the output folder | holds |
|---|---|
| `begun.json` | options and inputs, by which an interrupted prediction resumes |
| `predictions/part-00000.parquet` … | a shard of predictions each, in the order of the input |
| `bad_rows.jsonl` | file, line and reason of each row that was not predicted |
| `manifest.json` | written last: what was predicted, of what, metrics, checksums |
"""

import functools

from bert_tf.data.options import beam_module
from bert_tf.data.table_form import is_table
from bert_tf.data.tables import BadRow, NoColumn, composed, has_column, id_prefixes
from bert_tf.errors import BertTfError, UsageError, explain, print_note
from bert_tf.finetune.known import completed, known_options
from bert_tf.models.find import find_model, model_digest
from bert_tf.predict.local_runner import predict_locally
from bert_tf.predict.measure import measure
from bert_tf.predict.rows import Rows
from bert_tf.predict.work import BAD_ROWS, PREDICTIONS, Work, ignored, load
from bert_tf.predict.writer import FORMATS
from bert_tf.storage import checksums, files, manifest
from bert_tf.tasks.registry import answering_signatures, find_task, tasks
from bert_tf.tasks.token_classification.files import check_untagged
from bert_tf.training.run_folder import OutputFolder

MANIFEST, BEGUN = "manifest.json", "begun.json"
_OUTPUT_FORMAT_VERSION = 6  # a folder has one alone: what another one began is refused
# Options that decide nothing, or what is known otherwise: the model by its digest.
_UNSTORED = ("model", "input", "num_processes", "runner", "beam_options")


class Prediction(OutputFolder):
    """One prediction and its folder.

    Args:
        options: `PredictConfig`.
        command: the command line, for the manifest.
    """

    def __init__(self, options, command):
        _, known = known_options(find_model(options.model))
        known = completed(options, known, files.expand(options.input))
        self.task = known.task
        if options.text_column is None and known.header is None and _has_header(known):
            known = known.replace(header=True)
        self.options = known.replace(task=options.task)
        self.asked = options.columns()
        self.command = command

    def finish(self):
        """Predict what is not predicted yet; return the manifest."""
        options = self.options
        beam = beam_module(options, "bert_tf.predict.beam_runner")
        paths = files.expand(options.input)
        stored = {name: value for name, value in options.stored().items()
                  if name not in _UNSTORED}
        stored |= {"model_digest": model_digest(options.model),
                   "output_format_version": _OUTPUT_FORMAT_VERSION}
        if len(paths) > 1 and "id" not in self.asked:
            stored["file_names"] = manifest.fingerprint(id_prefixes(paths))
        before = manifest.finished(self.path(MANIFEST), stored, paths, options.overwrite,
                                   options.verify_inputs, whole=False)
        if before and self._all_kept(before.get("files", {})):
            print(f"{self.path()}: this is predicted already; nothing to do")
            return before
        if before:
            files.remove(self.path(MANIFEST))  # until all of it is there again
        # What the options or the columns are wrong for leaves nothing behind.
        predictor = load(options)
        for path in paths if predictor.signature == "tag" else ():
            check_untagged(path, options.form())
        for path in paths:
            _check_tabs(path, self._text_columns(predictor), options.encoding)
        rows = Rows(paths, predictor.inputs, self._columns(predictor, paths), options.form(),
                    options.shard_size, needs_id="id" in self.asked,
                    others=options.format == "jsonl")
        self._check_label(rows)
        work = Work(options, rows, FORMATS[options.format](rows, predictor))
        manifest.resumed(self.path(), MANIFEST, BEGUN, stored, paths, options.overwrite,
                         options.verify_inputs, option="strict", made=self.made)
        files.clean_temporary(files.make_folder(self.path(PREDICTIONS)))
        made = (beam.predict_on_beam(work, options.beam_options) if beam
                else predict_locally(work, predictor))
        first = made.pop("first")
        if not made["rows"]:  # another file may take its place
            for name in (BEGUN, PREDICTIONS, BAD_ROWS):
                files.remove(self.path(name))
            raise BadRow(first) if first else BertTfError(explain(
                f"{', '.join(paths)}: no rows", "one or more"))
        files.clean_temporary(self.path(PREDICTIONS))  # of workers that died and were replaced
        metrics, labelled, unknown = self._metrics(work, predictor)
        return manifest.write(
            self.path(MANIFEST), stored, paths, begun=self.path(BEGUN), model=options.model,
            signature=predictor.signature, **made, metrics=metrics, labelled=labelled,
            unknown_labels=unknown, command=self.command,
            files=checksums.facts(self.path(), [BAD_ROWS, *(
                f"{PREDICTIONS}/{name}" for name in files.list_folder(self.path(PREDICTIONS)))]))

    def made(self):
        """Return the names of what is made in the folder, as far as anything of it is there."""
        return [name for name, there in ((PREDICTIONS, files.list_folder),
                                         (BAD_ROWS, files.exists)) if there(self.path(name))]

    def _all_kept(self, stated):
        """Return whether all files are as the manifest states; others are removed."""
        kept = [checksums.kept(functools.partial(checksums.check_files, self.path(), {name: facts}),
                               files.inside(self.path(), name)) for name, facts in stated.items()]
        return all(kept)

    def _columns(self, predictor, paths):
        """Return the columns of the texts: where the second of a pair is named and the first is
        not, that is the task's; lines of text have none that the model's run knows. Where none is
        named, they are those of the task's published tables, if a file has these and none the
        model's."""
        columns = self.options.columns() if any(map(is_table, paths)) else self.asked
        if predictor.signature not in answering_signatures(self.task):
            return columns
        task = find_task(self.task)
        if "text_b" in columns:
            return {**(task.columns or {}), **columns}
        published = task.text_columns

        def there(names):
            return any(all(has_column(path, name, self.options.form()) for name in names)
                       for path in filter(is_table, paths))

        if "text" not in columns and len(published) == len(predictor.inputs) and not any(
                map(str.isdecimal, published)) and not there(predictor.inputs) and there(
                    published):
            return {**columns, **dict(zip(("text", "text_b"), published, strict=False))}
        return columns

    def _text_columns(self, predictor):
        """Return the names that columns of texts have: the model's, the task's and the user's."""
        task, columns = tasks().get(self.task), self.options.columns()
        names = (*predictor.inputs, *(task.text_columns if task else ()),
                 columns.get("text", "text"), columns.get("text_b", "text"))
        return {composed(name) for name in names if not name.isdecimal()}

    def _check_label(self, rows):
        """Refuse a column of labels that the user named and no file has."""
        label = self.asked.get("label", "0")
        sources = [source for source in rows.sources if source.names]
        if sources and not label.isdecimal() and not any(
                _may_have(source, composed(label)) for source in sources):
            raise NoColumn(sources[0].path, label, ", ".join(sources[0].names))

    def _metrics(self, work, predictor):
        """Return what `measure` does, of the shards as they were written."""
        if predictor.signature not in answering_signatures(self.task) or not any(
                source.is_table for source in work.rows.sources):
            return {}, 0, 0
        columns = self.options.columns()
        columns.pop("id", None)  # rows are told apart by their places
        label = {**(find_task(self.task).columns or {}), **columns}.get("label")
        if label and not label.isdecimal() and not any(
                _may_have(source, composed(label)) for source in work.rows.sources):
            return {}, 0, 0  # which reading all of it would tell, too
        shards = ((block.places, work.writer.read(work.shard(block.number)))
                  for block in work.blocks(ignored))
        return measure(self.task, "chosen" in predictor.columns, work.rows, columns, shards)


def _check_tabs(path, columns, encoding):
    """Tell of a file that may be a table, and is read as a text a line by its name; refuse one
    whose first line names one of the columns of texts."""
    first = "" if is_table(path) else next(
        iter(files.read_lines(path, encoding, "surrogateescape")), "")
    named = [cell for cell in first.split("\t") if composed(cell.strip().strip('"')) in columns]
    if "\t" in first and named:
        raise UsageError(explain(f"{path}: a table with the column {named[0].strip()!r}",
                                 "a text a line, by its name", "a name that ends with .tsv"))
    if "\t" in first:
        print_note(f"{path} is read as a text a line, though its first line has tabs; if it is a "
                   "table, give it a name that ends with .tsv")


def _may_have(source, column):
    """Return whether a file may have a column or field; what all objects have is not known."""
    return source.holds in (".json", ".jsonl") or not {column, column.partition(".")[0]}.isdisjoint(
        map(composed, source.names))


def _has_header(options):
    """Return whether the columns that a run was told of are numbers beside names: those are in a
    header, after which the numbers count."""
    if not (options.text_column or "").isdecimal():
        return False
    columns = {**(find_task(options.task).columns or {}), **options.columns()}
    return not all(map(str.isdecimal, columns.values()))
