"""The teacher: its model, and what it says of every text, kept in files."""

import contextlib
import io
import os
import tempfile

import numpy as np
import tqdm

from bert_tf import side_by_side
from bert_tf.data.processes import in_threads
from bert_tf.data.task_input import Features, Ragged, in_order
from bert_tf.errors import BertTfError, NoTextError, UsageError, explain
from bert_tf.load import from_pretrained
from bert_tf.models.families import INPUTS
from bert_tf.models.find import SERVED, find_model
from bert_tf.models.pretrained import TASK, takes_no_text
from bert_tf.shapes import check_finite
from bert_tf.storage import files
from bert_tf.tasks.embedding.teacher import WITHOUT_LABELS
from bert_tf.tokenization.packing import join

_SHARD = 1 << 15  # texts of a file
_BATCH_TOKENS = 8192  # positions that are computed together


def load_teacher(path, **options):
    """Load an embedder or a classifier; a model without labels becomes an embedder.

    Args:
        path: what `from_pretrained` reads.
        options: `dtype` and `seed` of the model.

    Raises:
        UsageError: it predicts something else, takes no text, or is exported, with a head that
            nothing but the graph has.
    """
    found = find_model(path)
    about = os.path.join(found.folder, TASK)
    if found.kind in SERVED and files.exists(about):
        task = files.read_json_object(about)["task"]
        if task not in WITHOUT_LABELS:  # of it `from_pretrained` gives the encoder alone
            raise UsageError(explain(f"--teacher {path}, a SavedModel of the task {task!r}",
                                     "the run or the model folder that it was exported from"))
    model = from_pretrained(path, **options)
    if model.saved_as in WITHOUT_LABELS:
        model = from_pretrained(path, "embedder", **options)
    if model.saved_as not in ("embedder", "classifier"):
        raise UsageError(explain(f"--teacher {path}, a model for {model.saved_as}",
                                 "an embedder, a classifier or an encoder"))
    if model.preprocessor is None:
        raise NoTextError(takes_no_text(f"--teacher {path}", model.text_read_otherwise))
    if getattr(model.preprocessor, "pair", False):
        raise UsageError(explain(f"--teacher {path} reads pairs of texts", "one of single texts"))
    if getattr(model, "pooling", None) and model.pooling.pooling == "none":
        raise UsageError(explain(f"--teacher {path} gives a vector for each token",
                                 "one that pools them"))
    model.trainable = False
    return model


def teacher_outputs(teacher, features, folder):
    """Compute, or read, what the teacher gives for every row of `features`.

    Args:
        teacher: of `load_teacher`.
        features: `Features` by its own tokenizer.
        folder: a file for every 32,768 texts is kept there; those that are there are not made
            again.

    Returns: float32 `[n, width]`, vectors or logits.

    Raises:
        BertTfError: one is not finite, or a file is damaged.
    """
    import tensorflow as tf

    function = tf.function(
        lambda inputs: tf.cast(teacher(inputs, training=False), tf.float32), autograph=False,
        input_signature=[{name: tf.TensorSpec([None, None], tf.int32) for name in INPUTS}]
    ).get_concrete_function()

    def ask(task):
        _, batch = task
        return function({name: batch[name] for name in INPUTS}).numpy()

    files.make_folder(folder)
    parts = []
    with tqdm.tqdm(desc="asking the teacher", total=len(features), unit="text", delay=2) as bar:
        for start in range(0, len(features), _SHARD):
            part = _part(features, start, min(start + _SHARD, len(features)))
            path = os.path.join(folder, f"{start:09d}.npy")
            if files.exists(path):
                parts.append(_read(path))
                bar.update(len(part))
                continue
            found = None
            batches = in_order(part, _BATCH_TOKENS, teacher.config.padding_id)
            with contextlib.closing(in_threads(batches, ask, side_by_side.at_once())) as answered:
                for (rows, _), values in answered:
                    if found is None:
                        found = np.zeros((len(part), values.shape[1]), np.float32)
                    found[rows] = values
                    bar.update(len(rows))
            check_finite(found, "the teacher gives answers")
            stream = io.BytesIO()
            np.save(stream, found)
            files.write_bytes(path, stream.getvalue())
            parts.append(found)
    return np.concatenate(parts)


def _read(path):
    with files.open_binary(path) as stream:
        content = stream.read()
    try:
        return np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise BertTfError(explain(f"{path} is damaged", attempt="deleting it, so that the teacher "
                                  "is asked again")) from error


def _part(features, start, end):
    """Return rows `start` to `end` of features."""
    rows = {}
    for name, values in features.rows.items():
        splits = values.splits[start:end + 1]
        rows[name] = Ragged(values.values[splits[0]:splits[-1]], splits - splits[0])
    return Features(rows, np.arange(end - start))


def token_vectors(teacher):
    """Compute the teacher's vector of every token alone, between its special tokens.

    Returns: float32 `[tokens of the vocabulary that have a row, width]`.
    """
    vocabulary = teacher.preprocessor.tokenizer.vocabulary
    count = min(len(vocabulary), teacher.config.vocab_size)
    ids = np.array([join(vocabulary, [number])[0] for number in range(count)], np.int32)
    found = []
    for start in tqdm.trange(0, len(ids), 1024, desc="asking of tokens", delay=2):
        part = ids[start:start + 1024]
        found.append(np.asarray(teacher({
            "input_word_ids": part, "input_mask": np.ones_like(part),
            "input_type_ids": np.zeros_like(part)})))
    return np.concatenate(found)


def same_tokenizer(one, other):
    """Return whether two tokenizers give the same ids: whether their files are the same."""
    def saved(tokenizer, folder):
        os.makedirs(folder)
        tokenizer.save(folder)
        return {name: open(os.path.join(folder, name), "rb").read()
                for name in sorted(os.listdir(folder))}

    with tempfile.TemporaryDirectory(prefix="bert_tf-") as folder:
        return saved(one, os.path.join(folder, "one")) == saved(other, os.path.join(folder, "two"))
