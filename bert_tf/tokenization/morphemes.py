"""Korean text split into morphemes, whose surface is kept: blanks are put between them.

    analyse(["영화를 재밌게 봤다"])  # ["영화 를 재밌 게 봤 다"]

A blank goes where kiwipiepy (extra `korean`), the analyser, ends one morpheme and begins another,
if Hangul stands on at least one side. Morphemes that share a syllable stay together, such as 보 and
았 in 봤. Nothing else of the text changes, so that `original_offsets` leads back to it.

A morpheme is then a word to the tokenizer, within a word of the text as at its beginning. That
needs no rule in a served graph, and it makes one text of 가는곳이 and 가는 곳이: where people write
blanks differs, where morphemes end does not.

What `analyse` gives is marked (`Analysed`) and taken as it is when it comes back, so that analysing
twice is analysing once. The mark is lost in files, tensors and parts of such a text: the
analyser, asked again, puts a further blank into a few of them (6 in 100 film reviews).
"""

import functools
import itertools
import multiprocessing
import os
import re
import threading
import unicodedata

import numpy as np
import tqdm

from bert_tf import cores
from bert_tf.errors import UsageError, explain, needs
from bert_tf.tokenization.texts import text_list

MORPHEMES = "morphemes"
_HANGUL = r"\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
HANGUL = re.compile(f"[{_HANGUL}]")
# Two characters, not blank, one of them Hangul, the second no jamo that continues a syllable.
_SEPARABLE = re.compile(rf"(?=[{_HANGUL}].|.[{_HANGUL}])\S[^\s\u1160-\u11ff\ud7b0-\ud7ff]", re.S)
# The analyser's time grows with the square of a text: above 1,000 characters parts of a text are
# analysed by themselves, which end with a sentence or a line, else at a blank, else anywhere.
_LONGEST = 1000
_MOST_MARKS = 30  # that are sorted at once
_PART = re.compile(r".{1,999}[.!?…。]\s|.{0,999}\n|.{1,999}\s|.{1,1000}", re.S)


class Analysed(str):
    """A text that is split into morphemes already."""

    __slots__ = ()


def pretokenize(tokenizer, texts, progress=False, name="texts"):
    """Return the texts as `tokenizer` was trained to see them: all Python calls go through here.

    Args:
        tokenizer: as `load_tokenizer` gives it.
        texts: as of `text_list`.
        progress: show a bar where it takes long.
        name: what an error calls the texts.

    Returns: list of str; `texts` itself where it is one, unless `tokenizer.pretokenize` asks for
        morphemes.

    Raises: as `text_list` and `analyse`.
    """
    texts = text_list(texts, name)
    return analyse(texts, progress) if getattr(tokenizer, "pretokenize", None) else texts


def analyse(texts, progress=False):
    """Split texts into morphemes.

    What comes of a text depends on this text alone (and on the version of kiwipiepy).

    Args:
        texts: as of `text_list`.
        progress: show a bar where it takes long.

    Returns: list of `Analysed`, which are str: the texts with blanks put in.

    Raises:
        UsageError: kiwipiepy is not installed, or as `text_list`.
    """
    texts = text_list(texts)
    parts = {text: parts_of(text) for text in texts
             if not isinstance(text, Analysed) and HANGUL.search(text)}
    analysed = _analysed(parts, progress) if parts else {}
    return [text if isinstance(text, Analysed) else Analysed(analysed.get(text, text))
            for text in texts]


def parts_of(text):
    """Return the parts of a text that are analysed by themselves, a list of str: joined, what
    `analyse` makes of them is what it makes of the text.

    They end at the same characters in composed (NFC) and decomposed text.
    """
    composed = _composed(text)
    if len(composed) <= _LONGEST:
        return [text]
    parts = _PART.findall(composed)
    if composed == text:
        return parts
    ends = np.cumsum([0, *map(len, parts)])
    return _cut(text, _in_form(text, composed, ends))


def _composed(text):
    """Return the NFC form of a text; of a long one each 30 of a longer run of combining marks are
    sorted by themselves, as by `offsets.compose`: their square is the time that it takes."""
    cuts, run = [0], 0
    for place, character in enumerate(text) if len(text) > _LONGEST else ():
        first = unicodedata.normalize("NFD", character)[0]
        run = run + 1 if unicodedata.combining(first) else 0
        if run > _MOST_MARKS:
            cuts.append(place)
            run = 1
    return "".join(unicodedata.normalize("NFC", part) for part in _cut(text, [*cuts, len(text)]))


def _analysed(parts, progress):
    """Return the dict of analysed texts, from one of their parts."""
    analyser, turn = _analyser(os.getpid())
    with turn:
        # Results come in order, as they are requested.
        found = iter(analyser.tokenize(unicodedata.normalize("NFC", part)
                                       for parts_of_one in parts.values() for part in parts_of_one))
        bar = tqdm.tqdm(parts.items(), desc="morphemes", unit=" texts", unit_scale=True, delay=2,
                        leave=False, disable=not progress)
        return {text: "".join(_with_blanks(part, next(found)) for part in parts_of_one)
                for text, parts_of_one in bar}


def original_offsets(text, analysed):
    """Map every position of an analysed text to the original.

    Args:
        text: str.
        analysed: str, what `analyse` made of it.

    Returns:
        int64 `[len(analysed) + 1]`: what begins in front of, or ends after, so many characters of
        `analysed` does so in front of, or after, so many of `text`.

    Raises:
        UsageError: `analysed` is not `text` with blanks put in.
    """
    offsets = np.zeros(len(analysed) + 1, np.int64)
    place = 0
    for number, character in enumerate(analysed, 1):
        if character == text[place:place + 1]:
            place += 1
        elif character != " ":
            break
        offsets[number] = place
    else:
        if place == len(text):
            return offsets
    raise UsageError(explain(f"{analysed[:40]!r} is not an analysis of {text[:40]!r}",
                             "the text with nothing but blanks put in"))


def in_original(text, analysed, starts, ends):
    """Convert spans found in an analysed text to offsets and texts of the original.

    Args:
        text, analysed: see `original_offsets`.
        starts, ends: int `[n]`, characters of `analysed`.

    Returns: `(starts, ends, texts)`: int64 `[n]` twice, and the list of `text[start:end]`.
    """
    offsets = original_offsets(text, analysed)
    starts, ends = offsets[np.asarray(starts, int)], offsets[np.asarray(ends, int)]
    return starts, ends, [text[start:end] for start, end in zip(starts, ends, strict=True)]


def analysed_places(offsets, places, are_ends=False):
    """Map offsets of an original text to the analysed one.

    Args:
        offsets: what `original_offsets` gives.
        places: int64 array, characters of the original.
        are_ends: something ends in front of a place, so that a blank put in there comes after
            it; else something begins there.

    Returns: int64 array of that shape.
    """
    if are_ends:
        return np.searchsorted(offsets, places)
    return np.searchsorted(offsets, places, side="right") - 1


@functools.cache
def _analyser(process):
    """Return Kiwi of the running process and a lock, as it does not promise that threads may share
    it; neither its threads nor the lock's holder outlive a fork."""
    with needs("korean", "morphemes need the package kiwipiepy, which is not installed"):
        import kiwipiepy
    # A process that another one started shares the machine with similar ones.
    threads = 1 if multiprocessing.parent_process() else cores.usable()
    return kiwipiepy.Kiwi(num_workers=threads), threading.Lock()


def _with_blanks(text, morphemes):
    """Return `text` with blanks where one of kiwipiepy's tokens, which are of its NFC form, ends or
    begins and none continues."""
    composed = unicodedata.normalize("NFC", text)
    edges, inside = {0, len(composed)}, set()
    for morpheme in morphemes:
        # kiwipiepy 0.23 lets a word that it corrected end after its text: 영영 in 영🗻영.
        start, end = morpheme.start, min(morpheme.start + morpheme.len, len(composed))
        edges.update((start, end))
        inside.update(range(start + 1, end))
    cuts = [place for place in sorted(edges - inside)
            if place in (0, len(composed)) or _is_separable(composed, place)]
    if composed != text:
        cuts = _in_form(text, composed, cuts)
    return " ".join(_cut(text, cuts))


def _cut(text, places):
    return [text[start:end] for start, end in itertools.pairwise(places)]


def _in_form(text, composed, places):
    """Return places of the NFC form of `text` as places of `text`."""
    return np.searchsorted(_decomposed_ends(text), _decomposed_ends(composed)[places])


def _decomposed_ends(text):
    """Return int64 `[len(text) + 1]`: how long the NFD form of so many characters is."""
    return np.cumsum([0, *(len(unicodedata.normalize("NFD", character)) for character in text)])


def _is_separable(text, place):
    """Return whether a blank may be put in front of `text[place]`; an accent stays with its
    letter."""
    return (_SEPARABLE.match(text, place - 1) is not None
            and not unicodedata.category(text[place]).startswith("M"))
