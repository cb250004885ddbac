"""Pre-train BERT or its kin: raw text to vocabulary, examples, a trained encoder and a SavedModel.

    python -m bert_tf.pretrain
    python -m bert_tf.pretrain --input 'texts/*.txt.gz' --preset mini --train_steps 20000
    python -m bert_tf.pretrain --input 'texts/*.txt.gz' --family electra --preset small

Without --input it trains on the English reference prose that Python itself carries, with defaults
that suit so little text. Stop it at any moment and run the same command again: it goes on where it
stood.

What is predicted: masked tokens (mlm), with whether the second segment follows the first (mlm+nsp)
or both stand in their order (mlm+sop); which tokens a generator replaced (rtd); the next token
(lm, which makes a BERT see the text before a token only). Examples are of the form segment_pair,
or full_sentences for lm and where a model has no second segment, unless --format says otherwise.
"""

import contextlib
import sys
import time

from bert_tf import cli
from bert_tf.config import FAMILIES
from bert_tf.errors import UsageError, explain
from bert_tf.presets import SIZES
from bert_tf.pretraining_options import OBJECTIVES, complete
from bert_tf.storage import locks
from bert_tf.training.config import DTYPES, OPTIMIZERS, STRATEGIES, TrainConfig

# Defaults without --input: what learns most from 60,000 words of prose in a few minutes.
OWN_PROSE = {"vocab_size": 1000, "seq_length": 64, "dupe_factor": 10, "holdout": 0.15,
             "train_steps": 2500, "learning_rate": 3e-3}


def _parser():
    parser = cli.Parser("pretrain", __doc__)
    add = parser.add_argument
    add("--input", nargs="+", metavar="GLOB",
        help="text files (.txt, .jsonl, either also .gz) or - for standard input "
             "(default: Python's own prose)")
    add("--vocab", metavar="FILE", help="WordPiece vocabulary (default: learned from the input)")
    add("--vocab_size", type=cli.positive, help="entries to learn (default: 30522, or what "
                                                         "--config says)")
    cli.add_casing_flags(parser)
    cli.add_pretokenize_flag(parser)
    add("--output_dir", metavar="runs/NAME", help="run folder (default: named after the family, "
                                                  "the preset and the first input)")
    add("--family", choices=FAMILIES, help="architecture (default: bert, or what --config or "
                                           "--init says)")
    add("--preset", choices=SIZES, help="size of the model (default: tiny)")
    add("--config", metavar="FILE", help="model_config.json or an official bert_config.json "
                                         "instead of a preset")
    add("--init", metavar="PATH", help="model or run folder whose weights and vocabulary to "
                                       "start from")
    add("--objective", choices=OBJECTIVES,
        help="what is predicted (default: mlm+nsp for bert, mlm+sop for albert, mlm for both "
             "without pairs and for roberta; rtd for electra; lm for gpt)")
    cli.add_example_flags(parser)
    parser.set_defaults(format=None, max_ngram=None)  # both as the family and the objective need
    add("--holdout", type=cli.share, default=0.05,
        help="share of documents held out for evaluation")
    add("--train_steps", type=cli.positive, default=100_000, help="optimizer steps")
    add("--batch_size", type=cli.positive, help="examples a step over all replicas "
                                                "(default: by preset, 32 for tiny and mini)")
    add("--batch_tokens", type=cli.positive,
        help="size of a batch in real tokens, instead of --batch_size")
    add("--learning_rate", type=float, help="peak (default: by preset, 1e-3 for tiny)")
    add("--warmup_steps", type=cli.natural,
        help="steps of linear warm-up (default: a tenth of --train_steps, at most 10000)")
    add("--optimizer", choices=OPTIMIZERS, default="adamw", help="optimizer")
    add("--accumulate_steps", type=cli.positive, default=1, help="micro-batches a step")
    add("--dtype", choices=DTYPES, default="float32",
        help="what layers compute in; weights stay float32")
    add("--padding_free", action="store_true",
        help="compute real tokens only, for texts of mixed lengths where shapes need not be fixed "
             "(no XLA, no TPU); what dropout draws depends on the number of replicas then")
    add("--strategy", choices=STRATEGIES, default="mirrored",
        help="tf.distribute strategy; multi_worker: several processes, told by TF_CONFIG or SLURM")
    add("--num_devices", type=cli.positive, default=1,
        help="logical CPU devices, where there is no GPU")
    add("--log_every", type=cli.positive, default=10, help="steps between logged lines")
    add("--eval_every", type=cli.positive, default=1000, help="steps between evaluations")
    add("--eval_examples", type=cli.positive, default=1000,
        help="examples of an evaluation, spread over the held-out documents")
    add("--checkpoint_every", type=cli.positive, default=500, help="steps between checkpoints")
    add("--keep_checkpoints", type=cli.positive, default=3, help="newest checkpoints to keep")
    add("--export_dir", metavar="saved_models/NAME", help="where the SavedModel goes "
                                                          "(default: named as the run folder)")
    cli.add_seed_flag(parser)
    cli.add_input_flags(parser, checkpoints=True)
    return parser


def _train_config(arguments):
    """The run's configuration, before the batch size is known."""
    names = ("train_steps", "learning_rate", "warmup_steps", "optimizer", "accumulate_steps",
             "padding_free", "strategy", "seed", "log_every", "eval_every", "checkpoint_every",
             "keep_checkpoints")
    return TrainConfig(dtype=arguments.dtype,
                       batch_size=arguments.batch_size or arguments.accumulate_steps,
                       **{name: getattr(arguments, name) for name in names})


def _arguments(argv):
    """The flags, filled in and checked, and the model's configuration."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if not arguments.input:
        unfit = set()
        if arguments.vocab or arguments.init or arguments.config:
            unfit.add("vocab_size")
        if arguments.init or arguments.config or arguments.preset not in (None, "tiny"):
            unfit.add("learning_rate")
        parser.set_defaults(**{name: value for name, value in OWN_PROSE.items()
                               if name not in unfit})
        arguments = parser.parse_args(argv)
    config = complete(arguments)
    _check_length(arguments, config)
    return arguments, config


def _check_length(arguments, config):
    from bert_tf.data.pairing import MINIMUM_SEQ_LENGTH

    if arguments.seq_length < MINIMUM_SEQ_LENGTH:
        raise UsageError(explain(f"--seq_length {arguments.seq_length}",
                                 f"at least {MINIMUM_SEQ_LENGTH}"))
    if arguments.seq_length > config.longest:
        raise UsageError(explain(f"--seq_length {arguments.seq_length} is beyond the model's "
                                 f"{config.longest} positions",
                                 attempt=f"--seq_length {config.longest}"))


def main(argv=None):
    started = time.monotonic()
    arguments, config = _arguments(argv)
    train_config = _train_config(arguments)

    import tensorflow as tf

    from bert_tf.training.loop import check_split
    from bert_tf.training.strategy import is_chief, make_strategy

    cli.quiet_tensorflow()
    if arguments.num_devices > 1:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * arguments.num_devices)
    # Before other TensorFlow work: multi_worker asks for it.
    strategy = make_strategy(arguments.strategy)
    if not arguments.batch_tokens:
        check_split(train_config, strategy)

    from bert_tf.pretraining_report import report
    from bert_tf.pretraining_run import PretrainingRun

    run = PretrainingRun(arguments, config, train_config, strategy)
    with locks.held(run.path()) if is_chief(strategy) else contextlib.nullcontext():
        metrics, version = run.finish()
        if version:
            report(run, metrics, version)
            print(f"\n{time.monotonic() - started:.0f} s in all")


if __name__ == "__main__":
    sys.exit(cli.run(main))
