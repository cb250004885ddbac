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

import argparse
import os
import sys

from bert_tf import cli
from bert_tf.errors import UsageError, explain
from bert_tf.storage import files


def _parser():
    parser = cli.Parser("export", __doc__)
    add = parser.add_argument
    add("--model", metavar="PATH",
        help="run folder (runs/NAME) or model folder (save_pretrained)")
    add("--export_dir", metavar="saved_models/NAME",
        help="the served model's folder (default: named as the run or the model folder)")
    add("--dtype", choices=("float32", "bfloat16"), default="float32",
        help="what the graph computes in; outputs are float32")
    add("--seq_length", type=cli.positive,
        help="window in tokens, to which longer text is cut (default: what the run trained on, "
             "else all positions of the model)")
    add("--top_k", type=cli.positive, default=5,
        help="predictions of fill_mask for each [MASK]; tokens from which sample draws")
    add("--max_new_tokens", type=cli.positive,
        help="tokens that generate and sample add, for which so much of the window is kept "
             "(default: 32, of a window below 96 a third)")
    add("--serving_config", action="store_true",
        help="write serving/models.config (for containers; not over your own) and "
             "serving/models.local.config, with or without an export; an error where there is no "
             "folder serving/ beside saved_models/")
    add("--check", metavar="VERSION",
        help="tell whether the inputs of saved_models/NAME/VERSION, any SavedModel, check their "
             "shapes; exit code 1 if some do not; nothing is run or written")
    _add_embedding_flags(parser.add_argument_group(
        "the vector of a text, signature embed",
        "Where a flag is not given, what the model says if it is an embedder, else a plain mean."))
    return parser


def _add_embedding_flags(group):
    add, yes_or_no = group.add_argument, argparse.BooleanOptionalAction
    add("--pooling", choices=("mean", "max", "mean_max", "cls", "cls_pooled", "sep", "none"),
        help="over the tokens: mean, largest values, both; first token, what the pooler makes of "
             "it, last token; or a vector for each token")
    add("--layers", type=int, nargs="+", metavar="LAYER",
        help="0 the embeddings, 1 the lowest layer, -1 the topmost one; -4 -3 -2 -1 the last four")
    add("--combine", choices=("concat", "sum"), help="several --layers side by side or summed up")
    add("--mask_specials", action=yes_or_no, default=None,
        help="leave [CLS] and [SEP] out of means and largest values")
    add("--weighting", choices=("none", "idf", "bm25"),
        help="weigh tokens in the mean by how rare they are in --corpus")
    add("--corpus", nargs="+", metavar="GLOB",
        help="texts like those to be served, one a line or .jsonl, also .gz")
    add("--normalize", action=yes_or_no, default=None,
        help="vectors of length 1, whose dot product is the cosine")


def _embedding(arguments):
    """The options of the vector that were given."""
    given = {name: getattr(arguments, name) for name in (
        "pooling", "layers", "combine", "mask_specials", "weighting", "normalize")}
    given = {name: value for name, value in given.items() if value is not None}
    weighting = given.get("weighting")
    if arguments.corpus and weighting in (None, "none"):
        raise UsageError(explain(f"--corpus with --weighting {weighting or 'not given'}",
                                 "--weighting idf or bm25"))
    return given | ({"weighting": None} if weighting == "none" else {})


def _term_weights(arguments):
    """What the corpus says, read as the export will read texts."""
    from bert_tf.config import ModelConfig
    from bert_tf.data.term_weights import learn_term_weights, read_texts
    from bert_tf.models.pretrained import CONFIG, TASK
    from bert_tf.saved_model.source import find_source
    from bert_tf.tokenization.load import load_tokenizer

    source = find_source(arguments.model)
    task = os.path.join(source.model_folder, TASK)
    reading = files.read_json_object(task).get("reading") if files.exists(task) else None
    window = (arguments.seq_length or source.seq_length or (reading or {}).get("seq_length")
              or ModelConfig.load(os.path.join(source.model_folder, CONFIG)).longest)
    return learn_term_weights(read_texts(files.expand(arguments.corpus)),
                              load_tokenizer(source.model_folder), window, progress=True)


def main(argv=None):
    arguments = _parser().parse_args(argv)
    embedding = _embedding(arguments)
    if arguments.model is None and not arguments.serving_config and not arguments.check:
        raise UsageError(explain("nothing to do", "--model, --serving_config or --check"))
    if arguments.model is not None:
        _export(arguments, embedding)
    if arguments.serving_config:
        _write_serving_config(arguments.export_dir)
    if arguments.check:
        _check(arguments.check)


def _export(arguments, embedding):
    from bert_tf.saved_model.save import EXPORT, export_saved_model

    version = export_saved_model(
        arguments.model, arguments.export_dir, dtype=arguments.dtype,
        seq_length=arguments.seq_length, top_k=arguments.top_k,
        max_new_tokens=arguments.max_new_tokens, embedding=embedding,
        term_weights=_term_weights(arguments) if arguments.corpus else None)
    about = files.read_json(os.path.join(version, "assets.extra", EXPORT))
    print(f"exported {version}\nsignatures: {' '.join(about['signatures'])}")
    for note in about["notes"]:
        print(f"note: {note}")


def _check(version):
    from bert_tf.saved_model.guards import check_guards

    check_guards(version)
    print(f"{version}: every input of every signature checks its shape")


def _write_serving_config(export_dir):
    from bert_tf.saved_model.server_config import write_configs

    saved_models = os.path.dirname(files.absolute(export_dir)) if export_dir else "saved_models"
    paths = write_configs(saved_models)
    if not paths:
        raise UsageError(explain(f"--serving_config for {saved_models}",
                                 "a folder saved_models with a folder serving beside it",
                                 "it in the checkout's folder"))
    print("wrote " + " ".join(map(os.path.relpath, paths)))


if __name__ == "__main__":
    sys.exit(cli.run(main))
