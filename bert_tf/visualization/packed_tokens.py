"""One or two texts as the tokens that a model is given, and where in the text each comes from."""

import unicodedata

import numpy as np

from bert_tf.errors import UsageError, explain
from bert_tf.visualization.static_page import visible

_WORD = "\u2581"  # stands for the blank in front of a word, as in SentencePiece's pieces


def packed_tokens(tokenizer, text, text_pair=None, max_length=128):
    """Tokenize and pack, as `pack` does: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`.

    Special tokens written in a text, such as `[MASK]`, stand for what they name. Text of a model of
    morphemes is analysed first. What does not fit is truncated at the end, of a pair from the
    longer.

    Args:
        tokenizer: as `load_tokenizer` gives it.
        text, text_pair: str; None for no second text.
        max_length: maximum of tokens, special ones counted.

    Returns:
        dict of plain values about S tokens:
        `ids` int32 `[S]`;
        `tokens`, a list of str, as the vocabulary writes them;
        `labels`, a list of str, as people read them: pieces of bytes are spelt out, `…` where a
        character continues in the next piece;
        `segments` int32 `[S]`: 1 for the second text and the separator after it, else 0;
        `special` bool `[S]`: `[CLS]`, `[SEP]` and padding;
        `offsets` int32 `[S, 2]`: token `i` comes from `text[start:end]` of its text, -1 where
        it comes from none;
        `cut`, the number of tokens that did not fit.

    Raises:
        UsageError: no space for a token of each text, or a text that is not Unicode.
    """
    import tensorflow as tf

    from bert_tf.tokenization.packing import pack

    texts = [text] if text_pair is None else [text, text_pair]
    ids, offsets = zip(*(_tokenize(tokenizer, each) for each in texts), strict=True)
    vocabulary = tokenizer.vocabulary
    # Packed are numbers of tokens, after all ids there are: what is below is a special token.
    edges = np.cumsum([len(vocabulary), *map(len, ids)])
    numbers = [tf.RaggedTensor.from_tensor(tf.range(first, last, dtype=tf.int32)[tf.newaxis])
               for first, last in zip(edges, edges[1:], strict=False)]
    packed = pack(vocabulary, numbers, max_length, fixed=False)["input_word_ids"].numpy()[0]
    own = packed >= edges[0]
    found, places = packed.copy(), np.full((len(packed), 2), -1, np.int32)
    found[own] = np.concatenate(ids)[packed[own] - edges[0]]
    places[own] = np.concatenate(offsets)[packed[own] - edges[0]]
    first_kept = np.sum(own & (packed < edges[1]))
    second = np.arange(len(packed)) >= (
        vocabulary.initial_token + first_kept + vocabulary.pair_separators)
    segments = np.int32(second & (text_pair is not None))
    tokens = [vocabulary.tokens[each] for each in found]
    return {"ids": found, "tokens": tokens, "segments": segments,
            "labels": _labels(tokenizer, found, tokens, sources(texts, segments, places)),
            "special": np.isin(found, (vocabulary.pad_id, vocabulary.cls_id, vocabulary.sep_id)),
            "offsets": places, "cut": int(edges[-1] - edges[0] - np.sum(own))}


def sources(texts, segments, offsets):
    """Return the part of its text that each token comes from: a list of str, None where not known.

    Args:
        texts: list of one or two str.
        segments, offsets: as `packed_tokens` gives them.
    """
    return [texts[segment][start:end] if start >= 0 else None
            for segment, (start, end) in zip(segments, offsets, strict=True)]


def _tokenize(tokenizer, text):
    """Tokenize a text: ids int32 `[n]`, and the characters that each comes from, `[n, 2]`."""
    import tensorflow as tf

    from bert_tf.tokenization.morphemes import original_offsets, pretokenize
    from bert_tf.tokenization.offsets import character_offsets

    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(explain(f"the text {text!r}", "Unicode, in UTF-8")) from error
    (analysed,) = pretokenize(tokenizer, [text])
    given = tf.constant([analysed])
    ids, *both = tokenizer.tokenize_with_offsets(given, allow_special=True)
    ids = ids.values.numpy()
    places = [character_offsets(given, each).values.numpy() for each in both]
    return ids, original_offsets(text, analysed)[np.stack(places, axis=1)]


def _labels(tokenizer, ids, tokens, sources):
    """Return how tokens are shown; `sources` are the parts of the text that they come from."""
    from bert_tf.tokenization.pair_tokenizer import PairTokenizer

    if not isinstance(tokenizer, PairTokenizer):
        return [unicodedata.normalize("NFC", token) for token in tokens]
    pieces = tokenizer.detokenize(ids[:, np.newaxis]).numpy().tolist()
    # A byte 10xxxxxx continues a character that began in the piece before.
    goes_on = [0x80 <= piece[0] < 0xC0 if piece else False for piece in (*pieces, b"")]
    return [_spelt(token, piece, source and "…" * before + source + "…" * after)
            for token, piece, source, before, after in zip(
                tokens, pieces, sources, goes_on, goes_on[1:], strict=False)]


def _spelt(token, piece, part):
    """Return the text of a piece's bytes; where they are no whole characters, `part`."""
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return part or token
    return _WORD + text[1:] if text[:1] == " " and text[1:] else visible(text) or token
