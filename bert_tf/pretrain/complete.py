"""Fill in the options of a pre-training run, and refuse those that make no sense together."""

import dataclasses
import os
import re

from bert_tf.config import NEXT_SENTENCE_FORMATS, ModelConfig
from bert_tf.errors import UsageError, explain
from bert_tf.family_defaults import FAMILY_DEFAULTS
from bert_tf.models.find import OURS, find_model
from bert_tf.presets import generator_config, preset, training_defaults
from bert_tf.pretrain import recipe
from bert_tf.pretrain.config import OBJECTIVES, PAIRS
from bert_tf.storage import checksums, files, hub
from bert_tf.storage.export_dirs import export_dir_beside
from bert_tf.training.config import RATES

# Defaults without input: what learns most from 60,000 words of prose in a few minutes.
OWN_PROSE = {"vocab_size": 1000, "max_seq_length": 64, "dupe_factor": 10, "holdout": 0.15,
             "train_steps": 2500, "learning_rate": 3e-3}
# The objectives of a family; the first that its examples allow is the default.
FAMILY_OBJECTIVES = {
    "bert": ("mlm+nsp", "mlm", "mlm+sop", "lm"),
    "roberta": ("mlm",),
    "albert": ("mlm+sop", "mlm", "mlm+nsp"),
    "electra": ("rtd", "mlm"),
    "gpt": ("lm",),
    "gpt2": ("lm",),
    "distilbert": ("mlm",),
    "xlm_roberta": ("mlm",),
    "camembert": ("mlm",),
    "mpnet": ("mlm",),
    "deberta_v1": ("mlm",),
    "deberta": ("rtd", "mlm"),
    "modernbert": ("mlm", "rtd"),
    "nomic_bert": ("mlm",),
    "gte": ("mlm",),
    "jina_embeddings_v3": ("mlm",),
    "eurobert": ("mlm",),
    "ultrabert": ("mlm",),
    "mobilebert": ("mlm+nsp", "mlm", "mlm+sop"),
    "qwen3": ("lm",),
    "gemma3": ("mlm", "lm"),
    "t5": ("mlm",),
}
# With `lm` these read from left to right: "LTR & No NSP" of the BERT paper, section 5.1; what
# EmbeddingGemma was before.
_BOTH_WAYS = ("bert", "gemma3")
_NOT_OF_FAMILY = {
    "rtd": "only electra, deberta and modernbert have a generator",
    "lm": "only bert, gpt, gpt2, qwen3 and gemma3 have a left-to-right form",
    "mlm": "gpt, gpt2 and qwen3 see the text before a token only",
    "mlm+nsp": "the family has no sentence task",
    "mlm+sop": "the family has no sentence task",
}
_ALL_BUT_LM = OBJECTIVES[:-1]
_ALL_BUT_RTD = tuple(name for name in OBJECTIVES if name != "rtd")
# Objectives; when they are refused, by the options and the model's configuration; why; what to try.
_REFUSED = (
    (tuple(PAIRS), lambda options, config: options.format not in NEXT_SENTENCE_FORMATS,
     "needs pairs of segments, which --format {format} does not make",
     "--objective mlm or --format segment_pair"),
    (tuple(PAIRS), lambda options, config: options.input and options.split == "none",
     "needs a second sentence, and with --split none a document has one",
     "--objective mlm, with --format full_sentences"),
    (_ALL_BUT_LM, lambda options, config: config.attention == "causal",
     "predicts a token from both sides, and attention='causal' hides what follows it",
     "--objective lm"),
    (("lm",), lambda options, config: config.attention != "causal",
     "predicts what follows, and attention='bidirectional' shows it; a model keeps the attention "
     "it was trained with", "--preset instead of --config or --init, or --objective mlm"),
    (("lm",), lambda options, config: config.bilstm,
     "predicts what follows, and bilstm=true shows it", "bilstm=false"),
    (("lm",), lambda options, config: options.format == "packed",
     "learns where a text ends, and --format packed ends it with every row",
     "--format full_sentences"),
    (("lm",), lambda options, config: options.masking == "static",
     "reads the text as it is, and --masking static stores it masked", "--masking dynamic"),
    (_ALL_BUT_RTD, lambda options, config: options.masked_lm_first,
     "finds no replaced tokens, before which --masked_lm_first has the encoder predict masked ones",
     "--objective rtd --family modernbert, or leaving --masked_lm_first out"),
    (("rtd",), lambda options, config: options.masked_lm_first and options.train_steps < 2,
     "with --masked_lm_first needs two --train_steps, one for each training", "more"),
    *((("lm",), lambda options, config, name=name, none=none: getattr(options, name) not in none,
       f"masks nothing, so that --{name} has no meaning", f"leaving --{name} out")
      for name, none in (("whole_word", (False,)), ("max_ngram", (None, 1)),
                         ("masked_lm_prob", (0.15,)), ("final_masked_lm_prob", (None,)),
                         ("max_predictions_per_seq", (None,)))),
    (OBJECTIVES, lambda options, config: (options.format in NEXT_SENTENCE_FORMATS
                                        and config.type_vocab_size < 2),
     "with --format {format} needs 2 segments, the model has type_vocab_size={types}",
     "--format full_sentences"),
)


def complete(options):
    """Fill in what depends on other options, and refuse contradictions before any work.

    Args:
        options: `PretrainConfig`.

    Returns:
        `(options, config)`: those with all filled in, and the `ModelConfig`, before the vocabulary
        is known.

    Raises:
        UsageError: options contradict each other or the model.
    """
    given = {name: value for name, value in options.to_dict().items() if value is not None}
    options = options.replace(**{**_usual(options), **given})
    _check_sources(options)
    options, config = _model_config(options)
    options = _choose_objective(options, config)
    _check_causal(options, config)
    defaults = training_defaults(options.preset)
    options = _filled(
        options,
        # ALBERT masks up to three words together (paper, section 4.1).
        max_ngram=3 if config.family == "albert" else 1,
        warmup_steps=min(10_000, options.train_steps // 10),
        learning_rate=defaults["learning_rate"] * RATES.get(options.optimizer, 1),
        batch_size=None if options.batch_tokens else defaults["batch_size"],
        vocab_size=config.vocab_size)
    final = options.final_masked_lm_prob
    if final is not None and final > options.masked_lm_prob:  # the shapes are those of the larger
        options = _filled(options, max_predictions_per_seq=max(
            round(options.max_seq_length * final), 1))
    options = _name_folders(options)
    _check_length(options, config)
    # Before the steps that come first; that of a discriminator to start from is there.
    if options.objective == "rtd" and (options.masked_lm_first or not options.init):
        _check_generator(options, config)
    return options, _with_pooling(options, config)


def _with_pooling(options, config):
    """The configuration, with a pooler where pairs need one and a model of masked tokens alone has
    none. A run that began with the first token's vector, as all did once, goes on with it."""
    usual = FAMILY_DEFAULTS[config.family].get("pooling", "dense")
    needs = (options.init and options.objective in PAIRS and usual == "dense"
             and config.pooling == "first")
    by_recipe = options.recipe and options.preset and config.pooling == "mean"
    began = os.path.join(options.output_dir, "model_config.json")
    if (needs or by_recipe) and files.exists(began) and (
            ModelConfig.load(began).pooling == "first"):
        return config.replace(pooling="first")
    return config.replace(pooling="dense") if needs else config


def _filled(options, **values):
    """Options in which values stand for None."""
    return options.replace(**{name: value for name, value in values.items()
                              if getattr(options, name) is None})


def _usual(options):
    """What stands for None, unless it depends on further options."""
    values = {field.name: field.metadata["otherwise"] for field in dataclasses.fields(options)
              if field.metadata["otherwise"] is not None}
    if options.input:
        return values
    values |= OWN_PROSE
    if options.vocab or options.init or options.config:
        del values["vocab_size"]
    objective = options.objective or FAMILY_OBJECTIVES.get(options.family, (None,))[0]
    # So high a rate suits masked tokens; a discriminator learns nothing under it.
    if (options.init or options.config or options.preset not in (None, "tiny")
            or objective == "rtd" or options.masked_lm_first):
        del values["learning_rate"]
    else:
        values["learning_rate"] *= RATES.get(options.optimizer, 1)
    return values


def _check_sources(options):
    if options.init and (options.preset or options.config):
        raise UsageError("--init brings its own sizes; leave out --preset and --config")
    if options.stack and not options.init:
        raise UsageError("--stack repeats the layers of a trained model; name it with --init")
    if options.split == "none" and not options.input:
        raise UsageError("--split none without --input: Python's prose is split into sentences; "
                         "leave --split out")
    if options.preset and options.config:
        raise UsageError("--preset and --config both give the sizes; leave one out")
    if options.vocab_size and (options.vocab or options.init):
        raise UsageError(f"--vocab_size beside {'--vocab' if options.vocab else '--init'}: the "
                         "vocabulary is given, leave --vocab_size out")
    if options.vocab and options.init:
        raise UsageError("--init brings its own vocabulary; leave --vocab out")
    if options.final_masked_lm_prob is not None and options.masking == "static":
        raise UsageError("--final_masked_lm_prob with --masking static, which stores masks once; "
                         "try --masking dynamic")
    for name, having in options.without_meaning():
        raise UsageError(f"--{name} has no meaning without {having}; leave it out")
    if options.batch_size and options.batch_tokens:
        raise UsageError("--batch_size and --batch_tokens both size a batch; leave one out")


def _model_config(options):
    """`(options, config)`: the options with their family, the `ModelConfig`."""
    init = options.init
    if init:
        found = find_model(init)
        if found.kind in OURS:
            from bert_tf.tokenization.load import holds_tokenizer

            init = init if hub.repository(init) else found.folder
            folder = checksums.opened(found.folder)
            config = ModelConfig.load(os.path.join(folder, "model_config.json"))
            has_tokenizer = holds_tokenizer(folder)
        else:
            from bert_tf.converters.formats import read_model

            start = read_model(init)
            config, has_tokenizer = start.config, start.tokenizer is not None
        if not has_tokenizer:
            raise UsageError(explain(f"--init {init} has no tokenizer, with which examples are "
                                     "made", "a model folder with one"))
        config = config.replace(num_hidden_layers=config.num_hidden_layers * (options.stack or 1))
    elif options.config:
        config = ModelConfig.load_any(options.config)
    else:
        options = _filled(options, preset="tiny")
        config = preset(options.family or _usual_family(options), options.preset)
        if config.family in _BOTH_WAYS and options.objective == "lm":
            config = config.replace(attention="causal", pooling="last")
        if options.recipe:
            config = config.replace(**recipe.model(config.family))
    if options.family not in (None, config.family):
        raise UsageError(explain(f"{init or options.config} is a model of the family "
                                 f"{config.family}", f"--family {options.family}",
                                 f"--family {config.family}"))
    return options.replace(init=init, family=config.family), config


def _usual_family(options):
    suits = (options.objective in (None, *FAMILY_OBJECTIVES[recipe.FAMILY])
             and options.format not in NEXT_SENTENCE_FORMATS)
    return recipe.FAMILY if options.recipe and suits else "bert"


def _choose_objective(options, config):
    """Options with an objective and a format that suit each other and the model."""
    causal = config.attention == "causal"
    unpaired = (causal or options.objective == "lm" or config.type_vocab_size < 2
                or options.recipe and options.objective is None)
    options = _filled(options, format="full_sentences" if unpaired else "segment_pair")
    known = FAMILY_OBJECTIVES[config.family]
    pairs = options.format in NEXT_SENTENCE_FORMATS
    options = _filled(options, objective="lm" if causal else
                      "rtd" if options.masked_lm_first and "rtd" in known else
                      next(name for name in known if pairs or name not in PAIRS))
    objective = options.objective
    if objective not in known:
        families = [family for family, names in FAMILY_OBJECTIVES.items() if objective in names]
        raise UsageError(explain(
            f"--objective {objective} with --family {config.family}: "
            f"{_NOT_OF_FAMILY[objective]}",
            attempt=f"--objective {' or '.join(known)}, or --family {' or '.join(families)}"))
    for objectives, is_wrong, why, attempt in _REFUSED:
        if objective in objectives and is_wrong(options, config):
            why = why.format(format=options.format, types=config.type_vocab_size)
            raise UsageError(explain(f"--objective {objective} {why}", attempt=attempt))
    return options


def _check_causal(options, config):
    """Refuse `causal_fraction` where rows cannot be read left to right."""
    for is_wrong, why, attempt in (
            (options.objective != "mlm", f"with --objective {options.objective}: it is of masked "
             "tokens alone", "--objective mlm"),
            (config.sees_neighbours, "with a BiLSTM, a convolution or trigrams, which show what "
             "follows",
             "leaving it out"),
            (options.masking == "static", "with --masking static, which stores rows masked",
             "--masking dynamic"),
            (options.padding_free, "with --padding_free, where a row has no rectangle of its own",
             "leaving one out")):
        if options.causal_fraction and is_wrong:
            raise UsageError(explain(f"--causal_fraction {why}", attempt=attempt))


def _name_folders(options):
    # Of a run that is started from, its name: each has its model in `model`.
    init = options.init and (hub.repository(options.init)
                             or options.init.removesuffix(f"{os.sep}model"))
    # With a recipe the folder is known before the preset.
    size = options.recipe or options.preset or _stem(init or options.config)
    name = "_".join([options.family, size] + [_stem(path) for path in (options.input or ())[:1]])
    run = options.output_dir or os.path.join("runs", name)
    return options.replace(output_dir=run, export_dir=export_dir_beside(run, options.export_dir))


def _check_generator(options, config):
    try:
        generator_config(config, options.preset)
    except UsageError as error:
        raise UsageError(f"the generator, of the discriminator's values in less width: {error}"
                         ) from error


def _check_length(options, config):
    from bert_tf.data.pairing import MINIMUM_SEQ_LENGTH

    length = options.max_seq_length
    if length < MINIMUM_SEQ_LENGTH:
        raise UsageError(explain(f"--max_seq_length {length}", f"at least {MINIMUM_SEQ_LENGTH}"))
    if length > config.longest:
        raise UsageError(explain(f"--max_seq_length {length} is more than the model's "
                                 f"{config.longest} positions",
                                 attempt=f"--max_seq_length {config.longest}"))


def _stem(path):
    """What a run is called after: the file without its endings; of `texts/*.txt` the folder."""
    if path == "-":
        return "stdin"
    folder, name = os.path.split(path.rstrip(os.sep))
    stems = (re.sub(r"[*?[\]]", "", part.split(".")[0])
             for part in (name, os.path.basename(folder)))
    return next(filter(None, stems), "text")
