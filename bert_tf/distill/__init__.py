"""Distill a model: unlabelled text and a teacher to a smaller, faster student, exported.

    python -m bert_tf.distill --teacher MODEL --input 'texts/*.txt.gz' --output_dir runs/small
    python -m bert_tf.distill --teacher MODEL --input reviews.txt --output_dir runs/static \\
        --static --hidden_size 256 --epochs 5

The student has some of the teacher's layers, or is narrower (--hidden_size), or another model
(--init), or a static one, which has no layers: a table with a vector for each token. It learns the
vectors of an embedder, the probabilities of a classifier (Hinton et al. 2015), hidden states (Sun
et al. 2019) or the relations within the last layer's attention (Wang et al. 2021). The teacher
reads every text once; its answers are kept in the run folder. Stop it at any moment and run the
same command again: it resumes.
"""

import contextlib
import time
import typing

from bert_tf import cli
from bert_tf.distill.config import DistillConfig
from bert_tf.options import takes
from bert_tf.storage import locks


class DistillResult(typing.NamedTuple):
    """What a distillation made."""

    run_dir: str  # run folder
    saved_model: str  # path of the SavedModel's version
    metrics: dict  # of the best evaluation on the texts held out


@takes(DistillConfig)
def distill(config):
    """Do a distillation, or what is missing of it.

    TensorFlow's ops are deterministic from then on in this process and may have fewer threads on a
    CPU, for halves of a batch side by side: see docs/performance.md.

    Args:
        config: `DistillConfig`, or its fields as keyword arguments.

    Returns:
        `DistillResult`.

    Raises:
        UsageError: options contradict each other or the models, or the folder holds another run.
        BertTfError: text, files or the machine stop the work; DivergedError: the loss is NaN
            before any good evaluation.
    """
    with _finished(config) as (_, result):
        return result


@contextlib.contextmanager
def _finished(config):
    """Finish a run; yield its complete options and `DistillResult` while its folder is held."""
    from bert_tf.distill.complete import complete

    config = complete(config)

    from bert_tf.training.strategy import command_strategy

    cli.quiet_tensorflow()
    strategy = command_strategy(config)

    from bert_tf.distill.run import DistillationRun

    with locks.held(config.output_dir):
        metrics, version = DistillationRun(config, strategy).finish()
        yield config, DistillResult(config.output_dir, version, metrics)


def _parser():
    return cli.parser_of("distill", __doc__, DistillConfig)


def main(argv=None):
    started = time.monotonic()
    with _finished(DistillConfig(**vars(_parser().parse_args(argv)))) as (config, result):
        from bert_tf.saved_model.next_commands import print_next, python_command, serve_command

        print(f"exported {result.saved_model}")
        print_next({"measure it": python_command("evaluate", "--model", result.saved_model,
                                                 "--task", "TASK", "--data", "FILE"),
                    "serve it": serve_command(config.export_dir)})
        print(f"\n{time.monotonic() - started:.0f} s in all")


cli.make_callable(__name__, distill)
