"""Which learning rate, number of epochs and seed are best: the trials of a fine-tuning."""

import functools
import itertools
import math

from bert_tf.errors import BertTfError, DivergedError, explain
from bert_tf.finetune.results import shown
from bert_tf.finetune.trial import Settings, Trial
from bert_tf.shapes import check_weights
from bert_tf.training.best import is_better


class Search:
    """The trials of a fine-tuning.

    Args:
        run: the `FinetuningRun`, prepared.
    """

    def __init__(self, run):
        self.run = run
        self.seen = None  # trial, metrics and dev predictions of the best evaluation made here

    def finish(self):
        """Try every learning rate and number of epochs with the first seed, then all seeds.

        Returns: `(found, best, records)`: what was found where there was a choice, the best `Trial`
            and what all seeds at its settings came to, see `Trial.finish`.

        Raises:
            DivergedError: every trial diverged.
        """
        options = self.run.options
        grid = [self.trial(rate, epochs, options.seed)
                for rate, epochs in itertools.product(options.learning_rate, options.epochs)]
        found = self.finish_trials(grid)
        chosen = grid[self.best_of(found)].settings
        trials = [self.trial(chosen.learning_rate, chosen.epochs, options.seed + number)
                  for number in range(options.seeds)]
        records = self.finish_trials(trials)
        best = trials[self.best_of(records)]
        if not best.has_weights():  # results.json was taken away from a finished run
            best.forget()
            self.finish_trial(best)
        return found if len(grid) > 1 else [], best, records

    def trial(self, learning_rate, epochs, seed):
        """The `Trial` of these settings."""
        settings = Settings(learning_rate, epochs, seed)
        return Trial(settings, self.run.path("trials", settings.folder()), self.run.options)

    def finish_trials(self, trials):
        """Train those that are not done, keeping the weights of the best one so far; return their
        records."""
        records, kept = [], None
        for trial in trials:
            records.append(self.finish_trial(trial))
            if "metrics" in records[-1]:
                kept = trials[self.best_of(records)].folder
            for other in trials[:len(records)]:
                if other.folder != kept:  # of the same settings given twice it is one
                    other.drop_weights()
        return records

    def finish_trial(self, trial):
        """Train a trial unless it is done; return its record."""
        known = trial.record()
        record = trial.finish(
            self.run.build, self.run.features, lambda model: self.evaluate(model, trial),
            self.run.type.monitor, self.run.strategy)
        if known is None:
            told = (f"diverged: {record['diverged']}" if "diverged" in record
                    else f"epoch {record['epoch']}: {shown(record['metrics'])}")
            if "diverged_later" in record:
                told += f"; later it diverged: {record['diverged_later']}"
            print(f"{trial.settings}: {told}", flush=True)
        return record

    def evaluate(self, model, trial):
        """Metrics of a trial's model on the dev examples; what predicts best is kept.

        Raises:
            DivergedError: the last update overflowed, which no loss has seen yet.
        """
        try:
            check_weights(model, "the model")
        except BertTfError as error:
            raise DivergedError("weights are not finite after the last update") from error
        kind, dev = self.run.type, self.run.dev
        name, better = kind.monitor
        predictions = kind.predict_dev(model, dev)
        metrics = kind.metrics(dev, predictions)
        best = self.seen and self.seen[1][name]
        if self.seen is None or is_better(better, metrics[name], best) or (  # of a trial's equals
                self.seen[0] == trial.folder and not is_better(better, best, metrics[name])):
            self.seen = trial.folder, metrics, predictions
        return metrics

    def dev_predictions(self, model, best, records):
        """Predictions of the best trial's model, which evaluated it unless the run was resumed."""
        metrics = records[self.best_of(records)]["metrics"]
        if self.seen and self.seen[:2] == (best.folder, metrics):
            return self.run.type.tuned(model, self.run.dev, self.seen[2])
        return self.run.type.predict_dev(model, self.run.dev)

    def best_of(self, records):
        """Index of the record that is best by the monitored metric; the first of equals."""
        name, better = self.run.type.monitor
        sound = [number for number, record in enumerate(records) if "metrics" in record]
        if not sound:
            raise DivergedError(explain(f"every training diverged: {records[0]['diverged']}",
                                        attempt="a smaller --learning_rate"))
        # What a trial of an earlier version lacks is no number, and so worse than any.
        figures = [record.get("metrics", {}).get(name, math.nan) for record in records]
        return functools.reduce(lambda best, number: number if is_better(
            better, figures[number], figures[best]) else best, sound)
