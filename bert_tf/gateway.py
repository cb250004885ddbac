"""Offer the protocols of OpenAI, Cohere and text-embeddings-inference for a TensorFlow Serving.

    python -m bert_tf.gateway --address=localhost:8500 --models=minilm,reranker --port=8080

`tensorflow_model_server` speaks gRPC and REST of its own; this process, which needs no TensorFlow,
asks it over gRPC. `python -m bert_tf.serve --api` has the same protocols without another process.
"""

import logging
import sys

from bert_tf import cli
from bert_tf.errors import UsageError, explain


def _parser():
    from bert_tf.serving.apis.settings import NAMES
    from bert_tf.serving.server import flag_types

    parser = cli.Parser("gateway", __doc__)
    group = parser.add_argument_group("the server behind it")
    group.add_argument("--address", default="localhost:8500", help="its host:port for gRPC")
    group.add_argument("--models", type=flag_types.names, required=True, metavar="NAMES",
                       help="of its models, with commas: it does not list them")
    group.add_argument("--tls", action="store_true", help="an encrypted connection")
    for name, about in (("ca_file", "PEM certificates to check the server's with"),
                        ("cert_file", "PEM certificate of this client"),
                        ("key_file", "its PEM key"),
                        ("server_key_file", "a file with the API key that it asks for")):
        group.add_argument(f"--{name}", type=cli.path, metavar="FILE", help=about)
    flag_types.add(group, "batch_size", cli.positive, 32, "rows it is asked at a time, at most its "
                   "max_batch_size")
    group = parser.add_argument_group("ports")
    flag_types.add(group, "host", flag_types.host, "127.0.0.1", "address to listen on; 0.0.0.0 or "
                   ":: for all of the machine's")
    flag_types.add(group, "port", flag_types.port, 8080, "to listen on; 0 for any")
    flag_types.add(group, "ssl_config_file", cli.path, None, "SSLConfig with the certificates, as "
                   "of tensorflow_model_server")
    flag_types.add(group, "timeout", float, 30.0, "seconds for a request; 0 for any number")
    flag_types.add(group, "max_connections", cli.positive, 1000, "at the same time")
    flag_types.add(group, "max_request_rows", cli.positive, 4096, "texts of a request")
    flag_types.add(group, "max_text_bytes", cli.positive, 1 << 20, "of one text of a request")
    flag_types.add_apis(parser, NAMES)
    return parser


@cli.nothing_kept()
def main(argv=None):
    flags = _parser().parse_args(argv)
    if not flags.models or not flags.api:
        raise UsageError(explain("a gateway without models or protocols", "--models and --api"))
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with cli.serving_extra():
        from bert_tf.serving.gateway.run import run
    run(flags)


if __name__ == "__main__":
    sys.exit(cli.run(main))
