"""The folder that a command works in: paths there, and room for a run that trains."""

import os

from bert_tf.storage import files, manifest
from bert_tf.training.checkpoint import refuse_loss


class OutputFolder:
    """Base of work that is done in the folder `options.output_dir`."""

    def path(self, *names):
        """Return a path in the folder."""
        return os.path.join(self.options.output_dir, *names)

    def mark(self):
        """Return what tells the run that has begun here from others, by its options and inputs."""
        return manifest.read(self.path("run.json"))["fingerprint"]


class RunFolder(OutputFolder):
    """Base of a run that has its checkpoints there.

    Args:
        options: `TrainWriteOptions`, complete.
        strategy: from `make_strategy`.
    """

    CHECKPOINTS = ("checkpoints",)  # folders of them in the run's

    def __init__(self, options, strategy):
        self.options = options
        self.strategy = strategy

    def begin(self, record, made, stated, inputs, **facts):
        """Delete what another run made, and write the manifest of this one; return that.

        Args:
            record: path of the manifest.
            made: names of what a run makes.
            stated, inputs, facts: options, files and facts as of `manifest.write`.

        Raises:
            UsageError: checkpoints would be lost, and nobody said that they may.
        """
        self.clear(made)
        return manifest.write(record, stated, inputs, **facts)

    def clear(self, made, **more):
        """Delete what is `made`, by its names, unless `refuse_loss` with `more` says no."""
        self.refuse_loss(**more)
        for name in made:
            files.remove(self.path(name))

    def refuse_loss(self, **more):
        """Refuse, as `checkpoint.refuse_loss` with `more`, that checkpoints are lost, unless they
        may."""
        if not self.options.discard_checkpoints:
            refuse_loss(map(self.path, self.CHECKPOINTS), **more)
