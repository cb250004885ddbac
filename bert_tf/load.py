"""Models from disk: whatever `finetune --init` starts from, and `.keras` files."""

import os
import tempfile

import keras

import bert_tf
from bert_tf.converters.own_folder import own_folder
from bert_tf.errors import UsageError, explain
from bert_tf.models.find import find_model
from bert_tf.storage import local_copies
from bert_tf.tasks import pretrained
from bert_tf.tasks.base.preprocessor import load_former_assets, share_tokenizer


def from_pretrained(path, task=None, config=None, **options):
    """Read a model, or build a model of another task on its encoder.

        model = bert_tf.from_pretrained("runs/reviews")
        model.predict(["A fine film."])
        model = bert_tf.from_pretrained("runs/bert_tiny", "classifier", labels=["no", "yes"])

    Every variable of the encoder comes from there. A head starts with initial weights only where
    there is none: another `task` than it was saved for, or other options of that task, such as new
    `labels`. So does what `config` adds to the encoder: `bilstm=True`, `pooling="dense"`. The paths
    of such variables are `model.fresh_variables`.

    Args:
        path: a model folder, the folder of a finished run, a version of a SavedModel that
            `bert_tf.export` wrote (its encoder), or what `bert_tf.convert` reads: a folder of
            Hugging Face, google-research, keras-hub or tf-models-official. Or the name of a
            repository of the Hugging Face Hub that holds one: `hf://org/name`,
            `hf://org/name@revision`, or `org/name` where there is no such path here.
        task: what to build with these weights: `"encoder"`, `"classifier"`, `"tagger"`, `"span"`,
            `"embedder"`, `"sparse_embedder"`, `"multi_vector_embedder"`, `"ranker"`,
            `"pretraining"`, `"language_model"` or `"replaced_tokens"`; None for what was saved.
        config: a dict of `ModelConfig` fields to change, such as `hidden_dropout_prob`.
        options: passed on to the class, for example `dtype="mixed_bfloat16"`, `labels` of a
            classifier, `encoder_outputs=True` of an encoder, or a `preprocessor` in place of the
            saved one; where none was saved, it is that of the tokenizer with its defaults.

    Returns: the Keras model, with `config`, `encoder` (of a task) and `save_pretrained`. It takes
        text as well as token ids, unless there is no tokenizer that runs in a graph.

    Raises:
        BertTfError: a file is missing or damaged.
        UsageError: there is no model, the checkpoint lacks a variable of the model or, where the
            model is the one saved, has further ones; all are listed.
    """
    found = find_model(path)
    if found.kind == "bert_tf":
        return pretrained.from_pretrained(found.path, task, config, **options)
    with tempfile.TemporaryDirectory(prefix="bert_tf-") as folder:
        converted = os.path.join(folder, "model")
        if found.kind == "saved_model":
            from bert_tf.saved_model.exported_encoder import load_exported

            encoder, tokenizer = load_exported(found.path)
            encoder.save_pretrained(converted, tokenizer)
        else:
            own_folder(path, converted)
        return pretrained.from_pretrained(converted, task, config, **options)


def load_model(path, custom_objects=None, compile=True):
    """Read a `.keras` file with models or layers of this package in it.

    `keras.saving.load_model` finds the classes that are imported; here all of them are. A file
    cannot bring code: one with a Lambda layer is refused (Keras's safe mode).

    Args:
        path: written by a Keras model's `save`.
        custom_objects, compile: as of `keras.saving.load_model`.

    Raises:
        ValueError: not such a file, or one with code in it.
        UsageError: a folder of another kind, such as `save_pretrained` writes; or models in it
            shared one preprocessor and there were others, see `share_tokenizer`.
    """
    bert_tf.import_public()
    local = local_copies.local(path)
    if os.path.isdir(local) and not os.path.exists(os.path.join(local, "metadata.json")):
        raise UsageError(explain(f"{path} is no model that Keras saved", "a .keras file",
                                 "bert_tf.from_pretrained"))
    model = keras.saving.load_model(local, custom_objects, compile, safe_mode=True)
    load_former_assets(model, local)
    share_tokenizer(model, path)
    return model
