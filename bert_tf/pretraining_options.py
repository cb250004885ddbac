"""What a pre-training run is to do: defaults by family, and options that make no sense together."""

import os
import re

from bert_tf.config import NEXT_SENTENCE_FORMATS, ModelConfig
from bert_tf.errors import UsageError, explain
from bert_tf.presets import preset, training_defaults
from bert_tf.storage import checksums, files

# What the second segment of a pair is; other objectives take what always follows.
_PAIRS = {"mlm+nsp": "random", "mlm+sop": "swapped"}
OBJECTIVES = ("mlm+nsp", "mlm", "mlm+sop", "rtd", "lm")
# The objectives of a family; the first that its examples allow is the default.
FAMILY_OBJECTIVES = {
    "bert": ("mlm+nsp", "mlm", "mlm+sop", "lm"),
    "roberta": ("mlm",),
    "albert": ("mlm+sop", "mlm", "mlm+nsp"),
    "electra": ("rtd", "mlm"),
    "gpt": ("lm",),
}
_NOT_OF_FAMILY = {
    "rtd": "a discriminator and its generator are a pair of ELECTRA's",
    "lm": "only bert and gpt have a left-to-right form",
    "mlm": "gpt sees the text before a token only",
    "mlm+nsp": "the family has no sentence task",
    "mlm+sop": "the family has no sentence task",
}
_ALL_BUT_LM = OBJECTIVES[:-1]
# Objectives; when they are refused, by the flags and the model's configuration; why; what to try.
_REFUSED = (
    (tuple(_PAIRS), lambda flags, config: flags.format not in NEXT_SENTENCE_FORMATS,
     "needs pairs of segments, which --format {format} does not make",
     "--objective mlm or --format segment_pair"),
    (_ALL_BUT_LM, lambda flags, config: config.attention == "causal",
     "predicts a token from both sides, and attention='causal' hides what follows it",
     "--objective lm"),
    (("lm",), lambda flags, config: config.attention != "causal",
     "predicts what follows, and attention='bidirectional' shows it; a model keeps the attention "
     "it was trained with", "--preset instead of --config or --init, or --objective mlm"),
    (("lm",), lambda flags, config: config.bilstm,
     "predicts what follows, and bilstm=true shows it", "bilstm=false"),
    (("lm",), lambda flags, config: flags.masking == "static",
     "reads the text as it is, and --masking static stores it masked", "--masking dynamic"),
    *((("lm",), lambda flags, config, name=name, none=none: getattr(flags, name) not in none,
       f"masks nothing, so that --{name} has no meaning", f"leaving --{name} out")
      for name, none in (("whole_word", (False,)), ("max_ngram", (None, 1)),
                         ("masked_share", (0.15,)), ("max_predictions_per_seq", (None,)))),
    (OBJECTIVES, lambda flags, config: (flags.format in NEXT_SENTENCE_FORMATS
                                        and config.type_vocab_size < 2),
     "with --format {format} needs 2 segments, the model has type_vocab_size={types}",
     "--format full_sentences"),
)


def complete(flags):
    """Fill in what depends on other flags, and refuse contradictions before any work.

    Args:
        flags: of `pretrain`; changed in place.

    Returns: the `ModelConfig`, before the vocabulary is known.

    Raises:
        UsageError: flags contradict each other or the model.
    """
    _check_sources(flags)
    config = _model_config(flags)
    objective = _choose_objective(flags, config)
    if flags.max_ngram is None:
        # ALBERT masks up to three words together (paper, section 4.1).
        flags.max_ngram = 3 if config.family == "albert" else 1
    flags.pairs = None
    if flags.format in NEXT_SENTENCE_FORMATS:
        flags.pairs = _PAIRS.get(objective, "next")
    if flags.warmup_steps is None:
        flags.warmup_steps = min(10_000, flags.train_steps // 10)
    defaults = training_defaults(flags.preset)
    if flags.learning_rate is None:
        flags.learning_rate = defaults["learning_rate"]
    if not flags.batch_tokens:
        flags.batch_size = flags.batch_size or defaults["batch_size"]
    flags.vocab_size = flags.vocab_size or config.vocab_size
    _name_folders(flags)
    return config


def _check_sources(flags):
    if flags.init and (flags.preset or flags.config):
        raise UsageError("--init brings its own sizes; leave out --preset and --config")
    if flags.preset and flags.config:
        raise UsageError("--preset and --config both give the sizes; leave one out")
    if flags.vocab_size and (flags.vocab or flags.init):
        raise UsageError(f"--vocab_size beside {'--vocab' if flags.vocab else '--init'}: the "
                         "vocabulary is given, leave --vocab_size out")
    if flags.vocab and flags.init:
        raise UsageError("--init brings its own vocabulary; leave --vocab out")
    if flags.batch_size and flags.batch_tokens:
        raise UsageError("--batch_size and --batch_tokens both size a batch; leave one out")


def _model_config(flags):
    """The configuration of the model, whose family is then `flags.family`."""
    if flags.init:
        if files.exists(os.path.join(flags.init, "model", "model_config.json")):
            flags.init = os.path.join(flags.init, "model")  # of a finished run
        folder = checksums.opened(flags.init)
        config = ModelConfig.load(os.path.join(folder, "model_config.json"))
        if not files.exists(os.path.join(folder, "vocab.txt")):
            raise UsageError(explain(
                f"--init {flags.init} has no vocab.txt; examples are made with WordPiece",
                attempt="a model folder with a WordPiece vocabulary"))
    elif flags.config:
        config = ModelConfig.load_any(flags.config)
    else:
        flags.preset = flags.preset or "tiny"
        config = preset(flags.family or "bert", flags.preset)
        if config.family == "bert" and flags.objective == "lm":
            # "LTR & No NSP" of the BERT paper, section 5.1.
            config = config.replace(attention="causal", pooling="last")
    if flags.family and flags.family != config.family:
        raise UsageError(explain(f"{flags.init or flags.config} is a model of the family "
                                 f"{config.family}", f"--family {flags.family}",
                                 f"--family {config.family}"))
    flags.family = config.family
    return config


def _choose_objective(flags, config):
    """Settle `flags.objective` and `flags.format`; return the former."""
    causal = config.attention == "causal"
    if not flags.format:
        packed = causal or flags.objective == "lm" or config.type_vocab_size < 2
        flags.format = "full_sentences" if packed else "segment_pair"
    known = FAMILY_OBJECTIVES[config.family]
    if not flags.objective:
        pairs = flags.format in NEXT_SENTENCE_FORMATS
        flags.objective = "lm" if causal else next(
            name for name in known if pairs or name not in _PAIRS)
    objective = flags.objective
    if objective not in known:
        families = [family for family, names in FAMILY_OBJECTIVES.items() if objective in names]
        raise UsageError(explain(
            f"--objective {objective} with --family {config.family}: "
            f"{_NOT_OF_FAMILY[objective]}",
            attempt=f"--objective {' or '.join(known)}, or --family {' or '.join(families)}"))
    for objectives, is_wrong, why, attempt in _REFUSED:
        if objective in objectives and is_wrong(flags, config):
            why = why.format(format=flags.format, types=config.type_vocab_size)
            raise UsageError(explain(f"--objective {objective} {why}", attempt=attempt))
    return objective


def _name_folders(flags):
    size = flags.preset or _stem(flags.init or flags.config)
    name = "_".join([flags.family, size] + [_stem(path) for path in (flags.input or [])[:1]])
    flags.output_dir = flags.output_dir or os.path.join("runs", name)
    flags.export_dir = flags.export_dir or os.path.join(
        "saved_models", files.base_name(flags.output_dir))
    if files.resolved(flags.export_dir) == files.resolved(flags.output_dir):
        raise UsageError(explain(f"--export_dir {flags.export_dir} is the run folder",
                                 attempt=f"--export_dir {os.path.join('saved_models', name)}"))


def _stem(path):
    """What a run is called after: the file without its endings; of `texts/*.txt` the folder."""
    if path == "-":
        return "stdin"
    folder, name = os.path.split(path.rstrip(os.sep))
    stems = (re.sub(r"[*?[\]]", "", part.split(".")[0])
             for part in (name, os.path.basename(folder)))
    return next(filter(None, stems), "text")
