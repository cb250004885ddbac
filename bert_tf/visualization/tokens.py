"""Tokenization of a text: pieces, their ids and offsets in the text, unknown words marked.

    python -m bert_tf.visualize tokens --model runs/bert_tiny --text "An import statement" \\
        --output tokens.html
    python -m bert_tf.visualize tokens --vocab vocab.txt --compare bert_hf --input texts.txt \\
        --output tokens.tsv

With --compare two tokenizers stand beside each other, and pieces that only one of them has are
marked. A word is here what stands between white space, whatever the tokenizer. Places are
characters of the text as it is written, also where the tokenizer normalizes it or is of morphemes.
A page shows the first 20,000 pieces; .json and .tsv hold all.
"""

import re

import numpy as np

from bert_tf.storage import files
from bert_tf.visualization.names import short_names
from bert_tf.visualization.texts import add_text_flags, read_given_texts
from bert_tf.visualization.tokenizers import add_tokenizer_flags, describe, open_tokenizer

OUTPUTS = (".html", ".json", ".tsv")
_BATCH = 1024  # texts that are tokenized at a time
_COLUMNS = ("text", "tokenizer", "piece", "id", "start", "end", "unknown")


def add_flags(parser):
    """Add the flags of `visualize tokens`."""
    add_tokenizer_flags(parser, "model or run folder, a folder with a tokenizer's files, or a "
                                "checkpoint of any format that convert reads")
    parser.add_argument("--compare", metavar="PATH",
                        help="a second tokenizer, as of --model or --vocab")
    add_text_flags(parser)


def tokenize_texts(tokenizer, texts):
    """Tokenize texts.

    Args:
        tokenizer: as `load_tokenizer` gives it; texts are split into morphemes here where it asks
            for that.
        texts: list of str.

    Returns: list of a dict for each text: `pieces`, list of str; `ids` int32 and `unknown` bool
        `[pieces]`; `starts` and `ends` int64 `[pieces]`, characters of the text;
        `word_pieces` and `word_unknown`, int64 `[words]`, how many pieces, and unknown ones, a
        word has, words being what stands between white space.

    Raises: as `morphemes.analyse`.
    """
    cut = []
    for start in range(0, len(texts), _BATCH):
        cut += _tokenize_batch(tokenizer, texts[start:start + _BATCH])
    return cut


def _tokenize_batch(tokenizer, texts):
    from bert_tf.tokenization.morphemes import pretokenize

    analysed = pretokenize(tokenizer, texts)
    ids, *offsets = tokenizer.tokenize_with_offsets(analysed)
    places = list(_places(texts, analysed, *offsets))
    vocabulary = tokenizer.vocabulary
    cut = [{"pieces": [vocabulary.tokens[number] for number in row], "ids": row,
            "unknown": row == vocabulary.unk_id, "starts": starts, "ends": ends}
           for row, (starts, ends) in zip(_arrays(ids), places, strict=True)]
    counts = map(_counts_by_place, texts, cut)
    return [{**one, "word_pieces": pieces, "word_unknown": unknown}
            for one, (pieces, unknown) in zip(cut, counts, strict=True)]


def _arrays(ragged):
    """Return the rows of a RaggedTensor as arrays."""
    return np.split(ragged.values.numpy(), ragged.row_splits.numpy()[1:-1])


def _places(texts, analysed, starts, ends):
    """Yield of every text where its pieces begin and end, in characters of the text itself."""
    from bert_tf.tokenization.morphemes import original_offsets
    from bert_tf.tokenization.offsets import character_offsets

    rows = [_arrays(character_offsets(analysed, offsets)) for offsets in (starts, ends)]
    for text, seen, *places in zip(texts, analysed, *rows, strict=True):
        original = original_offsets(text, seen)
        yield tuple(original[place] for place in places)


def _counts_by_place(text, one):
    """Count pieces, and unknown ones, of every word; a piece is of the first word that it
    touches."""
    words = np.array([match.span() for match in re.finditer(r"\S+", text)]).reshape(-1, 2)
    word = np.searchsorted(words[:, 1], one["starts"], side="right")
    touches = np.append(words[:, 0], len(text))[word] < one["ends"]  # others are blanks
    return tuple(np.bincount(word[which], minlength=len(words))
                 for which in (touches, touches & one["unknown"]))


def count_pieces(cut):
    """Count what `tokenize_texts` returned, over all texts.

    Returns: dict of `texts`, `words`, `pieces`, `unknown_pieces`, `whole_words` (of one piece that
        is known), `unknown_words` (with an unknown piece), and the quotients `pieces_per_word`,
        `whole_word_share`, `unknown_word_share`, None without a word.
    """
    of_words = {name: np.concatenate([np.zeros(0, np.int64), *(one[name] for one in cut)])
                for name in ("word_pieces", "word_unknown")}
    words = len(of_words["word_pieces"])
    counts = {"texts": len(cut), "words": words,
              "pieces": sum(len(one["pieces"]) for one in cut),
              "unknown_pieces": sum(int(one["unknown"].sum()) for one in cut),
              "whole_words": int(((of_words["word_pieces"] == 1)
                                  & (of_words["word_unknown"] == 0)).sum()),
              "unknown_words": int((of_words["word_unknown"] > 0).sum())}
    quotients = {"pieces_per_word": "pieces", "whole_word_share": "whole_words",
                 "unknown_word_share": "unknown_words"}
    return counts | {name: counts[part] / words if words else None
                     for name, part in quotients.items()}


def _plain(text, cut, names):
    """Return a text and its pieces by every tokenizer, for JSON."""
    return {"text": text, "tokens": {
        name: {key: value.tolist() if isinstance(value, np.ndarray) else value
               for key, value in one.items()}
        for name, one in zip(names, cut, strict=True)}}


def _rows(texts, names, cuts):
    """Yield the rows of the .tsv: a piece each."""
    for number in range(len(texts)):
        for name, cut in zip(names, cuts, strict=True):
            one = cut[number]
            for row in zip(one["pieces"], one["ids"], one["starts"], one["ends"],
                           one["unknown"].astype(int), strict=True):
                yield number, name, *row


def show(arguments):
    """Write `arguments.output`; the lines to print."""
    casing = {name: getattr(arguments, name)
              for name in ("lower_case", "strip_accents", "pretokenize")}
    paths = [arguments.model or arguments.vocab, arguments.compare][:1 + bool(arguments.compare)]
    texts = read_given_texts(arguments)
    tokenizers = [open_tokenizer(path, **(casing if place == 0 else {}))
                  for place, path in enumerate(paths)]
    names = short_names(paths)
    cuts = [tokenize_texts(tokenizer, texts) for tokenizer in tokenizers]
    tables = [{"name": name, "kind": describe(tokenizer),
               "vocabulary": len(tokenizer.vocabulary), **count_pieces(cut)}
              for name, tokenizer, cut in zip(names, tokenizers, cuts, strict=True)]
    lines = []
    if arguments.output.endswith(".json"):
        files.write_json(arguments.output, {
            "tokenizers": tables,
            "texts": [_plain(text, cut, names)
                      for text, *cut in zip(texts, *cuts, strict=True)]})
    elif arguments.output.endswith(".tsv"):
        # Quotes are characters like any other in what the package reads as .tsv.
        files.write_text(arguments.output, "".join(
            "\t".join(re.sub(r"[\t\r\n]", " ", str(value)) for value in row) + "\n"
            for row in (_COLUMNS, *_rows(texts, names, cuts))))
    else:
        from bert_tf.visualization.tokens_page import write_tokens_page

        lines += write_tokens_page(arguments.output, texts, tables, cuts)
    return [*map(_summary, tables), *lines]


def _summary(table):
    if not table["words"]:
        return f"{table['name']}: no words"
    return (f"{table['name']} ({table['kind']}): {table['words']:,} words, "
            f"{table['pieces_per_word']:.2f} pieces a word, "
            f"{table['unknown_word_share']:.1%} of the words unknown")
