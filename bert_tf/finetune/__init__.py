"""Fine-tune a model on labelled examples: a table of text to a measured, exported model.

    python -m bert_tf.finetune --task mrpc --init runs/bert_mini --train train.txt --dev 0.1 \\
        --output_dir runs/mrpc
    python -m bert_tf.finetune --task classify --init MODEL --train reviews.csv --dev 0.1 \\
        --output_dir runs/reviews --text_column review --label_column stars --seeds 5 \\
        --learning_rate 2e-5 5e-5 1e-4

Tasks with files of their own: cola mrpc sst2 stsb qqp mnli qnli rte wnli (GLUE), nsmc, polarity,
squad_v1 squad_v2 korquad, conll, klue_ner klue_nli klue_sts. For tables of your own (TSV, CSV or
JSONL): classify pair regress tag span, and rank embed sparse multi_vector, of queries and passages
in any usual form.

Every learning rate and number of epochs is tried with one seed, the best with all --seeds. Of each
training the best epoch is kept, of all trainings the best model, by the task's metric on --dev.
Stop it at any moment and run the same command again: it resumes.
"""

import contextlib
import time
import typing

from bert_tf import cli
from bert_tf.finetune.config import FinetuneConfig
from bert_tf.options import takes
from bert_tf.storage import locks


class FinetuneResult(typing.NamedTuple):
    """What a fine-tuning made."""

    run_dir: str  # run folder
    saved_model: str | None  # path of the SavedModel's version; None without one
    results: dict  # of results.json: metrics, test_metrics, mean, deviation, seeds …


@takes(FinetuneConfig)
def finetune(config):
    """Do a fine-tuning, or what is missing of it.

    TensorFlow's ops are deterministic from then on in this process and may have fewer threads on a
    CPU, for halves of a batch side by side: see docs/performance.md.

    Args:
        config: `FinetuneConfig`, or its fields as keyword arguments.

    Returns:
        `FinetuneResult`.

    Raises:
        UsageError: options contradict each other or the files, or the folder holds another run.
        BertTfError: examples, files or the machine stop the work; DivergedError: all losses are
            NaN.
    """
    with _finished(config) as (_, result):
        return result


@contextlib.contextmanager
def _finished(config):
    """Finish a run; yield its complete options and `FinetuneResult` while its folder is held."""
    from bert_tf.finetune.complete import complete

    command = cli.command_line("finetune", config)
    config, task = complete(config)

    from bert_tf.training.strategy import command_strategy

    cli.quiet_tensorflow()
    strategy = command_strategy(config)

    from bert_tf.finetune.run import FinetuningRun

    with locks.held(config.output_dir):
        results, version = FinetuningRun(config, task, strategy, command).finish()
        yield config, FinetuneResult(config.output_dir, version, results)


def _parser():
    return cli.parser_of("finetune", __doc__, FinetuneConfig)


def main(argv=None):
    started = time.monotonic()
    with _finished(FinetuneConfig(**vars(_parser().parse_args(argv)))) as (config, result):
        from bert_tf.finetune.report import report

        report(config, result.results, result.saved_model)
        print(f"\n{time.monotonic() - started:.0f} s in all")


cli.make_callable(__name__, finetune)
