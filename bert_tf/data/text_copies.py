"""Numbers by which texts are known to be the same, or nearly: hashes and MinHash signatures.

Two texts are the same where they differ in white space, case and forms of a character (NFKC) only.
They are nearly the same where a band of their signatures is. A signature holds the least hashes,
under many functions, of the runs of seven letters and digits in a text, white space and punctuation
passed over, so that it works for languages without blanks too (Broder 1997, "On the resemblance and
containment of documents"). Of texts that have the fraction s of their runs in common, s of the
least hashes are equal; with 14 bands of 8 the fraction found is 1 - (1 - s^8)^14: 0.1 % at 0.3,
5 % at 0.5, 56 % at 0.7, 92 % at 0.8, 99.96 % at 0.9.

As arrays over many texts, not one text and one run at a time, which in Python takes far longer.
"""

import hashlib
import unicodedata

import numpy as np

RUN = 7  # letters and digits of a run
BANDS, ROWS = 14, 8
NOTHING = np.uint32(2**32 - 1)  # stands in the signature of a text without letters and digits
_ODD = np.uint64(0x9E3779B97F4A7C15)


def normal_form(text):
    """Return a text as it is compared: NFKC, case folded, white space as single blanks."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def text_hashes(texts):
    """Return uint64 `[n]` of the normal forms of texts; equal ones are taken for the same."""
    digests = [hashlib.blake2b(normal_form(text).encode("utf-8", "surrogatepass"),
                               digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def joined_hash(first, second):
    """Return the hash, an int, of a text in two parts from those of the parts."""
    both = int(first).to_bytes(8, "little") + int(second).to_bytes(8, "little")
    return int.from_bytes(hashlib.blake2b(both, digest_size=8).digest(), "little")


def signatures(texts):
    """Return the MinHash signatures uint32 `[n, BANDS * ROWS]` of texts.

    That of a text in parts is the minimum of theirs, but for the runs across the parts.
    """
    if not texts:
        return np.zeros([0, BANDS * ROWS], np.uint32)
    letters = [normal_form(text).translate(_LETTERS) for text in texts]
    codes = np.concatenate([np.frombuffer(text.ljust(RUN, "\0").encode("utf-32-le",
                                                                      "surrogatepass"), "<u4")
                            for text in letters]).astype(np.uint64)
    sizes = np.array([max(len(text), RUN) for text in letters])
    ends = np.cumsum(sizes)
    hashes = np.zeros(len(codes) - RUN + 1, np.uint64)
    for place in range(RUN):
        hashes = hashes * _ODD + codes[place:len(codes) - RUN + 1 + place]
    # Runs that begin in one text and end in the next are none.
    within = np.ones(len(codes), bool)
    for back in range(1, RUN):
        within[ends - back] = False
    hashes = _mixed(hashes[within[:len(hashes)]])
    starts = np.concatenate([[0], np.cumsum(sizes - RUN + 1)[:-1]])
    found = np.empty([len(texts), BANDS * ROWS], np.uint32)
    for column, (factor, term) in enumerate(_functions()):
        # The upper half of a product with an odd factor is a hash of the other one.
        values = ((hashes * factor + term) >> np.uint64(32)).astype(np.uint32)
        found[:, column] = np.minimum.reduceat(values, starts)
    found[[not text for text in letters]] = NOTHING
    return found


def band_hashes(found):
    """Return uint64 `[n, BANDS]` of signatures `[n, BANDS * ROWS]`, a hash of each band."""
    rows = found.reshape([len(found), BANDS, ROWS]).astype(np.uint64)
    hashes = np.zeros([len(found), BANDS], np.uint64)
    for row in range(ROWS):
        hashes = _mixed(hashes * _ODD + rows[:, :, row])
    return hashes


class _Letters(dict):
    """A table of `str.translate` that removes all but letters, marks and digits."""

    def __missing__(self, code):
        is_kept = unicodedata.category(chr(code))[0] in "LMN"
        self[code] = code if is_kept else None
        return self[code]


_LETTERS = _Letters()


def _functions():
    """Return factor and term of each hash function, uint64 `[BANDS * ROWS, 2]`: always the same."""
    draws = np.random.Generator(np.random.Philox(1997)).integers(
        0, 2**64, [BANDS * ROWS, 2], np.uint64)
    draws[:, 0] |= np.uint64(1)
    return draws


def _mixed(hashes):
    """Spread what differs in some bits over all of them (Steele et al. 2014, SplitMix64)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
