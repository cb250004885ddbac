"""Texts that tokenizers trip over, and real ones, for tests that compare with other libraries."""

import functools
import gzip
import random

TEXTS = [
    "", " ", "\t\n", "  many   blanks    here  ", "a\tb\r\nc", "null\x00char", "a\xa0", "tab\t",
    "ΟΔΟΣ ΟΔΟΣ\x01Α Σ Σ. ΑΣ\u00adΒ", "İstanbul ISTANBUL ı ǅ ŉ ß ẞ", "Ǆ ﷺ",
    "e\u0301 é ẹ\u0301 a\u0323\u0301 x\u0301\u0302\u0303\u0304", "ÅÄÖ K\u212a Å\u212b",
    "x" * 99, "x" * 100, "x" * 101, "x" * 201, "한" * 101, "don't we'll I'M they've 'tis",
    "``quoted'' `x`", "2000, 12,000, in 5,", "영화를 \u110b\u1167\u11bc ㅋㅋ ㅠㅠ",
    "中文 漢字abc 𠀀𠀁",
    "ﬁ ½ ① Ａ ①②③㈜㎏", "𝐇𝐞𝐥𝐥𝐨 𝒲 ℌ", "a\u3000b\xa0c \u2028d\u2029e\x85f\x0bg\x0ch\x1ci",
    "　 　 ", "a 　b", "a　", "\u200bzero\u200dwidth\ufeff", "a\ue000b\U000f0000c\U0010fffdd",
    "\ufffd x\ufffdy",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "…—–‘’“”", "\u037e \u1fef \u0340",
    "नमस्ते हिन्दी สวัสดี", "العربية مَرْحَبًا", "👩‍👩‍👧 🇰🇷 👍🏽"]


def real_lines(shared, count):
    """`count` lines, half of them Korean, of the shared corpus; the same ones every time."""
    return [line for name in ("en_mixed.txt.gz", "ko_reviews.txt.gz")
            for line in _shuffled(shared / "data" / "corpus" / name)[:count // 2]]


@functools.cache
def _shuffled(path):
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        found = [line.strip() for line in stream if line.strip()]
    random.Random(0).shuffle(found)
    return found[:5000]
