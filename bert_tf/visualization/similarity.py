"""The meaning of a word in its context: cosines of its vectors in several sentences.

    python -m bert_tf.visualize similarity --model runs/bert_tiny --word statement \\
        --text "The statement is executed." "A statement of fact." --output statement.png
    python -m bert_tf.visualize similarity --model runs/bert_tiny --word value --word return \\
        --input sentences.txt --of words sum bm25 --layers 0 --layers -2 -1 --output value.json

Every occurrence of a --word is found by its characters, whatever the case where the model knows
none, and its vector is the mean of its pieces' vectors. English and other scripts with capitals
have whole words only, Korean also what begins or ends within one: 은행 in 은행에서.

--of names what is compared: `words`, every occurrence; or, for every sentence, the `sum` of the
chosen words' vectors, or the sum weighted by `idf` or `bm25` of the words' pieces (the mean of
these). Without --word all tokens of a sentence are summed up, but the special ones.

Every --layers is a column of heat maps; several layers in one are summed up.
"""

import dataclasses

import numpy as np

from bert_tf.errors import BertTfError, UsageError, check_choice, explain
from bert_tf.storage import files
from bert_tf.tasks.base.pictures import SUFFIXES, name_ticks, new_figure, write_figure
from bert_tf.visualization.source import add_model_flag, load_encoder
from bert_tf.visualization.texts import add_text_flags, read_given_texts
from bert_tf.visualization.vectors import (
    add_window_flag,
    cosines,
    layer_name,
    truncation_note,
    window,
)
from bert_tf.visualization.word_vectors import (
    occurrences,
    sum_weights,
    token_vectors,
    token_weights,
    word_weights,
)

OUTPUTS = (*SUFFIXES, ".json")
KINDS = ("words", "sum", "idf", "bm25")
_TOP = 4  # layers that are summed up unless others are chosen
_MOST_DRAWN = 60  # vectors in a heat map
_MOST_NUMBERED = 12  # of more the cells are too small for numbers
_LONGEST = 40  # characters of a label


def add_flags(parser):
    """Add the flags of `visualize similarity`."""
    add = parser.add_argument
    add_model_flag(parser)
    add_text_flags(parser)
    add("--word", action="append", help="what is compared; may be given several times")
    add("--of", nargs="+", choices=KINDS, metavar="KIND",
        help=f"{', '.join(KINDS)} (default: words; without --word sum and bm25)")
    add("--layers", action="append", nargs="+", type=int, metavar="LAYER",
        help="0 the embeddings, 1 the lowest layer, -1 the topmost one; may be given several "
             "times (default: the last four, summed up)")
    add("--corpus", nargs="+", metavar="GLOB",
        help="texts from which the rarity of words is counted, one a line or .jsonl, also .gz "
             "(default: the sentences themselves)")
    add_window_flag(parser)


def compare(encoder, tokenizer, texts, words=(), kinds=None, layers=None, seq_length=None,
            weights=None):
    """Compute cosines of words and of sums, for every kind and choice of layers.

    Args:
        encoder, tokenizer: as `load_encoder` gives them.
        texts: list of str, the sentences.
        words: list of str.
        kinds: of `KINDS`; None for `words`, or without words for `sum` and `bm25`.
        layers: list of lists of layers, those of one list summed up; None for the last four, of a
            static model, which has none, the embeddings.
        seq_length: the window in tokens; None as of `window`.
        weights: what `learn_term_weights` gives, for `idf` and `bm25`; None learns them from
            `texts`.

    Returns: list of dicts `{"of", "layers", "rows", "cosines"}`: a kind, its layers counted from
        0, what is compared, `n` dicts with the number of the `sentence` and, of a word, what
        `Occurrence` holds, and float64 `[n, n]`.

    Raises:
        UsageError: words are to be compared and there are none; see also `occurrences`, `window`.
        BertTfError: nothing to compare; see also `occurrences`.
    """
    from bert_tf.data.term_weights import learn_term_weights
    from bert_tf.layers.vector_pooling import check_layers

    kinds = kinds or (["words"] if words else ["sum", "bm25"])
    for kind in kinds:
        check_choice("kind", kind, KINDS)
    if "words" in kinds and not words:
        raise UsageError(explain("no word to compare", attempt="--word WORD, or --of sum"))
    top = encoder.config.num_hidden_layers
    layers = layers or [range(max(min(1, top), top - _TOP + 1), top + 1)]
    layers = [sorted(check_layers(tuple(each), top)) for each in layers]
    seq_length = window(encoder.config, seq_length)
    found = None
    if words:
        found = occurrences(tokenizer, texts, words, seq_length)
        found = [each for each in found if each.positions]
    ids, vectors = token_vectors(encoder, tokenizer, texts, layers, seq_length)
    lengths = [len(row) for row in ids]
    if weights is None and {"idf", "bm25"} & set(kinds):
        weights = learn_term_weights(texts, tokenizer, seq_length)
    comparisons = []
    for kind in dict.fromkeys(kinds):
        if kind == "words":
            token_parts = word_weights(found, lengths)
            rows = [dataclasses.asdict(each) for each in found]
        else:
            weighted = None if kind == "sum" else token_weights(ids, weights, kind)
            by_sentence = sum_weights(found, lengths, tokenizer.vocabulary, weighted)
            token_parts = list(by_sentence.values())
            rows = [{"sentence": sentence} for sentence in by_sentence]
        if not rows:
            raise BertTfError(explain(f"no word within {seq_length} tokens", "a longer window",
                                      "--seq_length"))
        for number, each in enumerate(layers):
            table = [parts @ vectors[row["sentence"]][number]
                     for parts, row in zip(token_parts, rows, strict=True)]
            comparisons.append({"of": kind, "layers": each, "rows": rows,
                                "cosines": cosines(np.stack(table))})
    return comparisons


def layers_name(layers):
    """Return the name of summed layers in a picture."""
    if len(layers) == 1:
        return layer_name(layers[0])
    if layers == list(range(layers[0], layers[-1] + 1)):
        return f"sum of layers {layers[0]} to {layers[-1]}"
    return f"sum of layers {', '.join(map(str, layers))}"


def row_name(row, texts):
    """Describe what is compared in a few words: a word between brackets in its sentence, or a
    sentence."""
    text = texts[row["sentence"]]
    if "word" not in row:
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST - 1]}…"
    spare = max(16, _LONGEST - (row["end"] - row["start"]))
    start = max(0, min(row["start"] - spare // 2, len(text) - _LONGEST))
    end = min(len(text), max(row["end"] + spare // 2, start + _LONGEST))
    return (f"{'…' * (start > 0)}{text[start:row['start']]}[{text[row['start']:row['end']]}]"
            f"{text[row['end']:end]}{'…' * (end < len(text))}")


def draw_similarity(comparisons, texts):
    """Draw heat maps as a figure, a row a kind and a column a choice of layers.

    Args:
        comparisons: what `compare` gives.
        texts: the sentences.

    Raises:
        UsageError: too many vectors for a picture.
    """
    most = max(len(each["rows"]) for each in comparisons)
    if most > _MOST_DRAWN:
        raise UsageError(explain(f"{most} vectors in a heat map", f"at most {_MOST_DRAWN}",
                                 "--output FILE.json, or fewer sentences"))
    kinds = list(dict.fromkeys(each["of"] for each in comparisons))
    columns = len(comparisons) // len(kinds)
    size = max(2.6, 0.42 * min(most, _MOST_NUMBERED), 0.16 * most)
    figure = new_figure((size + 0.3) * columns + 4, (size + 0.6) * len(kinds) + 0.3)
    figure.set_layout_engine("compressed")  # the maps are square
    grid = figure.subplots(len(kinds), columns, squeeze=False)
    # One scale for all, so that layers can be compared.
    least = min(0.99, *(each["cosines"].min() for each in comparisons))
    for number, (axes, each) in enumerate(zip(grid.flat, comparisons, strict=True)):
        matrix = each["cosines"]
        image = axes.imshow(matrix, cmap="viridis", vmin=least, vmax=1)
        axes.set_title(f"{each['of']}, {layers_name(each['layers'])}", fontsize=10)
        ticks = range(len(matrix))
        axes.set_xticks(ticks, [str(place + 1) for place in ticks], fontsize=8)
        axes.set_yticks(ticks, [str(place + 1) for place in ticks], fontsize=8)
        if number % columns == 0:
            name_ticks(axes.yaxis, [row_name(row, texts) for row in each["rows"]], each["of"],
                       numbered=True, fontsize=8)
        if len(matrix) <= _MOST_NUMBERED:
            for (row, column), value in np.ndenumerate(matrix):
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7,
                          color="black" if value > (least + 1) / 2 else "white")
    figure.colorbar(image, ax=grid, label="cosine")
    return figure


def show(arguments):
    """Draw or write into `arguments.output`; the lines to print."""
    from bert_tf.data.term_weights import learn_term_weights, read_texts

    texts = read_given_texts(arguments)
    encoder, tokenizer = load_encoder(arguments.model)
    seq_length = window(encoder.config, arguments.seq_length)
    lines = truncation_note(tokenizer, texts, seq_length)
    weights = None
    if arguments.corpus:
        weights = learn_term_weights(read_texts(files.expand(arguments.corpus)), tokenizer,
                                     seq_length, progress=True)
    comparisons = compare(encoder, tokenizer, texts, arguments.word or (), arguments.of,
                          arguments.layers, seq_length, weights)
    if arguments.output.endswith(".json"):
        files.write_json(arguments.output, {
            "model": arguments.model, "sentences": texts, "comparisons": [
                {**each, "cosines": each["cosines"].tolist()} for each in comparisons]})
    else:
        lines += write_figure(arguments.output, draw_similarity(comparisons, texts))
    return [*lines, *(line for each in comparisons for line in _told(each, texts))]


def _told(comparison, texts):
    """Return what is most and least similar, in lines."""
    matrix = comparison["cosines"]
    name = f"{comparison['of']}, {layers_name(comparison['layers'])}"
    if len(matrix) < 2:
        return [f"{name}: one vector, nothing to compare it with"]
    lines = [f"{name}:"]
    pairs = np.stack(np.triu_indices(len(matrix), 1), axis=1)
    values = matrix[tuple(pairs.T)]
    for what, place in (("most", values.argmax()), ("least", values.argmin())):
        left, right = (row_name(comparison["rows"][row], texts) for row in pairs[place])
        lines.append(f"  {what} similar, {values[place]:.3f}: {left} | {right}")
    return lines
