"""Measure a fine-tuned model on labelled examples.

    python -m bert_tf.evaluate --model runs/mrpc --data test.txt

The model is the folder of a finetune run, a model folder (save_pretrained) or a version of a
SavedModel. Tasks and files are those of finetune; a run, and what was exported of it, know their
task and its columns.
"""

import os
import shlex
import sys

from bert_tf import cli
from bert_tf.finetune import options
from bert_tf.options import WriteOptions
from bert_tf.storage import files, locks


def _parser():
    parser = cli.Parser("evaluate", __doc__)
    add = parser.add_argument
    add("--task", metavar="NAME",
        help="a task by name, as of finetune (default: that of the run; so the columns)")
    add("--model", required=True, metavar="PATH",
        help="folder of a finetune run, model folder, or version of a SavedModel")
    add("--data", required=True, metavar="FILE", help="labelled examples")
    add("--output_dir", metavar="evaluations/NAME",
        help="folder for the results (default: named after the model and the data)")
    options.add_column_flags(parser)
    options.add_answer_flags(parser, trained=True)
    cli.add_options(parser, WriteOptions)
    return parser


def main(argv=None):
    arguments = _parser().parse_args(argv)
    if arguments.output_dir is None:
        folder, model = os.path.split(files.absolute(arguments.model))
        if model.isdigit():  # a version
            model = f"{os.path.basename(folder)}_{model}"
        data = os.path.basename(arguments.data).split(".")[0]
        arguments.output_dir = os.path.join("evaluations", f"{model}_{data}")
    words = sys.argv[1:] if argv is None else argv
    command = shlex.join(["python", "-m", "bert_tf.evaluate", *words])

    from bert_tf.evaluate.run import Measurement
    from bert_tf.finetune.results import about_f1, shown

    with locks.held(arguments.output_dir):
        results = Measurement(arguments, command).finish()
    print(f"{results['task']}, {results['examples']:,} examples: {shown(results['metrics'])}")
    for line in about_f1(results):
        print(line)
    for note in results.get("notes", ()):
        print(f"note: {note}")
    print(f"written to {arguments.output_dir}")
