"""Normalization of text before it is split into words: one rule for each character.

The rules run as a single tensorflow-text op, `FastBertNormalize`, over a table made here. The
op's own tables are not used: they put a blank where the original removes a control character, and
their lower-casing is an NFKC case fold, which changes ㅋ, ½ and ß and splits Hangul into jamo.
TensorFlow's `strings.lower` is not used either: it follows the locale of the machine.
"""

import collections
import functools
import unicodedata

import flatbuffers
import numpy as np

# Characters that a rule can change: planes 0, 1 and 14. The others hold ideographs, of which some
# stand for others, and private use, which one normalization removes.
_CODE_POINTS = (*range(0xD800), *range(0xE000, 0x20000), *range(0x2F800, 0x2FA20),
                *range(0xE0000, 0xE1000))
_PRIVATE = (*range(0xE000, 0xF900), *range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE))
# How text is normalized: ours, google-research/bert's `tokenization.py`, Hugging Face's
# `BertNormalizer`. The two others decompose what they strip accents from, Hangul to jamo too.
NORMALIZATIONS = ("nfc", "google", "huggingface")
# Ranges that google-research/bert `_is_chinese_char` names: every character is a word.
CHINESE = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF),
           (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F))
# Ranges of the Unicode property White_Space.
WHITE_SPACE = ((0x09, 0x0D), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680),
               (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F),
               (0x3000, 0x3000))
_UNASSIGNED = 0xA0000  # added to a Chinese character gives one of planes without any


def clean(character):
    """Control characters are removed, white space is a blank (google-research/bert
    `_clean_text`)."""
    category = unicodedata.category(character)
    if character in "\t\n\r" or category in ("Zs", "Zl", "Zp"):
        return " "
    return "" if category in ("Cc", "Cf") or character == "\ufffd" else character


def strip_accents(text, compose=True):
    """Remove combining marks (Unicode category Mn) as google-research/bert does.

    Args:
        text: str.
        compose: compose again (NFC), which gives back whole Hangul syllables; google-research/bert
            leaves jamo.
    """
    marked = unicodedata.normalize("NFD", text)
    bare = "".join(c for c in marked if unicodedata.category(c) != "Mn")
    return unicodedata.normalize("NFC", bare) if compose else bare


@functools.cache
def character_rules(lower_case, remove_accents, normalization="nfc"):
    """Return the dict of every code point that changes -> its replacement, a string of any length.

    Args:
        lower_case, remove_accents: what is done beside cleaning.
        normalization: one of `NORMALIZATIONS`.
    """
    rules = {}
    for code_point in _CODE_POINTS:
        character = chr(code_point)
        after = clean(character)
        if lower_case:
            after = after.lower()
        if remove_accents and not after.isascii():
            after = strip_accents(after, normalization == "nfc")
        if after != character:
            rules[code_point] = after
    return rules | (dict.fromkeys(_PRIVATE, "") if normalization == "huggingface" else {})


@functools.cache
def hidden_chinese():
    """Return the dict of every Chinese code point -> a character that no tokenizer splits from
    others."""
    return {code_point: hide_chinese(chr(code_point))
            for first, last in CHINESE for code_point in range(first, last + 1)}


def hide_chinese(text):
    """Return `text` with other characters, which have no meaning, in place of Chinese ones."""
    return "".join(chr(ord(c) + _UNASSIGNED) if any(
        first <= ord(c) <= last for first, last in CHINESE) else c for c in text)


@functools.cache
def final_sigma_pattern(cleaned=True):
    """Return the RE2 pattern of Σ at the end of a word, where it becomes ς instead of σ, in three
    groups.

    The condition is `Final_Sigma` of the Unicode standard (section 3.13): a cased letter comes
    before and none after, whatever case-ignorable characters lie between. Both classes are asked
    of `str.lower`, which applies it.

    Args:
        cleaned: characters that `clean` removes are as if not there.
    """
    # After a cased letter c, "cΣ" ends in ς; after an ignorable one, only "AcΣ" does.
    cased, ignorable = [], []
    for code_point in _CODE_POINTS:
        character = chr(code_point)
        if cleaned and not clean(character):
            ignorable.append(code_point)
        elif f"A{character}Σ".lower()[-1] == "ς":
            (cased if f"{character}Σ".lower()[-1] == "ς" else ignorable).append(code_point)
    cased, ignorable = _ranges(cased), _ranges(ignorable)
    return f"([{cased}][{ignorable}]*)Σ([{ignorable}]*(?:[^{cased}{ignorable}]|$))"


@functools.cache
def composing_edges():
    """Return the characters that NFC may join to, or reorder with, what comes before them.

    Returns:
        int32 array: first code point of a range, the one after its last, first of the next, …
    """
    seconds = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}  # vowel and final jamo
    for code_point in _CODE_POINTS:
        parts = unicodedata.decomposition(chr(code_point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(int(parts[1], 16))
    return np.array(_runs(
        [code_point for code_point in _CODE_POINTS
         if (first := unicodedata.normalize("NFD", chr(code_point))[0])
         and (unicodedata.combining(first) or ord(first) in seconds)]), np.int32).ravel()


@functools.cache
def mark_edges():
    """Return the characters that NFC sorts among combining marks, of which some decompose into
    several: int32, edges of ranges as of `composing_edges`."""
    return np.array(_runs(
        [code_point for code_point in _CODE_POINTS
         if unicodedata.combining(unicodedata.normalize("NFD", chr(code_point))[0])]),
        np.int32).ravel()


def marks_pattern(count):
    """Return the RE2 pattern of a text with so many of `mark_edges` in succession."""
    marks = "".join(f"\\x{{{first:x}}}-\\x{{{after - 1:x}}}"
                    for first, after in mark_edges().reshape(-1, 2))
    return f"(?s).*[{marks}]{{{count}}}.*"


@functools.cache
def white_space_edges():
    """Return the first code point and the one after the last of each range of White_Space,
    int32."""
    return np.array([edge for first, last in WHITE_SPACE for edge in (first, last + 1)], np.int32)


def _ranges(code_points):
    """Return the body of a regular expression's character class."""
    return "".join(f"\\x{{{first:x}}}-\\x{{{after - 1:x}}}"
                   for first, after in _runs(code_points))


def _runs(code_points):
    """Return (first, one after the last) of each run of consecutive numbers."""
    values = np.array(code_points)
    runs = np.split(values, np.flatnonzero(np.diff(values) > 1) + 1)
    return [(run[0], run[-1] + 1) for run in runs]


def normalizer_model(rules):
    """Serialise character rules for the op `FastBertNormalize`.

    Args:
        rules: dict of code point -> replacement of at most 63 UTF-8 bytes.

    Returns:
        bytes: the flatbuffer `FastBertNormalizerModel` of tensorflow-text: a Darts-clone double
        array from a character's UTF-8 bytes to a position in a pool of replacements.
    """
    pool = b""
    places = {}
    for text in sorted(set(rules.values())):
        data = text.encode()
        # Bit 30 marks a change; the pool's offset takes 24 bits, the length in bytes 6.
        places[text] = 1 << 30 | len(pool) << 6 | len(data)
        pool += data
    builder = flatbuffers.Builder(1 << 18)
    trie = builder.CreateNumpyVector(_double_array(
        {chr(code_point).encode(): places[text] for code_point, text in rules.items()
         if code_point}))
    pool = builder.CreateNumpyVector(np.frombuffer(pool, np.uint8))
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(1, trie, 0)
    builder.PrependInt32Slot(2, places[rules[0]] if 0 in rules else 0, 0)
    builder.PrependUOffsetTRelativeSlot(3, pool, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def _double_array(values):
    """Build the units of a Darts-clone trie over UTF-8 encoded characters (dict bytes -> 31-bit
    value).

    The child of the unit at position p for byte b is at p ^ offset(p) ^ b and holds b as label.
    The bytes after the first of a character are 0x80 to 0xbf, so that the children of an inner node
    are in an aligned block of 64 units, which nodes with the same children share; no character
    continues another, so that equal values share a unit.
    """
    children = collections.defaultdict(dict)
    for key, value in values.items():
        children[key[:-1]][key[-1]] = value
    blocks, numbers = {}, {}
    for length in (3, 2, 1):  # that of a node is known when its parent's is asked for
        for prefix in sorted(prefix for prefix in children if len(prefix) == length):
            # Block 0 to 3: the root and its children, one for each possible first byte.
            blocks[prefix] = numbers.setdefault(tuple(sorted(children[prefix].items())),
                                                256 + 64 * len(numbers))
            children[prefix[:-1]][prefix[-1]] = blocks[prefix]
    first_value = 256 + 64 * len(numbers)
    distinct = sorted(set(values.values()))
    units = np.zeros(first_value + len(distinct), np.uint32)
    units[first_value:] = np.array(distinct, np.uint32) | np.uint32(1 << 31)
    value_at = {value: first_value + index for index, value in enumerate(distinct)}

    def position(key):
        return blocks[key[:-1]] + (key[-1] & 0x3F) if key[:-1] else key[0]

    for prefix, block in blocks.items():
        at = position(prefix)
        # A child is found at block ^ 0x80 ^ byte.
        units[at] = (at ^ block ^ 0x80) << 10 | prefix[-1]
    for key, value in values.items():
        at = position(key)
        units[at] = (at ^ value_at[value]) << 10 | 1 << 8 | key[-1]
    return units
