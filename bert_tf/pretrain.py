"""Pre-train BERT: raw text to vocabulary, examples, a trained encoder and a SavedModel.

    python -m bert_tf.pretrain
    python -m bert_tf.pretrain --input 'texts/*.txt.gz' --preset mini --train_steps 20000

Without --input it trains on the English reference prose that Python itself carries, with defaults
that suit so little text. Stop it at any moment and run the same command again: it goes on where it
stood.
"""

import contextlib
import os
import re
import sys
import time

from bert_tf import cli, files
from bert_tf.config import FAMILIES, NEXT_SENTENCE_FORMATS, ModelConfig
from bert_tf.errors import UsageError, explain
from bert_tf.presets import PRESETS, preset, training_defaults
from bert_tf.training.config import DTYPES, OPTIMIZERS, STRATEGIES, TrainConfig

OBJECTIVES = ("mlm+nsp", "mlm")
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
    add("--output_dir", metavar="runs/NAME", help="run folder (default: named after the family, "
                                                  "the preset and the first input)")
    add("--family", choices=FAMILIES, default="bert", help="architecture")
    add("--preset", choices=PRESETS["bert"], help="size of the model (default: tiny)")
    add("--config", metavar="FILE", help="model_config.json or an official bert_config.json "
                                         "instead of a preset")
    add("--init", metavar="PATH", help="model or run folder whose weights and vocabulary to "
                                       "start from")
    add("--objective", choices=OBJECTIVES, help="what is predicted (default: mlm+nsp for the "
                                                "formats with pairs, else mlm)")
    cli.add_example_flags(parser)
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
    add("--strategy", choices=STRATEGIES, default="mirrored",
        help="tf.distribute strategy; multi_worker reads TF_CONFIG")
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
    cli.add_overwrite_flag(parser)
    return parser


def _check(arguments):
    """Refuse contradictions before any work, and fill in what depends on other flags."""
    given = arguments
    if given.init and (given.preset or given.config):
        raise UsageError("--init brings its own sizes; leave out --preset and --config")
    if given.preset and given.config:
        raise UsageError("--preset and --config both give the sizes; leave one out")
    if given.vocab_size and (given.vocab or given.init):
        raise UsageError(f"--vocab_size beside {'--vocab' if given.vocab else '--init'}: the "
                         "vocabulary is given, leave --vocab_size out")
    if given.vocab and given.init:
        raise UsageError("--init brings its own vocabulary; leave --vocab out")
    if given.batch_size and given.batch_tokens:
        raise UsageError("--batch_size and --batch_tokens both size a batch; leave one out")
    pairs = given.format in NEXT_SENTENCE_FORMATS
    given.objective = given.objective or ("mlm+nsp" if pairs else "mlm")
    if given.objective == "mlm+nsp" and not pairs:
        raise UsageError(explain(f"--objective mlm+nsp needs pairs, --format {given.format} has "
                                 "none", attempt="--objective mlm or --format segment_pair"))
    if not (given.config or given.init):
        given.preset = given.preset or "tiny"
    if given.warmup_steps is None:
        given.warmup_steps = min(10_000, given.train_steps // 10)
    defaults = training_defaults(given.preset)
    if given.learning_rate is None:
        given.learning_rate = defaults["learning_rate"]
    if not given.batch_tokens:
        given.batch_size = given.batch_size or defaults["batch_size"]
    size = given.preset or _stem(given.init or given.config)
    name = "_".join([given.family, size] + [_stem(path) for path in (given.input or [])[:1]])
    given.output_dir = given.output_dir or os.path.join("runs", name)
    given.export_dir = given.export_dir or os.path.join(
        "saved_models", os.path.basename(os.path.normpath(given.output_dir)))
    if os.path.realpath(given.export_dir) == os.path.realpath(given.output_dir):
        raise UsageError(explain(f"--export_dir {given.export_dir} is the run folder",
                                 attempt=f"--export_dir {os.path.join('saved_models', name)}"))
    if given.init and files.exists(os.path.join(given.init, "model", "model_config.json")):
        given.init = os.path.join(given.init, "model")  # of a finished run
    return given


def _stem(path):
    """What a run is called after: the file without its endings; of `texts/*.txt` the folder."""
    if path == "-":
        return "stdin"
    folder, name = os.path.split(os.path.normpath(path))
    stems = (re.sub(r"[*?[\]]", "", part.split(".")[0])
             for part in (name, os.path.basename(folder)))
    return next(filter(None, stems), "text")


def _configs(arguments):
    """The model's and the run's configuration, before vocabulary and batch size are known."""
    from bert_tf.data.pairing import MINIMUM_SEQ_LENGTH

    if arguments.init:
        config = ModelConfig.load(os.path.join(arguments.init, "model_config.json"))
    elif arguments.config:
        config = ModelConfig.load_any(arguments.config)
    else:
        config = preset(arguments.family, arguments.preset)
    arguments.vocab_size = arguments.vocab_size or config.vocab_size
    if arguments.seq_length < MINIMUM_SEQ_LENGTH:
        raise UsageError(explain(f"--seq_length {arguments.seq_length}",
                                 f"at least {MINIMUM_SEQ_LENGTH}"))
    if arguments.seq_length > config.max_position_embeddings:
        raise UsageError(explain(f"--seq_length {arguments.seq_length} is beyond the model's "
                                 f"{config.max_position_embeddings} positions",
                                 attempt=f"--seq_length {config.max_position_embeddings}"))
    if arguments.format in NEXT_SENTENCE_FORMATS and config.type_vocab_size < 2:
        raise UsageError(explain(f"--format {arguments.format} with type_vocab_size="
                                 f"{config.type_vocab_size}", "2 segments",
                                 "--format full_sentences"))
    names = ("train_steps", "learning_rate", "warmup_steps", "optimizer", "accumulate_steps",
             "strategy", "seed", "log_every", "eval_every", "checkpoint_every", "keep_checkpoints")
    train_config = TrainConfig(
        dtype=arguments.dtype,
        batch_size=arguments.batch_size or arguments.accumulate_steps,
        **{name: getattr(arguments, name) for name in names})
    return config, train_config


def _report(run, metrics, version):
    """Say how good the model is, let it fill in three examples, and name the next commands."""
    import tensorflow as tf

    if metrics:
        print(f"\nheld-out documents: MLM loss {metrics['masked_lm_loss']:.3f} nats, unigram "
              f"entropy of the same tokens {metrics['unigram_entropy']:.3f}, MLM accuracy "
              f"{metrics['masked_lm_accuracy']:.3f}", end="")
        nsp = metrics.get("next_sentence_accuracy")
        print(f", NSP accuracy {nsp:.3f}" if nsp is not None else "")
    fill_mask = tf.saved_model.load(version).signatures["fill_mask"]
    for text, word in run.blanked_texts():
        filled = fill_mask(text=tf.constant([text]))
        guesses = ", ".join(
            f"{token.decode()} {score:.2f}" for token, score in
            zip(filled["tokens"].numpy()[0, 0], filled["scores"].numpy()[0, 0], strict=True))
        print(f"\n  {text}\n  -> {guesses}   (was: {word})")
    name = os.path.basename(os.path.normpath(run.arguments.export_dir))
    print(f"""
exported {version}

next:
  python -m bert_tf.export --model {run.path()} --dtype bfloat16    another version
  tensorboard --logdir {run.path('logs')}
  tensorflow_model_server --rest_api_port=8501 --model_name={name} \\
      --model_base_path={os.path.abspath(run.arguments.export_dir)}""")


def _arguments(argv):
    """The flags, with defaults that depend on whether there is --input."""
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
    return _check(arguments)


def main(argv=None):
    started = time.monotonic()
    arguments = _arguments(argv)
    config, train_config = _configs(arguments)

    import tensorflow as tf

    from bert_tf.training.loop import check_split
    from bert_tf.training.strategy import is_chief, make_strategy

    if arguments.num_devices > 1:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * arguments.num_devices)
    # Before other TensorFlow work: multi_worker asks for it.
    strategy = make_strategy(arguments.strategy)
    if not arguments.batch_tokens:
        check_split(train_config, strategy)

    from bert_tf.pretraining_run import PretrainingRun

    run = PretrainingRun(arguments, config, train_config, strategy)
    with files.locked(run.path()) if is_chief(strategy) else contextlib.nullcontext():
        metrics, version = run.finish()
        if version:
            _report(run, metrics, version)
            print(f"\n{time.monotonic() - started:.0f} s in all")


if __name__ == "__main__":
    sys.exit(cli.run(main))
