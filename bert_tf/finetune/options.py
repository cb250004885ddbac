"""What a fine-tuning is to do: its flags, their defaults, and options that make no sense together.

Defaults are those of the BERT paper's appendix A.3 where it names any.
"""

import argparse
import codecs
import math
import os

from bert_tf import cli
from bert_tf.data.table_form import DELIMITERS, TableForm
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.options import FRACTION, SeedOptions, TrainWriteOptions
from bert_tf.storage import files
from bert_tf.tokenization.options import CasingOptions, PretokenizeOptions
from bert_tf.training.config import DTYPES, STRATEGIES

SCRATCH = "scratch"
COLUMNS = ("text_column", "text_b_column", "label_column", "id_column")
_ANSWERS = dict.fromkeys(("max_query_length", "doc_stride", "max_answer_length", "n_best",
                          "null_threshold"))
_FEATURES = {"combine": "concat", "lstm_size": 768}


def add_finetune_flags(parser):
    """All flags of `finetune`, in groups that README's table follows."""
    add = parser.add_argument
    add("--task", required=True, metavar="NAME",
        help="task, one of those above")
    add("--train", required=True, metavar="FILE", help="labelled examples to learn from")
    add("--dev", required=True, metavar="FILE|SHARE",
        help="labelled examples to choose and to measure by, or the share of --train to hold out")
    add("--test", metavar="FILE",
        help="labelled examples that only the best model is measured by, once, at the end")
    add("--output_dir", required=True, metavar="DIR", help="run folder")
    add("--init", default=SCRATCH, metavar="PATH",
        help="model or run folder, a checkpoint of any format that convert reads, or scratch: "
             "initial weights")
    add("--config", metavar="PATH",
        help="with --init scratch: model_config.json, an official bert_config.json or a model "
             "folder that the sizes come from (default: the preset tiny)")
    add("--vocab", metavar="FILE",
        help="with --init scratch: the vocabulary (default: that beside --config, else learned "
             "from the text of --train)")
    cli.add_options(parser, CasingOptions)
    add_column_flags(parser)
    add("--multi_label", action="store_true",
        help="a text has any number of labels, separated by commas")
    _add_training_flags(parser)
    _add_text_flags(parser)
    add_answer_flags(parser)
    _add_feature_flags(parser)
    add("--dtype", choices=DTYPES, default="float32",
        help="what layers compute in; weights stay float32")
    add("--strategy", choices=[name for name in STRATEGIES if name != "multi_worker"],
        default="mirrored", help="tf.distribute strategy")
    add("--num_devices", type=cli.positive, metavar="N", default=1,
        help="logical CPU devices, where there is no GPU")
    add("--export_dir", metavar="saved_models/NAME",
        help="where the SavedModel goes (default: named as the run folder)")
    cli.add_options(parser, SeedOptions)
    cli.add_options(parser, TrainWriteOptions)


def add_column_flags(parser):
    """Where a table has what and how it is written; shared with `evaluate`."""
    for name, what in zip(COLUMNS, ("the text or question", "the second text or context",
                                    "the label, number, answer or tags", "the example's id"),
                          strict=True):
        parser.add_argument(f"--{name}", metavar="NAME",
                            help=f"column, its name or its number from 0, of {what}")
    parser.add_argument("--delimiter", type=_delimiter, metavar="NAME",
                        help="between the fields of a row: tab, comma, semicolon or a character "
                             "(default: told from the file)")
    parser.add_argument("--encoding", type=_encoding, metavar="NAME",
                        help="of the files, such as CP949 (default: UTF-8, or UTF-16 with a byte "
                             "order mark)")
    parser.add_argument("--header", action=argparse.BooleanOptionalAction, default=None,
                        help="whether the first row holds names, where columns are numbers "
                             "(default: told from its label)")
    parser.add_argument("--skip_bad_rows", action="store_true",
                        help="leave out examples that are wrong, and count them")


def add_answer_flags(parser, trained=False):
    """How answers are found in a text; shared with `evaluate`, whose defaults are the run's."""
    rows = (("max_query_length", "tokens of a question, which is cut after them",
             "64, or a third of a --seq_length below 192"),
            ("doc_stride", "tokens from one window of a long text to the next, where answers are "
                           "sought", "a third of --seq_length"),
            ("max_answer_length", "tokens of an answer", "30"),
            ("n_best", "answers that are compared", "20"),
            ("null_threshold", "how much better than the best answer no answer must be to be given",
             "tuned on --dev"))
    for name, what, default in rows:
        parser.add_argument(
            f"--{name}", type=_finite if name == "null_threshold" else cli.positive,
            help=f"{what} (default: {'as the model was trained' if trained else default})")


def _add_training_flags(parser):
    add = parser.add_argument
    add("--epochs", type=cli.positive, nargs="+", default=[3], metavar="N",
        help="passes over the training text; of several values the best is searched")
    add("--learning_rate", type=_above_0, nargs="+", default=[5e-5], metavar="X",
        help="peak; of several values the best is searched, with one seed each")
    add("--seeds", type=cli.positive, default=1, metavar="N",
        help="trainings with seeds from --seed on; the best is kept, the spread told")
    add("--batch_size", type=cli.positive, default=32, metavar="N",
        help="examples a step over all replicas")
    add("--warmup_share", type=cli.within(FRACTION), metavar="X", default=0.1,
        help="share of the steps in which the learning rate rises")
    add("--weight_decay", type=_natural_number, metavar="X", default=0.01,
        help="decoupled; biases and LayerNorm are excluded")
    add("--dropout", type=cli.within(FRACTION), metavar="X",
        help="rate in the encoder and in front of the head (default: the model's own)")
    add("--patience", type=cli.positive, metavar="N",
        help="stop after so many epochs that were no better than the best")
    add("--class_weights", action="store_true",
        help="weigh examples so that every label has the same share in the loss")
    add("--freeze", metavar="embeddings|N|all", type=_freeze,
        help="keep the embeddings, or them and the N lowest layers, or the encoder as they are")
    add("--layer_decay", type=_up_to_1, metavar="X",
        help="the learning rate of a layer is X times that of the one above; ELECTRA: 0.8")
    add("--bucket", action=argparse.BooleanOptionalAction, default=True,
        help="batches of examples of about the same length")


def _add_text_flags(parser):
    add = parser.add_argument
    add("--seq_length", type=cli.positive, metavar="N",
        help="tokens of an example, [CLS] and [SEP] counted (default: 128, for answers 384; at "
             "most what the model has)")
    add("--long", choices=("head", "head_tail", "windows"), default="head",
        help="what is read of a text beyond --seq_length: its beginning, beginning and end, or "
             "all of it in windows")
    add("--stride", type=cli.positive, metavar="N",
        help="tokens from one window to the next with --long windows (default: half of a window)")
    add("--unit", choices=("word", "character"),
        help="what a tag is of; character suits Korean (default: as in the task's files)")
    cli.add_options(parser, PretokenizeOptions)


def _add_feature_flags(parser):
    add = parser.add_argument
    add("--features", type=int, nargs="+", metavar="LAYER",
        help="train a BiLSTM on these layers of the frozen encoder, 0 the embeddings, -1 the last "
             "layer (BERT paper, section 5.3)")
    add("--combine", choices=("concat", "weighted_sum"), default=_FEATURES["combine"],
        help="how several --features become one vector")
    add("--lstm_size", type=cli.positive, metavar="N", default=_FEATURES["lstm_size"],
        help="width of the BiLSTM over --features, half of it from each direction")


def _above_0(text):
    return cli.number(text, float, lambda value: 0 < value < math.inf, "a number above 0")


def _natural_number(text):
    return cli.number(text, float, lambda value: 0 <= value < math.inf, "a number of at least 0")


def _up_to_1(text):
    return cli.number(text, float, lambda value: 0 < value <= 1, "a number above 0, at most 1")


def _finite(text):
    return cli.number(text, float, math.isfinite, "a number")


def _delimiter(text):
    if len(text) == 1:
        return text
    try:
        return DELIMITERS[check_choice("delimiter", text, DELIMITERS)]
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{error}, or one character") from None


def _encoding(text):
    try:
        "".encode(text)
    except LookupError:
        raise argparse.ArgumentTypeError(explain(
            f"no encoding is called {text}", "such as UTF-8, UTF-16, CP949 or CP1252")) from None
    return codecs.lookup(text).name


def _freeze(text):
    if text in ("embeddings", "all"):
        return text
    return cli.number(text, int, lambda value: value >= 0, "embeddings, a number of layers, or all")


def columns(flags):
    """The named columns as `{"text", "text_b", "label", "id"}`, without those not given."""
    return {name.removesuffix("_column"): getattr(flags, name) for name in COLUMNS
            if getattr(flags, name) is not None}


def read_examples(task, path, flags):
    """Read a file as the flags say: `(examples, number of those skipped)`."""
    from bert_tf.tasks.base import read_examples as reading

    skipped = [] if flags.skip_bad_rows else None
    form = TableForm(flags.delimiter, flags.encoding, flags.header)
    examples = reading.read_examples(task, path, columns(flags), form, skipped)
    return examples, len(skipped or ())


def dev_share(flags):
    """`--dev` as the share to hold out, or None where it names a file."""
    try:
        share = float(flags.dev)
    except ValueError:
        return None
    if files.exists(flags.dev):
        return None
    if not 0 < share < 1:
        raise UsageError(explain(f"--dev {flags.dev}", "a file, or a share between 0 and 1"))
    return share


def complete(flags):
    """Fill in what depends on other flags, and refuse contradictions before any work.

    Args:
        flags: of `finetune`; changed in place.

    Returns: the `Task`.

    Raises:
        UsageError: flags contradict each other or the task.
    """
    from bert_tf.tasks.registry import find_task

    task = find_task(flags.task, flags.multi_label)
    scratch = flags.init == SCRATCH
    for name in ("config", "vocab", "lower_case", "strip_accents"):
        if not scratch and getattr(flags, name) is not None:
            raise UsageError(f"--{name} beside --init {flags.init}, which brings its own; leave "
                             f"--{name} out, or use --init scratch")
    if scratch and (flags.freeze is not None or flags.features):
        name = "--features" if flags.features else f"--freeze {flags.freeze}"
        raise UsageError(f"{name} with --init scratch: nothing of the encoder was learned")
    for name in ("freeze", "layer_decay"):
        if flags.features and getattr(flags, name) is not None:
            raise UsageError(f"--{name} beside --features, which keep the whole encoder as it is; "
                             f"leave --{name} out")
    if flags.features and task.type == "question_answering":
        raise UsageError(f"--features with --task {task.name}: they are for labels of texts and "
                         "of words; leave them out")
    if task.type != "classification" and flags.long != "head":
        raise UsageError(f"--long {flags.long} is for texts with labels, which --task {task.name} "
                         "is not about; leave it out")
    if flags.stride and flags.long != "windows":
        raise UsageError(explain(f"--stride {flags.stride} with --long {flags.long}",
                                 attempt="--long windows"))
    if task.type != "question_answering":
        _refuse(flags, _ANSWERS, f"is for answers in a text, not for --task {task.name}")
    if task.type != "token_classification":
        _refuse(flags, {"unit": None}, f"is for tags, not for --task {task.name}")
    if not flags.features:
        _refuse(flags, _FEATURES, "is for --features, which are not asked for")
    dev_share(flags)
    name = files.base_name(flags.output_dir)
    flags.export_dir = flags.export_dir or os.path.join("saved_models", name)
    if files.resolved(flags.export_dir) == files.resolved(flags.output_dir):
        raise UsageError(explain(f"--export_dir {flags.export_dir} is the run folder",
                                 attempt=f"--export_dir {os.path.join('saved_models', name)}"))
    folder = files.resolved(flags.output_dir)
    if not scratch and f"{files.resolved(flags.init)}{os.sep}".startswith(folder + os.sep):
        raise UsageError(explain(f"--output_dir {flags.output_dir} holds the model of --init",
                                 attempt="another output folder"))
    return task


def _refuse(flags, defaults, why):
    """UsageError about the first of some flags that is not its default."""
    for name, default in defaults.items():
        if getattr(flags, name) != default:
            raise UsageError(f"--{name} {getattr(flags, name)} {why}; leave it out")
