"""Attention pages of served versions, for the page of the embedded server."""

import collections
import os

from bert_tf.errors import BertTfError
from bert_tf.saved_model.exported_encoder import exported_config, exported_window
from bert_tf.storage import files
from bert_tf.visualization.attention import MAX_LENGTH, attention, attention_page
from bert_tf.visualization.source import load_encoder

_KEPT = 2  # encoders, each as large as the model that is served


class ServedAttention:
    """Draws what versions that `bert_tf.export` wrote attend to, with encoders rebuilt from them.

    An encoder is built when the first page is requested, which takes seconds; the last ones used
    are kept, so that the next page takes as long as the text does.
    """

    def __init__(self):
        self._encoders = collections.OrderedDict()  # by folder and time, the last one used last

    def has_page(self, folder):
        """Return whether there can be pages of the version in a folder; files are looked at
        only."""
        try:
            exported_window(folder)
            return exported_config(folder).num_hidden_layers > 0
        except BertTfError:
            return False

    def page(self, folder, name, text, text_pair=None):
        """Return the page, str. Not for several threads at once.

        Args:
            folder: of the version.
            name: what the page calls the model.
            text, text_pair: str; what exceeds the version's window or 128 tokens is truncated.

        Raises:
            BertTfError: there can be no page of this version.
        """
        encoder, tokenizer = self._encoder(folder)
        window = min(MAX_LENGTH, exported_window(folder))
        return attention_page(attention(encoder, tokenizer, text, text_pair, window),
                              name, text, text_pair)

    def _encoder(self, folder):
        # A number that was deleted may come again.
        key = folder, files.version(os.path.join(folder, "saved_model.pb"))
        if key not in self._encoders:
            while len(self._encoders) >= _KEPT:
                self._encoders.popitem(last=False)
            self._encoders[key] = load_encoder(folder, attention_probs=True)
        self._encoders.move_to_end(key)
        return self._encoders[key]
