"""Keras models whose compiled steps heed what is set after they were made."""

import threading

from bert_tf.models.backbone import Backbone

_making = threading.RLock()  # of the module: models are copied


class MadeAnew:
    """Mixin of Keras models: no step of `fit`, `evaluate` or `predict` is that of earlier
    settings."""

    def make_train_function(self, force=False):
        """See Keras."""
        return super().make_train_function(force or self._is_outdated("train"))

    def make_test_function(self, force=False):
        """See Keras."""
        return super().make_test_function(force or self._is_outdated("test"))

    def make_predict_function(self, force=False):
        """See Keras."""
        with _making:  # of threads none is to take a function that another one is about to replace
            return super().make_predict_function(force or self._is_outdated("predict"))

    def fixed_in_graphs(self):
        """Return a tuple of what the graphs that Keras keeps cannot learn of: further variables,
        as of adapters, `padding_free` and `gradient_checkpointing`."""
        return len(self.weights), *(
            (layer.padding_free, layer.gradient_checkpointing)
            for layer in self._flatten_layers() if isinstance(layer, Backbone))

    def _is_outdated(self, function):
        """Return whether any of it changed since `function` was made."""
        name, now = f"_{function}_made_of", self.fixed_in_graphs()
        outdated = getattr(self, name, now) != now
        setattr(self, name, now)
        if self.jit_compile:
            self.jit_compile = False  # what is already so Keras does not set
            self.jit_compile = True  # it leaves XLA off where shapes are not fixed any more
        return outdated
