"""Effect of each layer: distances between a layer's input and output.

    python -m bert_tf.visualize sharing --model runs/bert_tiny runs/albert_tiny \\
        --input texts.txt --output sharing.png

Layers that share their weights move it less and less, others go up and down (ALBERT paper,
section 4.1 and figure 1). On the left the Euclidean distance, on the right the cosine distance, or
with --angle the angle as in the paper's figure; means over all tokens of the texts, special ones
counted. The same numbers, angles included, as .json.
"""

import numpy as np

from bert_tf import cli
from bert_tf.errors import UsageError, explain
from bert_tf.storage import files
from bert_tf.tasks.base.pictures import SUFFIXES, add_legend, line_styles, new_figure, write_figure
from bert_tf.visualization.names import short_names
from bert_tf.visualization.source import MODEL, load_encoder
from bert_tf.visualization.texts import add_text_flags, read_given_texts

OUTPUTS = (*SUFFIXES, ".json")
_BATCH = 16  # texts at a time
_LABELS = {"l2": "L2 distance", "cosine": "cosine distance", "degrees": "angle"}
_AXES = {"l2": "L2", "cosine": "1 − cosine", "degrees": "degrees"}


def add_flags(parser):
    """Add the flags of `visualize sharing`."""
    add = parser.add_argument
    add("--model", nargs="+", required=True, metavar="PATH", help=f"each a {MODEL}")
    add_text_flags(parser)
    add("--max_texts", type=cli.positive, default=256, metavar="N",
        help="texts that are read, the first ones")
    add("--seq_length", type=cli.positive, default=128, metavar="N",
        help="tokens of a text that are read, special ones counted")
    add("--angle", action="store_true", help="the angle instead of the cosine distance")
    add("--relative", action="store_true",
        help="layers as fractions of the model's depth, for models of different depth")


def measure_layers(encoder, tokenizer, texts, seq_length=128):
    """Measure distances between the input and output of every layer of an encoder.

    Args:
        encoder: built with `encoder_outputs=True`.
        tokenizer: as `load_tokenizer` gives it; texts are split into morphemes here where it asks
            for that.
        texts: list of str, at least one.
        seq_length: tokens of a text, special ones counted; fewer where the model has fewer
            positions.

    Returns: dict of float64 `[layers]`, means over the real tokens of all texts: `l2`, `cosine`
        and `degrees`, as of `bert_tf.layer_distances`; and of int `tokens`, how many that were,
        and `cut_texts`, the number of texts that were longer.

    Raises:
        UsageError: the encoder has no layers.
    """
    from bert_tf.models.distances import layer_distances
    from bert_tf.tokenization.morphemes import pretokenize
    from bert_tf.tokenization.packing import pack

    if not encoder.config.num_hidden_layers:
        raise UsageError(explain("layers of a static model, which has none",
                                 "a model with layers"))
    window = min(seq_length, encoder.config.longest)
    room = window - tokenizer.vocabulary.num_special()
    totals, tokens, truncated = {}, 0, 0
    for start in range(0, len(texts), _BATCH):
        pieces = tokenizer.tokenize(pretokenize(tokenizer, texts[start:start + _BATCH]))
        truncated += int((pieces.row_lengths().numpy() > room).sum())
        inputs = pack(tokenizer.vocabulary, [pieces], window, fixed=False)
        means = layer_distances(encoder(inputs, training=False), inputs["input_mask"])
        count = int(inputs["input_mask"].numpy().sum())
        tokens += count
        for name, values in means.items():
            totals[name] = totals.get(name, 0) + values.numpy().astype(np.float64) * count
    return {**{name: total / tokens for name, total in totals.items()},
            "tokens": tokens, "cut_texts": truncated}


def draw_distances(measured, angle=False, relative=False):
    """Draw both panels as a figure.

    Args:
        measured: `{name of the model: what measure_layers gave}`.
        angle: draw `degrees` instead of `cosine`.
        relative: draw layer i of L at i / L.
    """
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(10, 4.4)
    panels = figure.subplots(1, 2)
    styles = line_styles(len(measured))
    for axes, kind in zip(panels, ("l2", "degrees" if angle else "cosine"), strict=True):
        lines = []
        for values, style in zip(measured.values(), styles, strict=True):
            depth = len(values[kind])
            layers = np.arange(1, depth + 1) / (depth if relative else 1)
            lines += axes.plot(layers, values[kind], markersize=5, linewidth=1.5, **style)
        axes.set(xlabel="layer, as a fraction of the depth" if relative else "layer",
                 ylabel=_AXES[kind], title=f"{_LABELS[kind]} of a layer's input and output")
        axes.set_ylim(bottom=0)
        if not relative:
            axes.set_xlim(0.5, max(len(values[kind]) for values in measured.values()) + 0.5)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.grid(alpha=0.3)
    add_legend(figure, lines, list(measured))
    return figure


def show(arguments):
    """Draw into `arguments.output`; the lines to print."""
    texts = read_given_texts(arguments)
    lines = []
    if len(texts) > arguments.max_texts:
        lines.append(f"the first {arguments.max_texts:,} of {len(texts):,} texts are read "
                     "(--max_texts)")
        texts = texts[:arguments.max_texts]
    measured = {}
    for name, path in zip(short_names(arguments.model), arguments.model, strict=True):
        encoder, tokenizer = load_encoder(path, encoder_outputs=True)
        found = measured[name] = measure_layers(encoder, tokenizer, texts, arguments.seq_length)
        if found["cut_texts"]:
            lines.append(f"{name}: {found['cut_texts']:,} texts are truncated")
        lines += [f"{name}: {_LABELS[kind]} {' '.join(f'{value:.3g}' for value in found[kind])}"
                  for kind in _LABELS]
    if arguments.output.endswith(".json"):
        files.write_json(arguments.output, {"texts": len(texts), "models": {
            name: {key: value.tolist() if isinstance(value, np.ndarray) else value
                   for key, value in found.items()} for name, found in measured.items()}})
    else:
        lines += write_figure(arguments.output,
                              draw_distances(measured, arguments.angle, arguments.relative))
    return lines
