"""Write, check and publish a SavedModel version.

A version is built in a temporary folder, reloaded and compared with the Keras model on real text,
and renamed to the next free number last: a server that polls the folder never sees half of one.
"""

import errno
import functools
import os

import keras
import numpy as np
import tensorflow as tf

from bert_tf import files, variables
from bert_tf.config import ModelConfig
from bert_tf.errors import BertTfError, UsageError, check_choice, explain
from bert_tf.models.pretrained import CHECKPOINT, CONFIG
from bert_tf.saved_model.ops import drop_custom_gradients, unservable_ops
from bert_tf.saved_model.server_config import versions, write_local_config
from bert_tf.saved_model.signatures import SIGNATURES, ServedModel
from bert_tf.saved_model.source import find_source
from bert_tf.saved_model.warmup import write_warmup
from bert_tf.tasks.pretrained import read_task
from bert_tf.tasks.pretraining import Pretrainer
from bert_tf.tokenization.tokenizer import CONFIG_NAME as TOKENIZER_CONFIG
from bert_tf.tokenization.tokenizer import VOCABULARY_NAME, Tokenizer

# Compute type: how far the graph, whose operations TensorFlow may fuse, may be from the model.
DTYPES = {"float32": 1e-4, "bfloat16": 0.1}

_SHORTEST = 5  # [CLS] a [SEP] b [SEP]

_TEXTS = ["The quick brown fox [MASK] over the lazy dog.", "", "안녕하세요, [MASK] 반갑습니다 ㅋㅋ",
          "Café 🙂 [MASK] [MASK]!", "A sentence that is longer than any window. " * 400]


def export_saved_model(model, export_dir=None, *, dtype="float32", seq_length=None, top_k=5):
    """Publish a trained model as the next version of `export_dir`, for TF Serving.

    Exports into one folder wait for each other; what killed ones left is deleted. In a checkout
    `serving/models.local.config` is written too (see `write_local_config`).

    Args:
        model: path of a model folder (`save_pretrained`, with its tokenizer) or of a finished run,
            whose training configuration and metrics are kept in `assets.extra/`.
        export_dir: the served model's folder, whose subfolders are versions; default
            `saved_models/NAME` with the name of the run or the model folder.
        dtype: what the graph computes in, `float32` or `bfloat16`; outputs are float32.
        seq_length: the window in tokens, to which longer text is cut; default what the run trained
            on, else all positions the model has.
        top_k: predictions that `fill_mask` gives for a mask.

    Returns: the path of the new version.

    Raises:
        UsageError: an option does not fit the model, or a strategy's scope is entered.
        BertTfError: a file cannot be read or written, or the written model differs from the Keras
            model; nothing is published then.
    """
    check_choice("dtype", dtype, DTYPES)
    if tf.distribute.has_strategy():
        raise UsageError(explain("export_saved_model inside a tf.distribute strategy's scope",
                                 attempt="it outside"))
    source = find_source(model)
    served = load_served(source.model_folder, dtype, seq_length or source.seq_length, top_k)
    export_dir = export_dir or os.path.join("saved_models", source.name)
    with files.locked(export_dir):
        files.clean_temporary(export_dir)
        version = os.path.join(export_dir, str(max(versions(export_dir), default=0) + 1))
        with files.atomic_path(version) as folder:
            _write(served, os.path.join(source.model_folder, VOCABULARY_NAME), folder)
            verify(served, folder, DTYPES[dtype])
            _write_extra(served, source, folder)
    write_local_config(export_dir)
    return version


def load_served(model_folder, dtype, seq_length, top_k):
    """Read a model folder as a `ServedModel`; arguments as of `export_saved_model`."""
    config = ModelConfig.load(os.path.join(model_folder, CONFIG))
    tokenizer = Tokenizer.load(model_folder)
    if len(tokenizer.vocabulary) != config.vocab_size:
        raise UsageError(explain(f"{model_folder}: vocab.txt has {len(tokenizer.vocabulary)} "
                                 "tokens", f"vocab_size={config.vocab_size}"))
    longest = config.max_position_embeddings
    seq_length = longest if seq_length is None else seq_length
    if not _SHORTEST <= seq_length <= longest:
        raise UsageError(explain(f"seq_length={seq_length}", f"{_SHORTEST} to {longest}, the "
                                 "model's max_position_embeddings"))
    if not 1 <= top_k <= config.vocab_size:
        raise UsageError(explain(f"top_k={top_k}", f"1 to {config.vocab_size}, the vocabulary"))
    prefix = os.path.join(model_folder, CHECKPOINT)
    tensors = variables.read_variables(prefix)
    pretrainer = Pretrainer(
        config, read_task(model_folder, tensors)["sentence_task"],
        dtype="float32" if dtype == "float32" else f"mixed_{dtype}")
    variables.assign_variables(pretrainer.trainable_variables, tensors, prefix)
    return ServedModel(pretrainer, tokenizer, seq_length, top_k)


def _write(served, vocabulary_path, folder):
    kernels, others = _stored_weights(served.pretrainer)
    exported = tf.Module()
    exported.weights = [*(stored for _, stored in kernels), *others]
    exported.vocabulary = tf.saved_model.Asset(vocabulary_path)

    def graph(function, **inputs):
        scope = keras.StatelessScope()
        for variable, stored in kernels:
            scope.add_update((variable, tf.convert_to_tensor(stored)))
        with scope:
            return function(served, **inputs)

    functions = {
        name: tf.function(functools.partial(graph, signature.function), autograph=False)
        .get_concrete_function(**signature.inputs)
        for name, signature in served.signatures().items()}
    try:
        tf.saved_model.save(exported, folder, signatures=functions)
    except tf.errors.OpError as error:
        if "No space left" in str(error.message):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise BertTfError(f"cannot write {folder}: {error.message}") from error
    drop_custom_gradients(folder)
    unservable = unservable_ops(folder)
    if unservable:
        raise BertTfError("TF Serving does not link these ops of the graph: "
                          + " ".join(unservable))


def _stored_weights(pretrainer):
    """`(kernels, others)`: kernels as `(Keras variable, tf.Variable in the compute type)`.

    Casting the kernels at every request would take longer than a short text.
    """
    kernels, others = [], []
    for variable in pretrainer.weights:
        if variable.name == "kernel" and pretrainer.compute_dtype != variable.dtype:
            stored = tf.Variable(tf.cast(variable.value, pretrainer.compute_dtype))
            kernels.append((variable, stored))
        else:
            others.append(variable.value)
    return kernels, others


def verify(served, folder, tolerance):
    """Compare the SavedModel in `folder` with the Keras model on real text, every signature.

    Raises:
        BertTfError: they differ.
    """
    reloaded = tf.saved_model.load(folder)
    for name, inputs in sample_requests(served, _TEXTS).items():
        expected = tf.nest.map_structure(np.asarray, SIGNATURES[name].function(served, **inputs))
        actual = tf.nest.map_structure(np.asarray, reloaded.signatures[name](**inputs))
        for output, values in expected.items():
            if name == "fill_mask" and output == "tokens":
                # Pieces as likely as each other may change places.
                same = clear_ranks(expected["scores"], tolerance)
                agree = np.array_equal(values[same], actual[output][same])
            elif values.dtype == np.float32:
                agree = near(actual[output], values, tolerance)
            else:
                agree = np.array_equal(values, actual[output])
            if not agree:
                raise BertTfError(f"the reloaded SavedModel gives another `{output}` for the "
                                  f"signature `{name}` than the Keras model; nothing is published")


def near(actual, expected, tolerance):
    """Whether each row of `actual [B, …]` is within `tolerance` of its expected one's size."""
    expected = expected.reshape(len(expected), -1)
    error = np.linalg.norm(actual.reshape(expected.shape) - expected, axis=1)
    return bool(np.all(error <= tolerance * np.maximum(np.linalg.norm(expected, axis=1), 1)))


def clear_ranks(scores, tolerance):
    """Bool of the shape of `scores [B, M, k]`: no neighbour is within twice the tolerance."""
    gaps = np.abs(np.diff(scores, axis=-1)) > 2 * tolerance
    edge = np.ones_like(gaps[..., :1])
    # The last rank's next neighbour is not in the answer.
    return np.concatenate([edge, gaps], -1) & np.concatenate([gaps, ~edge], -1)


def sample_requests(served, texts):
    """`{signature: inputs}` made of `texts`, for every signature that the model has."""
    texts = tf.constant(texts)
    tensors = {"text": texts, "text_a": texts, "text_b": texts[::-1], **served.pack(texts)}
    return {name: {key: tensors[key] for key in signature.inputs}
            for name, signature in served.signatures().items()}


def _write_extra(served, source, folder):
    extra = files.make_folder(os.path.join(folder, "assets.extra"))
    own = [os.path.join(source.model_folder, name) for name in (CONFIG, TOKENIZER_CONFIG)]
    for path in [*own, *source.records]:
        with files.open_binary(path) as stream:
            files.write_bytes(os.path.join(extra, os.path.basename(path)), stream.read())
    write_warmup(os.path.join(extra, "tf_serving_warmup_requests"),
                 sample_requests(served, _TEXTS))
