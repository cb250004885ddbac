"""Options of a command: a frozen dataclass, each field of which says once all there is to say.

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class CountConfig(Options):
        input: tuple[str, ...] = option(REQUIRED, "text files", metavar="GLOB")
        top: int = option(10, "words to print", POSITIVE)

`CountConfig(input="a.txt")` checks types, ranges and choices; `cli.add_options` makes the flags.
"""

import dataclasses
import functools
import math
import os
import types
import typing

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.fields import Config
from bert_tf.storage import files

REQUIRED = dataclasses.MISSING
# Options by their name and the one they had before: flags have either, manifests the one before.
FORMER_NAMES = {"masked_lm_prob": "masked_share", "warmup_ratio": "warmup_share",
                "max_seq_length": "seq_length"}


@dataclasses.dataclass(frozen=True)
class Range:
    """Which values of a type an option may have.

    Args:
        kind: `int` or `float`.
        contains: function of a value.
        expected: what to say of other values.
    """

    kind: type
    contains: typing.Callable
    expected: str


POSITIVE = Range(int, lambda value: value >= 1, "a whole number of at least 1")
NATURAL = Range(int, lambda value: value >= 0, "a whole number of at least 0")
SEED = Range(int, lambda value: 0 <= value < 2**31, "a whole number of at least 0, below 2**31")
NOT_NEGATIVE = Range(float, lambda value: 0 <= value < math.inf, "a number of at least 0")
ABOVE_0 = Range(float, lambda value: 0 < value < math.inf, "a number above 0")
UP_TO_1 = Range(float, lambda value: 0 < value <= 1, "a number above 0, at most 1")
FRACTION = Range(float, lambda value: 0 <= value < 1, "a fraction in [0, 1)")
FRACTION_ABOVE_0 = Range(float, lambda value: 0 < value < 1, "a fraction between 0 and 1")


def option(default, help, within=None, *, choices=None, metavar=None, parse=None, otherwise=None,
           flag=True):
    """Declare a field of an `Options` class.

    Args:
        default: its value; REQUIRED for none.
        help: what it decides, for `--help` and the documentation.
        within: `Range` of the value, or of each of several.
        choices: the values to choose from.
        metavar: what stands for the value in `--help`.
        parse: function from a text to the value, raising UsageError.
        otherwise: what None stands for, where it is filled in later.
        flag: whether the command line has it.
    """
    return dataclasses.field(default=default, metadata={
        "help": help, "within": within, "choices": choices, "metavar": metavar, "parse": parse,
        "otherwise": otherwise, "flag": flag})


class Options(Config):
    """Base of the options of commands.

    Fields are `str`, `int`, `float`, `bool`, a tuple of one of them (`tuple[str, ...]`; a list or
    a single value is taken as well), or one of these `| None`.

    Raises:
        UsageError: a value has the wrong type or range, or is none of the choices.
    """

    GROUP = None  # title and description of a class whose flags are a group in `--help`
    TASKS = None  # types of tasks that a class's options are for; None: all, or no task at all

    def __post_init__(self):
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _checked(field, getattr(self, field.name)))

    def check_type(self, task, type_name):
        """Raise UsageError for an option that no class has for a type of tasks, by their `TASKS`.

        Args:
            task: name of the task, for the message.
            type_name: of `Task.type`; `retrieval` of that of evaluate.
        """
        for field in dataclasses.fields(self):
            declaring = [vars(owner) for owner in type(self).__mro__
                         if field.name in vars(owner).get("__annotations__", ())]
            types = dict.fromkeys(name for owner in declaring for name in owner.get("TASKS") or ())
            value = getattr(self, field.name)
            if types and type_name not in types and value != field.default:
                shown = ", ".join(types).replace("_", " ")
                raise UsageError(f"--{field.name} {value} is for {shown}, not for --task {task}; "
                                 f"leave --{field.name} out")

    @classmethod
    def redefined(cls, name, default, otherwise=None, **changes):
        """Declare the field `name` in a subclass, with another default and what else `changes`."""
        (field,) = (field for field in dataclasses.fields(cls) if field.name == name)
        return dataclasses.field(default=default, metadata={
            **field.metadata, "otherwise": otherwise, **changes})

    @classmethod
    def flags(cls):
        """Yield `(class, field)` of the flags: the fields of a class before those it inherits."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        for base in cls.__mro__:
            for name in vars(base).get("__annotations__", ()):
                field = fields.pop(name, None)
                if field and field.metadata["flag"]:
                    yield base, field

    @classmethod
    def _with_defaults(cls, values):
        known = {field.name for field in dataclasses.fields(cls)}
        return {name if name in known else current_name(name): value
                for name, value in values.items()}

    def shared_with(self, config):
        """The fields that the class `config` has as well: a dict."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(config)
                if hasattr(self, field.name)}

    def stored(self):
        """All fields as manifests hold them: former names, lists for tuples."""
        return {FORMER_NAMES.get(name, name): list(value) if isinstance(value, tuple) else value
                for name, value in self.to_dict().items()}


def takes(options):
    """Decorate a function of one `Options` object: it takes the object's fields as well.

    `function(config)`, `function(input="a.txt", top=3)` and `function(config, top=3)`, which
    changes a field, are the same then.

    Args:
        options: the `Options` class.
    """
    def decorate(function):
        @functools.wraps(function)
        def call(config=None, /, **changes):
            if config is None:
                config = options.from_dict(changes, options.__name__)
            elif not isinstance(config, options):
                raise UsageError(explain(f"{function.__name__}({config!r})",
                                         f"fields by their names or one {options.__name__}"))
            elif changes:
                config = config.replace(**changes)
            return function(config)
        return call
    return decorate


def current_name(name):
    """The name of an option that manifests have under its former one."""
    return next((current for current, former in FORMER_NAMES.items() if former == name), name)


def value_type(field):
    """Return `(types, many, optional)` of a field.

    Returns: the types a value has, a tuple; whether the field holds several; whether it may be
        None.
    """
    kinds = typing.get_args(field.type) if isinstance(field.type, types.UnionType) else (
        field.type,)
    optional = types.NoneType in kinds
    kinds = tuple(kind for kind in kinds if kind is not types.NoneType)
    many = typing.get_origin(kinds[0]) is tuple
    return (typing.get_args(kinds[0])[:1] if many else kinds), many, optional


def _checked(field, value):
    """The value of a field as it is kept."""
    kinds, many, optional = value_type(field)
    if value is None and optional:
        return None
    if not many:
        return _checked_one(field, value, kinds)
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not values and field.default != ():
        raise UsageError(explain(f"{field.name} is empty", "at least one value"))
    return tuple(_checked_one(field, each, kinds) for each in values)


def _checked_one(field, value, kinds):
    about = field.metadata
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if about["parse"] and isinstance(value, str):
        value = about["parse"](value)
    # Of a NumPy float, too: as text it is `np.float64(…)`, and folders are named by numbers.
    if kinds == (float,) and (type(value) is int or isinstance(value, float)):
        value = float(value)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise UsageError(explain(f"{field.name}={value!r}",
                                 " or ".join(kind.__name__ for kind in kinds)))
    if isinstance(value, str):
        files.refuse_secrets(value)
    if about["within"] and not about["within"].contains(value):
        raise UsageError(explain(f"{field.name}={value}", about["within"].expected))
    if about["choices"]:
        check_choice(field.name, value, about["choices"])
    return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedOptions(Options):
    """Where random draws come from."""

    seed: int = option(12345, "seed of every random draw", SEED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OverwriteOptions(Options):
    """What to do where results are already."""

    overwrite: bool = option(False, "replace the result of a run with other options")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WriteOptions(OverwriteOptions):
    """The same of what is reused where inputs and options are the same."""

    verify_inputs: bool = option(
        False, "when resuming, read inputs larger than 64 MiB whole to see whether they "
               "changed, not only where their size, time or samples did")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainWriteOptions(WriteOptions):
    """The same of a folder with checkpoints."""

    discard_checkpoints: bool = option(
        False, "with --overwrite: also where it deletes checkpoints")

    def __post_init__(self):
        super().__post_init__()
        if self.discard_checkpoints and not self.overwrite:
            raise UsageError(explain("--discard_checkpoints without --overwrite",
                                     attempt="--overwrite --discard_checkpoints"))
