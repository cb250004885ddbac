"""Write, check and publish a SavedModel version.

A version is built in a temporary folder, reloaded and compared with the Keras model on real text,
and renamed to the next free number last: a server that polls the folder never sees half of one.
"""

import contextlib
import os

import tensorflow as tf

from bert_tf.errors import BertTfError, UsageError, check_choice, explain, print_note
from bert_tf.layers.inference import for_inference
from bert_tf.layers.substitutes import computed_with
from bert_tf.models.pretrained import CONFIG, TASK
from bert_tf.saved_model.exported_encoder import EXPORT
from bert_tf.saved_model.guards import guarded
from bert_tf.saved_model.ops import finish_graph, unservable_ops
from bert_tf.saved_model.quantize import MAX_LOSS
from bert_tf.saved_model.served_layer_norm import served_layer_norm
from bert_tf.saved_model.served_model import load_served
from bert_tf.saved_model.server_config import versions, write_batching_params, write_configs
from bert_tf.saved_model.signatures import description, signatures, unanswered
from bert_tf.saved_model.source import find_source, published_version
from bert_tf.saved_model.verify import verify
from bert_tf.saved_model.warmup import warmup_requests, write_warmup
from bert_tf.storage import checksums, files, locks
from bert_tf.storage.export_dirs import export_dir_of
from bert_tf.storage.variables import explained_writing
from bert_tf.tokenization.load import tokenizer_files
from bert_tf.tokenization.tokenizer import CONFIG_NAME as TOKENIZER_CONFIG

# Compute type: how far the graph, whose operations TensorFlow may fuse, may be from the model.
DTYPES = {"float32": 1e-4, "bfloat16": 0.1, "int8": 0.1}


def export_saved_model(model, export_dir=None, *, dtype="float32", seq_length=None, top_k=None,
                       max_new_tokens=None, embedding=None, term_weights=None, code=None,
                       sample=None, calibration=None, max_loss=MAX_LOSS, max_terms=None,
                       temperature=None, top_p=None, pair=False):
    """Publish a trained model as the next version of `export_dir`, for TF Serving.

    Exports into one folder wait for each other; what killed ones left is deleted. In a checkout
    `serving/models.config` and `models.local.config` are written too (see `write_configs`).

    Args:
        model: path of a model folder (`save_pretrained`) or of a finished run, whose training
            configuration and metrics are kept in `assets.extra/`. Without a tokenizer that runs
            in a graph the signatures take token ids only; `export.json` there notes it.
        export_dir: the served model's folder, whose subfolders are versions; default
            `saved_models/NAME` with the name of the run or the model folder.
        dtype: what the graph computes in, `float32` or `bfloat16`; or `int8`, whose products of
            weights are of whole numbers and all else float32. Outputs are float32.
        seq_length: the window in tokens, to which longer text is truncated; default what a
            pre-training run trained on, else what the model's preprocessor reads, else all
            positions the model has.
        top_k: predictions that `fill_mask` gives for a mask, and likeliest tokens from which
            `sample` draws the next; default 5, of `sample` with a `temperature` or `top_p` all.
        max_new_tokens: length of the continuations of `generate` and `sample`, for which so much
            of the window is kept; default 32, or a third of a window below 96.
        embedding: dict of arguments of `VectorPooling`, such as `pooling`, `layers` and
            `normalize`: the vector that `embed` gives; of an embedder its pooling, of any other
            model by default the mean over the tokens.
        term_weights: `bert_tf.learn_term_weights` of a corpus, for a `weighting` in `embedding`.
        code: `bert_tf.VectorCode`, how small that vector is stored; None for float32, all of it.
        sample: texts that int8 of vectors without a scale is calibrated by.
        calibration: texts by which the dtype int8 is calibrated and its loss measured.
        max_loss: most that it may lose: 1 minus the least cosine of a text's vector to that in
            float32. Layers stay float32 until that holds.
        max_terms: tokens that `sparse` gives of a text, the heaviest; default 256.
        temperature, top_p: how `sample` draws, as of `bert_tf.generate`; default 1, of both.
        pair: texts come in pairs, `text_a` and `text_b`, of a classifier whose files do not say
            it, as those of published ones.

    Returns: the path of the new version.

    Raises:
        UsageError: an option does not fit the model, a strategy's scope is entered, or TensorFlow
            could not load anything from `export_dir`.
        BertTfError: a file cannot be read or written, the written model differs from the Keras
            model, or int8 loses too much; nothing is published then.
    """
    check_choice("dtype", dtype, DTYPES)
    if tf.distribute.has_strategy():
        raise UsageError(explain("export_saved_model inside a tf.distribute strategy's scope",
                                 attempt="it outside"))
    source = find_source(model)
    export_dir = export_dir_of(source.name, export_dir)
    served = load_served(source.model_folder, dtype, seq_length or source.seq_length,
                         top_k, max_new_tokens, embedding, term_weights, code, sample,
                         calibration, max_loss, max_terms, temperature, top_p, pair)
    with locks.held(export_dir, wait=True):
        files.clean_temporary(export_dir)
        # Clients know a version by its number: none returns while its folder is there, hidden too.
        number = max(versions(export_dir, hidden=True), default=0) + 1
        version = os.path.join(export_dir, str(number))
        with files.atomic_path(version) as folder:
            with computed_with(served.int8):
                _write(served, source.model_folder, folder)
                verify(served, folder, DTYPES[dtype])
            _write_extra(served, source, folder)
            checksums.write(folder)
    try:
        write_configs(os.path.dirname(files.absolute(export_dir)))
    except BertTfError as problem:  # the version is there, whoever may write those
        print_note(problem)
    return version


def export_run(run, export_dir):
    """Publish the model of a finished run unless `export_dir` has it, which is told; the version's
    path."""
    version = published_version(export_dir, run)
    if version:
        print(f"{run}: this run is finished already; nothing to do")
    return version or export_saved_model(run, export_dir)


def export_notes(version):
    """Return the notes that `export.json` of an exported version holds: a list of lines."""
    return files.read_json(os.path.join(version, "assets.extra", EXPORT))["notes"]


def _write(served, model_folder, folder):
    exported = tf.Module()
    exported.weights = served.stored_weights
    exported.tokenizer = served.tokenizer  # holds what its ops keep
    exported.vocabulary = [tf.saved_model.Asset(os.path.join(model_folder, name))
                           for name in tokenizer_files(model_folder)]

    made, functions = {}, {}
    with _traced_once(served.encoder.backbone), for_inference(served_layer_norm):
        for name, signature in signatures(served).items():
            if id(signature) not in made:  # the default's graph is there once
                made[id(signature)] = tf.function(
                    guarded(served, signature), autograph=False
                ).get_concrete_function(**signature.inputs)
            functions[name] = made[id(signature)]
    # What is served needs no gradients; tracing and writing ours takes long.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    with explained_writing(folder):
        tf.saved_model.save(exported, folder, signatures=functions, options=options)
    finish_graph(folder)
    unservable = unservable_ops(folder)
    if unservable:
        raise BertTfError("TF Serving does not link these ops of the graph: "
                          + " ".join(unservable))


@contextlib.contextmanager
def _traced_once(backbone):
    """Trace once: within, graphs that call the encoder call one graph of it, instead of a copy
    each.

    Of seven signatures most are tokenizer (`BaseTokenizer.tokenize` does alike) and encoder: less
    to trace, to write and to load. When a signature is run TensorFlow inlines the calls' graphs.
    """
    # Past `__setattr__`, where Keras would take the function for a part of the model.
    vars(backbone)["call"] = tf.function(backbone.call, autograph=False)
    try:
        yield
    finally:
        del vars(backbone)["call"]


def _write_extra(served, source, folder):
    extra = files.make_folder(os.path.join(folder, "assets.extra"))
    own = [os.path.join(source.model_folder, name) for name in (CONFIG, TASK, TOKENIZER_CONFIG)]
    for path in [*filter(files.exists, own), *source.records]:
        files.copy(path, os.path.join(extra, os.path.basename(path)))
    notes = list(served.notes)
    if unanswered(served):
        notes.append(f"no signature serves {', '.join(unanswered(served))}: the encoder's "
                     "outputs are served, the head is not")
    files.write_json(os.path.join(extra, EXPORT), {
        "signatures": list(signatures(served)), "notes": notes, **description(served),
        **({"int8": served.int8_report} if served.int8 else {})})
    write_warmup(os.path.join(extra, "tf_serving_warmup_requests"), *warmup_requests(served))
    write_batching_params(folder)
