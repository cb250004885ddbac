"""The vectors of words where they stand: occurrences, their pieces, and what is made of them.

Every vector here, of a word or of a sum of words, is a mix of the vectors of a sentence's tokens:
weights of the tokens, times their vectors.
"""

import dataclasses
import re
import unicodedata

import numpy as np

from bert_tf.errors import BertTfError, explain
from bert_tf.visualization.tokens import tokenize_texts

_AT_ONCE = 32  # sentences of a run


@dataclasses.dataclass(frozen=True)
class Occurrence:
    """A word where it stands.

    `texts[sentence][start:end]` is the word as it is written there; `positions` are those of its
    pieces in the model's input, 0 being `[CLS]`, and `pieces` what the vocabulary calls them.
    """

    word: str
    sentence: int
    start: int
    end: int
    positions: tuple[int, ...]
    pieces: tuple[str, ...]


def places_of(word, text, ignore_case=False):
    """Find a word in a text: list of `(start, end)`, in characters.

    Not where it is only a part of what a script with capitals writes as one word or number:
    neither cat in cats, nor 1 in 10, but 은행 in 은행에서 and AI in AI는. Composed and decomposed
    characters are the same.
    """
    forms = {word, *(unicodedata.normalize(form, word) for form in ("NFC", "NFD"))}
    pattern = "|".join(map(re.escape, sorted(forms, key=len, reverse=True)))
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE * ignore_case)
            if not _goes_on(text, match.start()) and not _goes_on(text, match.end())]


def _goes_on(text, place):
    """Return whether the characters around an offset belong together."""
    from bert_tf.tokenization.normalization import composing_edges

    if not 0 < place < len(text):
        return False
    joins = np.searchsorted(composing_edges(), ord(text[place]), side="right") % 2 == 1
    return joins or (_is_of_word(text[place - 1]) and _is_of_word(text[place]))


def _is_of_word(character):
    return character.isdigit() or character.lower() != character.upper()


def occurrences(tokenizer, texts, words, seq_length=128):
    """Find every occurrence of words in sentences, with its pieces.

    Args:
        tokenizer: as `load_encoder` gives it.
        texts: list of str.
        words: list of str.
        seq_length: the window in tokens; a word that ends after it has no pieces.

    Returns: list of `Occurrence`, in the order of the words, then of the sentences.

    Raises:
        BertTfError: a word is in no sentence, or is blank.
    """
    cut, vocabulary = tokenize_texts(tokenizer, texts), tokenizer.vocabulary
    ignore_case = getattr(tokenizer, "lower_case", False)
    found = []
    for word in dict.fromkeys(words):
        before = len(found)
        for sentence, (text, one) in enumerate(zip(texts, cut, strict=True)):
            for start, end in places_of(word, text, ignore_case) if word.strip() else ():
                inside = np.flatnonzero((one["starts"] < end) & (one["ends"] > start))
                if (inside >= seq_length - vocabulary.num_special()).any():
                    inside = inside[:0]  # the vector of some of its pieces is not the word's
                places = tuple((inside + vocabulary.initial_token).tolist())
                found.append(Occurrence(word, sentence, start, end, places,
                                        tuple(one["pieces"][place] for place in inside)))
        if len(found) == before:
            raise BertTfError(explain(f"the word {word!r} is in none of {len(texts)} sentences",
                                      "a word as it is written there"))
    return found


def token_vectors(encoder, tokenizer, texts, layers, seq_length=128):
    """Return the ids of every sentence's tokens, `[CLS]` and `[SEP]` counted, and their vectors.

    Args:
        encoder, tokenizer: as `load_encoder` gives them.
        texts: list of str.
        layers: list of lists of layers, 0 the embeddings; those of one list are summed up.
        seq_length: the window in tokens, to which sentences are truncated.

    Returns: `(ids, vectors)`, lists with an item a sentence: int32 `[tokens]` and float32
        `[len(layers), tokens, hidden]`.
    """
    from bert_tf.models.states import hidden_states
    from bert_tf.tokenization.morphemes import pretokenize
    from bert_tf.tokenization.packing import pack

    texts = pretokenize(tokenizer, texts)
    ids, vectors = [], []
    for start in range(0, len(texts), _AT_ONCE):
        pieces = tokenizer.tokenize(texts[start:start + _AT_ONCE])
        inputs = pack(tokenizer.vocabulary, [pieces], seq_length, fixed=False)
        states = [state.numpy() for state in hidden_states(encoder, inputs)]
        summed = [sum(states[layer] for layer in each) for each in layers]
        for row, length in enumerate(inputs["input_mask"].numpy().sum(axis=1)):
            ids.append(inputs["input_word_ids"].numpy()[row, :length])
            vectors.append(np.stack([state[row, :length] for state in summed]))
    return ids, vectors


def token_weights(ids, weights, weighting):
    """Return the weight of every token: list of float32 `[tokens]`, one a sentence.

    Args:
        ids: list of int32 `[tokens]`, one a sentence.
        weights: what `learn_term_weights` gives.
        weighting: `idf` or `bm25`, see `TermWeighting`.
    """
    from bert_tf.layers.term_weighting import TermWeighting

    layer = TermWeighting(len(weights.idf), weighting)
    layer.build()
    layer.assign(weights.idf, weights.average_length)
    return [layer(row[np.newaxis], np.ones_like(row)[np.newaxis]).numpy()[0] for row in ids]


def word_weights(found, lengths):
    """Return the weight of every token in the vector of a word: the mean of its pieces.

    Args:
        found: list of `Occurrence`.
        lengths: tokens of every sentence.

    Returns: list of float64 `[tokens]` of the occurrence's sentence.
    """
    weights = [np.zeros(lengths[each.sentence]) for each in found]
    for row, each in zip(weights, found, strict=True):
        row[list(each.positions)] = 1 / len(each.positions)
    return weights


def sum_weights(found, lengths, vocabulary, weights=None):
    """Return the weight of every token in the sum of a sentence's words, or of all its tokens.

    Args:
        found: list of `Occurrence`; None for all tokens but those around the text.
        lengths: tokens of every sentence.
        vocabulary: `Vocabulary`, which says what stands around a text.
        weights: list of float `[tokens]`, one a sentence; None for 1.

    Returns: dict of float64 `[tokens]` by the number of the sentence; those without a word of
        `found` are not there.
    """
    weights = weights or [np.ones(length) for length in lengths]
    if found is None:
        before, after = int(vocabulary.initial_token), int(vocabulary.final_separator)
        return {sentence: np.pad(weight[before:len(weight) - after], (before, after))
                for sentence, weight in enumerate(weights)}
    sums = {}
    for each, of_word in zip(found, word_weights(found, lengths), strict=True):
        weighted = of_word * (of_word @ weights[each.sentence])
        sums[each.sentence] = sums.get(each.sentence, 0) + weighted
    return dict(sorted(sums.items()))
