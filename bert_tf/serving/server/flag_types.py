"""Flags in the manner of `tensorflow_model_server`, and those of other servers' protocols."""

import argparse
import ipaddress

from bert_tf import cli
from bert_tf.errors import explain
from bert_tf.options import Range
from bert_tf.serving.apis.settings import MAX_TOKENS, NAMES

port = cli.within(Range(int, lambda value: 0 <= value < 2**16, "a port from 0 to 65535"))


def add(group, name, kind, default, about):
    """Add a flag `--name`; `kind` is a type of argparse's, bool for `--flag` or `--flag=false`."""
    is_number = kind in (int, float, port, cli.positive, cli.natural)
    if kind is bool:
        group.add_argument(f"--{name}", type=_truth, nargs="?", const=True, default=default,
                           metavar="true|false", help=about)
    else:
        group.add_argument(f"--{name}", type=kind, default=default, help=about,
                           metavar="N" if is_number else "TEXT")


def _truth(text):
    values = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in values:
        raise argparse.ArgumentTypeError(explain(text, "true or false"))
    return values[text.lower()]


def names(text):
    """An argument type: names with commas between them, a tuple."""
    found = tuple(name.strip() for name in text.split(",")) if text.strip() else ()
    if not all(found):
        raise argparse.ArgumentTypeError(explain(f"an empty name in {text!r}",
                                                 "names with a comma between two"))
    return found


def host(text):
    """An argument type: an address to listen on."""
    try:
        is_loopback(text)
    except ValueError:
        raise argparse.ArgumentTypeError(explain(
            text, "an IP address of this machine, or localhost")) from None
    return text


def is_loopback(host):
    """Whether an address is reached from this machine only."""
    return host == "localhost" or ipaddress.ip_address(host).is_loopback


def apis(text):
    """An argument type: names of protocols with commas, a tuple."""
    found = names(text)
    for name in found:
        if name not in NAMES:
            raise argparse.ArgumentTypeError(explain(name, " or ".join(NAMES)))
    return found


def add_apis(parser, default=()):
    """Add the flags of other servers' protocols; `default` of them are there without any."""
    group = parser.add_argument_group("protocols of other servers")
    group.add_argument(
        "--api", type=apis, default=",".join(default) or (), metavar="NAMES",
        help="openai (/v1/embeddings, /v1/models, and Cohere's /v1/rerank and /v2/rerank), tei "
             "(text-embeddings-inference: /embed, /embed_sparse, /rerank, /predict, /similarity, "
             "/info), or both with a comma; with either also /health")
    add(group, "api_key_file", cli.path, None, "keys, one on each line, of which clients must show "
        "one as Authorization: Bearer KEY, in every protocol; health and metrics need none")
    add(group, "max_request_tokens", cli.positive, MAX_TOKENS, "of a request in these protocols")
