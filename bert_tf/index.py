"""Build an index of a corpus and search it.

    python -m bert_tf.index build --model runs/embedder --corpus passages.tsv --output indexes/wiki
    python -m bert_tf.index search indexes/wiki "Where is the Seine?" --k 5
    python -m bert_tf.index search indexes/wiki --format json < queries.txt

A corpus is TSV, CSV, JSONL (id, text, title), text with a passage a line, or SQuAD's JSON. What the
model gives is stored in shards, so that an interrupted build resumes: a vector for each passage, as
float32, int8 or bits, weights of tokens, or a vector for each token. Of vectors of passages search
is approximate from 50,000 on (faiss), unless --exact; docs/search.md has the figures.
"""

import dataclasses
import functools
import itertools
import json
import sys

from bert_tf import cli, cores, side_by_side
from bert_tf.data.table_form import is_table
from bert_tf.data.table_options import CorpusOptions
from bert_tf.data.tables import has_column, id_prefixes
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.models.find import model_digest
from bert_tf.options import POSITIVE, REQUIRED, SeedOptions, WriteOptions, option, takes
from bert_tf.retrieval.codes import PRECISIONS
from bert_tf.storage import files, hub, locks, manifest

ACTIONS = {"build": "Build an index of a corpus, or what of it is not there yet.",
           "search": "Find the passages of an index that are nearest to queries."}
_AT_ONCE = 256  # queries between which results are printed
_SHOWN = 100  # characters of a passage in a table


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndexConfig(CorpusOptions, WriteOptions, SeedOptions):
    """What `bert_tf.build_index` builds, and of what."""

    model: str = option(
        REQUIRED, "whose vectors: folder of a finetune run, model folder, version of a SavedModel, "
                  "or what convert reads", metavar="PATH")
    corpus: tuple[str, ...] = option(REQUIRED, "passages: tables, JSON, text", metavar="GLOB")
    output: str = option(REQUIRED, "folder of the index", metavar="DIR")
    precision: str = option("float32", "how vectors are stored: int8, calibrated by the first "
                            "shard; bits, found by bits and rescored by int8 (not of tokens)",
                            choices=PRECISIONS)
    dimensions: int | None = option(
        None, "components of a vector that are kept, the first ones", POSITIVE)
    approximate: bool | None = option(
        None, "build the structure of approximate search",
        otherwise="from 50,000 passages on, but not of bits")
    dtype: str | None = option(None, "what the model computes in",
                               choices=("float32", "bfloat16"), otherwise="float32")
    shard_size: int | None = option(None, "passages of a shard", POSITIVE,
                                    otherwise="16384, of a vector for each token 1024")


@takes(IndexConfig)
def build_index(config):
    """Build an index, unless it is there.

    Args:
        config: `IndexConfig`, or its fields as keyword arguments.

    Returns: the folder.

    Raises:
        UsageError: options contradict each other or the model, or another index is there.
        BertTfError: the corpus is damaged or empty, or a vector is not finite.
    """
    from bert_tf.index_kinds import kind_of_model
    from bert_tf.retrieval import build_index as builder
    from bert_tf.retrieval.corpus import IDS, read_corpus

    builder.refuse_store(config.output)
    paths, kind = files.expand(config.corpus), kind_of_model(config)
    if config.shard_size is None:
        config = config.replace(shard_size=kind.shard_size)
    digest = model_digest(config.model)
    # Where files are does not matter, what they hold does.
    options = {name: value for name, value in config.stored().items()
               if name not in ("output", "corpus", "model")} | {"model_digest": digest}
    if len(paths) > 1 and "id" not in config.columns():
        nameless = [prefix for path, prefix in zip(paths, id_prefixes(paths), strict=True) if not (
            is_table(path) and any(has_column(path, name, config.form()) for name in IDS))]
        if nameless:  # whose passages have ids with the names of the files
            options["file_names"] = manifest.fingerprint(nameless)
    with locks.held(config.output):
        made = builder.build_index(
            config.output, options, paths, lambda: kind.stored(config),
            {"model": config.model if hub.repository(config.model)
             else files.absolute(config.model)}, config.overwrite, config.verify_inputs,
            functools.partial(read_corpus, form=config.form(), columns=config.columns()))
    print(f"{made['passages']:,} passages in {config.output}")
    return config.output


def open_index(path, model=None, verify=None):
    """Open an index for searching by text, and by what its model makes of text.

    Args:
        path: the folder that `bert_tf.index build` wrote.
        model: the model that it was built by, where it is not any more where it was then.
        verify: see `StoredIndex`.

    Returns: a `VectorIndex`, `SparseIndex` or `MultiVectorIndex`. The model is read when text is
        searched first.

    Raises:
        UsageError: there is no index, or the model is another one.
        BertTfError: a file is missing or damaged.
    """
    from bert_tf.index_kinds import kind_of_index

    kind, of_queries = kind_of_index(path), None

    def of_texts(texts):
        nonlocal of_queries
        of_queries = of_queries or _of_queries(kind, index, model)
        return of_queries(texts)

    index = kind.index(path, of_texts, verify)
    if model is not None:
        _check_model(index, model)
    return index


def _of_queries(kind, index, model):
    model = model or index.manifest.get("model", "")
    _check_model(index, model)
    return kind.of_queries(model, index.manifest["options"].get("dtype"))


def _check_model(index, model):
    if model_digest(model) != index.manifest["options"].get("model_digest"):
        raise UsageError(explain(
            f"{model} is not the model that {index.folder} was built by",
            f"{index.manifest.get('model')} as it was then", "building the index again"))


def _search_parser():
    parser = cli.Parser("index search", ACTIONS["search"])
    add = parser.add_argument
    add("index", metavar="DIR", help="folder of the index")
    add("texts", metavar="TEXT", nargs="*", help="queries (default: lines of standard input)")
    add("--model", metavar="PATH", help="the model it was built by, where that was moved")
    add("--k", type=cli.positive, default=10, help="passages of a query")
    vectors = parser.add_argument_group("of an index of vectors")
    vectors.add_argument("--exact", action="store_true", default=None,
                         help="compare with every vector")
    vectors.add_argument("--rescore", type=cli.positive, help="candidates of an approximate "
                         "search, and of bits, for each passage (default: 10)")
    vectors.add_argument("--probes", type=cli.positive, help="lists that an approximate search "
                         "scans (default: 128)")
    add("--format", choices=("table", "json"), default="table", help="json: a line for each query")
    add("--verify", action="store_true", help="compare all files with their checksums first")
    return parser


def _parser():
    return cli.parser_of("index build", ACTIONS["build"], IndexConfig)


@cli.nothing_kept()
def _search(argv):
    arguments = _search_parser().parse_args(argv)
    index = open_index(arguments.index, arguments.model, arguments.verify or None)
    options = {name: value for name in ("exact", "rescore", "probes")
               if (value := getattr(arguments, name)) is not None}
    texts = iter(arguments.texts or filter(str.strip, files.read_standard_input()))
    while part := list(itertools.islice(texts, _AT_ONCE)):
        found = index.search(part, arguments.k, **options)
        for text, passages in zip(part, found, strict=True):
            if arguments.format == "json":
                print(json.dumps({"query": text, "passages": passages}, ensure_ascii=False))
                continue
            print(text)
            for passage in passages:
                shown = " ".join(f"{passage['title']} {passage['text']}".split())
                shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN - 1] + "…"
                print(f"  {passage['score']:.4f}  {passage['id']}  {shown}")


def main(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help"):
        print(f"usage: python -m bert_tf.index {{{','.join(ACTIONS)}}} …\n\n{__doc__}\n"
              "build --help and search --help tell more.")
        return 0 if argv else 2
    if argv == ["--version"]:
        cli.Parser("index", __doc__).parse_args(argv)
    if check_choice("action", argv[0], ACTIONS) == "search":
        _search(argv[1:])
        return 0
    config = IndexConfig(**vars(_parser().parse_args(argv[1:])))
    side_by_side.set_threads(cores.usable())
    build_index(config)
    return 0


if __name__ == "__main__":
    sys.exit(cli.run(main))
