"""Separation of labels: against scikit-learn on vectors of single sentences, and planted groups."""

import json
import warnings

import numpy as np
import pytest
from matplotlib import image
from sklearn.metrics import silhouette_score
from sklearn.model_selection import StratifiedKFold
from tiny_encoder import CONFIG, encoder, save, sentence_vectors, tokenizer

from bert_tf import cli, visualize
from bert_tf.errors import BertTfError
from bert_tf.visualization import layers
from bert_tf.visualization.vectors import choices, embed

TEXTS = ["the river bank", "river, tree", "the tree", "walks the river.", "tree trees", "the walk",
         "money rate", "bank rates", "the bank rate", "money, money", "the rate.", "banks"]
LABELS = ["nature"] * 6 + ["돈"] * 6


def _nearest_mean(vectors, labels, seed, folds):
    """Balanced accuracy, written out."""
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    labels = np.array(labels)
    right = np.zeros(len(labels))
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(
            vectors, labels):
        names = np.unique(labels)
        means = np.stack([vectors[train][labels[train] == name].mean(0) for name in names])
        for row in test:
            nearest = names[np.linalg.norm(means - vectors[row], axis=1).argmin()]
            right[row] = nearest == labels[row]
    return np.mean([right[labels == name].mean() for name in np.unique(labels)])


def test_scores_are_those_of_the_vectors_of_single_sentences():
    found = embed(encoder(), tokenizer(), TEXTS, choices(CONFIG, ["mean", "max", "sep"]))
    expected = sentence_vectors(TEXTS)
    scores = layers.layer_scores(found, LABELS, seed=7)
    assert len(scores) == 9
    for score in scores:
        vectors = expected[score["pooling"], score["layer"]].astype(np.float64)
        assert score["silhouette"] == pytest.approx(
            silhouette_score(vectors, LABELS, metric="cosine"), abs=1e-5)
        assert score["accuracy"] == pytest.approx(_nearest_mean(vectors, LABELS, 7, 5))
    assert len({round(score["silhouette"], 4) for score in scores}) == 9
    (best,) = [score for score in scores if score["best"]]
    assert all((best["accuracy"], best["silhouette"]) >= (score["accuracy"], score["silhouette"])
               for score in scores)


def test_a_planted_layer_is_found_though_all_vectors_point_one_way():
    """Labels of different size, in a corner of the space that a common direction hides."""
    draw = np.random.default_rng(2)
    labels = ["a"] * 40 + ["b"] * 12 + ["c"] * 4
    far = 30 * np.eye(20)[0]
    noise = {layer: draw.normal(size=(56, 20)) + far for layer in range(3)}
    for row, label in enumerate(labels):
        noise[1][row, 1 + "abc".index(label)] += 6
    scores = layers.layer_scores({("mean", layer): noise[layer] for layer in noise}, labels)
    assert [score["best"] for score in scores] == [False, True, False]
    assert scores[1]["accuracy"] > 0.95 and scores[0]["accuracy"] < 0.6


def test_vectors_that_are_all_the_same_separate_nothing():
    same = np.ones((6, 4)) + np.random.default_rng(1).normal(size=(6, 4)) * 1e-7
    assert layers.separation(same, list("aabbcc")) == {"accuracy": 1 / 3, "silhouette": 0}
    assert not layers.project(same).any()


def test_vectors_that_are_the_same_but_for_one():
    """As `[SEP]` before the first layer, of texts that are all truncated but for one."""
    found = layers.separation([[1.0, 0.0]] * 5 + [[0.0, 1.0]], list("aaabbb"))
    assert 0 < found["accuracy"] < 1
    # Of a 1 each; of b -1 where they are as a, and 0 of the one that is as far from either.
    assert found["silhouette"] == pytest.approx((3 - 2 + 0) / 6)


def test_as_many_vectors_as_labels_are_scored_without_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = layers.separation(np.eye(4)[[0, 0, 1, 1]] + np.eye(4) / 9, list("aabb"))
    assert found["accuracy"] == 1


def test_vectors_that_are_no_numbers_are_refused():
    with pytest.raises(BertTfError, match="not finite"):
        layers.separation([[1.0, np.nan]] * 4, list("aabb"))


def test_projections():
    draw = np.random.default_rng(3)
    vectors = draw.normal(size=(20, 6)) + np.repeat([[9.0, 0, 0, 0, 0, 0], [0, 9, 0, 0, 0, 0]], 10,
                                                    axis=0)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    centred = vectors / lengths - (vectors / lengths).mean(0)
    points = layers.project(vectors)
    # Of all planes that of most variance; distances within it are those of the SVD's.
    left, sizes, _ = np.linalg.svd(centred)
    np.testing.assert_allclose(np.abs(points), np.abs(left[:, :2] * sizes[:2]), atol=1e-9)
    near = layers.project(vectors, "tsne", seed=4)
    np.testing.assert_array_equal(near, layers.project(vectors, "tsne", seed=4))
    distances = np.linalg.norm(near[:, None] - near, axis=-1)
    np.fill_diagonal(distances, np.inf)
    nearest = distances.argmin(axis=1)
    assert ((nearest < 10) == (np.arange(20) < 10)).all()


def test_a_sample_is_drawn_and_single_labels_are_left_out():
    texts = [str(number) for number in range(100)]
    labels = ["x" if number % 2 else "y" for number in range(99)] + ["alone"]
    kept, names = layers.sample(texts, labels, 30, seed=5)
    assert len(kept) in (29, 30) and kept == sorted(kept, key=int)
    assert [labels[int(text)] for text in kept] == names and "alone" not in names
    assert layers.sample(texts, labels, 30, seed=5)[0] == kept
    assert layers.sample(texts, labels, 30, seed=6)[0] != kept
    assert layers.sample(texts, labels)[0] == texts[:99]
    with pytest.raises(BertTfError, match="2 labels, too few of which occur twice"):
        layers.sample(["a", "b", "c"], ["x", "x", "y"])


def test_panels_hold_the_points_in_the_colours_of_their_labels():
    draw = np.random.default_rng(1)
    points = {(pooling, layer): draw.normal(size=(5, 2)) for pooling in ("mean", "cls")
              for layer in (0, 3)}
    points["cls_pooled", 3] = draw.normal(size=(5, 2))
    scores = [{"pooling": pooling, "layer": layer, "accuracy": 0.5, "silhouette": -0.001,
               "best": pooling == "cls_pooled"} for pooling, layer in points]
    figure = layers.draw_layers(points, list("abcba"), scores)
    panels = np.array(figure.axes).reshape(3, 2)
    assert [axes.get_title() for axes in panels[0]] == ["embeddings", "layer 3"]
    assert not panels[2, 0].collections  # the pooler reads the topmost layer alone
    for (pooling, layer), expected in points.items():
        axes = panels[["mean", "cls", "cls_pooled"].index(pooling), [0, 3].index(layer)]
        (drawn,) = axes.collections
        np.testing.assert_array_equal(drawn.get_offsets(), expected)
        colours = [tuple(colour) for colour in drawn.get_facecolors()]
        assert colours == [colours[place] for place in (0, 1, 2, 1, 0)] and len({*colours}) == 3
        best = pooling == "cls_pooled"
        assert axes.get_xlabel() == ("best: " * best) + "0.500 / 0.00"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "sentences.csv"
    path.write_text("what,said\n" + "".join(
        f'{label},"{text}"\n' for label, text in zip(LABELS, TEXTS, strict=True)))
    return str(path)


def test_command(model, table, tmp_path, capsys):
    command = ["layers", "--model", model, "--input", table, "--text_column", "said",
               "--label_column", "what", "--poolings", "mean", "cls_pooled", "--output"]
    assert cli.run(visualize.main, [*command, str(tmp_path / "a.json")]) == 0
    printed = capsys.readouterr().out
    written = json.loads((tmp_path / "a.json").read_text())
    assert written["labels"] == {"nature": 6, "돈": 6} and len(written["scores"]) == 4
    best = next(score for score in written["scores"] if score["best"])
    assert (f"best of 4: {best['pooling']} of {['embeddings', 'layer 1', 'layer 2'][best['layer']]}"
            f", accuracy {best['accuracy']:.3f} (chance 0.500)") in printed

    command += [str(tmp_path / "a.png"), "--max_sentences", "11"]
    assert cli.run(visualize.main, command) == 0
    assert "drawn with seed 12345: 11 of 12 sentences" in capsys.readouterr().out
    pixels = image.imread(tmp_path / "a.png")[..., :3] * 255
    for colour in ((31, 119, 180), (255, 127, 14)):  # of the labels; points are translucent
        assert (np.abs(pixels - colour).sum(axis=-1) < 90).sum() > 40


@pytest.mark.long  # that the tasks' files are read: tests/tasks
def test_published_files(model, shared, tmp_path):
    output = tmp_path / "a.json"
    assert cli.run(visualize.main, [
        "layers", "--model", model, "--task", "nsmc", "--max_sentences", "60", "--poolings", "mean",
        "--input", str(shared / "data" / "nsmc" / "ratings_dev.txt.gz"),
        "--output", str(output)]) == 0
    written = json.loads(output.read_text())
    assert set(written["labels"]) == {"0", "1"} and written["sentences"] == 60


def test_errors(model, table, tmp_path, capsys):
    command = ["layers", "--model", model, "--input", table, "--output", str(tmp_path / "a.png")]
    assert cli.run(visualize.main, command) == 2
    assert "no column 'text' among what, said; try --text_column" in capsys.readouterr().err
    columns = ["--text_column", "said", "--label_column", "said"]
    assert cli.run(visualize.main, [*command, *columns]) == 1
    assert "two labels or more, each of two sentences" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
