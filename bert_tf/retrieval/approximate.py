"""Approximate search by faiss: lists of near vectors, each vector 4 bits for 4 components.

What is searched is an inverted file (Jégou et al. 2011) with product quantization that is scanned
in registers (André et al. 2017, faiss "PQ fast scan"); the candidates that it finds are rescored by
the stored vectors. Of faiss' and usearch's structures that was the fastest on MiniLM's vectors of
80,000 sentences, a core each: 11,300 queries a second at a recall@10 of 0.95, where graphs (HNSW)
gave 5,000 in faiss and 4,000 in usearch (int8, 0.92); it was built in a quarter of their time, has
an eighth of a byte for a component, and the same vectors always give the same file.
"""

import numpy as np

from bert_tf.errors import BertTfError, explain, needs
from bert_tf.storage import files

_PART = 4  # components that share a code of 4 bits
_CODES = 16  # of 4 bits, as many vectors as they are learned from at least
_SAMPLE = 64  # vectors of each list from which the lists are learned
_MOST_LISTS = 1 << 16
_ITERATIONS = 10  # of k-means
_BLOCK = 1 << 16  # vectors that are added at a time
_ROW_BITS = 40  # of a number, below those of a distance


def library():
    """Import faiss; UsageError where it is not installed."""
    with needs("search", "this search needs the package faiss-cpu, which is not installed"):
        import faiss
    return faiss


def num_lists(count):
    """Return how many lists `count` vectors are put into: a power of two near `4 sqrt(count)`; of
    few vectors as many as there are."""
    return min(_MOST_LISTS, count, 1 << round(np.log2(4 * max(count, 1) ** 0.5)))


def build(vectors, path, seed, progress=None):
    """Write the structure of vectors to a file, atomically.

    Args:
        vectors: `[n, width]` of length 1, which slices and ascending rows are taken of.
        path: the file.
        seed: of the sample that lists are learned from, and of k-means.
        progress: function of the number of vectors added last, or None.
    """
    faiss = library()
    count, width = vectors.shape
    lists = num_lists(count)
    padded = -(-width // _PART) * _PART
    index = faiss.index_factory(padded, f"IVF{lists},PQ{padded // _PART}x4fs",
                                faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.seed = _ITERATIONS, seed
    index.cp.min_points_per_centroid = 1
    index.pq.cp.seed = seed
    index.pq.cp.min_points_per_centroid = 1
    sample = min(count, max(_SAMPLE * lists, 1 << 12))
    rows = np.random.default_rng(seed).choice(count, sample, replace=False)
    rows = np.sort(np.resize(rows, max(sample, _CODES)))  # a few vectors more than once
    index.train(_padded(vectors[rows], padded))
    for start in range(0, count, _BLOCK):
        part = _padded(vectors[start:start + _BLOCK], padded)
        index.add(part)
        if progress:
            progress(len(part))
    # Through Python, whose errors say what is wrong with a disk.
    with files.atomic_path(path) as temporary, open(temporary, "wb") as stream:
        faiss.write_index(index, faiss.PyCallbackIOWriter(stream.write))


class Approximate:
    """Candidates for the nearest vectors.

    Args:
        path: a file that `build` wrote.
        count: how many vectors it must hold.

    Raises:
        UsageError: faiss is not installed.
        BertTfError: the file cannot be read, is damaged or of other vectors.
    """

    def __init__(self, path, count):
        faiss = library()
        with files.explained("read", path), open(path, "rb") as stream:
            try:
                self._index = faiss.read_index(faiss.PyCallbackIOReader(stream.read))
            except RuntimeError as error:
                raise BertTfError(explain(f"{path} is damaged",
                                          attempt="building the index again")) from error
        if self._index.ntotal != count:
            raise BertTfError(explain(f"{path} holds {self._index.ntotal} vectors", f"{count}",
                                      "building the index again"))
        self._faiss = faiss

    def candidates(self, queries, k, probes):
        """Return int64 `[q, k]`, rows in no particular order, -1 where there are fewer.

        Args:
            queries: float32 `[q, width]` of length 1.
            k: candidates of a query.
            probes: lists that are scanned for it.
        """
        parameters = self._faiss.SearchParametersIVF(nprobe=min(probes, self._index.nlist))
        return self._index.search(_padded(queries, self._index.d), k, params=parameters)[1]


def nearest_bits(queries, arrays, k):
    """Return the rows of packed bits that differ least from each query's, int64 `[q, k]`.

    Args:
        queries: uint8 `[q, bytes]`.
        arrays: list of uint8 `[n, bytes]`, one after the other.
        k: rows of a query; all where there are fewer.
    """
    faiss = library()
    best, start = np.zeros((len(queries), 0), np.int64), 0
    for array in arrays:
        distances, rows = faiss.knn_hamming(queries, np.ascontiguousarray(array),
                                            min(k, len(array)))
        # As one number, by which the nearest come first, of equally near ones the earlier row.
        found = (distances.astype(np.int64) << _ROW_BITS) + rows + start
        best = np.sort(np.concatenate([best, found], 1), axis=1)[:, :k]
        start += len(array)
    return best & ((1 << _ROW_BITS) - 1)


def _padded(vectors, width):
    """Return vectors contiguous, with zeros up to a width."""
    missing = width - vectors.shape[1]
    vectors = np.pad(vectors, ((0, 0), (0, missing))) if missing else vectors
    return np.ascontiguousarray(vectors, np.float32)
