"""Predict with any model: tables or text in, all that they hold and the predictions out.

    python -m bert_tf.predict --model runs/reviews --input reviews.csv --output_dir predictions

The model is the folder of a finetune run, a model folder (save_pretrained), a version of a
SavedModel, or a model of any format that convert reads; what it predicts is what it was trained
for, or another of its signatures (--task embed). The input is tables, read by the names of their
columns, or text, a text a line; the output has all columns of the input and, as Parquet, JSON lines
or .npy, the predictions, in the order of the input. Interrupted or killed, the same command
resumes, to the bytes of an undisturbed one. docs/prediction.md tells more.

With --runner beam Apache Beam does the work, by --num_processes workers; what follows `--` are
Beam's own flags.
"""

from bert_tf import cli, cores, side_by_side
from bert_tf.options import takes
from bert_tf.predict.config import PredictConfig
from bert_tf.storage import locks


@takes(PredictConfig)
def predict(config):
    """Predict the rows of files, or those that are not predicted yet.

    Args:
        config: `PredictConfig`, or its fields as keyword arguments.

    Returns:
        What the folder's `manifest.json` holds: `rows`, `bad_rows`, `shards`, `signature` …

    Raises:
        UsageError: options contradict each other or the model, a column is missing, or the folder
            holds another result.
        BertTfError: a file is missing or damaged, or all rows are bad; with `strict` one is.
    """
    from bert_tf.predict.writer import check_installed

    check_installed(config.format)
    from bert_tf.predict.run import Prediction

    with locks.held(config.output_dir):
        return Prediction(config, cli.command_line("predict", config)).finish()


def _parser():
    return cli.parser_of("predict", __doc__, PredictConfig)


def main(argv=None):
    arguments, beam_options = cli.with_beam_options(_parser(), argv)
    config = PredictConfig(**arguments, beam_options=beam_options)
    if config.num_processes == 1 and config.runner == "local":
        # Here: a program that calls `predict` has threads of its own.
        side_by_side.set_threads(cores.usable())
    made = predict(config)

    from bert_tf.finetune.results import shown

    print(f"{made['rows']:,} rows in {made['shards']:,} files of {config.output_dir}/predictions")
    if made["bad_rows"]:
        print(f"{made['bad_rows']:,} bad rows in {config.output_dir}/bad_rows.jsonl")
    if made["metrics"]:
        print(f"{made['labelled']:,} labelled rows: {shown(made['metrics'])}")
    if made.get("unknown_labels"):  # not counted by earlier versions
        print(f"{made['unknown_labels']:,} rows are not measured: the model does not know their "
              "label")


cli.make_callable(__name__, predict)
