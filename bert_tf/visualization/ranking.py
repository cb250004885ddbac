"""Comparison of poolings for search: sentences ranked against a query under every one.

    python -m bert_tf.visualize ranking --model runs/bert_tiny --input sentences.txt \\
        --query "An exception is raised." --output ranking.html
    python -m bert_tf.visualize ranking --model runs/bert_tiny --task klue_sts \\
        --pairs klue-sts-v1.1_dev.json --layers 0 -2 -1 --output poolings.json

With --query and --input the page has a row for each sentence and a column for each pooling of each
layer, with the rank by the cosine to the query; the cosine itself stands under the pointer. With
--pairs, sentences whose similarity people rated, it has a table of all poolings by Spearman's rank
correlation between that number and the cosine: which is best is read off.

Tokens are weighted (mean_idf, mean_bm25) by how rare they are in --corpus, or else in the sentences
at hand. The .json has all cosines.
"""

import textwrap

import numpy as np

from bert_tf import cli
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.storage import files
from bert_tf.visualization.source import add_model_flag, load_encoder
from bert_tf.visualization.static_page import element, table, write_page
from bert_tf.visualization.vectors import (
    add_vector_flags,
    choices,
    embed,
    layer_name,
    truncation_note,
    unit,
    window,
)

OUTPUTS = (".html", ".json")
TASKS = ("regress", "klue_sts", "stsb")
_COLUMNS = {"text": "text_a", "text_b": "text_b", "label": "label"}
_LAYERS = (-1, -2)
_TOLD = 5  # poolings that are printed
_LONGEST = 100  # characters of a sentence that is printed
_STYLE = """
body { max-width: 110rem; }
.wide { overflow-x: auto; }
.ranks .text { display: block; max-height: 4.3em; overflow: auto; text-align: start; }
.wide th, .scores td { white-space: nowrap; }
.ranks th { text-align: end; vertical-align: bottom; }
.ranks th:first-child, .ranks td:first-child { position: sticky; left: 0; background: Canvas;
  min-width: min(24rem, 45vw); text-align: start; }
.ranks .rank { display: block; text-align: end; border-radius: 0.2rem; padding: 0 0.3rem;
  font-variant-numeric: tabular-nums; }
.best { font-weight: 700; }
"""


def add_flags(parser):
    """Add the flags of `visualize ranking`."""
    add = parser.add_argument
    add_model_flag(parser)
    add("--query", metavar="TEXT", help="what sentences are compared with")
    add("--input", nargs="+", metavar="GLOB",
        help="sentences, one a line or .jsonl (field text), either also .gz")
    add("--top", type=cli.positive, default=20, metavar="N",
        help="a sentence is on the page if it is among the first N under any pooling")
    add("--pairs", metavar="FILE", help="pairs of sentences with a number, their similarity")
    add("--task", choices=TASKS, default="regress",
        help="what --pairs is: a custom table, or a file of KLUE-STS or STS-B as published")
    for name, column in _COLUMNS.items():
        add(f"--{name}_column", metavar="NAME",
            help=f"with --task regress: column, its name or its number from 0 (default: {column})")
    add("--corpus", nargs="+", metavar="GLOB",
        help="texts from which the rarity of tokens is counted, as --input (default: the "
             "sentences themselves)")
    add_vector_flags(parser, layers="-1 -2")


def rank(encoder, tokenizer, query, texts, wanted, seq_length=None, weights=None):
    """Rank sentences by their cosine with a query.

    Args:
        encoder, tokenizer: as `load_encoder` gives them.
        query: str.
        texts: list of n str.
        wanted, seq_length, weights: see `embed`.

    Returns: list of dicts `{"pooling", "layer", "cosines", "order"}`, one for each of `wanted`:
        float64 `[n]`, and int64 `[n]`, the sentences' numbers, the nearest first.
    """
    vectors = embed(encoder, tokenizer, [query, *texts], wanted, seq_length, weights)
    ranked = []
    for (pooling, layer), found in vectors.items():
        found = unit(found.astype(np.float64))
        cosines = found[1:] @ found[0]
        ranked.append({"pooling": pooling, "layer": layer, "cosines": cosines,
                       "order": np.argsort(-cosines, kind="stable")})
    return ranked


def compare_poolings(encoder, tokenizer, pairs, wanted, seq_length=None, weights=None):
    """Measure how well the cosine of two sentences predicts how similar people find them.

    Args:
        encoder, tokenizer: as `load_encoder` gives them.
        pairs: list of `TextExample` with two texts and a number, as `read_task` gives them of
            `klue_sts`.
        wanted, seq_length, weights: see `embed`.

    Returns: list of dicts `{"pooling", "layer", "spearman", "pearson"}`, the best Spearman first,
        of equal ones the best Pearson.

    Raises:
        BertTfError: all pairs have the same number.
    """
    from bert_tf.tasks.base.regression_metrics import regression_metrics

    texts = [*(pair.text_a for pair in pairs), *(pair.text_b for pair in pairs)]
    labels = [pair.label for pair in pairs]
    if len(set(labels)) == 1:
        raise BertTfError(explain(f"{len(pairs)} pairs, all with the label {labels[0]}, which "
                                  "correlates with nothing", "two different labels or more"))
    scores = []
    for (pooling, layer), found in embed(encoder, tokenizer, texts, wanted, seq_length,
                                         weights).items():
        left, right = np.split(unit(found.astype(np.float64)), 2)
        metrics = regression_metrics(labels, np.sum(left * right, axis=1))
        scores.append({"pooling": pooling, "layer": layer, "spearman": metrics["spearman"],
                       "pearson": metrics["pearson"]})
    return sorted(scores, key=lambda score: (-score["spearman"], -score["pearson"]))


def write_ranking_page(path, query, texts, ranked, scores, about, top=20):
    """Write the page.

    Args:
        path: of the file.
        query: str, or None without a ranking.
        texts: list of str, the sentences.
        ranked: what `rank` gives.
        scores: what `compare_poolings` gives; empty without pairs.
        about: list of lines on the model and the data.
        top: a sentence is shown that is among the first so many under any pooling.
    """
    parts = [element("p", line, class_="quiet") for line in about]
    if scores:
        parts += [element("h2", "Which pooling is best"),
                  element("p", "By the rank correlation between cosines and people's numbers."),
                  element("div", _score_table(scores), class_="wide scores")]
    if ranked:
        parts += [element("h2", "Ranks by pooling"),
                  element("p", "Query: ", element("b", query, class_="text")),
                  element("div", _rank_table(texts, _sorted_as(ranked, scores), top),
                          class_="wide")]
    write_page(path, "Sentences ranked under every pooling", _STYLE, *parts)


def _score_table(scores):
    def row(place, score):
        cells = [score["pooling"], layer_name(score["layer"]), f"{score['spearman']:.3f}",
                 f"{score['pearson']:.3f}", "best" if place == 1 else ""]
        return [place, *(element("span", cell, **({"class_": "best"} if place == 1 else {}))
                         for cell in cells)]

    return table(["", "pooling", "layer", "Spearman", "Pearson", ""],
                 [row(place, score) for place, score in enumerate(scores, 1)])


def _sorted_as(ranked, scores):
    """Return rankings in the order of the scores, the best first; without scores as they are."""
    places = {(score["pooling"], score["layer"]): place for place, score in enumerate(scores)}
    return sorted(ranked, key=lambda each: places.get((each["pooling"], each["layer"]), 0))


def _rank_table(texts, ranked, top):
    """Return a row a sentence, in the order of the first ranking."""
    ranks = np.stack([np.argsort(each["order"]) for each in ranked], axis=1)  # [n, ways], from 0
    rows = []
    for number in ranked[0]["order"]:
        if ranks[number].min() >= top:
            continue
        cells = [element("span", texts[number], class_="text")]
        for each, place in zip(ranked, ranks[number], strict=True):
            shade = round(60 * max(0.0, 1 - place / top))
            cells.append(element("span", place + 1, class_="rank",
                                 title=f"cosine {each['cosines'][number]:.4f}",
                                 style=f"background: color-mix(in srgb, #2e9e5b {shade}%, "
                                       "transparent)"))
        rows.append(cells)
    made = table(["sentence", *(element("span", each["pooling"], element("br"),
                                        layer_name(each["layer"])) for each in ranked)], rows)
    made.set("class", "ranks")
    return made


def show(arguments):
    """Write `arguments.output`; the lines to print."""
    from bert_tf.data.term_weights import learn_term_weights, read_texts

    texts, pairs = _read(arguments)
    corpus = [*texts, *(pair.text_a for pair in pairs), *(pair.text_b for pair in pairs)]
    encoder, tokenizer = load_encoder(arguments.model)
    seq_length = window(encoder.config, arguments.seq_length)
    wanted = choices(encoder.config, arguments.poolings,
                     arguments.layers or _LAYERS[:encoder.config.num_hidden_layers + 1])
    notes = truncation_note(tokenizer, corpus, seq_length)
    weights = learn_term_weights(
        read_texts(files.expand(arguments.corpus)) if arguments.corpus else corpus, tokenizer,
        seq_length, progress=bool(arguments.corpus))
    scores, ranked, lines = [], [], list(notes)
    if pairs:
        scores = compare_poolings(encoder, tokenizer, pairs, wanted, seq_length, weights)
        lines += _told(scores, len(pairs))
    if texts:
        ranked = rank(encoder, tokenizer, arguments.query, texts, wanted, seq_length, weights)
        first = _sorted_as(ranked, scores)[0]
        lines.append(f"nearest of {len(texts):,} by {first['pooling']} of "
                     f"{layer_name(first['layer'])}: "
                     f"{textwrap.shorten(texts[first['order'][0]], _LONGEST, placeholder=' …')}")
    if arguments.output.endswith(".json"):
        files.write_json(arguments.output, {
            "model": arguments.model, "seq_length": seq_length, "query": arguments.query,
            "sentences": texts, "rankings": [
                {**each, "cosines": each["cosines"].tolist(), "order": each["order"].tolist()}
                for each in ranked],
            "pairs": arguments.pairs, "num_pairs": len(pairs), "poolings": scores})
    else:
        about = [f"Model: {arguments.model}. Rare tokens are those of "
                 f"{weights.num_texts:,} sentences.", *notes]
        write_ranking_page(arguments.output, arguments.query, texts, ranked, scores, about,
                           arguments.top)
    return lines


def _read(arguments):
    """Read the sentences to rank and the labelled pairs, either of which may be an empty list."""
    from bert_tf.data.term_weights import read_texts
    from bert_tf.tasks.base.text_files import check_text
    from bert_tf.tasks.registry import read_task

    if (arguments.query is None) != (arguments.input is None):
        raise UsageError(explain("one of --query and --input", "both, the query and the texts"))
    if arguments.query is None and arguments.pairs is None:
        raise UsageError(explain("nothing to rank", "--query with --input, or --pairs"))
    given = {name: getattr(arguments, f"{name}_column") for name in _COLUMNS}
    for name, column in given.items():
        if column is not None and arguments.pairs is None:
            raise UsageError(explain(f"--{name}_column without --pairs", "both, or neither"))
    texts, pairs = [], []
    if arguments.query is not None:
        check_text("--query", arguments.query)
        texts = list(read_texts(files.expand(arguments.input)))
    if arguments.pairs is not None:
        if arguments.task == "regress":
            given = {name: column or _COLUMNS[name] for name, column in given.items()}
        pairs = read_task(arguments.task, arguments.pairs, given)
    return texts, pairs


def _told(scores, num_pairs):
    lines = [f"Spearman over {num_pairs:,} pairs, the best of {len(scores)} poolings:"]
    for score in scores[:_TOLD]:
        lines.append(f"  {score['spearman']:.3f}  {score['pooling']} of "
                     f"{layer_name(score['layer'])}")
    return lines
