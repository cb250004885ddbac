"""Indexes beside served models, for the page of the embedded server."""

import functools
import logging
import os

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.retrieval.vector_index import VectorIndex
from bert_tf.storage import files

_log = logging.getLogger(__name__)


class ServedIndexes:
    """Finds passages by vectors of a served model.

    Args:
        folders: of indexes; each is called as its folder.
        digest: function from the folder of a SavedModel's version to what `model_digest` gives: an
            index is of a version whose digest is that of the model it was built by.

    Raises:
        UsageError: two folders have one name, or there is no index.
        BertTfError: an index is damaged.
    """

    def __init__(self, folders, digest):
        self._indexes = {}
        for folder in folders:
            name = os.path.basename(os.path.abspath(folder))
            if name in self._indexes:
                raise UsageError(explain(f"two indexes called {name}", "names that differ"))
            self._indexes[name] = index = VectorIndex(folder)
            model = index.manifest.get("model") or ""
            if files.is_folder(model) and not files.exists(os.path.join(model, "saved_model.pb")):
                raise UsageError(explain(f"the index {folder}, built by {model}",
                                         "one built by what is served",
                                         "index build --model saved_models/NAME/VERSION"))
        self._digest = functools.cache(lambda folder, written: digest(folder))

    def names(self, folder):
        """Return the names of the indexes of the version in `folder`."""
        # A number that was deleted may come again.
        digest = self._digest(folder, files.version(os.path.join(folder, "saved_model.pb")))
        return [name for name, index in self._indexes.items()
                if index.manifest["options"].get("model_digest") == digest]

    def warn_of_unowned(self, folders):
        """Log each index that is of none of the versions in `folders`: no page offers it."""
        owned = set()
        for folder in folders:
            try:
                owned.update(self.names(folder))
            except (BertTfError, OSError) as error:
                _log.warning("whether an index is of %s is not known: %s", folder, error)
        for name, index in self._indexes.items():
            if name not in owned:
                _log.warning("the index %s is of no version that is served, so that the page does "
                             "not offer it; it was built by %s", index.folder,
                             index.manifest.get("model") or "a model without a name")

    def search(self, name, vector, k):
        """Return the k passages of an index that are nearest to a vector, as of
        `VectorIndex.search`.

        Raises:
            UsageError: there is no such index, or the vector is not one of its model's.
            BertTfError: the index is damaged.
        """
        if name not in self._indexes:
            raise UsageError(explain(f"no index {name!r}", f"one of {' '.join(self._indexes)}"))
        index = self._indexes[name]
        [found] = index.found([vector], k)
        return found
