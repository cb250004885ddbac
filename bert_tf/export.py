"""Export a trained model as a SavedModel that tensorflow_model_server loads.

    python -m bert_tf.export --model runs/bert_tiny

The version is written beside those that are there, checked against the Keras model and published
whole. serving/README.md tells how to serve it and what its signatures take.

    python -m bert_tf.export --serving_config

lists the models of saved_models/ in serving/models.config and serving/models.local.config, as every
export into it does: for when models were removed, or copied there.

    python -m bert_tf.export --check saved_models/bert_tiny/1

tells whether each input of an exported version checks its own shape, without which one wrong
request ends tensorflow_model_server, as it does with versions of earlier exports.
"""

import dataclasses
import itertools
import os
import sys

from bert_tf import cli
from bert_tf.errors import UsageError, explain, print_note
from bert_tf.options import ABOVE_0, FRACTION_ABOVE_0, POSITIVE, UP_TO_1, Options, option, takes
from bert_tf.retrieval.codes import PRECISIONS, VectorCode
from bert_tf.storage import files, hub

_SAMPLE = 1024  # texts by which int8 of vectors and of weights is calibrated


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingOptions(Options):
    """The vector of a text that the signature `embed` gives."""

    GROUP = ("the vector of a text, signature embed",
             "Where a flag is not given, what the model says if it is an embedder, else a plain "
             "mean.")

    pooling: str | None = option(
        None, "over the tokens: mean, largest values, both; first token, what the pooler makes of "
              "it, last token; or a vector for each token",
        choices=("mean", "max", "mean_max", "cls", "cls_pooled", "sep", "none"))
    layers: tuple[int, ...] | None = option(
        None, "0 the embeddings, 1 the lowest layer, -1 the topmost one; -4 -3 -2 -1 the last four",
        metavar="LAYER")
    combine: str | None = option(None, "several --layers side by side or summed up",
                                 choices=("concat", "sum"))
    mask_specials: bool | None = option(None, "leave [CLS] and [SEP] out of means and largest "
                                              "values")
    weighting: str | None = option(
        None, "weigh tokens in the mean by how rare they are in --corpus",
        choices=("none", "idf", "bm25"))
    corpus: tuple[str, ...] | None = option(
        None, "texts like those to be served, one a line or .jsonl, also .gz", metavar="GLOB")
    normalize: bool | None = option(None, "vectors of length 1, whose dot product is the cosine")
    dimensions: int | None = option(
        None, "components of the vector that are kept, the first ones, at length 1 again", POSITIVE)
    precision: str = option(
        "float32", "how its components are stored: int8, calibrated by --corpus, or bits, eight to "
                   "a byte", choices=PRECISIONS)

    @property
    def weighs_terms(self):
        """Whether the rarity of tokens is asked for."""
        return self.weighting not in (None, "none")

    def embedding(self):
        """The options of the vector that were given, as of `export_saved_model`."""
        given = {name: getattr(self, name) for name in (
            "pooling", "layers", "combine", "mask_specials", "weighting", "normalize")}
        given = {name: list(value) if isinstance(value, tuple) else value
                 for name, value in given.items() if value is not None}
        weighting = given.get("weighting")
        if self.corpus and not self.weighs_terms and self.precision != "int8":
            raise UsageError(explain(f"--corpus with --weighting {weighting or 'not given'}",
                                     "--weighting idf or bm25, or --precision int8"))
        return given | ({"weighting": None} if weighting == "none" else {})


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig(EmbeddingOptions):
    """What `bert_tf.export` exports, and how."""

    model: str | None = option(
        None, "run folder (runs/NAME), model folder (save_pretrained), or what convert reads",
        metavar="PATH")
    export_dir: str | None = option(
        None, "the served model's folder (default: named as the run or the model folder)",
        metavar="saved_models/NAME")
    dtype: str = option("float32", "what the graph computes in; int8: products of weights, all "
                                   "else float32; outputs are float32",
                        choices=("float32", "bfloat16", "int8"))
    calibration: tuple[str, ...] | None = option(
        None, "texts like those to be served, one a line or .jsonl, also .gz, by which --dtype "
              "int8 is calibrated and its loss measured (default: the prose of Python's help)",
        metavar="GLOB")
    max_loss: float = option(
        0.01, "most that --dtype int8 may lose: 1 minus the least cosine of a text's vector to "
              "that in float32; layers stay float32 until that holds", FRACTION_ABOVE_0)
    max_seq_length: int | None = option(
        None, "window in tokens, to which longer text is truncated (default: what a pre-training "
              "run trained on, else what the model reads of a text, else all its positions)",
        POSITIVE)
    pair: bool = option(
        False, "texts come in pairs, of a published classifier, whose files do not say it")
    top_k: int | None = option(
        None, "predictions of fill_mask for each [MASK]; likeliest tokens from which sample draws "
              "(default: 5, with --temperature or --top_p all)", POSITIVE)
    temperature: float | None = option(
        None, "divides the logits before sample draws (default: 1)", ABOVE_0)
    top_p: float | None = option(
        None, "sample draws from the fewest of those tokens that together have so much of the "
              "probability (default: 1, all)", UP_TO_1)
    max_new_tokens: int | None = option(
        None, "tokens that generate and sample add, for which so much of the window is kept "
              "(default: 32, or a third of a window below 96)", POSITIVE)
    max_terms: int | None = option(
        None, "tokens that sparse gives of a text, the heaviest (default: 256)", POSITIVE)
    serving_config: bool = option(
        False, "write serving/models.config (for containers) and serving/models.local.config, not "
               "over your own, with or without an export; an error where there is no folder "
               "serving/ beside saved_models/")
    check: str | None = option(
        None, "tell whether the inputs of saved_models/NAME/VERSION, any SavedModel, check their "
              "shapes; exit code 1 if some do not; nothing is run or written", metavar="VERSION")


@takes(ExportConfig)
def export(config):
    """Export a model, or do what else `ExportConfig` says.

    Args:
        config: `ExportConfig`, or its fields as keyword arguments.

    Returns:
        Path of the version that was exported; None where `model` is None.

    Raises:
        UsageError: options contradict each other or the model, or there is nothing to do.
        BertTfError: the model is damaged, or an input of what was checked does not check its shape.
    """
    embedding = config.embedding()
    if config.calibration and config.dtype != "int8":
        raise UsageError(explain(f"--calibration with --dtype {config.dtype}", "--dtype int8"))
    if config.model is None and not config.serving_config and not config.check:
        raise UsageError(explain("nothing to do", "--model, --serving_config or --check"))
    version = _export(config, embedding) if config.model is not None else None
    if config.serving_config:
        _write_serving_config(config.export_dir)
    if config.check:
        _check(config.check)
    return version


def _export(config, embedding):
    from bert_tf.converters.own_folder import own_path
    from bert_tf.saved_model.save import EXPORT, export_saved_model
    from bert_tf.storage.export_dirs import export_dir_of
    from bert_tf.storage.processor import lacks_vnni

    if config.dtype == "int8" and lacks_vnni():
        print_note("this processor has no VNNI, so products of int8 overflow here and the loss is "
                   "measured with that; export and serve int8 where there is AVX512-VNNI or "
                   "AVX-VNNI")

    name = hub.repository(config.model)
    export_dir = config.export_dir or (name and export_dir_of(files.base_name(name)))
    with own_path(config.model) as model:
        version = export_saved_model(
            model, export_dir, dtype=config.dtype, seq_length=config.max_seq_length,
            top_k=config.top_k, temperature=config.temperature, top_p=config.top_p,
            max_new_tokens=config.max_new_tokens, embedding=embedding,
            term_weights=_term_weights(model, config) if config.corpus and config.weighs_terms
            else None,
            code=VectorCode(config.dimensions, config.precision), sample=_sample(model, config),
            calibration=_calibration(model, config) if config.dtype == "int8" else None,
            max_loss=config.max_loss, max_terms=config.max_terms, pair=config.pair)
    about = files.read_json(os.path.join(version, "assets.extra", EXPORT))
    print(f"exported {version}\nsignatures: {' '.join(about['signatures'])}")
    for note in about["notes"]:
        print_note(note)
    if "int8" in about:
        report = about["int8"]
        kept = sum(layer["dtype"] != "int8" for layer in report["layers"].values())
        print(f"int8: of a vector's cosine {report['loss']:.4f} is lost at most, "
              f"{report['mean_loss']:.4f} in the mean; {kept} of {len(report['layers'])} layers "
              "stay float32")
    return version


def _term_weights(model, config):
    """What the corpus says, read as the export of the folder `model` will read texts."""
    from bert_tf.config import ModelConfig
    from bert_tf.data.term_weights import learn_term_weights, read_texts
    from bert_tf.models.pretrained import CONFIG, TASK
    from bert_tf.saved_model.source import find_source
    from bert_tf.tokenization.load import load_tokenizer

    source = find_source(model)
    task = os.path.join(source.model_folder, TASK)
    reading = files.read_json_object(task).get("reading") if files.exists(task) else None
    window = (config.max_seq_length or source.seq_length or (reading or {}).get("seq_length")
              or ModelConfig.load(os.path.join(source.model_folder, CONFIG)).longest)
    return learn_term_weights(read_texts(files.expand(config.corpus)),
                              load_tokenizer(source.model_folder), window, progress=True)


def _sample(model, config):
    """The texts by which int8 of vectors is calibrated, read as the model was trained to."""
    if config.precision != "int8" or not config.corpus:
        return None
    return _texts(model, config.corpus, _SAMPLE)


def _calibration(model, config):
    """The texts by which int8 of weights is calibrated."""
    from bert_tf.data.python_prose import documents

    if config.calibration:
        return _texts(model, config.calibration, _SAMPLE)
    paragraphs = (text for _, topic in documents() for text in topic)
    return _spread(list(paragraphs), _SAMPLE)


def _texts(model, globs, count):
    from bert_tf.data.term_weights import read_texts
    from bert_tf.saved_model.source import find_source
    from bert_tf.tokenization.load import load_tokenizer
    from bert_tf.tokenization.morphemes import pretokenize

    texts = itertools.islice(read_texts(files.expand(globs)), count)
    return pretokenize(load_tokenizer(find_source(model).model_folder), list(texts))


def _spread(values, count):
    """So many of a list, evenly from its beginning to its end."""
    count = min(count, len(values))
    return [values[place * len(values) // count] for place in range(count)]


def _check(version):
    from bert_tf.saved_model.guards import check_guards

    check_guards(version)
    print(f"{version}: every input of every signature checks its shape")


def _write_serving_config(export_dir):
    from bert_tf.saved_model.server_config import write_configs

    saved_models = os.path.dirname(files.absolute(export_dir)) if export_dir else "saved_models"
    paths = write_configs(saved_models)
    if paths is None:
        raise UsageError(explain(f"--serving_config for {saved_models}",
                                 "a folder saved_models with a folder serving beside it",
                                 "it in the checkout's folder"))
    print("wrote " + " ".join(map(os.path.relpath, paths)) if paths else
          "nothing is written: both files are your own")


def _parser():
    return cli.parser_of("export", __doc__, ExportConfig)


@cli.nothing_kept()
def main(argv=None):
    export(ExportConfig(**vars(_parser().parse_args(argv))))


cli.make_callable(__name__, export)

if __name__ == "__main__":
    sys.exit(cli.run(main))
