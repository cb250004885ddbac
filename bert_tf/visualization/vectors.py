"""Vectors of sentences under every layer and pooling, from one run of the encoder a batch."""

import numpy as np

from bert_tf import cli
from bert_tf.errors import UsageError, check_choice, explain

# Options of `VectorPooling` by the name of a way to make one vector of a sentence.
POOLINGS = {
    "mean": {"pooling": "mean"},
    "max": {"pooling": "max"},
    "mean_max": {"pooling": "mean_max"},
    "cls": {"pooling": "cls"},
    "cls_pooled": {"pooling": "cls_pooled"},
    "sep": {"pooling": "sep"},
    "mean_idf": {"pooling": "mean", "weighting": "idf"},
    "mean_bm25": {"pooling": "mean", "weighting": "bm25"},
}
_WINDOW = 128  # tokens of a sentence, where the model has so many


def add_vector_flags(parser, poolings=None, layers="all"):
    """Add `--poolings`, `--layers` and `--seq_length`, with these defaults in the help."""
    add = parser.add_argument
    add("--poolings", nargs="+", metavar="POOLING", choices=list(POOLINGS), default=poolings,
        help=f"{', '.join(POOLINGS)}" + ("" if poolings else " (default: all)"))
    add("--layers", type=int, nargs="+", metavar="LAYER",
        help=f"0 the embeddings, 1 the lowest layer, -1 the topmost one (default: {layers})")
    add_window_flag(parser)


def add_window_flag(parser):
    """Add `--seq_length`, see `window`."""
    parser.add_argument("--seq_length", type=cli.positive, metavar="N",
                        help=f"tokens to which a sentence is truncated (default: {_WINDOW}, "
                             "or what the model has)")


def window(config, seq_length=None):
    """Return how many tokens of a sentence are read.

    Raises:
        UsageError: more than the model has positions, or no space for a token.
    """
    seq_length = seq_length or min(_WINDOW, config.longest)
    if not 3 <= seq_length <= config.longest:
        raise UsageError(explain(f"seq_length={seq_length} of a model with {config.longest} "
                                 "positions", f"3 to {config.longest}"))
    return seq_length


def choices(config, poolings=None, layers=None):
    """Return every pooling of every layer that there is.

    Args:
        config: the encoder's `ModelConfig`.
        poolings: names in `POOLINGS`; None for all that the model has.
        layers: numbers, 0 the embeddings, -1 the topmost layer; None for all.

    Returns: list of `(pooling, layer)`, layers counted from 0; `cls_pooled`, what the pooler makes
        of the topmost layer, with that alone.

    Raises:
        UsageError: no such pooling or layer, or nothing is left.
    """
    from bert_tf.layers.vector_pooling import check_layers

    top = config.num_hidden_layers
    layers = check_layers(layers if layers is not None else tuple(range(top + 1)), top)
    if poolings is None:
        poolings = [name for name in POOLINGS if name != "cls_pooled" or config.pooling == "dense"]
    found = [(check_choice("pooling", pooling, POOLINGS), layer)
             for pooling in dict.fromkeys(poolings) for layer in layers
             if pooling != "cls_pooled" or layer == top]
    if not found:
        raise UsageError(explain("pooling='cls_pooled' without the topmost layer, which the "
                                 "pooler reads", attempt="layers=[-1]"))
    return found


def embed(encoder, tokenizer, texts, wanted, seq_length=None, weights=None, batch_size=32):
    """Compute vectors of sentences in all requested ways, in one run of the encoder a batch.

    Args:
        encoder, tokenizer: as `load_encoder` gives them.
        texts: list of str.
        wanted: list of `(pooling, layer)`, see `choices`.
        seq_length: the window in tokens; None as of `window`.
        weights: what `learn_term_weights` gives, for `mean_idf` and `mean_bm25`; None learns
            them from `texts`.
        batch_size: sentences of a run; those of similar length share one.

    Returns: dict of float32 `[len(texts), width]` by `(pooling, layer)`.

    Raises:
        UsageError: see `make_pooling` and `window`.
    """
    import tensorflow as tf

    from bert_tf.data.term_weights import learn_term_weights
    from bert_tf.tasks.embedding.model import make_pooling, pool_outputs
    from bert_tf.tokenization.morphemes import pretokenize
    from bert_tf.tokenization.packing import pack

    seq_length = window(encoder.config, seq_length)
    poolings = [make_pooling(encoder.config, layers=(layer,), **POOLINGS[pooling])
                for pooling, layer in wanted]
    weighted = [pooling for pooling in poolings if pooling.term_weights is not None]
    if weighted and weights is None:
        weights = learn_term_weights(texts, tokenizer, seq_length)
    for pooling in weighted:
        pooling.term_weights.assign(weights.of_rows(encoder.config.vocab_size),
                                    weights.average_length)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def run(text):
        inputs = pack(tokenizer.vocabulary, [tokenizer.tokenize(text)], seq_length, fixed=False)
        outputs = encoder.backbone(inputs, training=False, encoder_outputs=True)
        return [pool_outputs(pooling, inputs, outputs) for pooling in poolings]

    texts = pretokenize(tokenizer, texts)
    vectors = [np.zeros((len(texts), pooling.width(encoder.config.hidden_size)),
                        np.float32) for pooling in poolings]
    order = np.argsort([len(text) for text in texts], kind="stable")
    for start in range(0, len(order), batch_size):
        rows = order[start:start + batch_size]
        batches = run(tf.constant([texts[row] for row in rows], tf.string))
        for all_rows, batch in zip(vectors, batches, strict=True):
            all_rows[rows] = batch.numpy()
    return dict(zip(wanted, vectors, strict=True))


def truncation_note(tokenizer, texts, seq_length):
    """Return a list of one line that says how many sentences are longer than the window; else
    empty."""
    from bert_tf.tokenization.morphemes import pretokenize

    lengths = tokenizer.tokenize(pretokenize(tokenizer, texts)).row_lengths().numpy()
    longer = int((lengths > seq_length - tokenizer.vocabulary.num_special()).sum())
    return ([f"truncated at {seq_length} tokens: {longer:,} of {len(texts):,} sentences"]
            if longer else [])


def unit(vectors):
    """Scale `[n, width]`, each row to length 1; one of 0 stays 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)


def cosines(vectors):
    """Compute the cosine of every row with every row: `[n, width]` -> `[n, n]`; 0 for rows of
    zeros."""
    vectors = unit(vectors)
    return vectors @ vectors.T


def layer_name(layer):
    """Return the name of a layer, counted from 0, in a picture."""
    return f"layer {layer}" if layer else "embeddings"
