"""Position embeddings: the position of a token, as the model sees it.

    python -m bert_tf.visualize positions --model runs/bert_tiny --output positions.png
    python -m bert_tf.visualize positions --width 128 --length 64 --output sinusoidal.svg

With --model the cosine of every position's embedding with every other's, as learned (or as the
sinusoidal ones of a model that has those); without it the sinusoidal encodings themselves
(Vaswani et al. 2017, section 3.5).
"""

import numpy as np

from bert_tf import cli
from bert_tf.errors import UsageError, explain
from bert_tf.tasks.base.pictures import SUFFIXES, new_figure, write_figure
from bert_tf.visualization.source import MODEL, load_encoder
from bert_tf.visualization.vectors import cosines

OUTPUTS = SUFFIXES


def add_flags(parser):
    """Add the flags of `visualize positions`."""
    add = parser.add_argument
    add("--model", metavar="PATH", help=MODEL)
    add("--length", type=cli.positive, metavar="N",
        help="positions (default: all that the model has, 128 without one)")
    add("--width", type=cli.positive, metavar="N",
        help="columns of sinusoidal encodings, without --model (default: 64)")


def position_table(model, length=None):
    """Return the position embeddings of a model, one row a position.

    Args:
        model: an encoder, as `load_encoder` gives it.
        length: number of positions; None for all.

    Returns: float32 `[length, width]`. RoBERTa's first rows, which no token uses, are skipped.

    Raises:
        UsageError: the model has fewer positions, or no embeddings of them.
    """
    from bert_tf.layers.positions import sinusoidal_positions

    embeddings = model.backbone.embeddings
    length = length or embeddings.longest
    if length > embeddings.longest:
        raise UsageError(explain(f"{length} positions", f"at most {embeddings.longest}"))
    if embeddings.position_embedding == "none":
        why = ("whose attention knows distances" if model.config.num_hidden_layers
               else "which knows nothing of positions")
        raise UsageError(explain(f"a model of the family {model.config.family!r}, {why}",
                                 "one with position embeddings"))
    if embeddings.position_embedding == "sinusoidal":
        return sinusoidal_positions(length, embeddings.width).numpy()
    table = np.asarray(embeddings.position_embeddings)
    first = len(table) - embeddings.longest
    return table[first:first + length]


def draw_encodings(table):
    """Draw encodings `[positions, width]` as a heat map."""
    figure = new_figure(8, 5)
    axes = figure.subplots()
    image = axes.imshow(table, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    axes.set(title="sinusoidal position encodings", xlabel="column", ylabel="position")
    figure.colorbar(image)
    return figure


def draw_cosines(matrix, title):
    """Draw a cosine matrix `[positions, positions]` as a figure."""
    figure = new_figure(6.5, 5.5)
    axes = figure.subplots()
    image = axes.imshow(matrix, cmap="viridis", vmax=1)
    axes.set(title=title, xlabel="position", ylabel="position")
    figure.colorbar(image, label="cosine")
    return figure


def show(arguments):
    """Draw into `arguments.output`; the lines to print."""
    if arguments.model is None:
        from bert_tf.layers.positions import sinusoidal_positions

        table = sinusoidal_positions(arguments.length or 128, arguments.width or 64).numpy()
        write_figure(arguments.output, draw_encodings(table))
        return [f"{len(table)} positions, {table.shape[1]} columns"]
    if arguments.width is not None:
        raise UsageError(explain("--width with --model, whose width it is", "one of them"))
    encoder, _ = load_encoder(arguments.model)
    matrix = cosines(position_table(encoder, arguments.length))
    write_figure(arguments.output, draw_cosines(
        matrix, f"{encoder.config.position_embedding} position embeddings"))
    near = np.diagonal(matrix, 1).mean() if len(matrix) > 1 else 1.0
    return [f"{len(matrix)} positions, cosine of neighbours {near:.3f} on average"]
