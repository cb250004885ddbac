"""Measure a fine-tuned model on labelled examples.

    python -m bert_tf.evaluate --model runs/mrpc --data test.txt

The model is the folder of a finetune run, a model folder (save_pretrained) or a version of a
SavedModel. Tasks and files are those of finetune; a run, and what was exported of it, know their
task and its columns.
"""

from bert_tf import cli
from bert_tf.evaluate.config import EvaluateConfig
from bert_tf.options import takes
from bert_tf.storage import locks


@takes(EvaluateConfig)
def evaluate(config):
    """Measure a model, unless the same was measured already.

    Args:
        config: `EvaluateConfig`, or its fields as keyword arguments.

    Returns:
        What the folder's `results.json` holds: `task`, `metrics`, `notes`, `examples` …

    Raises:
        UsageError: options contradict each other or the model, or the folder holds another result.
        BertTfError: a file is missing or damaged, or examples are invalid.
    """
    from bert_tf.evaluate.run import Evaluation

    config = config.named()
    with locks.held(config.output_dir):
        return Evaluation(config, cli.command_line("evaluate", config)).finish()


def _parser():
    return cli.parser_of("evaluate", __doc__, EvaluateConfig)


def main(argv=None):
    config = EvaluateConfig(**vars(_parser().parse_args(argv))).named()
    results = evaluate(config)

    from bert_tf.finetune.results import about_f1, shown

    print(f"{results['task']}, {results['examples']:,} examples: {shown(results['metrics'])}")
    for line in about_f1(results):
        print(line)
    for note in results.get("notes", ()):
        print(f"note: {note}")
    print(f"written to {config.output_dir}")


cli.make_callable(__name__, evaluate)
