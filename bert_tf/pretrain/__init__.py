"""Pre-train BERT or its kin: raw text to vocabulary, examples, a trained encoder and a SavedModel.

    python -m bert_tf.pretrain
    python -m bert_tf.pretrain --input 'texts/*.txt.gz' --preset mini --train_steps 20000
    python -m bert_tf.pretrain --input 'texts/*.txt.gz' --family electra --preset small
    python -m bert_tf.pretrain --input 'texts/*.txt.gz' --recipe budget --hours 1.5

Without --input it trains on the English reference prose that Python itself carries, with defaults
that suit so little text. Stop it at any moment and run the same command again: it resumes.

What is predicted: masked tokens (mlm), with whether the second segment follows the first (mlm+nsp)
or both stand in their order (mlm+sop); which tokens a generator replaced (rtd); the next token
(lm, which makes a BERT see the text before a token only). Examples are of the form segment_pair,
or full_sentences for lm and where a model has no second segment, unless --format or --recipe says
otherwise.
"""

import contextlib
import time
import typing

from bert_tf import cli
from bert_tf.options import takes
from bert_tf.pretrain.config import PretrainConfig
from bert_tf.storage import locks


class PretrainResult(typing.NamedTuple):
    """What a pre-training run made."""

    run_dir: str  # run folder
    saved_model: str | None  # path of the SavedModel's version; None but on the first worker
    metrics: dict  # held-out losses and metrics, with their baselines


@takes(PretrainConfig)
def pretrain(config):
    """Do a pre-training run, or what is missing of it.

    TensorFlow's ops are deterministic from then on in this process and may have fewer threads on a
    CPU, for halves of a batch side by side: see docs/performance.md.

    Args:
        config: `PretrainConfig`, or its fields as keyword arguments.

    Returns:
        `PretrainResult`.

    Raises:
        UsageError: options contradict each other, or the folder holds another run.
        BertTfError: text, files or the machine stop the work; DivergedError: the loss is NaN.
    """
    with _finished(config) as (_, result):
        return result


@contextlib.contextmanager
def _finished(config):
    """Finish a run; yield it and its `PretrainResult` while its folder is held."""
    from bert_tf.pretrain.budget import budget_run
    from bert_tf.pretrain.complete import complete
    from bert_tf.training.run_options import check_apart

    budget = budget_run(config)
    config, model_config = (budget.options, budget.config) if budget else complete(config)
    check_apart(config.output_dir, "init", config.init)

    from bert_tf.training.loop import check_split
    from bert_tf.training.strategy import command_strategy, is_chief

    cli.quiet_tensorflow()
    # Before other TensorFlow work: multi_worker asks for it.
    strategy = command_strategy(config)
    from bert_tf.pretrain.run import PretrainingRun

    chief = is_chief(strategy)
    with locks.held(config.output_dir) if chief else contextlib.nullcontext():
        if budget:  # whose batch is not chosen yet
            run = PretrainingRun(config, model_config, config.replace(
                accumulate_steps=1).train_config(), strategy)
            if chief:
                run.check()  # before minutes of measuring
            config, model_config = complete(budget.chosen(strategy, chief, run.refuse_loss))
        train_config = config.train_config()
        if not config.batch_tokens:
            check_split(train_config, strategy)
        run = PretrainingRun(config, model_config, train_config, strategy,
                             budget.facts if budget else {})
        metrics, version = run.finish()
        yield run, PretrainResult(run.path(), version, metrics)


def _parser():
    return cli.parser_of("pretrain", __doc__, PretrainConfig)


def main(argv=None):
    started = time.monotonic()
    with _finished(PretrainConfig(**vars(_parser().parse_args(argv)))) as (run, result):
        if result.saved_model:
            from bert_tf.pretrain.report import report

            report(run, result.metrics, result.saved_model)
            print(f"\n{time.monotonic() - started:.0f} s in all")


cli.make_callable(__name__, pretrain)
