"""Comparison of layers: labelled sentences as points, for every layer and pooling.

    python -m bert_tf.visualize layers --model runs/bert_tiny --input reviews.csv \\
        --text_column review --label_column stars --output layers.png
    python -m bert_tf.visualize layers --model runs/bert_tiny --input reviews.csv \\
        --text_column review --label_column stars --poolings mean cls --output layers.json

Each panel has the sentences' vectors of one layer (columns) and pooling (rows) in two dimensions,
coloured by label, and reports how well the labels are separated. That is computed from the whole
vectors, made 1 long, not from the projection, in two ways:

- accuracy: how many sentences the nearest mean of a label's vectors predicts (scikit-learn's
  NearestCentroid), each sentence by the means of those in other parts of a cross-validation, all
  labels counting equally (balanced). It measures what a layer is used for, predicting labels, has
  nothing to be tuned, and is not misled by what all vectors have in common; by chance it is one
  over the number of labels. The best panel is that of the highest accuracy.
- silhouette: of cosine distances (Rousseeuw 1987), -1 to 1, whether sentences lie nearer to their
  own label's than to the next one's. It is what the eye sees, and decides between equal
  accuracies.

The .json has the scores without the points.
"""

import collections

import numpy as np

from bert_tf import cli
from bert_tf.errors import BertTfError, check_choice, explain
from bert_tf.options import SeedOptions
from bert_tf.storage import files
from bert_tf.tasks.base.pictures import SUFFIXES, add_legend, new_figure, write_figure
from bert_tf.visualization.source import add_model_flag, load_encoder
from bert_tf.visualization.vectors import (
    add_vector_flags,
    choices,
    embed,
    layer_name,
    truncation_note,
    unit,
    window,
)

OUTPUTS = (*SUFFIXES, ".json")
PROJECTIONS = ("pca", "tsne")
TASKS = ("classify", "cola", "sst2", "nsmc", "polarity")
_COLUMNS = ("text", "label")
_FOLDS = 5
_MOST_NAMED = 20  # labels in the legend
_LONGEST = 24  # characters of a label there


def add_flags(parser):
    """Add the flags of `visualize layers`."""
    add = parser.add_argument
    add_model_flag(parser)
    add("--input", required=True, metavar="FILE",
        help="sentences with labels: TSV, CSV or JSONL, also .gz, as finetune reads them")
    add("--task", choices=TASKS, default=TASKS[0],
        help="what --input is: a custom table, or a file as published")
    for name in _COLUMNS:
        add(f"--{name}_column", metavar="NAME",
            help=f"with --task classify: column, its name or its number from 0 (default: {name})")
    add_vector_flags(parser, ["mean", "max", "cls", "sep"])
    add("--projection", choices=PROJECTIONS, default="pca",
        help="pca: the two directions of most variance; tsne: neighbours stay neighbours "
             "(van der Maaten and Hinton 2008)")
    add("--max_sentences", type=cli.positive, default=1000, metavar="N",
        help="of more a sample is drawn")
    cli.add_options(parser, SeedOptions)


def sample(texts, labels, most=1000, seed=12345):
    """Draw at most so many sentences at random, without those of a label that occurs once.

    Args:
        texts, labels: lists of str of the same length.
        most: how many are kept, in their order.
        seed: of the draw.

    Returns: `(texts, labels)`, lists of str.

    Raises:
        BertTfError: fewer than two labels with two sentences each are left.
    """
    kept = np.arange(len(texts))
    if len(kept) > most:
        kept = np.sort(np.random.default_rng(seed).choice(len(texts), most, replace=False))
    counts = collections.Counter(labels[row] for row in kept)
    kept = [row for row in kept if counts[labels[row]] > 1]
    if len({labels[row] for row in kept}) < 2:
        raise BertTfError(explain(
            f"{len(texts)} sentences, {len(counts)} labels, too few of which occur twice",
            "two labels or more, each of two sentences or more"))
    return [texts[row] for row in kept], [labels[row] for row in kept]


def separation(vectors, labels, seed=12345):
    """Measure how well labels are separated; see the module's description.

    Args:
        vectors: float `[n, width]`.
        labels: list of n str, each of two or more labels at least twice.
        seed: of the parts of the cross-validation: 5, or as many as the rarest label has sentences.

    Returns: `{"accuracy", "silhouette"}`, floats.

    Raises:
        BertTfError: a vector is not finite.
    """
    from sklearn.metrics import balanced_accuracy_score, silhouette_score
    from sklearn.model_selection import StratifiedKFold
    from sklearn.neighbors import NearestCentroid

    vectors = unit(np.asarray(vectors, np.float64))
    if not np.isfinite(vectors).all():
        raise BertTfError(explain("vectors that are not finite", "a model with finite weights"))
    if _all_the_same(vectors):  # as [CLS] before the first layer
        return {"accuracy": 1 / len(set(labels)), "silhouette": 0.0}
    folds = StratifiedKFold(min(_FOLDS, *collections.Counter(labels).values()), shuffle=True,
                            random_state=seed)
    labels = np.array(labels)
    predicted = np.empty_like(labels)
    for train, test in folds.split(vectors, labels):
        if _all_the_same(vectors[train]):  # no mean is nearer, and scikit-learn refuses them
            predicted[test] = min(labels)
            continue
        # Of as many vectors as labels deviations are 0 / 0; the means, which count, are not.
        with np.errstate(invalid="ignore"):
            nearest = NearestCentroid().fit(vectors[train], labels[train])
        predicted[test] = nearest.predict(vectors[test])
    return {"accuracy": float(balanced_accuracy_score(labels, predicted)),
            "silhouette": float(silhouette_score(vectors, labels, metric="cosine"))}


def layer_scores(vectors, labels, seed=12345):
    """Score every layer and pooling.

    Args:
        vectors: dict of float `[n, width]` by `(pooling, layer)`, as of `embed`.
        labels, seed: see `separation`.

    Returns: list of dicts `{"pooling", "layer", "accuracy", "silhouette", "best"}`, one of them the
        best.
    """
    scores = [{"pooling": pooling, "layer": layer, **separation(points, labels, seed)}
              for (pooling, layer), points in vectors.items()]
    best = max(scores, key=lambda score: (score["accuracy"], score["silhouette"]))
    return [{**score, "best": score is best} for score in scores]


def project(vectors, projection="pca", seed=12345):
    """Project vectors, scaled to length 1, to two dimensions: float `[n, width]` -> float `[n, 2]`.

    Args:
        vectors: of three sentences or more.
        projection: one of `PROJECTIONS`.
        seed: of t-SNE.
    """
    check_choice("projection", projection, PROJECTIONS)
    vectors = unit(np.asarray(vectors, np.float64))
    if _all_the_same(vectors):
        return np.zeros((len(vectors), 2))
    if projection == "pca":
        from sklearn.decomposition import PCA

        return PCA(2, svd_solver="full").fit_transform(vectors)
    from sklearn.manifold import TSNE

    return TSNE(perplexity=min(30.0, (len(vectors) - 1) / 3), init="pca",
                random_state=seed).fit_transform(vectors)


def _all_the_same(vectors):
    return np.ptp(vectors, axis=0).max() < 1e-5


def draw_layers(points, labels, scores):
    """Draw a grid of scatter plots as a figure, a row a pooling and a column a layer, the best
    framed.

    Args:
        points: dict of float `[n, 2]` by `(pooling, layer)`.
        labels: list of n str.
        scores: what `layer_scores` gives.
    """
    poolings = list(dict.fromkeys(pooling for pooling, _ in points))
    layers = sorted({layer for _, layer in points})
    names = sorted(set(labels))
    colours = _colours(len(names))
    colour_of = colours[[names.index(label) for label in labels]]
    figure = new_figure(max(1.9 * len(layers) + 0.6, 4), 2.1 * len(poolings) + 0.9)
    grid = figure.subplots(len(poolings), len(layers), squeeze=False)
    for (row, column), axes in np.ndenumerate(grid):
        axes.set(xticks=[], yticks=[])
        if column == 0:
            axes.set_ylabel(poolings[row], fontsize=11)
        if row == 0:
            axes.set_title(layer_name(layers[column]), fontsize=11)
        if (poolings[row], layers[column]) not in points:
            axes.set_frame_on(False)
    for score in scores:
        axes = grid[poolings.index(score["pooling"]), layers.index(score["layer"])]
        axes.scatter(*points[score["pooling"], score["layer"]].T, s=9, c=colour_of, alpha=0.75,
                     linewidths=0)
        axes.set_xlabel(f"{'best: ' * score['best']}{score['accuracy']:.3f} / "
                        f"{score['silhouette']:z.2f}", fontsize=9,
                        fontweight="bold" if score["best"] else "normal")
        if score["best"]:
            for spine in axes.spines.values():
                spine.set(linewidth=3, color="black")
    figure.suptitle("below each panel: accuracy of the nearest mean / silhouette", fontsize=10)
    _draw_legend(figure, names, colours)
    return figure


def _colours(count):
    """Return colours `[count, 4]`, as different as there are."""
    import matplotlib

    if count <= 10:
        return matplotlib.colormaps["tab10"](np.arange(count))
    return matplotlib.colormaps["turbo"](np.linspace(0.02, 0.98, count))


def _draw_legend(figure, names, colours):
    from matplotlib.lines import Line2D

    shown = [name if len(name) <= _LONGEST else f"{name[:_LONGEST - 1]}…"
             for name in names[:_MOST_NAMED]]
    dots = [Line2D([], [], marker="o", linestyle="", color=colour) for colour in colours]
    if len(names) > _MOST_NAMED:
        dots[_MOST_NAMED] = Line2D([], [], linestyle="")
        shown.append(f"and {len(names) - _MOST_NAMED} more")
    add_legend(figure, dots[:len(shown)], shown)


def show(arguments):
    """Draw or write into `arguments.output`; the lines to print."""
    from bert_tf.tasks.registry import read_task

    examples = read_task(arguments.task, arguments.input, {
        name: getattr(arguments, f"{name}_column") for name in _COLUMNS})
    texts, labels = sample([example.text_a for example in examples],
                           [example.label for example in examples], arguments.max_sentences,
                           arguments.seed)
    drawn = min(len(examples), arguments.max_sentences)
    lines = []
    if drawn < len(examples):
        lines.append(f"drawn with seed {arguments.seed}: {drawn:,} of {len(examples):,} sentences")
    if len(texts) < drawn:
        lines.append(f"skipped: {drawn - len(texts):,} sentences of labels that occur once")
    encoder, tokenizer = load_encoder(arguments.model)
    seq_length = window(encoder.config, arguments.seq_length)
    lines += truncation_note(tokenizer, texts, seq_length)
    vectors = embed(encoder, tokenizer, texts,
                    choices(encoder.config, arguments.poolings, arguments.layers), seq_length)
    scores = layer_scores(vectors, labels, arguments.seed)
    if arguments.output.endswith(".json"):
        files.write_json(arguments.output, {
            "model": arguments.model, "input": arguments.input, "sentences": len(texts),
            "labels": dict(sorted(collections.Counter(labels).items())),
            "seq_length": seq_length, "seed": arguments.seed, "scores": scores})
    else:
        points = {choice: project(found, arguments.projection, arguments.seed)
                  for choice, found in vectors.items()}
        lines += write_figure(arguments.output, draw_layers(points, labels, scores))
    best = next(score for score in scores if score["best"])
    return [*lines, f"best of {len(scores)}: {best['pooling']} of {layer_name(best['layer'])}, "
            f"accuracy {best['accuracy']:.3f} (chance {1 / len(set(labels)):.3f}), silhouette "
            f"{best['silhouette']:.3f}"]
