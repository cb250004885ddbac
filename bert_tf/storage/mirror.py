"""Files that grow, as logs do: an object in a store cannot, so that it is written anew at times."""

import contextlib
import os

from bert_tf.storage import disk, files, staging


class Mirror:
    """A folder for files that grow, which no object can: of a store a local one, uploaded at times.

    Args:
        folder: path; where it is local, all this is about the folder itself.
        names: of files that are there already and go on.
    """

    def __init__(self, folder, *names):
        self._folder = folder
        self._uploaded = {}
        self._stack = contextlib.ExitStack()
        self._local = folder
        if files.is_remote(folder):
            self._local = self._stack.enter_context(staging.workspace())
            for name in filter(files.exists, (os.path.join(folder, name) for name in names)):
                files.copy(name, os.path.join(self._local, os.path.basename(name)))

    def path(self, *names):
        """Return the local path of a file or folder."""
        return os.path.join(self._local, *names)

    def flush(self):
        """Upload what has changed."""
        if self._local == self._folder:
            return
        for name in disk.names_below(self._local):
            source, held = self.path(name), disk.version(self.path(name))
            if self._uploaded.get(name) != held:
                files.copy(source, f"{self._folder}/{name}")
                self._uploaded[name] = held

    def close(self):
        """Upload what has changed, and delete the local copy."""
        with self._stack:
            self.flush()
