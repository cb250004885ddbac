"""Search among vectors: our index against faiss used plainly, and what small vectors cost.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/vector_search.py --model MODEL \
        --lines en_mixed.txt.gz --work DIR
    python benchmarks/vector_search.py --model MODEL --squad small_train.json small_dev.json

The first makes --count vectors from those of --sentences lines, each the mixture of two of them,
and asks for the 10 nearest to lines that are not among these. Times are of the process' CPU, of one
thread as above, so that other work on the machine changes them little; medians of
--rounds. The second measures MRR@10 of SQuAD's questions by vectors stored in several ways.
"""

import argparse
import itertools
import json
import os
import statistics
import time

import faiss
import numpy as np

from bert_tf.embedder import Embedder
from bert_tf.retrieval.build_index import build_index
from bert_tf.retrieval.codes import VectorCode
from bert_tf.retrieval.metrics import ranking_metrics
from bert_tf.retrieval.search import of_length_1, search
from bert_tf.retrieval.vector_index import StoredVectors, VectorIndex
from bert_tf.storage import files, manifest
from bert_tf.tasks.base.query_files import read_queries

_K = 10
_QUERIES = 1000
_SHORTEST = 40  # characters of a line


def sentence_vectors(model, lines, count, work):
    """Vectors of lines drawn by seed 0, float32 `[count, width]` of length 1; kept in `work`."""
    path = os.path.join(work, f"sentences-{count}.npy")
    if not os.path.exists(path):
        texts = [line for line in files.read_lines(lines) if len(line) > _SHORTEST]
        drawn = np.random.default_rng(0).permutation(len(texts))[:count]
        vectors = Embedder(model, "bfloat16").vectors([texts[row] for row in drawn])
        with files.atomic_path(path) as temporary, open(temporary, "wb") as stream:
            np.save(stream, of_length_1(vectors))
    return np.load(path)


def mixtures(vectors, count, path):
    """A memory-mapped array of `count` mixtures of two vectors, the second with a weight of up to
    0.7, of length 1."""
    if not os.path.exists(path):
        generator = np.random.default_rng(1)
        with files.atomic_path(path) as temporary:
            made = np.lib.format.open_memmap(temporary, "w+", np.float32,
                                             (count, vectors.shape[1]))
            for start in range(0, count, 1 << 16):
                n = min(1 << 16, count - start)
                first, second = generator.integers(0, len(vectors), (2, n))
                weights = generator.uniform(0, 0.7, (n, 1)).astype(np.float32)
                made[start:start + n] = of_length_1(vectors[first] + weights * vectors[second])
            made.flush()
    return np.load(path, mmap_mode="r")


def seconds(function, rounds):
    """Median seconds of CPU of `function`, and what it returned."""
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        found = function()
        times.append(time.process_time() - begun)
    return statistics.median(times), found


def recall(rows, expected):
    return float(np.mean([len(set(a) & set(b)) / _K for a, b in zip(rows.tolist(),
                                                                    expected.tolist(),
                                                                    strict=True)]))


def speed(arguments):
    """Rows of a table: name, queries a second of CPU, recall@10, seconds to build, bytes a
    vector."""
    # What is kept is of this model and these lines.
    work = files.make_folder(os.path.join(arguments.work, manifest.fingerprint(
        [arguments.model, arguments.lines, arguments.sentences])))
    sentences = sentence_vectors(arguments.model, arguments.lines, arguments.sentences + _QUERIES,
                                 work)
    queries = np.ascontiguousarray(sentences[:_QUERIES])
    vectors = mixtures(sentences[_QUERIES:], arguments.count,
                       os.path.join(work, f"mixtures-{arguments.count}.npy"))
    del sentences
    corpus = os.path.join(work, f"corpus-{arguments.count}.txt")
    if not os.path.exists(corpus):
        files.write_text(corpus, "".join(f"{number}\n" for number in range(arguments.count)))
    spent, (_, expected) = seconds(lambda: faiss.knn(queries, vectors, _K,
                                                     faiss.METRIC_INNER_PRODUCT), arguments.rounds)

    def row(name, spent, rows, built, size):
        line = {"name": name, "queries_per_cpu_second": round(_QUERIES / spent, 1),
                "recall@10": round(recall(rows, expected), 4), "build_cpu_seconds": round(built, 1),
                "bytes": size}
        print(json.dumps(line), flush=True)
        return line

    width = vectors.shape[1]
    lines = [row("faiss Flat", spent, expected, 0, 4 * width)]
    for precision in arguments.precisions:
        folder = os.path.join(work, f"index-{arguments.count}-{precision}")
        options = {"dimensions": None, "precision": precision, "shard_size": 1 << 16, "seed": 1,
                   "approximate": precision == "float32"}
        begun = time.process_time()
        stored = StoredVectors(options, lambda passages: vectors[
            int(passages[0].text):int(passages[-1].text) + 1])
        build_index(folder, options, [corpus], lambda stored=stored: stored, {})
        built = time.process_time() - begun
        index = VectorIndex(folder, verify=False)
        settings = [(True, 10, 1)] if precision != "bits" else [(True, 10, 1), (True, 50, 1)]
        if precision == "float32":
            settings += [(False, rescore, probes) for rescore, probes in itertools.product(
                (10, 20), (64, 128, 256))]
        for exact, rescore, probes in settings:
            spent, (_, rows) = seconds(lambda index=index, exact=exact, rescore=rescore,
                                       probes=probes: index.search_vectors(
                queries, _K, exact, rescore, probes), arguments.rounds)
            name = f"bert_tf {precision} " + (
                "exact" if exact and precision != "bits" else f"rescore {rescore}" + (
                    "" if exact else f" probes {probes}"))
            size = {"float32": 4 * width, "int8": width, "bits": width // 8 + width}[precision]
            lines.append(row(name, spent, rows, built, size + (0 if exact else width // 8)))
    for spec in arguments.faiss:
        begun = time.process_time()
        index = faiss.index_factory(width, spec, faiss.METRIC_INNER_PRODUCT)
        drawn = np.sort(np.random.default_rng(1).choice(
            len(vectors), min(len(vectors), 262_144), replace=False))
        index.train(vectors[drawn])
        for start in range(0, len(vectors), 1 << 16):
            index.add(np.ascontiguousarray(vectors[start:start + (1 << 16)]))
        built = time.process_time() - begun
        for effort in (16, 64, 128, 256):
            if spec.startswith("HNSW"):
                index.hnsw.efSearch = effort
            else:
                faiss.extract_index_ivf(index).nprobe = effort
            spent, (_, rows) = seconds(lambda index=index: index.search(queries, _K),
                                       arguments.rounds)
            lines.append(row(f"faiss {spec} effort {effort}", spent, rows, built, None))
        del index
    return lines


def quality(arguments):
    """MRR@10 of SQuAD's questions among the paragraphs of all files, by stored vectors."""
    examples = [example for path in arguments.squad for example in read_queries(path)]
    passages = list(dict.fromkeys(each.positives[0] for each in examples))
    place = {text: row for row, text in enumerate(passages)}
    embedder = Embedder(arguments.model)
    vectors = of_length_1(embedder.vectors(passages))
    queries = of_length_1(embedder.vectors([each.query for each in examples], "query"))
    relevant = [place[each.positives[0]] for each in examples]

    def mrr(rows):
        found = [[int(row == right) for row in of_query]
                 for of_query, right in zip(rows.tolist(), relevant, strict=True)]
        return ranking_metrics(found, [[1]] * len(found), [_K])["mrr@10"]

    lines = []
    base = None
    for dimensions, precision, rescore in [
            (None, "float32", None), (None, "int8", None), (None, "bits", None),
            (None, "bits", 2), (None, "bits", 4), (None, "bits", 10), (192, "float32", None),
            (192, "int8", None), (96, "float32", None)]:
        code = VectorCode(dimensions, precision).calibrated(vectors)
        asked = VectorCode(dimensions).encode(queries)
        stored = code.decode(code.encode(vectors))
        if precision == "bits":
            bits = VectorCode(precision="bits")
            asked_bits = bits.decode(bits.encode(asked))
            rows = search(asked_bits, stored, _K * (rescore or 1), "dot")[1]
            if rescore:
                eight = VectorCode(dimensions, "int8").calibrated(vectors)
                exact = eight.decode(eight.encode(vectors))
                scores = np.einsum("qd,qkd->qk", asked, exact[rows])
                rows = np.take_along_axis(rows, np.argsort(-scores, 1, kind="stable"), 1)[:, :_K]
        else:
            rows = search(asked, stored, _K, "dot")[1]
        value = mrr(rows)
        base = base or value
        lines.append({"dimensions": dimensions or vectors.shape[1], "precision": precision,
                      "rescore": rescore, "mrr@10": round(value, 4), "kept": round(value / base, 4),
                      "bytes": code.encode(vectors[:1]).nbytes})
        print(json.dumps(lines[-1]), flush=True)
    return {"questions": len(examples), "paragraphs": len(passages), "rows": lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="an embedder, such as all-MiniLM-L6-v2")
    parser.add_argument("--lines", help="text, a sentence a line")
    parser.add_argument("--sentences", type=int, default=79_000)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--work", default="vector_search", help="folder for vectors and indexes")
    parser.add_argument("--precisions", nargs="*", default=["float32", "int8", "bits"])
    parser.add_argument("--faiss", nargs="*", default=["IVF4096,PQ96x4fs", "IVF4096,SQ8"])
    parser.add_argument("--squad", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", help="JSON file")
    arguments = parser.parse_args()
    if not arguments.lines and not arguments.squad:
        parser.error("nothing to measure: --lines, --squad or both")
    results = {}
    if arguments.squad:
        results["quality"] = quality(arguments)
    if arguments.lines:
        results["speed"] = speed(arguments)
    if arguments.output:
        files.write_json(arguments.output, results)


if __name__ == "__main__":
    main()
