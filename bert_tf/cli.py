"""Flags that several entry points share, exit codes, and the `bert-tf` command."""

import argparse
import contextlib
import ctypes
import difflib
import importlib
import os
import signal
import sys

from bert_tf import __version__
from bert_tf.config import FORMATS, PAIRS
from bert_tf.errors import BertTfError, LostWorkerError, UsageError, check_choice, explain
from bert_tf.storage import files, staging

# absl::SetMinLogLevel in TensorFlow 2.20, and the level from which on lines are shown.
_SET_LOG_LEVEL = "_ZN4absl12lts_2025012714SetMinLogLevelENS0_18LogSeverityAtLeastE"
_ERRORS = 2
COMMANDS = {
    "learn_vocab": "a WordPiece vocabulary from text",
    "create_data": "pre-training examples from text",
    "pretrain": "raw text to a trained encoder and a SavedModel",
    "finetune": "a table of labelled text to a measured, exported model",
    "evaluate": "measure a fine-tuned model on labelled examples",
    "export": "a trained model as a SavedModel for tensorflow_model_server",
    "serve": "serve SavedModels as tensorflow_model_server does",
    "query": "ask a served model",
    "convert": "a model from one format to another",
    "visualize": "draw what a model, its tokenizer or its training does",
}


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that shows the docstring and every default, and never abbreviates.

    Flags may stand between positional arguments and have `-` for `_`. `--version` is bert_tf's,
    unless a command has such a flag.
    """

    def __init__(self, module, doc):
        super().__init__(prog=f"python -m bert_tf.{module}", description=doc, allow_abbrev=False,
                         formatter_class=_Formatter)

    def parse_args(self, args=None, namespace=None):
        """As of ArgumentParser; an unknown flag is answered with the nearest right one."""
        args = self._as_written(sys.argv[1:] if args is None else args)
        if "--version" in args and "--version" not in self._option_string_actions:
            print(f"bert_tf {__version__}")
            self.exit()
        flags = [] if {"-h", "--help"} & set(args) else args[:_end(args)]
        # Before argparse says that the flag which was meant is required.
        self._refuse([flag for flag in flags if flag.startswith("--") and " " not in flag
                      and flag.partition("=")[0] not in self._option_string_actions])
        arguments, unknown = self.parse_known_intermixed_args(args, namespace)
        self._refuse(unknown)
        for values in vars(arguments).values():
            for value in values if isinstance(values, list) else [values]:
                if isinstance(value, str):
                    files.refuse_secrets(value)
        return arguments

    def _as_written(self, args):
        """Arguments whose flags are as the parser knows them, also where `-` stands for `_`."""
        known = {flag.replace("-", "_"): flag for flag in self._option_string_actions}
        parts = [argument.partition("=") for argument in args[:_end(args)]]
        return ["".join([known.get(flag.replace("-", "_"), flag) if flag.startswith("--") else flag,
                         *value]) for flag, *value in parts] + args[_end(args):]

    def _refuse(self, unknown):
        if unknown:
            self.error(explain(f"unknown argument {unknown[0]}", attempt=_nearest(
                unknown[0].partition("=")[0], self._option_string_actions)))

    def error(self, message):
        """Raise UsageError, which `run` prints in one line, instead of ending the process."""
        raise UsageError(message)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def _get_help_string(self, action):
        if any(action.default is nothing for nothing in (None, False, argparse.SUPPRESS)):
            return action.help
        if isinstance(action.default, list):
            return f"{action.help} (default: {' '.join(map(str, action.default))})"
        return f"{action.help} (default: %(default)s)"


def _end(args):
    """Where the flags end: at `--`, if that is among the arguments."""
    return args.index("--") if "--" in args else len(args)


def _nearest(unknown, flags):
    """The flag that an unknown one most likely stands for, also by its initials: --lr."""
    initials = {"--" + "".join(word[0] for word in flag.strip("-").split("_")): flag
                for flag in reversed(flags)}
    near = difflib.get_close_matches(unknown.replace("-", "_"), flags, n=1)
    return initials.get(unknown) or (near or ["--help"])[0]


def positive(text):
    """Argument type: an integer of at least 1."""
    return number(text, int, lambda value: value >= 1, "a whole number of at least 1")


def natural(text):
    """Argument type: an integer of at least 0."""
    return number(text, int, lambda value: value >= 0, "a whole number of at least 0")


def share(text):
    """Argument type: a number in [0, 1)."""
    return number(text, float, lambda value: 0 <= value < 1, "a share in [0, 1)")


def share_above_0(text):
    """Argument type: a number between 0 and 1."""
    return number(text, float, lambda value: 0 < value < 1, "a share between 0 and 1")


def number(text, kind, right, expected):
    """`kind(text)` if it is `right`, else say what is `expected`."""
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not right(value):
        raise argparse.ArgumentTypeError(explain(text, expected))
    return value


def add_casing_flags(parser):
    """`--lower_case`, `--strip_accents` and their `--no-` forms; None where not given."""
    yes_or_no = argparse.BooleanOptionalAction
    parser.add_argument("--lower_case", action=yes_or_no, default=None,
                        help="Unicode lower-casing before cutting into pieces")
    parser.add_argument("--strip_accents", action=yes_or_no, default=None,
                        help="remove Latin accents, as uncased English BERT does; Hangul is kept")


def add_pretokenize_flag(parser):
    """`--pretokenize`: what happens to text before it is cut into word pieces."""
    parser.add_argument("--pretokenize", choices=("morphemes",),
                        help="cut Korean words into morphemes first (extra: korean)")


def add_split_flag(parser):
    """`--split`: how raw text is cut into sentences."""
    parser.add_argument("--split", choices=("lines", "sentences", "none"), default="lines",
                        help="lines: a sentence a line, a blank line between documents; "
                             "sentences: raw text, cut into sentences; none: every line, as it is, "
                             "is a document")


def add_example_flags(parser):
    """How pre-training examples are made: shared by create_data and pretrain."""
    add_form_flags(parser)
    parser.add_argument("--masking", choices=("dynamic", "static"), default="dynamic",
                        help="dynamic: drawn anew every epoch; static: stored in the records")
    parser.add_argument("--whole_word", action="store_true",
                        help="mask all pieces of a word together")
    parser.add_argument("--dupe_factor", type=positive, default=None,
                        help="passes over the text with different draws "
                             "(default: 10 for static masking, 1 for dynamic)")
    parser.add_argument("--num_processes", type=positive, default=os.cpu_count(),
                        help="processes; the result does not depend on it")


def add_form_flags(parser):
    """What an example is made of and how much of it is masked."""
    parser.add_argument("--seq_length", type=positive, default=128,
                        help="tokens of an example, [CLS] and [SEP] counted")
    parser.add_argument("--format", choices=FORMATS, default="segment_pair",
                        help="input form; the first two hold pairs of segments")
    parser.add_argument("--max_ngram", type=positive, default=1, metavar="N",
                        help="mask spans of 1 to N tokens, or words with --whole_word, shorter "
                             "ones more often; ALBERT: 3")
    parser.add_argument("--masked_share", type=share_above_0, default=0.15,
                        help="share of tokens that are masked")
    parser.add_argument("--max_predictions_per_seq", type=positive,
                        help="masked positions of an example at most (default: --masked_share of "
                             "--seq_length)")
    parser.add_argument("--short_seq_prob", type=share, default=0.1,
                        help="share of examples made shorter than the window")
    add_split_flag(parser)


def add_pairs_flag(parser):
    """`--pairs`: what the second segment of a pair is."""
    parser.add_argument("--pairs", choices=PAIRS,
                        help="second segment of a pair. random: half are from another document, "
                             "label next_sentence_labels; swapped: it follows the first, half "
                             "stand in reverse order, label sentence_order_labels; next: it "
                             "follows the first (default: random for the formats with pairs)")


def add_seed_flag(parser):
    """`--seed`: every random draw comes from it."""
    parser.add_argument("--seed", type=_seed, default=12345, help="seed of every random draw")


def _seed(text):
    return number(text, int, lambda value: 0 <= value < 2**31,
                   "a whole number of at least 0, below 2**31")


def add_overwrite_flag(parser):
    """`--overwrite`: replace what another run left."""
    parser.add_argument("--overwrite", action="store_true",
                        help="replace the result of a run with other options")


def add_input_flags(parser, checkpoints=False):
    """`--overwrite` and `--verify_inputs`; with `checkpoints` also `--discard_checkpoints`."""
    add_overwrite_flag(parser)
    if checkpoints:
        parser.add_argument("--discard_checkpoints", action="store_true",
                            help="with --overwrite: also where it deletes checkpoints")
    parser.add_argument("--verify_inputs", action="store_true",
                        help="when going on, read inputs beyond 64 MiB whole to see whether they "
                             "changed, not only where their size, time or samples did")


def _terminate(number, frame):
    raise KeyboardInterrupt


def run(main, argv=None):
    """Call `main(argv)`; print its error in one line and return the exit code.

    Returns: 0; 1 for data and machine errors; 2 for usage errors; 130 after Ctrl-C or SIGTERM.
        Where a worker is lost the process ends at once, with 1.
    """
    # What matters reaches Python as an exception; the rest is chatter about absent GPUs.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return main(argv) or 0
    except UsageError as error:
        print(f"error: {staging.named(str(error))}", file=sys.stderr)
        return 2
    except BertTfError as error:
        print(f"error: {staging.named(str(error))}", file=sys.stderr)
        if isinstance(error, LostWorkerError):
            # What frees TensorFlow's objects would wait for what was sent to the lost worker.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        return 1
    except KeyboardInterrupt as interrupt:
        reason = str(interrupt) or "what is finished is kept, the same command goes on from there"
        print(f"\nstopped: {reason}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing more to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def quiet_tensorflow():
    """Keep what TensorFlow's compiler notes out of progress bars; errors of its are shown.

    To be called once a command has imported TensorFlow. Those lines heed TF_CPP_MIN_LOG_LEVEL only
    in that a user who sets it to 0 gets them.
    """
    import tensorflow as tf

    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "0":
        library = os.path.join(tf.sysconfig.get_lib(), "libtensorflow_framework.so.2")
        # Another system's or version's library lacks the file or the name: the lines are shown.
        with contextlib.suppress(OSError, AttributeError):
            getattr(ctypes.CDLL(library), _SET_LOG_LEVEL)(_ERRORS)


def main():
    """`bert-tf COMMAND …` and `python -m bert_tf COMMAND …`: as `python -m bert_tf.COMMAND …`."""
    words = sys.argv[1:]
    if words == ["--version"]:
        print(f"bert_tf {__version__}")
        return 0
    if not words or words[0] in ("-h", "--help"):
        width = max(map(len, COMMANDS))
        table = "".join(f"  {name:{width}}  {does}\n" for name, does in COMMANDS.items())
        print("usage: python -m bert_tf COMMAND … (or bert-tf COMMAND …)\n\n"
              f"{table}\nCOMMAND --help tells more; --version tells the version.")
        return 0 if words else 2
    try:
        name = check_choice("COMMAND", words[0].replace("-", "_"), COMMANDS)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return run(importlib.import_module(f"bert_tf.{name}").main, words[1:])
