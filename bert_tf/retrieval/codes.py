"""Vectors stored small: fewer dimensions, int8, bits. NumPy and a graph give the same bytes.

What is written here once runs on NumPy arrays and, with other `operations`, on tensors of an
exported graph. Only operations whose result IEEE 754 fixes are used, sums in an order of their own,
so that a vector gets the same code from a SavedModel, a client and an index.
"""

import dataclasses
import math
import types

import numpy as np

from bert_tf.errors import BertTfError, UsageError, check_choice, explain

PRECISIONS = ("float32", "int8", "bits")
_LARGEST = 127
DTYPES = {"float32": np.float32, "int8": np.int8, "bits": np.uint8}
NUMPY = types.SimpleNamespace(
    cast=lambda values, dtype: values.astype(dtype), sqrt=np.sqrt, rint=np.rint, where=np.where,
    clip=np.clip)


@dataclasses.dataclass(frozen=True)
class VectorCode:
    """How vectors are stored.

        code = VectorCode(dimensions=256, precision="int8").calibrated(vectors)
        stored = code.encode(vectors)     # int8 [n, 256]

    Attributes:
        dimensions: components that are kept, the first ones, scaled to length 1 again (Kusupati et
            al. 2022, "Matryoshka Representation Learning"); None for the vector as it is.
        precision: `float32`; `int8`, components times `scale`, rounded half to even, at most 127;
            `bits`, whether components are above 0, eight to a byte, the first in the highest bit
            (as `numpy.packbits` and sentence-transformers' `ubinary`).
        scale: of `int8`, see `calibrated`. It is one for all components, so that dot products and
            cosines of codes are, times a constant, those of the vectors, in any vector database.

    Raises:
        UsageError: the options do not fit each other.
    """

    dimensions: int | None = None
    precision: str = "float32"
    scale: float | None = None

    def __post_init__(self):
        check_choice("precision", self.precision, PRECISIONS)
        if self.dimensions is not None and (type(self.dimensions) is not int
                                            or self.dimensions < 1):
            raise UsageError(explain(f"dimensions={self.dimensions!r}",
                                     "a whole number of at least 1"))
        if self.scale is not None and (self.precision != "int8" or not 0 < self.scale < math.inf):
            raise UsageError(explain(f"scale={self.scale!r} of {self.precision}",
                                     "a number above 0, of int8"))

    @classmethod
    def from_options(cls, options):
        """Return the code that `options` gave; further entries of the dict are passed over."""
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in options.items() if name in names})

    def options(self):
        """Return the fields that say something, as plain values; of vectors as they are none."""
        values = {"dimensions": self.dimensions, "scale": self.scale,
                  "precision": None if self.precision == "float32" else self.precision}
        return {name: value for name, value in values.items() if value is not None}

    def check_width(self, width):
        """Return the components that are kept of vectors of `width`; UsageError where that cannot
        be."""
        kept = width if self.dimensions is None else self.dimensions
        if kept > width:
            raise UsageError(explain(f"dimensions={kept} of vectors of {width}",
                                     f"{width} at most"))
        if self.precision == "bits" and kept % 8:
            raise UsageError(explain(f"bits of {kept} components", "a multiple of 8",
                                     f"dimensions={kept - kept % 8}" if kept > 8 else ""))
        return kept

    def calibrated(self, vectors):
        """Return the code with the `scale` at which the largest component of `vectors` is 127.

        Args:
            vectors: float32 `[n, width]`: a sample. Larger components that come later are clipped.

        Raises:
            BertTfError: all components are 0, or one is not finite.
        """
        if self.precision != "int8":
            return self
        largest = float(np.abs(self._shortened(np.asarray(vectors, np.float32))).max(initial=0))
        if not 0 < largest < math.inf:
            raise BertTfError(explain(f"int8 by {len(vectors)} vectors whose largest component is "
                                      f"{largest:g}", "a finite one above 0"))
        # As a float32, which is what a graph multiplies by.
        return dataclasses.replace(self, scale=float(np.float32(_LARGEST / largest)))

    def encode(self, vectors, operations=NUMPY):
        """Return the codes of vectors.

        Args:
            vectors: float32 `[..., width]`, an array, or with `operations` a tensor.
            operations: those of `NUMPY`, on whatever vectors are.

        Returns: float32 or int8 `[..., dimensions]`, of bits uint8 `[..., dimensions / 8]`.

        Raises:
            UsageError: int8 without a scale, or more dimensions than there are.
        """
        if operations is NUMPY:
            vectors = np.asarray(vectors, np.float32)
        self.check_width(vectors.shape[-1])
        vectors = self._shortened(vectors, operations)
        if self.precision == "int8":
            if self.scale is None:
                raise UsageError(explain("int8 without a scale", "vectors to calibrate it by",
                                         "VectorCode.calibrated"))
            scaled = operations.rint(vectors * np.float32(self.scale))
            return operations.cast(operations.clip(scaled, -_LARGEST, _LARGEST), np.int8)
        if self.precision == "bits":
            ones = operations.cast(vectors > 0, np.int32)
            packed = sum(ones[..., place::8] * (128 >> place) for place in range(8))
            return operations.cast(packed, np.uint8)
        return vectors

    def decode(self, codes):
        """Return float32 vectors from codes, of bits of length 1.

        Args:
            codes: array `[..., n]` as `encode` gives it.
        """
        codes = np.asarray(codes)
        if self.precision == "int8":
            return codes.astype(np.float32) / np.float32(self.scale)
        if self.precision == "bits":
            signs = np.unpackbits(codes, axis=-1).astype(np.float32) * 2 - 1
            return signs / np.float32(math.sqrt(signs.shape[-1]))
        return codes

    def is_clear(self, vectors, tolerance):
        """Return bool of the shape of codes: which stay if vectors change by a little.

        Args:
            vectors: float32 `[n, width]`.
            tolerance: how much each component may change, as a fraction of the vector's length.
        """
        vectors = self._shortened(np.asarray(vectors, np.float32))
        margin = tolerance * np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1)
        if self.precision == "bits":
            clear = np.abs(vectors) > margin
            return clear.reshape(*clear.shape[:-1], -1, 8).all(axis=-1)
        scaled = vectors * self.scale
        return np.abs(scaled - np.floor(scaled) - 0.5) > margin * self.scale

    def _shortened(self, vectors, operations=NUMPY):
        """Return the first components at length 1; vectors as they are where all are kept."""
        if self.dimensions is None:
            return vectors
        vectors = vectors[..., :self.dimensions]
        # A square root in float32 may be an approximation, one in float64 is none.
        lengths = operations.sqrt(operations.cast(_sums(vectors * vectors), np.float64))
        scaled = operations.cast(vectors, np.float64) / operations.where(lengths > 0, lengths, 1.0)
        return operations.cast(scaled, np.float32)


def _sums(values):
    """Return the sums over the last axis, `[..., 1]`, added in halves: the order is the same
    everywhere."""
    rest = 0
    while (width := values.shape[-1]) > 1:
        half = width // 2
        if width % 2:
            rest = rest + values[..., -1:]
        values = values[..., :half] + values[..., half:2 * half]
    return values + rest
