"""The model that a view looks into."""

import tempfile


def add_model_flag(parser):
    """`--model`: where the model is."""
    parser.add_argument("--model", required=True, metavar="PATH",
                        help="model or run folder, or a checkpoint of any format that convert "
                             "reads")


def load_encoder(path, **options):
    """The encoder of a model, in float32, and its tokenizer.

    Args:
        path: what `--model` takes.
        options: of `build_encoder`, such as `attention_probs=True`.

    Returns: `(encoder, tokenizer)`: the Keras model and what `load_tokenizer` gives.

    Raises:
        BertTfError: a file is missing or damaged, or there is no tokenizer that reads text.
        UsageError: no model of any format.
    """
    from bert_tf.converters.own_folder import own_folder
    from bert_tf.tasks.pretrained import from_pretrained
    from bert_tf.tokenization.load import load_tokenizer

    with tempfile.TemporaryDirectory() as temporary:
        folder = own_folder(path, f"{temporary}/model")
        return (from_pretrained(folder, "encoder", dtype="float32", **options),
                load_tokenizer(folder))
