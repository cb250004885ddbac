"""Adapt an encoder to your own text: other vocabulary pieces, then more pre-training, exported.

    python -m bert_tf.adapt --model MODEL --input 'texts/*.txt.gz' --output_dir runs/own \\
        --new_pieces 8000
    python -m bert_tf.adapt --model MODEL --input texts.txt --output_dir runs/small --drop_unused \\
        --train_steps 0

--new_pieces adds WordPiece pieces that the vocabulary lacks, learned from the text in the form that
the model's tokenizer gives it; each begins as the mean of the pieces it replaces. Words that are
one piece stay so. --drop_unused leaves out pieces that the text does not have: its vectors stay the
same, to the bit. Then the model is trained on the text, as pretrain does with --init; with
--only_new_pieces the new pieces' rows and the masked-LM head alone, so that text without new pieces
keeps its vectors. A sparse encoder, which weighs pieces, keeps the weights of those that stay. What
was an embedder or has another head stays one, with its options. Stop it at any moment and run the
same command again: it resumes.
"""

import contextlib
import time
import typing

from bert_tf import cli
from bert_tf.adapt.config import AdaptConfig
from bert_tf.options import takes
from bert_tf.storage import locks


class AdaptResult(typing.NamedTuple):
    """What an adaptation made."""

    run_dir: str  # run folder
    saved_model: str  # path of the SavedModel's version
    metrics: dict  # held-out losses and metrics, with their baselines; empty without training
    vocabulary: dict  # pieces, tokens and bytes before and after


@takes(AdaptConfig)
def adapt(config):
    """Do an adaptation, or what is missing of it.

    Where anything is trained TensorFlow's ops are deterministic from then on in this process and
    may have fewer threads on a CPU, for halves of a batch side by side: see docs/performance.md.

    Args:
        config: `AdaptConfig`, or its fields as keyword arguments.

    Returns:
        `AdaptResult`.

    Raises:
        UsageError: options contradict each other or the model, or the folder holds another run.
        BertTfError: text, files or the machine stop the work; DivergedError: the loss is NaN.
    """
    with _finished(config) as (_, result):
        return result


@contextlib.contextmanager
def _finished(config):
    """Finish a run; yield its training, if any, and its `AdaptResult` while its folder is held."""
    from bert_tf.adapt.complete import complete

    config = complete(config)

    from bert_tf.training.strategy import command_strategy

    cli.quiet_tensorflow()
    strategy = command_strategy(config)

    from bert_tf.adapt.run import AdaptationRun

    with locks.held(config.output_dir):
        training, metrics, version, vocabulary = AdaptationRun(config, strategy).finish()
        yield training, AdaptResult(config.output_dir, version, metrics, vocabulary)


def _parser():
    return cli.parser_of("adapt", __doc__, AdaptConfig)


def main(argv=None):
    started = time.monotonic()
    with _finished(AdaptConfig(**vars(_parser().parse_args(argv)))) as (training, result):
        if training is None:
            print(f"exported {result.saved_model}")
        else:
            from bert_tf.pretrain.report import report

            report(training, result.metrics, result.saved_model)
        print(f"\n{time.monotonic() - started:.0f} s in all")


cli.make_callable(__name__, adapt)
