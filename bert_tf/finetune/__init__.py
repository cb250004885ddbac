"""Fine-tune a model on labelled examples: a table of text to a measured, exported model.

    python -m bert_tf.finetune --task mrpc --init runs/bert_mini --train train.txt --dev 0.1
        --output_dir runs/mrpc
    python -m bert_tf.finetune --task classify --init MODEL --train reviews.csv --dev 0.1
        --output_dir runs/reviews --text_column review --label_column stars --seeds 5
        --learning_rate 2e-5 5e-5 1e-4

Tasks with files of their own: cola mrpc sst2 stsb qqp mnli qnli rte wnli (GLUE), nsmc, polarity,
squad_v1 squad_v2 korquad, conll, klue_ner klue_nli klue_sts. For tables of your own (TSV, CSV or
JSONL): classify pair regress tag span.

Every learning rate and number of epochs is tried with one seed, the best with all --seeds. Of each
training the best epoch is kept, of all trainings the best model, by the task's metric on --dev.
Stop it at any moment and run the same command again: it goes on where it stood.
"""

import shlex
import sys
import time

from bert_tf import cli
from bert_tf.finetune import options
from bert_tf.storage import locks


def _parser():
    parser = cli.Parser("finetune", __doc__)
    options.add_finetune_flags(parser)
    return parser


def main(argv=None):
    started = time.monotonic()
    arguments = _parser().parse_args(argv)
    task = options.complete(arguments)
    words = sys.argv[1:] if argv is None else argv
    command = shlex.join(["python", "-m", "bert_tf.finetune", *words])

    import tensorflow as tf

    from bert_tf.training.strategy import make_strategy

    cli.quiet_tensorflow()
    if arguments.num_devices > 1:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * arguments.num_devices)

    from bert_tf.finetune.results import first_prediction, shown
    from bert_tf.finetune.run import FinetuningRun
    from bert_tf.saved_model.next_commands import (
        print_next,
        python_command,
        query_command,
        serve_command,
    )
    from bert_tf.saved_model.save import export_notes

    with locks.held(arguments.output_dir):
        results, version = FinetuningRun(
            arguments, task, make_strategy(arguments.strategy), command, started).finish()
    if len(results["seeds"]) > 1:
        print(f"mean of {len(results['seeds'])} seeds: "
              f"{shown(results['mean'], results['deviation'])}")
    print(f"best: {shown(results['metrics'])}")
    if "test_metrics" in results:
        print(f"test: {shown(results['test_metrics'])}")
    print(f"exported {version}")
    for note in export_notes(version):
        print(f"note: {note}")
    asked = first_prediction(arguments.output_dir)
    text = asked.get("context") or asked["text"]
    print_next({
        "measure it on other examples": python_command(
            "evaluate", "--model", arguments.output_dir, "--data",
            arguments.train if options.dev_share(arguments) else arguments.dev),
        "serve it": serve_command(arguments.export_dir),
        "ask it, from another terminal": query_command(
            arguments.export_dir, text, pair=asked.get("text_b"), question=asked.get("question"))})
    print(f"\n{time.monotonic() - started:.0f} s in all")
