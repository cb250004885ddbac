"""A SavedModel that loads at once and whose answers tests can work out themselves."""

import functools
import pathlib
import shutil
import tempfile

import tensorflow as tf

from bert_tf.saved_model.warmup import write_warmup

_TEXTS = tf.TensorSpec([None], tf.string, "text")
_IDS = tf.TensorSpec([None, None], tf.int32, "ids")
_EXAMPLES = tf.TensorSpec([None], tf.string, "inputs")
LABELS = ["no", "네"]
BATCHING = """\
max_batch_size { value: 8 }
batch_timeout_micros { value: 0 }
max_enqueued_batches { value: 2 }
"""


class _Small(tf.Module):
    """`score` is the bytes of a text times the version's `factor`."""

    def __init__(self, factor):
        self.factor = tf.Variable(float(factor))

    @tf.function(input_signature=[_TEXTS])
    def score(self, text):
        length = tf.strings.length(text)
        # The rows that ran together show what was merged.
        return {"score": tf.cast(length, tf.float32) * self.factor, "length": length,
                "batch": tf.fill(tf.shape(text), tf.size(text)), "text": tf.strings.upper(text)}

    @tf.function(input_signature=[_IDS])
    def ids(self, ids):
        return {"sum": tf.reduce_sum(ids, axis=1), "ids": ids,
                "batch": tf.fill([tf.shape(ids)[0]], tf.shape(ids)[0])}

    @tf.function(input_signature=[_TEXTS])
    def number(self, text):
        return {"number": tf.strings.to_number(text)}

    @tf.function(input_signature=[_TEXTS])
    def whole(self, text):
        return {"size": tf.size(text), "all": tf.strings.reduce_join(text)}  # no batch axis

    @tf.function(input_signature=[_TEXTS])
    def hold(self, text):
        """Says that it runs and waits until it may go on: `held` at the other end."""
        rows = tf.fill(tf.shape(text), tf.size(text))

        def wait(path):
            with tf.control_dependencies([tf.io.write_file(path + ".runs", "x")]), \
                    tf.control_dependencies([tf.io.write_file(path + ".goes", "x")]):
                return tf.identity(path)

        waited = tf.map_fn(lambda path: tf.cond(path == "", lambda: path, lambda: wait(path)),
                           text)
        return {"text": waited, "batch": rows}

    @tf.function(input_signature=[_EXAMPLES])
    def classify(self, inputs):
        length = _length(inputs)
        share = length / (length + 1)
        scores = tf.stack([1 - share, share], axis=1) * self.factor
        return {"scores": scores, "classes": tf.broadcast_to(LABELS, tf.shape(scores))}

    @tf.function(input_signature=[_EXAMPLES])
    def regress(self, inputs):
        return {"outputs": _length(inputs)[:, tf.newaxis] * self.factor}


def _length(inputs):
    parsed = tf.io.parse_example(inputs, {"text": tf.io.FixedLenFeature([], tf.string)})
    return tf.cast(tf.strings.length(parsed["text"]), tf.float32)


@functools.cache
def _saved(factor):
    """A folder with the SavedModel of a factor, written once a process."""
    small = _Small(factor)
    folder = tempfile.TemporaryDirectory(prefix="small")
    tf.saved_model.save(small, folder.name, signatures={
        "serving_default": small.score, **{name: getattr(small, name) for name in (
            "ids", "number", "whole", "hold", "classify", "regress")}})
    return folder  # which goes when nothing refers to it


def save_small(model_folder, version=1, factor=1.0, warm_up=None, batching=None):
    """Write a version.

    Args:
        model_folder: of the model; the version appears in it whole.
        version: its number.
        factor: by which its answers differ from those of other versions.
        warm_up: `{signature: inputs}` for its warm-up file.
        batching: text of its `batching_params.pbtxt`.
    """
    model_folder = pathlib.Path(model_folder)
    folder = model_folder.with_name(f"{model_folder.name}-{version}-being-written")
    shutil.copytree(_saved(factor).name, folder)
    if warm_up is not None:
        (folder / "assets.extra").mkdir()
        write_warmup(str(folder / "assets.extra" / "tf_serving_warmup_requests"), warm_up)
    if batching is not None:
        (folder / "batching_params.pbtxt").write_text(batching)
    model_folder.mkdir(parents=True, exist_ok=True)
    folder.rename(model_folder / str(version))
    return model_folder / str(version)
