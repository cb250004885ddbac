"""Ask a served model, from TensorFlow Serving or `python -m bert_tf.serve`.

    python -m bert_tf.query bert_tiny "The capital of France is [MASK]."
    python -m bert_tf.query squad "The Seine flows through Paris." --question "Where is the Seine?"
    python -m bert_tf.query reranker --query "Where is the Seine?" < passages.txt
    python -m bert_tf.query reviews --address http://localhost:8501 --format json < reviews.txt

What is asked follows from the model: a question answered, a label or a number, entities, a
continuation, masks filled in where they are written in the text, else the vector; `--signature`
asks any other. With `--query` the texts are ranked by it, by a reranker's scores or by vectors.
Without TEXT the lines of standard input are read; of pairs, unless --pair is given, two texts with
a tab between them. The first lines, 8 requests of them, decide whether masks are filled in.
"""

import base64
import itertools
import json
import sys

from bert_tf import cli
from bert_tf.errors import UsageError, explain, print_note
from bert_tf.options import ABOVE_0
from bert_tf.serving.wire.key_file import read_keys
from bert_tf.serving.wire.results import outputs_of, plain, preferred, results_by_name
from bert_tf.storage import files

_MASKS = ("[MASK]", "<mask>")
_AT_ONCE = 8  # batches between which results are printed
_SHOWN = 4  # numbers of a vector that a table shows


def _parser():
    parser = cli.Parser("query", __doc__)
    add = parser.add_argument
    add("model", metavar="MODEL", help="its name on the server")
    add("texts", metavar="TEXT", nargs="*", help="what is asked about, of a question the text that "
        "its answer is in (default: lines of standard input)")
    add("--pair", metavar="TEXT", help="the second text, beside each TEXT")
    add("--question", metavar="TEXT", help="what each TEXT is asked")
    add("--query", metavar="TEXT", help="what the TEXTs are ranked by, all of them together")
    add("--signature", metavar="NAME", help="one of the model's signatures")
    add("--address", default="localhost:8500",
        help="host:port for gRPC, http://host:port or https://host:port for REST")
    version = parser.add_mutually_exclusive_group()
    version.add_argument("--version", type=cli.natural, help="of the model (default: the latest)")
    version.add_argument("--label", help="name of a version in the server's configuration")
    add("--format", choices=("table", "json"), default="table", help="json: a line for each text")
    add("--timeout", type=cli.within(ABOVE_0), default=60.0, help="seconds for each request")
    add("--batch_size", type=cli.positive, default=32, help="texts of a request")
    add("--pretokenize", choices=("morphemes", "none"),
        help="whether text is split into Korean morphemes (default: as the model says)")
    add("--tls", action="store_true", help="an encrypted gRPC connection")
    for name, about in (("ca_file", "PEM certificates to check the server's with"),
                        ("cert_file", "PEM certificate of the client"),
                        ("key_file", "its PEM key"),
                        ("api_key_file", "a file with a key, where the server asks for one")):
        add(f"--{name}", type=cli.path, metavar="FILE", help=about)
    return parser


@cli.nothing_kept()
def main(argv=None):
    arguments = _parser().parse_args(argv)
    with cli.serving_extra():
        from bert_tf.serving.client import Client, Tls
    keys = arguments.ca_file, arguments.cert_file, arguments.key_file
    with Client(arguments.address, arguments.model, version=arguments.version,
                label=arguments.label, timeout=arguments.timeout,
                batch_size=arguments.batch_size, pretokenize=arguments.pretokenize,
                tls=Tls(*keys) if arguments.tls or any(keys) else None,
                api_key=arguments.api_key_file and read_keys(arguments.api_key_file)[0]) as client:
        texts = iter(arguments.texts or files.read_standard_input())
        if arguments.query is not None:
            _rank(client, arguments, list(texts))
            return
        signatures = client.metadata()["signatures"]
        first = list(itertools.islice(texts, arguments.batch_size * _AT_ONCE))
        ask = _asker(client, signatures, arguments, first)
        while first:
            for text, result in zip(first, ask(first), strict=True):
                _print(text, result, arguments.format)
            first = list(itertools.islice(texts, arguments.batch_size * _AT_ONCE))


def _rank(client, arguments, texts):
    """Print the texts, the best first."""
    for flag in ("pair", "question", "signature"):
        if getattr(arguments, flag) is not None:
            raise UsageError(explain(f"--query and --{flag}", "one of them"))
    for rank, row in enumerate(client.rank(arguments.query, texts), 1):
        if arguments.format == "json":
            print(json.dumps(row, ensure_ascii=False))
        else:
            print(f"{rank}. {row['score']:.4f}  {row['text']}")


def _asker(client, signatures, arguments, texts):
    """Return a function from a list of texts to as many dicts."""
    description = client.describe() if "describe" in signatures else {}
    results = {name: description.get("results", {}).get(name) or results_by_name(each["outputs"])
               for name, each in signatures.items()}
    name = arguments.signature or _chosen(signatures, results, description, arguments, texts)
    if name not in signatures:
        raise UsageError(explain(f"--signature {name}", f"one of {' '.join(signatures)}"))
    inputs = signatures[name]["inputs"].keys()
    if "question" in inputs and arguments.question is None:
        raise UsageError(explain(f"{arguments.model} answers questions", "--question"))
    given = {"pair": {"text_a", "text_b"}, "question": {"question", "context"}}
    for flag, names in given.items():
        if getattr(arguments, flag) is not None and inputs != names:
            raise UsageError(explain(f"--{flag} for the signature {name}",
                                     f"its inputs alone: {' '.join(inputs)}"))
    if inputs not in ({"text"}, *given.values()):
        raise UsageError(explain(f"--signature {name} takes {' '.join(inputs)}",
                                 "a signature of text"))
    if texts and not (arguments.texts or arguments.signature):
        print_note(f"every line is asked of the signature {name}", file=sys.stderr)

    def columns(lines):
        if inputs == {"text"}:
            return {"text": lines}
        if "question" in inputs:
            return {"question": [arguments.question] * len(lines), "context": lines}
        return dict(zip(("text_a", "text_b"), _pairs(lines, arguments.pair), strict=True))

    return lambda lines: [_values(results[name], row)
                          for row in client.predict(name, **columns(lines))]


def _pairs(lines, second):
    """Return two lists of texts: of `second` beside each line, or of lines with a tab."""
    if second is not None:
        return lines, [second] * len(lines)
    split = [line.split("\t") for line in lines]
    for line, parts in zip(lines, split, strict=True):
        if len(parts) != 2:
            raise UsageError(explain(f"the text {line[:40]!r} for a model of pairs",
                                     "--pair, or two texts with a tab between them"))
    return tuple(map(list, zip(*split, strict=True)))


def _values(results, row):
    """A row's results; of labels and single spans the parts, of tokens and vectors the outputs."""
    values = {}
    for name, result in results.items():
        if result["kind"] in ("tokens", "vector", "vectors"):
            values |= {output: row[output] for output in outputs_of(result)}
        elif result["kind"] in ("label", "span"):
            values |= plain(result, row)
        else:
            values[name] = plain(result, row)
    shown = {output for result in results.values() for output in outputs_of(result)}
    return {**values, **{output: value for output, value in row.items() if output not in shown}}


def _chosen(signatures, results, description, arguments, texts):
    """Return the name of the signature that suits what was given, see `preferred`."""
    inputs = {"text"}
    if arguments.question is not None or any("question" in each["inputs"]
                                             for each in signatures.values()):
        inputs = {"question", "context"}
    elif arguments.pair is not None or description.get("pair"):
        inputs = {"text_a", "text_b"}
    has_mask = any(mask in text for text in texts
                   for mask in (*_MASKS, description.get("mask_token") or _MASKS[0]))
    for name in preferred(results):
        kinds = {result["kind"] for result in results[name].values()}
        if signatures[name]["inputs"].keys() == inputs and name != "serving_default" and (
                has_mask or "candidates" not in kinds):
            return name
    return "serving_default"


def _print(text, result, form):
    if form == "json":
        print(json.dumps({"text": text, **result}, ensure_ascii=False, default=_jsonable))
        return
    print(text)
    for line in _lines(result):
        print("  " + line)


def _jsonable(value):
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value.tolist()


def _lines(result):
    """A result for people: one line for each name, for each entry of a list of dicts."""
    for name, value in result.items():
        if name == "masks":
            for number, found in enumerate(value, 1):
                yield f"mask {number}: " + ", ".join(
                    f"{each.get('text') or each['token']} {each['score']:.3f}" for each in found)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for each in value:
                yield f"{name}: " + ", ".join(f"{key} {_shown(of)}" for key, of in each.items())
        elif isinstance(value, dict):
            yield f"{name}: " + ", ".join(f"{key} {_shown(of)}" for key, of in value.items())
        else:
            yield f"{name}: {_shown(value)}"


def _shown(value):
    if isinstance(value, float):
        return f"{value:.4g}"
    if hasattr(value, "ndim"):
        numbers = " ".join(f"{number:.4g}" for number in value.flat[:_SHOWN])
        more = " …" if value.size > _SHOWN else ""
        return f"[{numbers}{more}] {' x '.join(map(str, value.shape))}"
    return "-" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(cli.run(main))
