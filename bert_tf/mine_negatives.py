"""Mine hard negatives for queries: passages that are found and do not match.

    python -m bert_tf.mine_negatives --model runs/embedder --input pairs.tsv \\
        --corpus passages.tsv --output train.jsonl --relative_margin 0.05
    python -m bert_tf.mine_negatives --bm25 --input squad.json --corpus squad.json --output …

Input is what finetune --task embed and --task rank read; so is the output, JSONL of {"query",
"positive", "negatives"}, a line for each positive. Passages are searched by the vectors of a model,
by BM25, or, with both, by the fusion of both (reciprocal ranks, margins by vectors). The corpus's
vectors are kept beside the output, unless that is in an object store, until it is written: an
interrupted run resumes.
"""

import collections
import contextlib
import dataclasses
import functools
import os
import sys

import numpy as np
import tqdm

from bert_tf import cli, cores, side_by_side
from bert_tf.data.table_form import TableForm
from bert_tf.data.table_options import CorpusOptions
from bert_tf.data.text_copies import text_hashes
from bert_tf.errors import BertTfError, UsageError, explain, print_note
from bert_tf.models.find import model_digest
from bert_tf.options import POSITIVE, REQUIRED, Range, SeedOptions, WriteOptions, option, takes
from bert_tf.retrieval.bm25 import Bm25
from bert_tf.retrieval.corpus import read_corpus
from bert_tf.retrieval.fusion import reciprocal_rank_fusion
from bert_tf.retrieval.negatives import SAMPLINGS, NegativeRule
from bert_tf.retrieval.search import of_length_1, rescored, search
from bert_tf.storage import files, locks, manifest, staging

_RECORD, _WORK = ".manifest.json", ".vectors"  # after the output's name
_AT_ONCE = 1024  # queries that are searched together
_SHARD = 8192
_MARGIN = Range(float, lambda value: value >= 0, "a number of at least 0")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MineNegativesConfig(CorpusOptions, WriteOptions, SeedOptions):
    """What `bert_tf.mine_negatives` finds, and where."""

    input: str = option(REQUIRED, "queries and their positives", metavar="FILE")
    corpus: tuple[str, ...] = option(REQUIRED, "passages: tables, JSON, text", metavar="GLOB")
    output: str = option(REQUIRED, "JSONL", metavar="FILE")
    model: str | None = option(None, "model by whose vectors passages are searched",
                               metavar="PATH")
    bm25: bool = option(False, "search by BM25, alone or beside --model")
    negatives: int = option(5, "negatives of a positive", POSITIVE)
    first_rank: int = option(1, "rank of the first passage that may be one, positives left out",
                             POSITIVE)
    last_rank: int = option(100, "rank of the last", POSITIVE)
    margin: float | None = option(
        None, "how much lower than the positive's its score must be", _MARGIN)
    relative_margin: float | None = option(
        None, "the same as a fraction of the positive's score", _MARGIN)
    sampling: str = option("first", "of those that may be: the best ranked, or any",
                           choices=SAMPLINGS)
    dtype: str | None = option(None, "what the model computes in",
                               choices=("float32", "bfloat16"), otherwise="float32")

    def rule(self):
        """Return the `NegativeRule`."""
        return NegativeRule(self.negatives, self.first_rank, self.last_rank, self.margin,
                            self.relative_margin, self.sampling)


@takes(MineNegativesConfig)
def mine_negatives(config):
    """Mine hard negatives, unless they are there.

    Args:
        config: `MineNegativesConfig`, or its fields as keyword arguments.

    Returns: path of the output.

    Raises:
        UsageError: options contradict each other or the model, or the output is of other ones.
        BertTfError: a file is damaged, or no query has a negative.
    """
    config.rule()
    if config.model is None and not config.bm25:
        raise UsageError(explain("nothing to search by", "--model, --bm25 or both"))
    if config.model is None and config.dtype:
        raise UsageError(f"--dtype {config.dtype} without --model; omit it")
    if files.suffix(config.output) != ".jsonl" or files.is_compressed(config.output):
        raise UsageError(explain(f"--output {config.output}",
                                 "a name that ends with .jsonl: others are not read as JSON lines"))
    paths = files.expand(config.corpus)
    options = {name: value for name, value in config.stored().items() if name != "output"}
    if config.model is not None:
        options["model_digest"] = model_digest(config.model)
    record = config.output + _RECORD
    inputs = [config.input, *paths]
    if files.resolved(config.output) in map(files.resolved, inputs):
        raise UsageError(explain(f"--output {config.output} is one of the files that are read",
                                 attempt="another --output"))
    folder, name = os.path.split(config.output)
    with locks.held(folder or ".", name=name), _work(config.output) as work:
        if files.exists(config.output) and not files.exists(record) and not config.overwrite:
            raise UsageError(explain(f"{config.output} exists, from elsewhere",
                                     attempt="another --output, or --overwrite"))
        found = files.exists(config.output) and manifest.finished(
            record, options, inputs, config.overwrite, config.verify_inputs, config.output)
        if found:
            files.remove(work)  # of a command that was killed when all was there
            print(f"{config.output} is there already, from the same queries and options")
            _print_notes(found.get("notes", ()))
            return config.output
        mining = _Mining(config, paths, options.get("model_digest"), work)
        lines = mining.lines()
        # Where there are lines, what they were made of is there too.
        files.remove(config.output)
        notes = [*mining.notes, *(mining.bm25.notes if config.bm25 else ())]
        if left_out := sum(map(len, mining.positives.values())) - len(lines):
            notes.append(f"{left_out:,} positives without a negative are left out")
        manifest.write(record, options, inputs, notes=notes)
        files.write_json_lines(config.output, lines)
        files.remove(work)
    negatives = sum(len(line["negatives"]) for line in lines)
    print(f"{len(lines):,} positives with {negatives:,} negatives in {config.output}")
    _print_notes(notes)
    return config.output


@contextlib.contextmanager
def _work(output):
    """Yield the folder of the corpus's vectors, beside the output; of a store a local one, as they
    are mapped into memory."""
    if not files.is_remote(output):
        yield output + _WORK
        return
    with cli.nothing_kept(), staging.workspace() as folder:
        yield os.path.join(folder, _WORK)


class _Mining:
    def __init__(self, config, paths, digest, work):
        self.config, self.rule, self.notes = config, config.rule(), []
        self.read_corpus = functools.partial(read_corpus, form=config.form(),
                                             columns=config.columns())
        self.positives = self._read_queries()  # {query: {positive: None}}
        # Keys of texts that are no negatives, by that of the query; "" of a title alone.
        self.taken = collections.defaultdict(lambda: {_key("")})
        for query, texts in self.positives.items():
            self.taken[_key(query)].update(map(_key, (query, *texts)))
        embedder = None
        if config.model is not None:  # before there is any work to lose
            from bert_tf.embedder import Embedder

            embedder = Embedder(config.model, config.dtype)
        # Without titles, which few positives have; those are known by both.
        self.texts, self.rows, titled = [], {}, {}
        for passage in self.read_corpus(paths):
            key = _key(passage.text)
            if key not in self.rows:  # once: another one would take a negative's rank
                self.rows[key] = len(self.texts)
                self.texts.append(passage.text)
            if passage.title:
                titled[_key(passage.content)] = key
        self.keys = list(self.rows)
        for taken in self.taken.values():
            taken.update([titled[key] for key in taken & titled.keys()])
        self.rows = {key: self.rows[text] for key, text in titled.items()} | self.rows
        if config.bm25:
            self.bm25 = Bm25(self.texts, progress=True)
        if embedder is not None:
            self._embed(embedder, paths, digest, work)

    def _read_queries(self):
        from bert_tf.data.tables import BadRow
        from bert_tf.tasks.base.query_files import NoQueries
        from bert_tf.tasks.ranking.datasets import NothingRelevant, read_ranked

        positives, judged = {}, []
        # Columns and delimiters are those of the corpus.
        form = TableForm(encoding=self.config.encoding)
        try:
            for example in read_ranked(self.config.input, {}, form):
                if isinstance(example, NothingRelevant):
                    judged.append(example)
                    continue
                if isinstance(example, BadRow):
                    raise example
                positives.setdefault(example.query, {}).update(dict.fromkeys(example.positives))
        except NoQueries as error:  # columns are known by their names alone here
            raise NoQueries(error.path, error.names, "renaming it") from error
        if not positives:
            raise judged[0] if judged else BertTfError(
                explain(f"{self.config.input}: no query", "one or more"))
        if judged:
            self.notes.append(f"{len(judged):,} queries without a relevant passage are left out")
        return positives

    def _embed(self, embedder, paths, digest, work):
        """Compute the vectors of queries, positives and, on disk, the corpus."""
        from bert_tf.retrieval.build_index import build_index
        from bert_tf.retrieval.shards import Codes, shard_name
        from bert_tf.retrieval.vector_index import StoredVectors, stored_codes

        options = {"dimensions": None, "precision": "float32", "shard_size": _SHARD,
                   "approximate": False, "seed": 0, "texts": "without titles, once",
                   "model_digest": digest, "dtype": self.config.dtype,
                   **self.config.shared_with(CorpusOptions)}
        made = build_index(work, options, paths, lambda: StoredVectors(
            options, lambda passages: embedder.vectors([passage.text for passage in passages])),
            {}, overwrite=True, read=self._read_once)
        shards = [os.path.join(work, shard_name(number)) for number in range(made["shards"])]
        code = stored_codes(None, "float32", None)["float32"]
        self.vectors = Codes(shards, "float32", code.decode)
        texts = list(dict.fromkeys(text for each in self.positives.values() for text in each))
        self.of_positive = dict(zip(texts, of_length_1(embedder.vectors(texts)), strict=True))
        self.of_queries = of_length_1(embedder.vectors(list(self.positives), "query"))

    def _read_once(self, paths):
        """Yield the first passage of each text."""
        seen = set()
        for passage in self.read_corpus(paths):
            key = _key(passage.text)
            if key not in seen:
                seen.add(key)
                yield passage

    def lines(self):
        """Return the lines of the output."""
        queries, lines = list(self.positives), []
        generator = np.random.default_rng(self.config.seed)
        most = max(map(len, self.taken.values()))
        depth = min(len(self.texts), self.rule.last_rank + most)
        with tqdm.tqdm(desc="queries", total=len(queries), delay=2, leave=False) as bar:
            for start in range(0, len(queries), _AT_ONCE):
                part = queries[start:start + _AT_ONCE]
                for query, scores, rows, positive_scores in zip(
                        part, *self._found(part, start, depth), strict=True):
                    lines += self._lines_of(query, scores, rows, positive_scores, generator)
                bar.update(len(part))
        if not lines:
            raise BertTfError(explain(f"no negative for any of {len(queries)} queries",
                                      attempt="other ranks or a smaller margin"))
        return lines

    def _found(self, queries, start, depth):
        """Return for each query the scores and rows found, best first, and a dict of its
        positives' scores."""
        by_bm25 = self._by_bm25(queries, depth) if self.config.bm25 else None
        if self.config.model is None:
            return by_bm25
        vectors = self.of_queries[start:start + len(queries)]
        scores, rows = search(vectors, self.vectors, depth, "dot")
        if by_bm25 is not None:
            rows = reciprocal_rank_fusion([rows, by_bm25[1]], depth)[1]
            ordered = rescored(vectors, rows, self.vectors.__getitem__)
            scores = np.array([[known.get(row, -np.inf) for row in of_query]
                               for of_query, known in zip(rows, (
                                   dict(zip(of_query, values, strict=True)) for values, of_query
                                   in zip(*ordered, strict=True)), strict=True)])
        positives = [{text: float(vector @ self.of_positive[text])
                      for text in self.positives[query]}
                     for query, vector in zip(queries, vectors, strict=True)]
        return scores, rows, positives

    def _by_bm25(self, queries, depth):
        scores, rows = self.bm25.search(queries, depth)
        positives = [{} for _ in queries]
        if self.rule.has_margin and self.config.model is None:
            for query, of_query, all_scores in zip(queries, positives, self.bm25.scores(queries),
                                                   strict=True):
                for text in self.positives[query]:
                    row = self.rows.get(_key(text))
                    if row is None:
                        raise BertTfError(explain(
                            f"{query!r}: its positive {text[:60]!r} is not in the corpus, so that "
                            "it has no BM25 score", attempt="--model, or no margin"))
                    of_query[text] = float(all_scores[row])
        return scores, rows, positives

    def _lines_of(self, query, scores, rows, positive_scores, generator):
        taken = self.taken[_key(query)]
        kept = [place for place, row in enumerate(rows.tolist())
                if row >= 0 and self.keys[row] not in taken]
        for positive in self.positives[query]:
            places = self.rule.choose(scores[kept], positive_scores.get(positive, np.inf),
                                      generator)
            if len(places):
                yield {"query": query, "positive": positive,
                       "negatives": [self.texts[rows[kept[place]]] for place in places]}


def _print_notes(notes):
    for note in notes:
        print_note(note)


def _key(text):
    return int(text_hashes([text])[0])


def _parser():
    return cli.parser_of("mine_negatives", __doc__, MineNegativesConfig)


def main(argv=None):
    config = MineNegativesConfig(**vars(_parser().parse_args(argv)))
    if config.model is not None:
        side_by_side.set_threads(cores.usable())
    mine_negatives(config)


cli.make_callable(__name__, mine_negatives)

if __name__ == "__main__":
    sys.exit(cli.run(main))
