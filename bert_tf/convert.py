"""Convert a model from one format to another.

    python -m bert_tf.convert --from hf PATH --to bert_tf PATH
    python -m bert_tf.convert --list

Formats and what PATH is:

    bert_tf    model folder (save_pretrained) or, to read, the folder of a finished run
    google     folder of google-research/bert, albert or electra: JSON file and TF1 checkpoint
    hf         folder of Hugging Face transformers: config.json and safetensors; a folder with the
               subfolders discriminator and generator is one ELECTRA model
    sentence_transformers  folder of that library: an hf encoder and how it makes vectors
    keras_hub  preset folder of keras-hub (keras-nlp)
    tf_models  folder of tf-models-official: configuration and TF2 checkpoint

To read, PATH may be a repository of the Hugging Face Hub: hf://org/name or hf://org/name@revision.
"""

import contextlib
import dataclasses
import math
import os
import sys

from bert_tf import cli
from bert_tf.errors import BertTfError, UsageError, explain, print_note, printable
from bert_tf.options import OverwriteOptions
from bert_tf.storage import files, hub, locks

# What to do with what was written; {checkpoint} is the prefix of a TensorFlow checkpoint, {model}
# the class that has the heads that were written (transformers' AutoModel would drop them).
_NEXT = {
    "bert_tf": "python -m bert_tf.export --model {path}",
    "google": "--init_checkpoint={checkpoint} of the original code",
    "sentence_transformers": "sentence_transformers.{model}({path!r})",
    "hf": "transformers.{model}.from_pretrained({path!r})",
    "keras_hub": "keras_nlp.models.Backbone.from_preset({path!r})",
    "tf_models": "tf.train.Checkpoint(model=model).read({checkpoint!r})",
}
_MOST_LISTED = 6


def _parser():
    parser = cli.Parser("convert", __doc__)
    parser.add_argument("--from", dest="source", nargs=2, metavar=("FORMAT", "PATH"),
                        help="what to read")
    parser.add_argument("--to", dest="target", nargs=2, metavar=("FORMAT", "PATH"),
                        help="what to write")
    parser.add_argument("--list", action="store_true",
                        help="print what of each family goes in and out, and nothing else")
    parser.add_argument("--pair", action="store_true", help="texts come in pairs, of a published "
                        "classifier, whose files do not say it; --to bert_tf keeps it")
    cli.add_options(parser, OverwriteOptions)
    return parser


@cli.nothing_kept()
def main(argv=None):
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.list:
        from bert_tf.converters.held import table

        print(table())
        return
    missing = [flag for flag, value in (("--from", arguments.source), ("--to", arguments.target))
               if value is None]
    if missing:
        parser.error(f"the following arguments are required: {', '.join(missing)}")
    (source_format, source), (target_format, target) = arguments.source, arguments.target

    from bert_tf.converters.formats import load_format, read_as, refuse_pickle
    from bert_tf.converters.tokenizer_files import vocabulary_notes
    from bert_tf.models.find import find_model

    writer = load_format(target_format)
    source = hub.local(source)
    target = target.rstrip(os.sep) or target
    folder, name = os.path.split(files.absolute(target))
    with locks.held(folder, name=name) if files.exists(folder) else contextlib.nullcontext():
        files.clean_temporary(folder, name)
        _check_target(source, target, arguments.overwrite)
        refuse_pickle(source)
        checkpoint = read_as(source_format, source)
        if arguments.pair:
            checkpoint = _of_pairs(checkpoint, target_format)
        notes = (*checkpoint.notes,
                 *vocabulary_notes(checkpoint.tokenizer, checkpoint.config.vocab_size))
        if source_format == "hf" and find_model(source).kind == "sentence_transformers":
            notes += (f"{arguments.source[1]} is a folder of sentence-transformers: --from "
                      "sentence_transformers reads how it makes vectors too",)
        fresh = files.temporary_name(target) if files.exists(target) else target
        not_held = writer.write(checkpoint, fresh)
        if fresh != target:
            _exchange(fresh, target)
    _report(checkpoint, notes, not_held, arguments.source, (target_format, target))


def _of_pairs(checkpoint, target_format):
    """Return the checkpoint of a classifier that says that it reads pairs."""
    from bert_tf.converters.hf_reading import reads_text

    task = checkpoint.task
    reading = task.get("reading") or {"seq_length": min(128, checkpoint.config.longest)}
    if task["task"] != "classifier" or reading.get("pair") is False or target_format != "bert_tf" \
            or not reads_text(checkpoint.tokenizer):
        raise UsageError(explain(
            f"--pair of a {task['task']}, --to {target_format}", "a classifier of texts whose "
            "files do not say whether it reads pairs, --to bert_tf"))
    return dataclasses.replace(checkpoint, task={**task, "reading": {**reading, "pair": True}})


def _check_target(source, target, overwrite):
    if not files.exists(target):
        return
    if not overwrite:
        raise UsageError(explain(f"{target} exists", attempt="another place, or --overwrite"))
    inner, outer = sorted((files.resolved(source), files.resolved(target)), key=len)[::-1]
    if inner == outer or inner.startswith(outer + os.sep):
        raise UsageError(explain(f"--overwrite of {target} would delete what --from reads",
                                 attempt="another place"))
    from bert_tf.models.find import CONFIGS

    if not any(files.exists(os.path.join(target, name)) for name in CONFIGS):
        raise UsageError(explain(f"{target} is no converted model, --overwrite does not delete it",
                                 f"a folder with one of {', '.join(CONFIGS)}"))


def _exchange(fresh, target):
    """Put the folder `fresh` in the place of `target`, which is deleted last."""
    target = files.absolute(target)  # "." has no name that could be changed
    old = files.temporary_name(target)
    try:
        files.rename(target, old)
        files.rename(fresh, target)
    except BertTfError:
        files.remove(fresh)
        if files.exists(old):
            files.rename(old, target)
        raise
    files.remove(old)


def _report(checkpoint, notes, not_held, source, target):
    shapes = checkpoint.tensors.shapes
    config, task = checkpoint.config, checkpoint.task
    kind = " with ".join(filter(None, (task["task"], task.get("sentence_task"))))
    _print(f"read {' '.join(source)}: {config.family}, {kind}, {config.num_hidden_layers} layers, "
           f"{sum(map(math.prod, shapes.values())):,} parameters in {len(shapes)} tensors")
    for note in notes:
        print_note(note)
    _list(f"left behind in {source[1]}", checkpoint.dropped)
    _list(f"dropped, {target[0]} cannot hold", not_held)
    _print(f"wrote {' '.join(target)}")
    if checkpoint.tokenizer is None:
        _print(f"{source[1]} has no tokenizer files; put the vocabulary into {target[1]}")
    index = [name for name in files.list_folder(target[1]) if name.endswith(".index")]
    prefix = os.path.join(target[1], *index).removesuffix(".index")
    model = {"sparse_embedder": "SparseEncoder", "multi_vector_embedder": "MultiVectorEncoder"}.get(
        task["task"], "SentenceTransformer")
    place = target[1]
    if target[0] == "hf":
        if not files.exists(os.path.join(place, "config.json")):  # ELECTRA, with its generator
            place = os.path.join(place, "discriminator")
        model, *_ = files.read_json(os.path.join(place, "config.json"))["architectures"]
    _print(f"next: {_NEXT[target[0]].format(path=place, checkpoint=prefix, model=model)}")


def _list(title, names):
    if names:
        more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
        _print(f"{title}: {', '.join(names[:_MOST_LISTED])}{more}")


def _print(text):
    print(printable(text))


if __name__ == "__main__":
    sys.exit(cli.run(main))
