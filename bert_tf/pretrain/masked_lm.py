"""The first training of a run with `--masked_lm_first`: the encoder itself predicts masked tokens.

A discriminator learns little as long as its generator knows little, and a generator that shares its
embeddings learns faster once they are good. So the encoder begins as a masked LM of its own size,
on the examples of the run, which go on in the second training where the first one ends.
"""

from bert_tf.models.find import MASKED_LM
from bert_tf.pretrain.training import Training
from bert_tf.storage import files
from bert_tf.training.strategy import barrier

_SECOND_RATE = 0.5  # of the learning rate


def split_steps(train_config, fraction):
    """Return the `TrainConfig`s of both trainings.

    Args:
        train_config: that of the run; its `train_steps` and `warmup_steps` are divided.
        fraction: of the steps, that the first training has.

    Raises:
        UsageError: a training would have no step.
    """
    steps = train_config.train_steps
    first = min(max(round(fraction * steps), 1), steps - 1)

    def of(steps_of_it, rate):
        warmup = train_config.warmup_steps * steps_of_it // steps
        return train_config.replace(train_steps=steps_of_it, warmup_steps=warmup,
                                    learning_rate=rate * train_config.learning_rate)

    return of(first, 1), of(steps - first, _SECOND_RATE)


class MaskedLMTraining(Training):
    """The first training of a `PretrainingRun`, in a folder of its own within the run's.

    Args:
        run: the run.
        train_config: the first of `split_steps`.
    """

    def __init__(self, run, train_config):
        options = run.options.replace(objective="mlm", masked_lm_first=0.0,
                                      output_dir=run.path(MASKED_LM))
        super().__init__(options, run.config, train_config, run.strategy)
        self.run = run

    def data(self, *names):
        """See `Training.data`."""
        return self.run.data(*names)

    def init_folder(self):
        """The model folder of `--init`."""
        return self.run.init_folder()

    def tokenizer(self):
        """The run's tokenizer."""
        return self.run.tokenizer()

    def mark(self):
        """The run's: this folder has no manifest."""
        return self.run.mark()

    def finish(self):
        """Train, unless that is done."""
        if self.is_trained():  # of all workers alike: nothing is noted until all have trained
            return
        if self.is_chief:
            files.clean_temporary(files.make_folder(self.path()))
            print(f"masked tokens first: {self.train_config.train_steps:,} steps in {self.path()}, "
                  f"then {self.run.train_config.train_steps:,} with replaced ones")
        metrics = self.train()
        if self.is_chief:
            self.note_results(metrics)
        barrier(self.strategy)
