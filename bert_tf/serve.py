"""Serve SavedModels over gRPC and REST as tensorflow_model_server does, where it is absent.

    python -m bert_tf.serve --model_config_file="$PWD/serving/models.local.config" \\
        --port=8500 --rest_api_port=8501

The flags and files are those of tensorflow_model_server; serving/README.md compares the two.
"""

import logging
import os
import sys

from bert_tf import cli
from bert_tf.without_keras import import_without_keras


@cli.nothing_kept()
def main(argv=None):
    from bert_tf.serving.server import config

    flags = config.parser(__doc__).parse_args(argv)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    settings = config.settings(flags)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    import_without_keras("tensorflow")  # who asks for a page that shows attention, waits for it
    with cli.serving_extra():
        from bert_tf.serving.server import server
    from bert_tf.visualization.served_attention import ServedAttention

    server.run(settings, ServedAttention(), _indexes(flags.search_indexes))
    # What a model still computes, for nobody, cannot be interrupted and is not waited for.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


def _indexes(folders):
    """The indexes that the page searches, or None."""
    if not folders:
        return None
    from bert_tf.models.find import model_digest
    from bert_tf.retrieval.served_indexes import ServedIndexes

    return ServedIndexes(folders, model_digest)


if __name__ == "__main__":
    sys.exit(cli.run(main))
