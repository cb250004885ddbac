"""What a pre-training run reads beside its text."""

from bert_tf.data.skipped import excluded_file
from bert_tf.models.find import model_files
from bert_tf.storage import manifest
from bert_tf.tokenization.load import TokenizerSource


def source_files(stated):
    """Return the paths, a list, of the files of `--init`, `--vocab` and `--exclude`.

    Args:
        stated: a run's options as its manifest has them.
    """
    paths = model_files(stated["init"]) if stated["init"] else []
    paths += TokenizerSource(stated["vocab"]).files() if stated["vocab"] else []
    return paths + [excluded_file(text)[0] for text in stated["exclude"]]


def source_digests(stated):
    """Return the digests, a list, of `source_files`."""
    return [*map(manifest.digest_file, source_files(stated))]
