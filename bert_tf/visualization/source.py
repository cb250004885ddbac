"""The model that a view looks into."""

import tempfile

from bert_tf.errors import NoTextError, explain
from bert_tf.shapes import check_weights
from bert_tf.visualization.tokenizers import open_tokenizer

MODEL = ("model or run folder, a checkpoint of any format that convert reads, or a version that "
         "export wrote (saved_models/NAME/VERSION)")


def add_model_flag(parser):
    """Add `--model`: where the model is."""
    parser.add_argument("--model", required=True, metavar="PATH", help=MODEL)


def load_encoder(path, **options):
    """Load the encoder of a model, in float32, and its tokenizer.

    Args:
        path: what `--model` takes.
        options: of `build_encoder`, such as `attention_probs=True`.

    Returns: `(encoder, tokenizer)`: the Keras model and what `load_tokenizer` gives.

    Raises:
        BertTfError: a file is missing or damaged, there is no tokenizer that reads text, a
            SavedModel was not written by `bert_tf.export`, or a weight is not finite.
        UsageError: no model of any format, or a SavedModel whose weights cannot be told apart.
    """
    encoder, tokenizer = _load(path, options)
    check_weights(encoder, path)
    return encoder, tokenizer


def _load(path, options):
    from bert_tf.converters.own_folder import own_folder
    from bert_tf.models.find import find_model
    from bert_tf.saved_model.exported_encoder import load_exported
    from bert_tf.tasks.pretrained import from_pretrained

    found = find_model(path)
    if found.kind == "saved_model":
        encoder, tokenizer = load_exported(found.path, **options)
        if tokenizer is None:
            raise NoTextError(explain(f"{path} takes token ids only", "a model with a tokenizer"))
        return encoder, tokenizer
    with tempfile.TemporaryDirectory() as temporary:
        folder = own_folder(path, f"{temporary}/model")
        # Of the path itself, which is what an error is to name.
        return (from_pretrained(folder, "encoder", dtype="float32", **options),
                open_tokenizer(path))
