"""The options of a prediction."""

import dataclasses

from bert_tf.data.options import RUNNERS
from bert_tf.data.table_options import ColumnOptions
from bert_tf.options import POSITIVE, REQUIRED, WriteOptions, option

FORMATS = ("parquet", "jsonl", "npy")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictConfig(ColumnOptions, WriteOptions):
    """What `bert_tf.predict` predicts, of what, and what it writes."""

    model: str = option(
        REQUIRED, "folder of a finetune run, model folder, version of a SavedModel, or what "
                  "convert reads", metavar="PATH")
    input: tuple[str, ...] = option(
        REQUIRED, "texts: tables (.tsv, .csv, .jsonl, .json, Parquet) or text, one a line, also "
                  ".gz", metavar="GLOB")
    output_dir: str = option(REQUIRED, "folder for the predictions", metavar="DIR")
    task: str | None = option(
        None, "a task, as of finetune, or a signature of the model, such as fill_mask",
        metavar="NAME", otherwise="what the model is for")
    format: str = option("parquet", "of the predictions; npy: vectors alone, beside their ids",
                         choices=FORMATS)
    header: bool | None = ColumnOptions.redefined(
        "header", None, "no header where the columns of texts are numbers")
    strict: bool = option(False, "end at the first bad row, instead of writing it to "
                                 "bad_rows.jsonl and going on")
    dtype: str | None = option(None, "what the model computes in", choices=("float32", "bfloat16"),
                               otherwise="float32, of a SavedModel as exported")
    num_processes: int = option(
        1, "replicas of the model, each with its share of the cores; the result does not depend "
           "on it", POSITIVE)
    shard_size: int = option(16384, "rows of the input that become a file of predictions",
                             POSITIVE)
    runner: str = option(
        "local", "local: processes of this machine; beam: Apache Beam (extra: beam), whose own "
                 "flags follow after --; the files are the same", choices=RUNNERS)
    beam_options: tuple[str, ...] = option((), "Beam's own flags", flag=False)
