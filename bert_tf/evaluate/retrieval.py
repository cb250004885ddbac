"""How well passages are found in a corpus: by a model, by BM25, by both, and reranked."""

import collections
import functools
import os
import re
import time

import numpy as np

from bert_tf.data.tables import composed
from bert_tf.embedder import Embedder, TermWeigher, TokenEmbedder, retriever_of
from bert_tf.errors import UsageError, explain
from bert_tf.evaluate.config import BM25
from bert_tf.evaluate.queries import read_retrieval
from bert_tf.evaluate.run import Evaluation
from bert_tf.evaluate.systems import Reranker, find, without
from bert_tf.finetune.results import PREDICTIONS
from bert_tf.finetune.trained_on import trained_on_notes
from bert_tf.models.find import deciding_files, find_model
from bert_tf.retrieval.bm25 import Bm25, library
from bert_tf.retrieval.fusion import reciprocal_rank_fusion, weighted_fusion
from bert_tf.retrieval.metrics import ranking_metrics
from bert_tf.retrieval.run_file import run_lines
from bert_tf.saved_model.source import RESULTS
from bert_tf.storage import files
from bert_tf.tasks.base.query_examples import QueryExample

RANKINGS = "rankings"  # folder of what each system found, as trec_eval reads it
_DEPTH, _RERANKED = 100, 50  # passages of a query: that are found, that a reranker reads
_SHOWN = 10  # of them in predictions.jsonl
_CUTOFFS = (1, 5, 10, 100)
_NAMES = {Embedder: "embedder", TermWeigher: "sparse", TokenEmbedder: "multi_vector"}


class RetrievalEvaluation(Evaluation):
    """An evaluation with `--task retrieval`; arguments: see `Evaluation`."""

    made = (RESULTS, PREDICTIONS, RANKINGS)

    def find(self):
        """See `Evaluation.find`."""
        options = self.options
        if options.reranker is None and options.rerank is not None:
            raise UsageError(explain("--rerank without --reranker", "both of them"))
        count, depth = options.rerank or 0, options.depth or _DEPTH
        if count > depth:
            raise UsageError(explain(f"--rerank {count} of {depth} passages that are found",
                                     attempt=f"--depth {count}"))
        if options.vector_weight is not None and options.model == BM25:
            raise UsageError("--vector_weight is for vectors beside BM25, and --model is bm25; "
                             "omit it")
        inputs = [options.data, *filter(None, [options.qrels]),
                  *files.expand(options.corpus or ())]
        self.runs = []
        for path in (None if options.model == BM25 else options.model, options.reranker):
            if path is not None:
                inputs += deciding_files(path)
                self.runs += filter(None, [find_model(path).run])
        return inputs

    def measure(self):
        """See `Evaluation.measure`; what is written are the queries and what was found."""
        options = self.options
        queries, passages, examples, left_out = read_retrieval(options)
        texts, contents = ([query.text for query in queries],
                           [passage.content for passage in passages])
        depth = min(options.depth or _DEPTH, len(passages))
        own = _own_texts(queries, passages)
        deeper = min(depth + max(map(len, own.values()), default=0), len(passages))
        found, seconds = {}, {}

        def add(name, system):
            started = time.monotonic()
            found[name] = system()
            seconds[name] = round(time.monotonic() - started, 1)

        # What is missing, or of no use, is refused before anything takes long.
        library()
        kind = None if options.model == BM25 else retriever_of(options.model)
        embedder = kind and kind(options.model)
        reranker = options.reranker and Reranker(options.reranker)
        if embedder:
            add(_NAMES[kind],
                lambda: without(find(embedder, texts, contents, deeper), own, depth))
        bm25 = functools.cache(lambda: Bm25(contents, progress=True))
        add(BM25, lambda: without(bm25().search(texts, deeper), own, depth))
        ranked, weight = list(found.values()), options.vector_weight
        weights = [1] if weight is None else [weight, 1 - weight]

        def fused(systems, weights):
            if weight is not None:
                return weighted_fusion(systems, weights, depth)
            return reciprocal_rank_fusion([rows for _, rows in systems], depth)

        first = "hybrid" if embedder else BM25
        if embedder:
            add(first, lambda: fused(ranked, weights))
        if reranker:
            reranked, count = f"{first} + reranker", options.rerank or _RERANKED
            add(reranked, lambda: reranker.rerank(texts, contents, found[first][1], count))
            read = [values[:, :count] for values in found[reranked]]  # the others have no score
            add(f"{reranked}, fused", lambda: fused(
                [*ranked, read], [*(2 / 3 * each for each in weights), 1 / 3]))
        systems = {name: self._metrics(queries, rows, depth) for name, (_, rows) in found.items()}
        known = examples or [
            QueryExample(query.id, query.text, tuple(passages[row].text for row in query.relevant))
            for query in queries]
        notes = bm25().notes + [note for run in self.runs for note in trained_on_notes(run, known)]
        return {"task": "retrieval", "metrics": next(iter(systems.values())), "systems": systems,
                "system_seconds": seconds, "bm25_terms": bm25().terms,
                "notes": notes, "examples": len(queries), "passages": len(passages),
                "left_out": left_out, "model": options.model,
                "seconds": round(time.monotonic() - self.started, 1), "command": self.command,
                }, (queries, passages, found)

    def write(self, queries, passages, found):
        """Write `predictions.jsonl`, the best passages of each query, and `rankings/`, all."""
        ids = [passage.id for passage in passages]
        files.write_json_lines(self.path(PREDICTIONS), ({
            "id": query.id, "query": query.text,
            "gold": {ids[row]: relevance for row, relevance in query.relevant.items()},
            "rankings": {name: [{"id": ids[row], "score": float(f"{score:.6g}")}
                                for score, row in zip(scores[number][:_SHOWN],
                                                      rows[number][:_SHOWN], strict=True)
                                if row >= 0] for name, (scores, rows) in found.items()},
        } for number, query in enumerate(queries)))
        folder = files.make_folder(self.path(RANKINGS))
        for name, (scores, rows) in found.items():
            slug = re.sub(r"\W+", "_", name)
            files.write_text(os.path.join(folder, f"{slug}.trec"), "".join(
                line + "\n" for line in run_lines(slug, [query.id for query in queries], ids,
                                                  scores, rows)))

    @staticmethod
    def _metrics(queries, rows, depth):
        relevances = [[query.relevant.get(row, 0) for row in ranked[ranked >= 0].tolist()]
                      for query, ranked in zip(queries, np.asarray(rows), strict=True)]
        return ranking_metrics(relevances, [list(query.relevant.values()) for query in queries],
                               [k for k in _CUTOFFS if k <= depth])


def _own_texts(queries, passages):
    """Return `{query: rows}` of passages that are its own text, and not relevant to it: nothing is
    as similar."""
    places = collections.defaultdict(list)
    for row, passage in enumerate(passages):
        places[composed(passage.text)].append(row)
    own = {number: [row for row in places.get(composed(query.text), ())
                    if row not in query.relevant]
           for number, query in enumerate(queries)}
    return {number: rows for number, rows in own.items() if rows}
