"""Flags of the commands, exit codes, and the `bert-tf` command."""

import argparse
import contextlib
import ctypes
import difflib
import errno
import importlib
import os
import shlex
import signal
import sys
import types

from bert_tf import __version__
from bert_tf.errors import (
    BertTfError,
    LostWorkerError,
    UsageError,
    check_choice,
    explain,
    printable,
)
from bert_tf.options import FORMER_NAMES, NATURAL, POSITIVE, REQUIRED, value_type
from bert_tf.storage import files, staging

# absl::SetMinLogLevel in TensorFlow 2.20, and the level from which on lines are shown.
_SET_LOG_LEVEL = "_ZN4absl12lts_2025012714SetMinLogLevelENS0_18LogSeverityAtLeastE"
_ERRORS = 2
_PATHS = ("DIR", "FILE", "GLOB", "PATH")  # what stands for a path in `--help`, as NAME/NAME does
COMMANDS = {
    "learn_vocab": "a vocabulary from text",
    "create_data": "pre-training examples from text",
    "pretrain": "raw text to a trained encoder and a SavedModel",
    "adapt": "a published encoder, its vocabulary fitted to your text, trained on",
    "finetune": "a table of labelled text to a measured, exported model",
    "distill": "a smaller model that learns from a larger one",
    "evaluate": "measure a fine-tuned model on labelled examples",
    "predict": "predictions for tables and text of any size",
    "mine_negatives": "hard negatives for queries, from a corpus",
    "index": "an index of a corpus, and search in it",
    "export": "a trained model as a SavedModel for tensorflow_model_server",
    "serve": "serve SavedModels as tensorflow_model_server does",
    "gateway": "offer other servers' protocols for a TensorFlow Serving",
    "query": "ask a served model",
    "convert": "a model from one format to another",
    "visualize": "draw what a model, its tokenizer or its training does",
}


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that shows the docstring and every default, and never abbreviates.

    Flags may stand between positional arguments and have `-` for `_`; see `_Store` for those that
    are given again. `--version` is bert_tf's, unless a command has such a flag.
    """

    def __init__(self, module, doc):
        super().__init__(prog=f"python -m bert_tf.{module}", description=doc, allow_abbrev=False,
                         formatter_class=_Formatter)
        self.register("action", None, _Store)  # where no other is asked for

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
        """Arguments whose flags are as the parser knows them: with `_` for `-`, of either name."""
        known = {flag.replace("-", "_"): flag for flag in self._option_string_actions}
        for names in FORMER_NAMES.items():
            for name, other in (names, names[::-1]):
                if f"__{name}" in known:
                    known.setdefault(f"__{other}", known[f"__{name}"])
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


class _Store(argparse.Action):
    """Store a value; where a flag is given again, texts and paths add up, the rest is replaced.

    Numbers and choices that added up would make a search of what was meant to override a script.
    """

    def __call__(self, parser, namespace, values, option_string=None):
        before = getattr(namespace, self.dest)
        adds = (option_string and self.nargs == "+" and before is not self.default
                and isinstance(values[0], str) and not self.choices)
        setattr(namespace, self.dest, [*before, *values] if adds else values)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def _get_help_string(self, action):
        default = action.default
        if default is None or default is False or default in ((), [], argparse.SUPPRESS):
            return action.help
        if isinstance(default, list):
            return f"{action.help} (default: {' '.join(map(str, default))})"
        return f"{action.help} (default: %(default)s)"


def _end(args):
    """Where the flags end: at `--`, if that is among the arguments."""
    return args.index("--") if "--" in args else len(args)


def _nearest(unknown, flags):
    """The flag that an unknown one most likely stands for, also by its initials: --lr."""
    initials = {"--" + "".join(word[0] for word in flag.strip("-").split("_")): flag
                for flag in reversed(flags)}
    word = unknown.lstrip("-").replace("-", "_")
    near = difflib.get_close_matches(f"--{word}", flags, n=1)
    close = difflib.get_close_matches(f"--{word}", flags, n=1, cutoff=0.9)
    begun = [flag for flag in flags if f"--{word}".startswith(f"{flag}_")]  # --init_checkpoint
    return initials.get(unknown) or (close or begun or near or ["--help"])[0]


def path(text):
    """An argument type: a path; an empty one, as of a variable that is not set, is none."""
    if not text:
        raise argparse.ArgumentTypeError(explain("an empty path", "that of a file or folder"))
    return text


def within(limits):
    """Make an argument type: numbers of an `options.Range`."""
    def parsed(text):
        try:
            value = limits.kind(text)
        except ValueError:
            value = None
        if value is None or not limits.contains(value):
            raise argparse.ArgumentTypeError(explain(text, limits.expected))
        return value
    return parsed


positive, natural = within(POSITIVE), within(NATURAL)


def add_options(parser, options):
    """Add a flag for each field of an `Options` class."""
    groups = {}
    for owner, field in options.flags():
        group = vars(owner).get("GROUP")  # a class that inherits one has other flags as well
        if group and group not in groups:
            groups[group] = parser.add_argument_group(*group)
        groups.get(group, parser).add_argument(f"--{field.name}", **_argument(field))


def _argument(field):
    """What `add_argument` is to know of a field."""
    about, default = field.metadata, field.default
    (kind, *_), many, _ = value_type(field)
    argument = {"help": about["help"], "default": default}
    if about["otherwise"] is not None:
        argument["help"] += f" (default: {about['otherwise']})"
    if kind is bool:
        argument["action"] = "store_true" if default is False else argparse.BooleanOptionalAction
        return argument
    if default is REQUIRED:
        argument |= {"default": None, "required": True}
    if many:
        argument |= {"nargs": "+", "default": list(default) if isinstance(default, tuple)
                     else argument["default"]}
    if about["parse"]:
        kind = _parsed(about["parse"])
    elif about["within"]:
        kind = within(about["within"])
    elif about["metavar"] in _PATHS or "/" in (about["metavar"] or ""):
        kind = path
    return argument | {"type": kind, "choices": about["choices"], "metavar": about["metavar"]}


def _parsed(parse):
    """Make an argument type of a function that raises UsageError."""
    def parsed(text):
        try:
            return parse(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return parsed


def parser_of(command, doc, options):
    """Make the parser of a command whose flags are the fields of an `Options` class."""
    parser = Parser(command, doc)
    add_options(parser, options)
    return parser


def with_beam_options(parser, argv):
    """Return `(arguments, beam_options)`: a dict, and Beam's own flags, which follow `--`."""
    argv = sys.argv[1:] if argv is None else argv
    own = _end(argv)
    return vars(parser.parse_args(argv[:own])), tuple(argv[own + 1:])


def command_line(command, options):
    """The command that does what an `Options` object says, as a text for a shell."""
    words = ["python", "-m", f"bert_tf.{command}"]
    for _, field in options.flags():
        value = getattr(options, field.name)
        if value is None or value == field.default:
            continue
        if isinstance(value, bool):
            words.append(f"--{field.name}" if value else f"--no-{field.name}")
        else:
            values = value if isinstance(value, tuple) else (value,)
            words += [f"--{field.name}", *map(str, values)]
    return shlex.join(words)


def make_callable(module, function):
    """Let a command's module be called as the command: `bert_tf.export(model="runs/a")`.

    Whether `bert_tf.export` is imported or used first, it is the module, and can be called.

    Args:
        module: its `__name__`.
        function: what a call of the module does.
    """
    class Command(types.ModuleType):
        __call__ = staticmethod(function)

    sys.modules[module].__class__ = Command


@contextlib.contextmanager
def nothing_kept():
    """Let Ctrl-C say that nothing is kept; also a decorator of the `main` of such a command."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("nothing is kept, the same command begins anew") from None


@contextlib.contextmanager
def serving_extra():
    """Name the extra `serving` where a package of it that is imported is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in ("bert_tf", "tensorflow"):
            raise
        raise UsageError(explain(f"{error.name} is not installed",
                                 attempt="pip install 'bert_tf[serving]'")) from error


def _terminate(number, frame):
    raise KeyboardInterrupt


def run(main, argv=None):
    """Call `main(argv)`; print its error in one line and return the exit code.

    Returns: 0; 1 for data and machine errors; 2 for usage errors; 130 after Ctrl-C or SIGTERM.
        Where a worker is lost the process ends at once, with 1.
    """
    # What matters reaches Python as an exception; the rest is chatter about absent GPUs.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # TensorFlow leaves its quicker kernels off where a processor has no instructions for int8.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = main(argv) or 0
        if sys.stdout is not None:
            sys.stdout.flush()  # what fails there is told below and not by Python at its end
        return code
    except BertTfError as error:
        print(f"error: {printable(staging.named(str(error)))}", file=sys.stderr)
        if isinstance(error, LostWorkerError):
            # What frees TensorFlow's objects would wait for what was sent to the lost worker.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt as interrupt:
        reason = str(interrupt) or "what is finished is kept, the same command goes on from there"
        print(f"\nstopped: {reason}", file=sys.stderr)
        return 130
    except OSError as error:
        # The reader of our output went away (`| head`), or the disk of its file is full.
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        if error.errno == errno.ENOSPC:
            print(f"error: cannot write the output: {error.strerror}", file=sys.stderr)
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
