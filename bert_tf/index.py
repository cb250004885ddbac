"""Build an index of a corpus and search it.

    python -m bert_tf.index build --model runs/embedder --corpus passages.tsv --output indexes/wiki
    python -m bert_tf.index search indexes/wiki "Where is the Seine?" --k 5
    python -m bert_tf.index search indexes/wiki --format json < queries.txt

A corpus is TSV, CSV, JSONL (id, text, title), text with a passage a line, or SQuAD's JSON. Its
vectors are stored as float32, int8 or bits in shards, so that an interrupted build resumes. From
50,000 passages on search is approximate (faiss), unless --exact; docs/search.md has the figures.
"""

import dataclasses
import itertools
import json
import sys

from bert_tf import cli
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.options import POSITIVE, REQUIRED, SeedOptions, WriteOptions, option, takes
from bert_tf.retrieval.codes import PRECISIONS
from bert_tf.storage import files, hub, locks

ACTIONS = {"build": "Build an index of a corpus, or what of it is not there yet.",
           "search": "Find the passages of an index that are nearest to queries."}
_AT_ONCE = 256  # queries between which results are printed
_SHOWN = 100  # characters of a passage in a table


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndexConfig(WriteOptions, SeedOptions):
    """What `bert_tf.build_index` builds, and of what."""

    model: str = option(
        REQUIRED, "whose vectors: folder of a finetune run, model folder, version of a SavedModel, "
                  "or what convert reads", metavar="PATH")
    corpus: tuple[str, ...] = option(REQUIRED, "passages: tables, JSON, text", metavar="GLOB")
    output: str = option(REQUIRED, "folder of the index", metavar="DIR")
    precision: str = option("float32", "how vectors are stored: int8, calibrated by the first "
                            "shard; bits, found by bits and rescored by int8", choices=PRECISIONS)
    dimensions: int | None = option(
        None, "components of a vector that are kept, the first ones", POSITIVE)
    approximate: bool | None = option(
        None, "build the structure of approximate search",
        otherwise="from 50,000 passages on, but not of bits")
    dtype: str | None = option(None, "what the model computes in",
                               choices=("float32", "bfloat16"), otherwise="float32")
    shard_size: int = option(16384, "passages of a shard", POSITIVE)


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
    from bert_tf.embedder import model_digest
    from bert_tf.retrieval import build_index as builder

    paths = files.expand(config.corpus)
    digest = model_digest(config.model)
    # Where files are does not matter, what they hold does.
    options = {name: value for name, value in config.stored().items()
               if name not in ("output", "corpus", "model")} | {"model_digest": digest}
    with locks.held(config.output):
        made = builder.build_index(
            config.output, options, paths, lambda: _of_passages(config),
            {"model": config.model if hub.repository(config.model)
             else files.absolute(config.model)}, config.overwrite, config.verify_inputs)
    print(f"{made['passages']:,} passages in {config.output}")
    return config.output


def _of_passages(config):
    """Return a function from a list of passages to their vectors."""
    from bert_tf.embedder import Embedder

    embedder = Embedder(config.model, config.dtype)
    return lambda passages: embedder.vectors([passage.content for passage in passages])


def open_index(path, model=None, verify=None):
    """Open an index for searching by text and by vectors.

    Args:
        path: the folder that `bert_tf.index build` wrote.
        model: the model that it was built by, where it is not any more where it was then.
        verify: see `VectorIndex`.

    Returns: a `VectorIndex`. The model is read when text is searched first.

    Raises:
        UsageError: there is no index, or the model is another one.
        BertTfError: a file is missing or damaged.
    """
    from bert_tf.retrieval.vector_index import VectorIndex

    embedder = None

    def embed(texts):
        nonlocal embedder
        embedder = embedder or _embedder(index, model)
        return embedder.vectors(texts, "query")

    index = VectorIndex(path, embed, verify)
    if model is not None:
        _check_model(index, model)
    return index


def _embedder(index, model):
    from bert_tf.embedder import Embedder

    model = model or index.manifest.get("model", "")
    _check_model(index, model)
    return Embedder(model, index.manifest["options"].get("dtype"))


def _check_model(index, model):
    from bert_tf.embedder import model_digest

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
    add("--exact", action="store_true", help="compare with every vector")
    add("--rescore", type=cli.positive, default=10,
        help="candidates of an approximate search, and of bits, for each passage")
    add("--probes", type=cli.positive, default=128, help="lists that an approximate search scans")
    add("--format", choices=("table", "json"), default="table", help="json: a line for each query")
    add("--verify", action="store_true", help="compare all files with their checksums first")
    return parser


def _parser():
    return cli.parser_of("index build", ACTIONS["build"], IndexConfig)


@cli.nothing_kept()
def _search(argv):
    arguments = _search_parser().parse_args(argv)
    index = open_index(arguments.index, arguments.model, arguments.verify or None)
    texts = iter(arguments.texts or files.read_standard_input())
    while part := list(itertools.islice(texts, _AT_ONCE)):
        found = index.search(part, arguments.k, arguments.exact, arguments.rescore,
                             arguments.probes)
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
    build_index(IndexConfig(**vars(_parser().parse_args(argv[1:]))))
    return 0


if __name__ == "__main__":
    sys.exit(cli.run(main))
