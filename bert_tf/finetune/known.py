"""What a fine-tuning says to those that use its model: its task, its columns, the form of its
tables."""

import contextlib
import os
import zlib

from bert_tf.saved_model.source import RESULTS, read_results
from bert_tf.storage import encodings, files, manifest

RUN = "run.json"
FORM = ("delimiter", "encoding", "header")  # options about a table
_SAMPLE = 1 << 20  # bytes


def known_options(found):
    """Return `(run, options)`.

    Args:
        found: of `find_model`, of whatever kind.

    Returns: the run's folder, of a SavedModel what is kept of it; and a dict of options by their
        names, `task` and those of `ColumnOptions`, None for what the run does not say. It is empty
        of a model of no run.
    """
    parent, name = os.path.split(found.folder)
    run = parent if name == "model" else found.folder
    if not files.exists(os.path.join(run, RESULTS)):
        return run, {}
    results, record = read_results(run), os.path.join(run, RUN)
    form = results.get("form")
    if form is None:  # a run of an earlier version
        form = manifest.read(record)["options"] if files.exists(record) else {}
    return run, {"task": results.get("task"), **{name: form.get(name) for name in FORM},
                 **{f"{name}_column": column
                    for name, column in results.get("columns", {}).items()}}


def completed(options, known, paths):
    """Return options with what they leave open taken from `known_options`, of its own task only: of
    another one columns have other names. An encoding is not, where files begin as Unicode."""
    if options.task not in (None, known.get("task")):
        return options
    if options.encoding is None and known.get("encoding") and any(map(_is_unicode, paths)):
        known = {**known, "encoding": None}
    return options.replace(**{name: value for name, value in known.items()
                              if getattr(options, name) is None})


def _is_unicode(path):
    damaged = contextlib.suppress(EOFError, zlib.error)  # of a .gz: reading all of it tells
    with files.explained("read", path), damaged, files.open_binary(path) as stream:
        return encodings.is_unicode(stream.read(_SAMPLE))
