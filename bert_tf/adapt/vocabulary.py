"""The vocabulary of an adaptation: pieces added, pieces left out, and the model with them."""

import math
import tempfile

import numpy as np
import tensorflow as tf

from bert_tf.converters import ours
from bert_tf.converters.checkpoint import parameter_shapes
from bert_tf.converters.vocabulary_surgery import options_with_ids, with_vocabulary
from bert_tf.data.documents import read_documents, read_unchanged
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.tasks.embedding.multi_vector.reading import marker_of
from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.morphemes import pretokenize
from bert_tf.tokenization.new_pieces import known_characters, learn_new_pieces, split_piece
from bert_tf.tokenization.pair_template import check_template
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.trim import PieceCounts, check_trims, trim
from bert_tf.tokenization.units import split_units
from bert_tf.tokenization.word_counts import WordPieceWords, count_words


def check_vocabulary(checkpoint, options):
    """Refuse a model whose vocabulary cannot be changed as is asked for; return its tokenizer.

    Raises:
        UsageError: it has no tokenizer, or one of another kind.
    """
    if checkpoint.tokenizer is None:
        raise UsageError(explain(f"--model {options.model} has no tokenizer",
                                 "a model folder with one"))
    tokenizer = load_tokenizer(checkpoint.tokenizer)
    if options.new_pieces and not isinstance(tokenizer, Tokenizer):
        raise UsageError(explain(f"--new_pieces {options.new_pieces} with {options.model}, whose "
                                 f"tokenizer is a {type(tokenizer).__name__}", "WordPiece",
                                 "--new_pieces 0"))
    if options.drop_unused:
        check_trims(tokenizer)
    return tokenizer


def write_adapted(checkpoint, options, paths, folder):
    """Write the model folder of a model with another vocabulary.

    Args:
        checkpoint: a `Checkpoint` that `check_vocabulary` accepts.
        options: `AdaptConfig`.
        paths: of the texts.
        folder: a new folder.

    Returns:
        facts: what was done, a dict of plain values: `pieces` before, added, dropped and after;
            `texts`; `tokens`, `unknown` and `bytes` (of the weights) before and after.
        counts: int64 `[pieces]`, how often the texts have each piece now.

    Raises:
        BertTfError: the texts are damaged or have no new piece.
    """
    tokenizer = check_vocabulary(checkpoint, options)
    old, now = tokenizer.vocabulary, tokenizer
    before = after = PieceCounts(tokenizer).add_all(read_unchanged(paths))
    made = []
    if options.new_pieces:
        new = _learn(tokenizer, options, paths)
        made = [tuple(split_piece(piece, old) or known_characters(piece, old)) for piece in new]
        now = tokenizer.with_tokens([*old.tokens, *new])
        after = PieceCounts(now).add_all(read_unchanged(paths))
    kept = np.arange(len(now.vocabulary))
    if options.drop_unused:
        found = [after, *_unit_counts(now, checkpoint, paths, options.split)]
        most = np.max([each.counts for each in found], axis=0)
        _check_frequent(most, now.vocabulary, options)
        ids = _named(checkpoint, tokenizer)
        elsewhere = _read_elsewhere(now, checkpoint, paths, options.split)
        least = options.keep_at_least
        # A text is there several times elsewhere: that counts for what is nowhere else.
        often = (most >= least) | ((most == 0) & (elsewhere.counts >= least))
        ids |= {*np.flatnonzero(often)}.union(*(each.tried for each in (*found, elsewhere)))
        now, kept = trim(now, ids, options.keep_characters)
        if options.keep_at_least > 1:
            after = PieceCounts(now).add_all(read_unchanged(paths))
    counts = after.counts if len(after.counts) == len(kept) else after.counts[kept]
    # A special token without a role, such as that of images, may have had no row.
    rows = kept[kept < min(len(old), checkpoint.config.vocab_size)]
    made = [made[number - len(old)] if number >= len(old) else () for number in kept[len(rows):]]
    added = int((kept >= len(old)).sum())
    if options.only_new_pieces and not added:
        raise BertTfError(explain(f"--only_new_pieces with --keep_at_least {options.keep_at_least}"
                                  ", which leaves all new pieces out", attempt="a smaller number"))
    adapted = checkpoint
    with tempfile.TemporaryDirectory(prefix="bert_tf-") as beside:
        # Training needs exactly a row for each piece; published tables may have more, or one less.
        if now is not tokenizer or (
                options.train_steps and checkpoint.config.vocab_size != len(old)):
            now.save(beside)
            adapted = with_vocabulary(checkpoint, rows, made, beside, options.seed)
        ours.write(adapted, folder)
    facts = {"pieces": {"before": len(old), "added": added,
                        "dropped": len(old) - (len(kept) - added), "after": len(now.vocabulary)},
             "texts": before.texts,
             "tokens": {"before": before.tokens, "after": after.tokens},
             "unknown": {"before": before.unknown, "after": after.unknown},
             "bytes": {"before": _weight_bytes(checkpoint), "after": _weight_bytes(adapted)}}
    return facts, counts


def told(facts):
    """What `write_adapted` did, in lines."""
    pieces, texts = facts["pieces"], facts["texts"]
    per_text, unknown = (
        [f"{facts[name][when] / max(1, whole):{form}}" for when, whole in zip(
            ("before", "after"), wholes, strict=True)]
        for name, wholes, form in (("tokens", (texts, texts), ".1f"),
                                   ("unknown", facts["tokens"].values(), ".2%")))
    size = [f"{facts['bytes'][when] / 1e6:.1f} MB" for when in ("before", "after")]
    return (f"vocabulary: {pieces['before']:,} pieces, {pieces['added']:,} added, "
            f"{pieces['dropped']:,} dropped: {pieces['after']:,}",
            f"{texts:,} texts: {per_text[0]} tokens each before, {per_text[1]} now; unknown "
            f"{unknown[0]} before, {unknown[1]} now",
            f"weights: {size[0]} before, {size[1]} now")


def _learn(tokenizer, options, paths):
    counts = count_words(paths, WordPieceWords.of(tokenizer), progress=True)
    new = learn_new_pieces(tokenizer, counts, options.new_pieces, progress=True)
    if not new:
        raise BertTfError(explain(
            f"--new_pieces {options.new_pieces}: the text gives none", "two pieces of a word that "
            "stand together twice, or characters that are there twice and make a word known",
            "more text, or --new_pieces 0"))
    if len(new) < options.new_pieces:
        print(f"--new_pieces {options.new_pieces}: the text gives {len(new):,} only")
    return new


def _read_elsewhere(tokenizer, checkpoint, paths, split):
    """Count the pieces of the texts as they are read, too: by line or sentence or joined, as a
    training does, without the white space around them or after the blank that a line end stands
    for, and after each prompt of the model or within its template."""
    blanks = ("", " ") if tokenizer.blanks_in_pieces() else ("",)
    prompts = (checkpoint.task.get("prompts") or {}).values()
    around = [(before, "") for before in (*blanks, *prompts)]
    around += filter(None, [_around(checkpoint)])
    counts = PieceCounts(tokenizer)
    if split == "sentences":
        counts.add_all(blank + sentence for sentence in _sentences(paths) for blank in blanks)
    return counts.add_all(
        form.join(parts) for text in read_unchanged(paths)
        for form in {text, text.strip(), " ".join(text.split()), *map(str.strip, text.split("\n"))}
        for parts in around if any(parts) or form != text)


class _UnitCounts(PieceCounts):
    """Counts of a tagger's units, each of which it splits by itself."""

    def __init__(self, tokenizer, unit):
        super().__init__(tokenizer)
        self._reader = WordPreprocessor(tokenizer, unit=unit)

    def add(self, texts):
        texts = tf.constant(pretokenize(self._tokenizer, texts), tf.string)
        units = split_units(texts, self._reader.unit)
        self._count(self._reader.pieces(units), [text.decode() for text in units.text.numpy()])


def _unit_counts(tokenizer, checkpoint, paths, split):
    """Count the pieces of the texts, and of their sentences, as a tagger reads them: a list of
    `PieceCounts`, of other models an empty one."""
    if checkpoint.task["task"] != "tagger":
        return []
    unit = (checkpoint.task.get("reading") or {}).get("unit", "word")
    read = [read_unchanged(paths)]
    if split == "sentences":
        read.append(_sentences(paths))
    return [_UnitCounts(tokenizer, unit).add_all(texts) for texts in read]


def _sentences(paths):
    return (sentence for piece in read_documents(paths, "sentences")
            for sentence in piece.sentences)


def _around(checkpoint):
    """Return the texts around the two of a pair where the model has a template, else None."""
    template = (checkpoint.task.get("reading") or {}).get("template")
    return template and check_template(template)[::2]


def _check_frequent(counts, vocabulary, options):
    """Refuse to leave out all pieces."""
    most = np.delete(counts, list(vocabulary.special_ids)).max(initial=0)
    if most < options.keep_at_least:
        raise BertTfError(explain(f"--drop_unused --keep_at_least {options.keep_at_least}: no "
                                  f"piece is more than {most} times in the text",
                                  attempt="a smaller number, or text in words that --model knows"))


def _named(checkpoint, tokenizer):
    """Ids of pieces that the model itself names."""
    config, task = checkpoint.config, checkpoint.task
    # Where positions are counted from padding on, they would move with it.
    first = 0 if config.positions_from_padding else config.padding_id
    named = {*range(first, config.padding_id + 1)}
    named.update(*(options["special_ids"] for options in options_with_ids(task)))
    if task["task"] == "multi_vector_embedder":  # whose prompts begin with tokens of no text
        prompts = (task.get("prompts") or {}).values()
        markers = (marker_of(prompt, tokenizer)[0] for prompt in prompts)
        named.update(marker for marker in markers if marker is not None)
    if template := _around(checkpoint):
        named.update(*tokenizer.tokenize([*template, "".join(template)], True).to_list())
    return named


def _weight_bytes(checkpoint):
    return 4 * sum(map(math.prod, parameter_shapes(checkpoint.config, checkpoint.task).values()))
